"""One file over HTTP: resumed, retried, and verified before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from filelock import FileLock
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from asbc.embeddings.cache import writing_to

_BLOCK = 1 << 16
_NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)


class DownloadError(OSError):
    """A file could not be downloaded."""


def blob_sha1(path: Path) -> str:
    """The name git gives a file's content: SHA-1 over ``blob <size>\\0`` and the bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(url: str, target: Path, sha1: str, *, patience: int = 6, pause: float = 1.0, timeout: float = 30.0) -> None:
    """Download ``url`` to ``target``, which appears only when its git blob hash is ``sha1``.

    Bytes arrive in ``target``.part, where an interrupted download, in this process or a later one, goes on.
    Several processes may ask for the same file: one downloads, the others wait.

    Parameters
    ----------
    patience : int
        Failures in a row, without a single new byte, after which to give up; and files with wrong bytes.
    pause : float
        Seconds before the first new attempt; doubled at each failure, up to a minute.
    timeout : float
        Seconds without an answer after which a connection counts as lost.
    """
    part = target.with_name(target.name + ".part")
    with writing_to(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")), _progress() as progress:
            task = progress.add_task(target.name, total=None)
            failures = wrong = 0
            while not target.exists():
                before, ended, wait = _size(part), False, 0.0
                try:
                    _receive(url, part, timeout, progress, task)
                    ended, reason = True, f"its content does not match the git blob hash {sha1}"
                except urllib.error.HTTPError as error:
                    reason, wait = f"the server answered {error.code} {error.reason}", _retry_after(error)
                    if error.code not in (408, 425, 429) and error.code < 500:
                        raise DownloadError(f"{url}: {reason}") from error
                except _NETWORK as error:
                    reason = str(getattr(error, "reason", "") or error or type(error).__name__)
                # The hash decides, not the lengths that a server declares.
                if part.exists() and blob_sha1(part) == sha1:
                    os.replace(part, target)
                    return
                if ended:
                    part.unlink()
                    wrong += 1
                failures = 0 if _size(part) > before else failures + 1
                if failures >= patience or wrong >= min(patience, 3):
                    raise DownloadError(f"{url}: {reason} (gave up after several attempts)")
                time.sleep(min(60.0, max(wait, pause * 2 ** max(0, failures - 1))))


def _receive(url: str, part: Path, timeout: float, progress: Progress, task) -> None:
    """Append what the server has beyond the bytes in ``part``; raise if it stopped too early."""
    have = _size(part)
    request = urllib.request.Request(url, headers={"User-Agent": "asbc", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing beyond what we have: the hash decides whether that is all
            return
        raise
    with response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status == 206 and not resumed:
            part.unlink(missing_ok=True)
            raise ConnectionError("the server sent another range than the one asked for")
        start = have if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        progress.update(task, completed=start, total=total)
        received = start
        with open(part, "ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                received += len(block)
                progress.update(task, completed=received)
    if total is not None and received < total:
        raise ConnectionError(f"the connection ended after {received} of {total} bytes")


def _retry_after(error: urllib.error.HTTPError) -> float:
    value = error.headers.get("Retry-After", "")
    return float(value) if value.isdigit() else 0.0


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _progress() -> Progress:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        transient=True,
    )
    progress.disable = not progress.console.is_terminal
    return progress
