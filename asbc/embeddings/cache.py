"""Where downloads and embeddings are kept, and what to say when they cannot be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_LOCKED = {errno.EROFS, errno.EACCES, errno.EPERM}


class CacheError(OSError):
    """The cache folder cannot be written to."""


def cache_folder(folder: str | os.PathLike | None = None) -> Path:
    """The cache: ``folder`` if given, else ``$ASBC_CACHE``, else the user's cache directory."""
    return Path(folder or os.environ.get("ASBC_CACHE") or platformdirs.user_cache_path("asbc")).expanduser()


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into an error that says what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, CacheError) or error.errno not in _FULL | _LOCKED:
            raise
        wanted = "with more room" if error.errno in _FULL else "that you may write to"
        raise CacheError(
            f"cannot write to the cache {folder}: {error.strerror}. "
            f"Point ASBC_CACHE (or embedding.cache) at a folder {wanted}."
        ) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there complete or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
