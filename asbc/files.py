"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# What the system says when a file cannot grow: no space left, a quota reached, or a limit on the size of files.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def whole_path(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; what is written there gets its real name once it is on disk, or goes away.

    Parameters
    ----------
    path : Path
        The real name. Its folder is made if it is not there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Any]:
    """A binary file, open for writing, that appears under its name only when it is complete and on disk."""
    with whole_path(path) as temporary, temporary.open("wb") as file:
        yield file
        file.flush()


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary name in the same folder, then give the file its real name."""
    with whole_path(path) as temporary:
        write(temporary)
