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


def fetch_all(what: str, files: Sequence[RemoteFile], instead: str, download: bool = True) -> list[Path]:
    """Download files and return their paths, or raise one DownloadError that lists all files that are missing.

    The error names `what` needs the files, and what can be used `instead`.
    """
    reason = unreachable(files[0].url, hub=bool(files[0].hub)) if download else "download=false"
    try:
        if not reason:
            return [fetch_from_hub(file) if file.hub else fetch(file) for file in files]
    except DownloadError as error:
        reason = str(error)
    files = [file for file in files if not file.path.exists()]
    lines = [f"{what}: {len(files)} file{'s are' if len(files) > 1 else ' is'} missing ({reason})"]
    lines += [f"Without a download: {instead}", "Or download on another machine:"]
    for file in files:
        size = f"about {file.size / 1e6:.1f} MB" if file.size else "size not published"
        facts = f"{size}, {file.hash or 'hash not published'}"
        if file.hub:
            facts = f"size and hash: {file.url.replace('/resolve/', '/blob/')}"
        lines += [f"  {file.url} ({facts})", f"    put it at {file.path}"]
    raise DownloadError("\n".join(lines))


def fetch_from_hub(file: RemoteFile) -> Path:
    """Download the first of several files that a repository of the hub has, to the hub's own cache."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import EntryNotFoundError

    name, _, revision = file.hub[0].partition("@")
    for each in file.hub[1:]:
        try:
            return Path(hf_hub_download(name, each, revision=revision or None))
        except EntryNotFoundError:  # noqa: PERF203
            continue
        except Exception as error:  # huggingface_hub raises many kinds
            raise DownloadError(str(error)) from error
    raise ValueError(f"{file.hub[0]} has none of the files {', '.join(file.hub[1:])}")


def fetch(file: RemoteFile, *, tries: int = 6, pause: float = 1.0, timeout: float = 30.0) -> Path:
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
                    break
                part.unlink()
            except urllib.error.HTTPError as error:
                problem = f"the server answered {error.code} {error.reason}"
                if error.code == 416:  # there are no bytes after those of `part`: start over
                    part.unlink()
                elif error.code < 500 and error.code not in (408, 425, 429):
                    raise DownloadError(f"{file.path.name}: {problem}") from error
            except _NETWORK_ERRORS as error:
                problem = str(getattr(error, "reason", "") or error or type(error).__name__)
            size = part.stat().st_size if part.exists() else 0
            failures, most = (0 if size > most else failures + 1), max(size, most)
            if failures >= tries:
                raise DownloadError(f"{file.path.name}: {problem} (gave up after {tries} attempts)")
            time.sleep(min(60.0, pause * 2 ** max(0, failures - 1)))
    return file.path


def _receive(file: RemoteFile, part: Path, timeout: float) -> None:
    """Append the rest of the file to `part`; raise if the connection ends early or the answer cannot be the file."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url, headers={**_AGENT, **({"Range": f"bytes={have}-"} if have else {})})
    with _open(request, timeout) as response:
        headers, have = response.headers, have if response.status == 206 else 0
        if file.url.startswith("https:") and not response.url.startswith("https:"):
            raise DownloadError(f"{file.path.name}: refused, the server redirects to unencrypted {response.url}")
        if headers.get_content_type() == "text/html":
            raise DownloadError(f"{file.path.name}: the server answered with a web page instead of the file")
        if have and not headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise ConnectionError("the server sent another range than requested")
        length = headers.get("Content-Length", "")
        total = have + (int(length) if length.isdigit() else 0)
        if not (file.hash or total > have):
            raise DownloadError(f"{file.path.name}: neither its length nor a hash is known, so it cannot be verified")
        limit = int(file.size * 1.1) + 4096 if file.size else MAX_BYTES
        step = Progress().step(file.path.name, total // 10**6 or None, have // 10**6, "MB")
        with step as advance, open(part, "ab" if have else "wb") as out:
            while max(have, total) <= limit and (block := response.read(10**6)):
                out.write(block)
                have += len(block)
                advance(len(block) // 10**6)
    if max(have, total) > limit:
        part.unlink()
        raise DownloadError(f"{file.path.name}: larger than the {limit} bytes expected at most")
    if have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes")


def _open(request: urllib.request.Request, timeout: float) -> Any:
    return urllib.request.build_opener().open(request, timeout=timeout)  # urlopen keeps the proxies of its first call


def unreachable(url: str, timeout: float = 3.0, hub: bool = False) -> str | None:
    """Return why no server answers at `url`, or None if one does; the hub is not asked if HF_HUB_OFFLINE is set."""
    if hub:
        from huggingface_hub import constants

        if constants.HF_HUB_OFFLINE:
            return "HF_HUB_OFFLINE is set"
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
