"""Files over HTTP: resumed, retried a bounded number of times, and verified before they get their names."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import os
import queue
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
from asbc.files import write_whole

_BLOCK = 1 << 16  # bytes that are read at a time
_NETWORK = (
    urllib.error.URLError,
    http.client.HTTPException,
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
)


class DownloadError(OSError):
    """A file could not be downloaded."""


class Hash(NamedTuple):
    """A hash that a file's content must have: ``kind`` is ``"git blob"``, ``"SHA-256"`` or ``"MD5"``."""

    kind: str
    value: str

    def __str__(self) -> str:
        return f"{self.kind} hash {self.value}"

    def of(self, path: Path) -> str:
        """The hash of this kind that a file has."""
        if self.kind == "git blob":
            return blob_sha1(path)
        return file_hash(path, {"SHA-256": "sha256", "MD5": "md5"}[self.kind])


@dataclass(frozen=True)
class Wanted:
    """A file that is needed, where it can be had, and where it must lie.

    Attributes
    ----------
    url : str
        Its address.
    target : Path
        Its place in the cache.
    hash : Hash, optional
        What its content must have; None if nobody published one.
    size : int, optional
        Bytes, at least roughly; None if nobody published it. A download that is much larger is stopped.
    limit : int
        Bytes above which a download is stopped where ``size`` is not known.
    looks_wrong : callable, optional
        Given the path of a complete download, says what is wrong with its content, or None.
    page : str
        A web page that tells size and hash, where they are not known here.
    """

    url: str
    target: Path
    hash: Hash | None = None
    size: int | None = None
    limit: int = 8 << 30
    looks_wrong: Callable[[Path], str | None] | None = None
    page: str = ""

    def lines(self) -> str:
        """Address, size, hash and place, as a user needs them."""
        size = f"about {self.size / 1e6:.1f} MB" if self.size else "size not published"
        known = f"{self.hash}" if self.hash else "hash not published: the SHA-256 is remembered at first use"
        facts = f"size and hash: see {self.page}" if self.page else f"{size}, {known}"
        return f"  {self.url}\n    {facts}\n    put it at {self.target}"

    def compare(self) -> None:
        """Raise a `ValueError` if the file at its place is not the published one, whose hash is known."""
        assert self.hash is not None
        found = self.hash.of(self.target)
        if found != self.hash.value:
            raise ValueError(
                f"{self.target}: not the published file (its {self.hash.kind} hash is {found}, wanted is "
                f"{self.hash.value}). Remove it to download it again from {self.url}."
            )


def file_hash(path: Path, kind: str = "sha256") -> str:
    """Hash of a file's bytes."""
    digest = hashlib.new(kind, usedforsecurity=kind != "md5")
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def blob_sha1(path: Path) -> str:
    """The name git gives a file's content: SHA-1 over ``blob <size>\\0`` and the bytes."""
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(
    file: Wanted,
    *,
    patience: int = 6,
    tries: int = 100,
    pause: float = 1.0,
    timeout: float = 30.0,
    contact: float = 3.0,
) -> None:
    """Download a file, which appears under its name only when it is complete and its content is right.

    Bytes arrive in ``target``.part, where an interrupted download, in this process or a later one, goes on.
    Several processes may ask for the same file: one downloads, the others wait. A file without a published hash is
    complete when it has the length that the server declared, and is gone on with only if the server says that it is
    still the same file.

    Parameters
    ----------
    file : Wanted
        What to get, and where to put it.
    patience : int, default=6
        Failures in a row, without a single byte beyond those had before, after which to give up; and files with
        wrong bytes (three at most).
    tries : int, default=100
        Requests after which to give up, whatever they brought.
    pause : float, default=1.0
        Seconds before the first new attempt; doubled at each failure, up to a minute.
    timeout : float, default=30.0
        Seconds without an answer after which a connection counts as lost.
    contact : float, default=3.0
        Seconds in which the server must have answered for the first time. Without a network, that is how long it takes.
    """
    target = file.target
    part = target.with_name(target.name + ".part")
    with writing_to(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")), _progress() as progress:
            receiver = _Receiver(file, part, timeout, contact, progress)
            start, most = time.monotonic(), _size(part)
            failures = wrong = 0
            for _ in range(tries):
                if target.exists():
                    return
                ended, wait = False, 0.0
                try:
                    receiver.receive()
                    ended, reason = True, ""
                except urllib.error.HTTPError as error:
                    receiver.answered = True
                    reason, wait = f"the server answered {error.code} {error.reason}", _retry_after(error)
                    if error.code not in (408, 425, 429) and error.code < 500:
                        raise DownloadError(f"{file.url}: {reason}") from error
                except _NETWORK as error:
                    cause = getattr(error, "reason", error)
                    reason = str(cause or type(error).__name__)
                    unknown = isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME
                    if unknown and not receiver.answered:  # there is no network, and waiting does not make one
                        raise DownloadError(f"{file.url}: {reason}") from error
                # A hash decides where there is one, not the lengths that a server declares.
                if part.exists() and (ended or file.hash):
                    trouble = _wrong_content(file, part)
                    if trouble is None:
                        os.replace(part, target)
                        receiver.notes.unlink(missing_ok=True)
                        return
                    reason = reason or trouble
                if ended:
                    part.unlink(missing_ok=True)
                    wrong += 1
                failures = 0 if _size(part) > most else failures + 1
                most = max(most, _size(part))
                wait = min(60.0, max(wait, pause * 2 ** max(0, failures - 1)))
                if not receiver.answered and time.monotonic() - start + wait > contact:
                    raise DownloadError(f"{file.url}: {reason}")
                if failures >= patience or wrong >= min(patience, 3):
                    raise DownloadError(f"{file.url}: {reason} (gave up after several attempts)")
                time.sleep(wait)
            raise DownloadError(f"{file.url}: {reason} (gave up after {tries} requests)")


class _Receiver:
    """Appends to the part file what the server has beyond it."""

    def __init__(self, file: Wanted, part: Path, timeout: float, contact: float, progress: Progress) -> None:
        self.file, self.part, self.timeout, self.contact = file, part, timeout, contact
        self.progress, self.task = progress, progress.add_task(file.target.name, total=None)
        self.answered = False
        self.notes = part.with_name(part.name + ".json")  # which file the part is of, where no hash can tell
        self.limit = int(file.size * 1.1) + 4096 if file.size else file.limit

    def receive(self) -> None:
        """Receive the rest; raise if it stopped too early, or if it cannot be the file."""
        have, known = _size(self.part), self._known()
        if have and not self.file.hash and not known.get("tag"):
            self.part.unlink()  # nothing says what it is a part of
            have = 0
        request = urllib.request.Request(self.file.url, headers={"User-Agent": "asbc", "Accept-Encoding": "identity"})
        if have:
            request.add_header("Range", f"bytes={have}-")
            if not self.file.hash:
                request.add_header("If-Range", known["tag"])
        try:
            response = _open(request, self.timeout, self.timeout + 30 if self.answered else self.contact)
        except urllib.error.HTTPError as error:
            if error.code == 416 and have:  # nothing beyond what we have: the hash or the length says if that is all
                if not self.file.hash and known.get("total") != have:
                    self.part.unlink()
                    raise ConnectionError("the server has another file than the one begun") from error
                return
            raise
        self.answered = True
        with response:
            self._take(response, have, known)

    def _take(self, response: Any, have: int, known: dict[str, Any]) -> None:
        if response.headers.get_content_type() == "text/html":
            raise DownloadError(f"{self.file.url}: the server answered with a web page, not with the file")
        span = response.headers.get("Content-Range", "")
        resumed = response.status == 206 and span.startswith(f"bytes {have}-")
        if response.status == 206 and not resumed:
            self.part.unlink(missing_ok=True)
            raise ConnectionError("the server sent another range than the one asked for")
        start = have if resumed else 0
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdigit() else None
        if not self.file.hash:
            if total is None and not response.chunked:
                raise DownloadError(
                    f"{self.file.url}: the server does not say how long the file is, and no hash of it is published: "
                    "a broken download could not be told from a whole one"
                )
            if resumed and known.get("total") not in (None, total):
                self.part.unlink(missing_ok=True)
                raise ConnectionError("the server has another file than the one begun")
            tag = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
            notes = json.dumps({"tag": "" if tag.startswith("W/") else tag, "total": total})
            write_whole(self.notes, lambda path: path.write_text(notes))
        self._refuse_above_limit(total or 0)
        if total is not None and shutil.disk_usage(self.part.parent).free < total - start:
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} for {self.file.target.name} ({total} bytes)")
        self.progress.update(self.task, completed=start, total=total)
        received = start
        with open(self.part, "ab" if resumed else "wb") as file:
            while block := response.read(_BLOCK):
                received += len(block)
                self._refuse_above_limit(received)
                file.write(block)
                self.progress.update(self.task, completed=received)
        if total is not None and received < total:
            raise ConnectionError(f"the connection ended after {received} of {total} bytes")

    def _refuse_above_limit(self, size: int) -> None:
        if size > self.limit:
            self.part.unlink(missing_ok=True)
            raise DownloadError(
                f"{self.file.url}: the server sends {size} bytes or more, at most {self.limit} are expected"
            )

    def _known(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            notes = json.loads(self.notes.read_text())
            if isinstance(notes, dict) and isinstance(notes.get("tag"), str):
                return notes
        return {}


class _StayEncrypted(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to something that anyone on the way could change."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise DownloadError(
                f"{req.full_url}: refused, for the server redirects to {newurl}, which is not encrypted"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _open(request: urllib.request.Request, timeout: float, within: float) -> Any:
    """The server's answer; a `TimeoutError` if there is none after ``within`` seconds.

    In a thread of its own, since looking up a name and trying one address after another heed no time limit.
    """
    answer: queue.Queue[Any] = queue.Queue(1)

    def ask() -> None:
        try:
            answer.put(urllib.request.build_opener(_StayEncrypted).open(request, timeout=timeout))
        except BaseException as error:
            answer.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        got = answer.get(timeout=within)
    except queue.Empty:
        raise TimeoutError(f"no answer within {within:g} s") from None
    if isinstance(got, BaseException):
        raise got
    return got


def reachable(url: str, within: float = 3.0) -> str | None:
    """None if a server answers at ``url`` at all, with whatever; else why not."""
    try:
        _open(urllib.request.Request(url, method="HEAD"), within, within).close()
    except urllib.error.HTTPError:
        return None
    except _NETWORK as error:
        return str(getattr(error, "reason", "") or error)
    return None


def _wrong_content(file: Wanted, part: Path) -> str | None:
    if file.hash and file.hash.of(part) != file.hash.value:
        return f"its content does not match the {file.hash}"
    return file.looks_wrong(part) if file.looks_wrong else None


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
