"""Compile kernels with numba and cache the compiled code on disk.

numba's own cache raises on a truncated file, can crash on a damaged one, and misses edits in other modules. This cache
keeps one file per compiled signature, preceded by its checksum, in a folder named after the contents of all kernel
sources. An entry that cannot be read, verified or written, or that belongs to another user, is dropped, and the kernel
is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import numba
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult

DIGEST_BYTES = hashlib.sha256().digest_size
MESSAGE = "asbc: compiling inner loops, once per version. A first graph takes 10 to 20 seconds.\n"


def kernel(function=None, **options):
    """Decorator that compiles a function without the interpreter lock and caches the compiled code.

    `options` are those of ``numba.njit``.
    """
    if function is None:
        return functools.partial(kernel, **options)
    compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    compiled._cache = KernelCache(f"{function.__module__.rpartition('.')[2]}.{function.__name__}")
    return compiled


class KernelCache(NullCache):
    """The cache of one kernel, in the form in which numba's dispatchers call it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_overload(self, signature, target):
        """Return the cached result of compiling for this signature, or None."""
        target.refresh()
        path = self._path(signature, target.codegen())
        if path is not None and path.is_file():
            try:
                return CompileResult._rebuild(target, *read_entry(path))
            except Exception:  # whatever is wrong with it, compiling replaces it
                with suppress(OSError):
                    path.unlink()
        _print_notice()
        return None

    def save_overload(self, signature, result) -> None:
        """Write the result of compiling for this signature, if possible."""
        path = self._path(signature, result.codegen)
        if path is None or result.library.has_dynamic_globals:  # these are addresses within this process
            return
        with suppress(Exception):
            write_entry(path, result._reduce())

    def _path(self, signature, codegen) -> Path | None:
        folder = cache_folder()
        key = hashlib.sha256(repr((signature, codegen.magic_tuple())).encode()).hexdigest()
        return None if folder is None else folder / f"{self._name}-{key[:16]}"


def read_entry(path: Path):
    """Return the contents of a cache file; raise ValueError if it is damaged or another user's.

    Loading an entry runs its code, so only those of this user and of the administrator are loaded.
    """
    with open(path, "rb") as file:
        if hasattr(os, "geteuid") and os.fstat(file.fileno()).st_uid not in (0, os.geteuid()):
            raise ValueError(f"{path} belongs to another user")
        data = file.read()
    digest, content = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError(f"{path} is damaged")
    return pickle.loads(content)


def write_entry(path: Path, result) -> None:
    """Write a cache file atomically."""
    content = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(hashlib.sha256(content).digest() + content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@functools.cache
def cache_folder() -> Path | None:
    """The folder for code compiled from the current sources; None if the user has no home folder."""
    sources = Path(__file__).parent
    digest = hashlib.sha256()
    settings = numba.config.OPT, numba.config.BOUNDSCHECK
    digest.update(repr((numba.__version__, sys.implementation.cache_tag, settings)).encode())
    for source in sorted(sources.glob("*.py")):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    places = numba.config.CACHE_DIR, os.environ.get("XDG_CACHE_HOME"), os.environ.get("LOCALAPPDATA")  # last: Windows
    try:
        place = next(filter(None, places), None) or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(place) / "asbc" / "kernels" / digest.hexdigest()[:16]


@functools.cache
def _print_notice() -> None:
    """Print once, on a terminal or in a notebook, that kernels are compiled."""
    with suppress(Exception):
        if sys.stderr.isatty() or "ipykernel" in sys.modules:
            sys.stderr.write(MESSAGE)
            sys.stderr.flush()
