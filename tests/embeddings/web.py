"""A real HTTP server on this machine that misbehaves as told."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

CONTENT = np.random.default_rng(0).bytes(300_000)


class Server(ThreadingHTTPServer):
    """Serves ``content``; ``behave`` is a list of functions that each spoil one request, in turn."""

    daemon_threads = True

    def __init__(self, content):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.behave, self.ranges = content, [], []
        self.url = f"http://127.0.0.1:{self.server_port}/file.npy"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        if self.server.behave and (spoil := self.server.behave.pop(0)):
            return spoil(self)
        content = self.server.content if isinstance(self.server.content, bytes) else self.server.content[self.path]
        self.answer(content)

    def answer(self, content, declared=None, ranged=True, sent=None, empty=False):
        start = int(self.headers["Range"][6:-1]) if ranged and self.headers.get("Range") else 0
        if start >= len(content) and not empty:
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        body = content[start:]
        self.send_header("Content-Length", str(len(body) if declared is None else declared))
        self.end_headers()
        self.wfile.write(body if sent is None else body[:sent])

    def page(self, content):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def without_length(self, content):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def cut(after):
    return lambda handler: handler.answer(CONTENT, sent=after)


def status(code, **headers):
    def answer(handler):
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return answer
