"""Downloads that resume and know git's blob hashes, which pooch does not, and one message that lists missing files."""

from __future__ import annotations

import http.client
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asbc.embeddings.store import RemoteFile, cache_errors
from asbc.progress import Progress
from asbc.storage import folder_lock

_NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError)
_AGENT = {"User-Agent": "asbc", "Accept-Encoding": "identity"}
MAX_BYTES = 8 * 2**30  # of a file whose size is not published


class DownloadError(OSError):
    """A file could not be downloaded."""


def fetch_all(what: str, files: Sequence[RemoteFile], instead: str, *, download: bool = True) -> None:
    """Download the files that are missing, or raise one DownloadError that lists all of them.

    `what` needs the files, and `instead` works without them. Files of the Hugging Face hub are only listed.
    """
    missing = [file for file in files if not file.path.exists()]
    reason = "download=false" if not download else unreachable(missing[0].url) if missing else None
    if missing and reason:
        raise missing_files(what, missing, instead, reason)
    for file in missing:
        try:
            if not file.page:
                fetch(file)
        except DownloadError as error:  # noqa: PERF203
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
    file, one downloads it and the others wait. It gives up after `tries` attempts in a row without new bytes.
    """
    part, failures, most = file.path.with_name(file.path.name + ".part"), 0, 0
    with cache_errors(file.path.parent), folder_lock(file.path.parent, f".{file.path.name}.lock", timeout=-1):
        while not file.path.exists():
            try:
                _receive(file, part, timeout)
                problem = file.problem(part)
                if not problem:
                    os.replace(part, file.path)
                    return
                part.unlink()
            except urllib.error.HTTPError as error:
                problem = f"the server answered {error.code} {error.reason}"
                if error.code == 416:  # there are no bytes after those of `part`: start over
                    part.unlink()
                elif error.code < 500 and error.code not in (408, 425, 429):
                    raise DownloadError(f"{file.url}: {problem}") from error
            except _NETWORK_ERRORS as error:
                problem = str(getattr(error, "reason", "") or error or type(error).__name__)
            size = part.stat().st_size if part.exists() else 0
            failures, most = (0 if size > most else failures + 1), max(size, most)
            if failures >= tries:
                raise DownloadError(f"{file.url}: {problem} (gave up after {tries} attempts)")
            time.sleep(min(60.0, pause * 2 ** max(0, failures - 1)))


def _receive(file: RemoteFile, part: Path, timeout: float) -> None:
    """Append the rest of the file to `part`; raise if the connection ends early or the answer cannot be the file."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url, headers={**_AGENT, **({"Range": f"bytes={have}-"} if have else {})})
    with _open(request, timeout) as response:
        headers, have = response.headers, have if response.status == 206 else 0
        if file.url.startswith("https:") and not response.url.startswith("https:"):
            raise DownloadError(f"{file.url}: refused, the server redirects to unencrypted {response.url}")
        if headers.get_content_type() == "text/html":
            raise DownloadError(f"{file.url}: the server answered with a web page instead of the file")
        if have and not headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than requested")
        length = headers.get("Content-Length", "")
        total = have + (int(length) if length.isdigit() else 0)
        if not (file.hash or total > have):
            raise DownloadError(f"{file.url}: neither its length nor a hash is known, so it cannot be verified")
        limit = int(file.size * 1.1) + 4096 if file.size else MAX_BYTES
        step = Progress().step(file.path.name, total // 10**6 or None, have // 10**6, "MB")
        with step as advance, open(part, "ab" if have else "wb") as out:
            while max(have, total) <= limit and (block := response.read(10**6)):
                out.write(block)
                have += len(block)
                advance(len(block) // 10**6)
    if max(have, total) > limit:
        part.unlink()
        raise DownloadError(f"{file.url}: larger than the {limit} bytes expected at most")
    if have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes")


def _open(request: urllib.request.Request, timeout: float) -> Any:
    return urllib.request.build_opener().open(request, timeout=timeout)  # urlopen keeps the proxies of its first call


def unreachable(url: str, timeout: float = 3.0) -> str | None:
    """Return why no server answers at `url`, or None if one does."""
    found = [f"no answer within {timeout:g} s"]

    def ask() -> None:
        try:
            _open(urllib.request.Request(url, method="HEAD", headers=_AGENT), timeout).close()
            found[0] = ""
        except _NETWORK_ERRORS as error:
            found[0] = "" if isinstance(error, urllib.error.HTTPError) else str(getattr(error, "reason", error))

    thread = threading.Thread(target=ask, daemon=True)  # name lookups ignore time limits
    thread.start()
    thread.join(timeout)
    return found[0] or None
