"""Where compiled code is kept: with the user's caches, by the contents of the sources that it was compiled from.

Numba by itself keeps it beside each source file. A new environment, or a reinstallation, then compiles everything
again; and because it looks only at the file that a function stands in, an edit of one kernel leaves those alone that
use it from other files. Here all share one folder, named after the contents of all sources and the version of numba.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import numba
from numba.core import caching

KEPT_VERSIONS = 16  # folders of compiled code, of some megabytes each; those not written to for longest go first


def user_cache() -> Path:
    """The folder of this user's caches; ``NUMBA_CACHE_DIR``, where it is set, comes first."""
    if numba.config.CACHE_DIR:
        return Path(numba.config.CACHE_DIR)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def folder_for(sources: Path, cache: Path) -> Path:
    """The folder in `cache` for what is compiled from the Python files in the folder `sources`."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(sources.glob("*.py")):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return cache / "asbc" / "kernels" / digest.hexdigest()[:16]


def make_folder(folder: Path) -> bool:
    """Make the folder, and remove old ones beside it; False if it cannot be written to."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            others = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
            for path in others[KEPT_VERSIONS:]:
                shutil.rmtree(path, ignore_errors=True)
    except OSError:
        pass
    return os.access(folder, os.W_OK)


def keep_compiled_code(sources: Path) -> Path | None:
    """Have numba keep what it compiles from `sources` in the user's cache, or else as it always does.

    Returns the folder; None if it is not kept there.
    """
    with suppress(OSError, RuntimeError, AttributeError):  # no home, or a numba whose caches work otherwise
        folder = folder_for(sources, user_cache())
        if make_folder(folder):
            caching.CacheImpl._locator_classes.insert(0, _locator(sources, folder))
            return folder
    return None


def _locator(sources: Path, folder: Path) -> type[caching._CacheLocator]:
    class Locator(caching._CacheLocator):
        """Tells numba that functions from `sources` are kept in `folder`, whose name says what they were made from."""

        def __init__(self, line: int):
            self._line = line

        def get_cache_path(self) -> str:
            return str(folder)

        def get_source_stamp(self) -> str:
            return folder.name

        def get_disambiguator(self) -> str:
            return str(self._line)

        @classmethod
        def from_function(cls, py_func, py_file):
            return cls(py_func.__code__.co_firstlineno) if Path(py_file).parent == sources else None

    return Locator
