"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

# What the system says when a file cannot grow: no space left, a quota reached, or a limit on the size of files.
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}")


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


# The first bytes of a file of each format.
_STARTS = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet", b"\x89HDF\r\n": ".h5ad"}


def content_of(path: Path) -> str | None:
    """The suffix that a file of vectors should have by its first bytes; None where they do not tell.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.files import content_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.npy"
    ...     size = path.write_text("0.5,1.5")
    ...     print(content_of(path))
    .csv
    """
    with path.open("rb") as file:
        head = file.read(4096)
    for start, suffix in _STARTS.items():
        if head.startswith(start):
            return suffix
    try:
        head[: 4096 - 3].decode()  # a character at the end may be cut
    except UnicodeDecodeError:
        return None
    return ".csv" if head and b"\0" not in head else None


def misnamed(path: Path) -> str | None:
    """What to say of a file whose first bytes are of another format than its name says; None where all is well."""
    found = content_of(path)
    if found is None or found == path.suffix.lower():
        return None
    what = "plain text, such as CSV" if found == ".csv" else f"a {found} file"
    return f"{path}: not a {path.suffix} file but {what}; rename it to {path.stem}{found}"


def sweep(folder: Path, *, older_than: float = 0.0) -> None:
    """Remove the temporary files that killed writers have left in a folder.

    Parameters
    ----------
    folder : Path
        One in which nobody else is writing, or `older_than` is so long that no writer takes it.
    older_than : float, default=0
        Seconds since they were last written to.
    """
    for path in folder.glob(".*"):
        # As `whole_path` names them: a dot, the real name, a dot, 32 hexadecimal digits.
        with suppress(FileNotFoundError):
            if _TEMPORARY.fullmatch(path.name) and time.time() - path.stat().st_mtime >= older_than:
                path.unlink()


def why_not_written(error: OSError) -> str | None:
    """What keeps a file from being written, in words for a user: a full disk, or a place that is closed to writers.

    Parameters
    ----------
    error : OSError
        What the system said.

    Returns
    -------
    str or None
        None if it is another kind of error.
    """
    if error.errno in DISK_FULL:
        return f"the disk is full, or a file may not grow any more ({error.strerror}); make room and start again"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"nothing can be written there ({error.strerror}); choose another folder, or ask for the right to write"
    return None
