"""Downloads: resumed, retried, verified, and one message that lists every missing file.

pooch does neither resume a download nor know git's blob hashes, so this module does both with the standard library.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import queue
import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asbc.embeddings.store import cache_errors
from asbc.progress import Progress
from asbc.storage import folder_lock

_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)
_RETRIED_STATUS = (408, 425, 429)  # and every status from 500 on


class DownloadError(OSError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class RemoteFile:
    """A file, its address, and its place in the cache."""

    url: str
    path: Path
    hash: str = ""  # "git:..." (the SHA-1 of a git blob), "sha256:..." or "md5:..."; empty if none is published
    size: int = 0  # approximate bytes; 0 if not published
    page: str = ""  # web page with size and hash, for files of the hub, which huggingface_hub downloads

    def problem(self, path: Path) -> str | None:
        """Return why `path` is not this file, or None."""
        kind, _, expected = self.hash.partition(":")
        if expected and (found := file_hash(path, kind)) != expected:
            return f"its {kind} hash is {found}, expected {expected}"
        return None

    def verify(self) -> None:
        """Raise a ValueError if the stored file is not the published one."""
        if problem := self.problem(self.path):
            raise ValueError(f"{self.path}: not the published file ({problem}). Remove it to download it again.")


def file_hash(path: Path, kind: str = "sha256") -> str:
    """Return the hash of a file; kind "git" is the SHA-1 that git gives its contents."""
    digest = hashlib.new("sha1" if kind == "git" else kind, usedforsecurity=kind == "sha256")
    if kind == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def fetch_all(what: str, files: Sequence[RemoteFile], instead: str, *, download: bool = True) -> None:
    """Download the files that are missing, or raise one DownloadError that lists all of them.

    `what` needs the files, and `instead` works without them. Files of the Hugging Face hub are only listed.
    """
    missing = [file for file in files if not file.path.exists()]
    if not missing:
        return
    reason = unreachable(missing[0].url) if download else "download=false"
    if reason:
        raise missing_files(what, missing, instead, reason)
    try:
        for file in missing:
            if not file.page:
                fetch(file)
    except DownloadError as error:
        raise missing_files(what, missing, instead, str(error).removeprefix(f"{file.url}: ")) from error


def missing_files(what: str, files: Sequence[RemoteFile], instead: str, reason: str) -> DownloadError:
    """Return the error that lists every file that is missing, where to put it, and what works without it."""
    files = [file for file in files if not file.path.exists()]
    lines = [f"{what}: {len(files)} file{'s are' if len(files) > 1 else ' is'} missing ({reason})"]
    lines.append("Download on another machine:")
    for file in files:
        size = f"about {file.size / 1e6:.1f} MB" if file.size else "size not published"
        facts = f"size and hash: {file.page}" if file.page else f"{size}, {file.hash or 'hash not published'}"
        lines += [f"  {file.url}", f"    {facts}", f"    put it at {file.path}"]
    return DownloadError("\n".join([*lines, f"Or do without: {instead}"]))


def fetch(file: RemoteFile, *, tries: int = 6, pause: float = 1.0, timeout: float = 30.0) -> None:
    """Download a file to its path, where it appears once it is complete and verified.

    Bytes are collected in ``<path>.part``, where a later attempt or process resumes. If several processes ask for the
    same file, one downloads and the others wait.

    It gives up after `tries` attempts in a row that bring no new bytes, `pause` seconds apart, twice as long each time.
    """
    part, failures, most = file.path.with_name(file.path.name + ".part"), 0, 0
    with cache_errors(file.path.parent), folder_lock(file.path.parent, f".{file.path.name}.lock", timeout=-1):
        while not file.path.exists():
            wait, complete = 0.0, False
            try:
                _receive(file, part, timeout)
                complete, problem = True, ""
            except urllib.error.HTTPError as error:
                problem = f"the server answered {error.code} {error.reason}"
                if error.code not in _RETRIED_STATUS and error.code < 500:
                    raise DownloadError(f"{file.url}: {problem}") from error
                asked = error.headers.get("Retry-After", "")
                wait = float(asked) if asked.isdigit() else 0.0
            except _NETWORK_ERRORS as error:
                problem = str(getattr(error, "reason", "") or error or type(error).__name__)
            if part.exists() and (complete or file.hash):  # a hash decides, not the length that the server declared
                wrong = file.problem(part)
                if wrong is None:
                    os.replace(part, file.path)
                    _tag_path(part).unlink(missing_ok=True)
                    return
                if complete:
                    problem = wrong
                    part.unlink()
            size = part.stat().st_size if part.exists() else 0
            failures, most = (0 if size > most else failures + 1), max(size, most)
            if failures >= tries:
                raise DownloadError(f"{file.url}: {problem} (gave up after {tries} attempts)")
            time.sleep(min(60.0, max(wait, pause * 2 ** max(0, failures - 1))))


def _receive(file: RemoteFile, part: Path, timeout: float) -> None:
    """Append the rest of the file to `part`; raise if the connection ends early or the answer cannot be the file."""
    have = part.stat().st_size if part.exists() else 0
    tag = _tag_path(part).read_text() if _tag_path(part).exists() else ""
    if have and not file.hash and not tag:
        have = 0  # nothing tells whether the rest belongs to the same file
    request = urllib.request.Request(file.url, headers={"User-Agent": "asbc", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if not file.hash:
            request.add_header("If-Range", tag)
    try:
        response = _open(request, timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and file.hash:  # nothing beyond what is there: the hash decides
            return
        if error.code == 416:
            part.unlink()
            raise ConnectionError("the server has another file now") from error
        raise
    with response:
        headers = response.headers
        if headers.get_content_type() == "text/html":
            raise DownloadError(f"{file.url}: the server answered with a web page instead of the file")
        resumed = response.status == 206 and headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status == 206 and not resumed:
            part.unlink(missing_ok=True)
            raise ConnectionError("the server sent another range than requested")
        start, length = (have if resumed else 0), headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if not file.hash:
            if total is None:
                raise DownloadError(f"{file.url}: neither its length nor a hash is known, so it cannot be verified")
            etag = headers.get("ETag", "")
            _tag_path(part).write_text("" if etag.startswith("W/") else etag)
        limit = int(file.size * 1.1) + 4096 if file.size else 8 * 2**30
        if total and total - start > shutil.disk_usage(part.parent).free and total <= limit:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} for {file.path.name} ({total} bytes)")
        received = start
        megabytes = None if total is None else total // 10**6
        step = Progress().step(file.path.name, megabytes, start // 10**6, "MB")
        with step as advance, open(part, "ab" if resumed else "wb") as out:
            while received <= limit and (total or 0) <= limit and (block := response.read(2**16)):
                out.write(block)
                received += len(block)
                advance(received // 10**6 - (received - len(block)) // 10**6)
    if max(received, total or 0) > limit:
        part.unlink()
        raise DownloadError(f"{file.url}: larger than the {limit} bytes expected at most")
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")


def _tag_path(part: Path) -> Path:
    return part.with_name(part.name + ".etag")  # identifies the server's file where no hash does


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follow redirects, but never from https to http."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DownloadError(f"{req.full_url}: refused, the server redirects to unencrypted {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(request: urllib.request.Request, timeout: float) -> Any:
    """Return the server's answer within `timeout` seconds, in a thread since name lookups ignore time limits."""
    answer: queue.Queue[Any] = queue.Queue(1)

    def ask() -> None:
        try:
            answer.put(urllib.request.build_opener(_NoDowngrade).open(request, timeout=timeout))
        except BaseException as error:
            answer.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        got = answer.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"no answer within {timeout:g} s") from None
    if isinstance(got, BaseException):
        raise got
    return got


def unreachable(url: str, timeout: float = 3.0) -> str | None:
    """Return why no server answers at `url`, or None if one does."""
    try:
        _open(urllib.request.Request(url, method="HEAD", headers={"User-Agent": "asbc"}), timeout).close()
    except urllib.error.HTTPError:
        return None
    except _NETWORK_ERRORS as error:
        return str(getattr(error, "reason", "") or error)
    return None
