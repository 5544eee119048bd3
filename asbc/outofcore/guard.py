"""What keeps a build's folder safe: one build at a time, clear words for a full disk, no remains of killed writers."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from asbc.files import DISK_FULL
from asbc.outofcore.errors import BuildError


def check_target(folder: Path) -> None:
    """Refuse a folder that is something else than a build of asbc, before anything is written to it."""
    if folder.exists() and not folder.is_dir():
        raise BuildError(f"{folder}: a file; the build needs a folder of its own.")
    if folder.is_dir() and not (folder / "plan.json").is_file():
        # A build that was killed while it wrote its plan has left a temporary file: no reason to refuse the folder.
        names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".plan.json.")]
        strangers = [name for name in sorted(names) if name not in ("build.lock", "source")]
        if strangers:
            raise BuildError(f"{folder}: not empty, and not a build of asbc (it holds {strangers[0]!r}).")


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder and keep other builds out. The system lets go of the lock when the process ends, however it ends.

    If an error comes before there is a plan, nothing is left behind that was not there before.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    with _lock(folder) as lock:
        try:
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {os.uname().nodename}")
            lock.flush()
            yield
        except BaseException:
            if not (folder / "plan.json").exists():
                (folder / "build.lock").unlink()
                with suppress(OSError):  # not empty: it holds the copy of a URL, or something else has come
                    for path in made:
                        path.rmdir()
            raise


def _lock(folder: Path) -> TextIO:
    """The open file of a folder's lock, which this process now holds."""
    path = folder / "build.lock"
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = open(path, "a+")  # noqa: SIM115
        except FileNotFoundError:  # a build that was refused has just removed the folder
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with lock:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                lock.seek(0)
                owner = lock.read().strip() or "another process"
            raise BuildError(f"{folder}: another build is writing here ({owner}); wait for it, or stop it.") from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
                return lock
        lock.close()  # a build that was refused has just removed this file: locking it keeps nobody out


@contextmanager
def clear_errors(folder: Path) -> Iterator[None]:
    """Turn the system's error for a full disk into a BuildError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise BuildError(
                f"{folder}: the disk is full, or a file may not grow any more ({error.strerror}). Finished parts are "
                "kept: make room and start again."
            ) from error
        raise


def sweep(folder: Path) -> None:
    """Remove the temporary files that a killed build has left."""
    own = (folder.glob(f".{name}.json.*") for name in ("plan", "manifest", "timing"))
    places = itertools.chain(*own, *((folder / name).rglob(".*") for name in ("scratch", "graph", "nodes", "rows")))
    for leftover in places:
        if leftover.is_file():
            leftover.unlink(missing_ok=True)
