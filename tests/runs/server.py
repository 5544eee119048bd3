"""A local server that answers what W&B's client asks, and records what arrives."""

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENTITY = {"id": "1", "name": "someone"}
VIEWER = {"id": "1", "entity": "someone", "username": "someone", "email": "", "flags": "{}", "teams": {"edges": []}}


class Server(ThreadingHTTPServer):
    """What arrived: `runs`, `history` and `summary` by the id of the run, `views` (workspaces and reports) by name,
    `artifacts` by name, and `calls`, the names of all GraphQL operations.

    A method ``on_NAME`` answers the operation NAME.
    """

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.runs, self.history, self.summary, self.views = {}, {}, {}, {}
        self.artifacts, self.calls = [], []
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass  # W&B's processes break off connections when they end

    def on_Viewer(self, given):
        return {"viewer": VIEWER}

    on_GetDefaultEntity = on_Viewer

    def on_RunResumeStatus(self, given):
        # W&B's client counts a run as existing if its config has telemetry, "t".
        found = {"id": "1", "name": given["name"], "config": "{}", "summaryMetrics": "{}", "wandbConfig": '{"t": 1}'}
        bucket = found if given["name"] in self.runs else None
        return {"model": {"id": "1", "name": given["project"], "entity": ENTITY, "bucket": bucket}}

    def on_UpsertBucket(self, given):
        run = self.runs.setdefault(given["name"], {})
        run |= {key: value for key, value in given.items() if value is not None}
        project = {"id": "1", "name": given["project"], "entity": ENTITY}
        bucket = {"id": "1", "name": given["name"], "displayName": run["displayName"], "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": True}}

    def on_CreateRunFiles(self, given):
        files = [{"name": name, "uploadUrl": f"{self.address}/upload/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}

    def on_ArtifactType(self, given):
        return {"project": {"artifact": None}}

    def on_CreateArtifact(self, given):
        self.artifacts.append(given["input"]["artifactCollectionName"])
        # COMMITTED: the client has nothing more to send.
        artifact = {"id": "1", "state": "COMMITTED", "artifactSequence": {"latestArtifact": {"id": "1"}}}
        return {"createArtifact": {"artifact": artifact}}

    def on_UpsertView2(self, given):
        inserted = given["name"] not in self.views
        self.views[given["name"]] = given
        project = {"id": "1", "name": given["projectName"], "entityName": given["entityName"]}
        view = {key: given[key] for key in ("name", "displayName", "description", "spec", "type")}
        return {"upsertView": {"view": {**view, "id": given["name"], "project": project}, "inserted": inserted}}

    on_upsertView = on_UpsertView2

    def on_View(self, given):
        view = self.views.get(given["viewName"])
        return {"project": {"allViews": {"edges": [{"node": {**view, "id": view["name"]}}] if view else []}}}

    def on_ProjectInternalId(self, given):
        return {"project": {"id": "1", "internalId": "1"}}

    def on_GetProjects(self, given):
        named = {"id": "1", "name": "asbc", "entityName": "someone"}
        node = {**named, "createdAt": "", "isBenchmark": False, "user": None}
        return {"models": {"pageInfo": {"hasNextPage": False, "endCursor": None}, "edges": [{"node": node}]}}

    def on_file_stream(self, run, files):
        for line in files.get("wandb-history.jsonl", {}).get("content", ()):
            self.history.setdefault(run, []).append(json.loads(line))
        for line in files.get("wandb-summary.json", {}).get("content", ()):
            self.summary[run] = json.loads(line)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        data = {}
        if self.path == "/graphql":
            call = json.loads(body)
            name = re.search(r"(?:query|mutation)\s+(\w+)", call["query"])[1]
            self.server.calls.append(name)
            data = getattr(self.server, f"on_{name}", lambda given: {})(call.get("variables") or {})
        elif self.path.endswith("/file_stream"):
            self.server.on_file_stream(self.path.split("/")[-2], json.loads(body).get("files") or {})
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def running():
    """A server on a free port of this machine."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
