"""Where downloads and embeddings are kept, and what to say when they cannot be."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

from asbc.files import DISK_FULL

_LOCKED = (errno.EROFS, errno.EACCES, errno.EPERM)


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
        if isinstance(error, CacheError) or error.errno not in (*DISK_FULL, *_LOCKED):
            raise
        wanted = "with more room" if error.errno in DISK_FULL else "that you may write to"
        raise CacheError(
            f"cannot write to the cache {folder}: {error.strerror}. "
            f"Point ASBC_CACHE (or embedding.cache) at a folder {wanted}."
        ) from error
