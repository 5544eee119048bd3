"""Atomic file writes, checksums and folder locks.

Every room writes and reads its files through this module. A file appears under its name only once it is complete and on
disk. JSON files carry a checksum of their contents; other files have theirs in a manifest.
"""

from __future__ import annotations

import errno
import io
import json
import os
import platform
import re
import stat
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
CHUNK_BYTES = 2**24
CHECKSUM_KEY = "crc32"

_TEMPORARY_NAME = re.compile(r"\..+\.[0-9a-f]{32}")


class DamagedFileError(ValueError):
    """A file does not hold what was written, or is not of the expected kind. The message names the file."""


class LockedError(RuntimeError):
    """Another process holds the lock of a folder. The message names the folder and the process."""


# Atomic writes


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path`, and rename it to `path` once the block has succeeded.

    Missing parent folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        yield temporary
        with temporary.open("r+b") as file:  # Windows syncs only files that are open for writing
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_file(path: Path) -> Iterator[Any]:
    """Yield a binary file, open for writing, that appears as `path` once the block has succeeded."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file
        file.flush()


def write_atomic(path: Path, content: bytes | str) -> int:
    """Write bytes or UTF-8 text to a file, and return their checksum."""
    data = content.encode() if isinstance(content, str) else content
    with atomic_file(path) as file:
        file.write(data)
    return zlib.crc32(data)


def remove_temporary_files(folder: Path, *, older_than: float = 0.0) -> None:
    """Remove the temporary files that killed processes have left in a folder, but not in the folders below it.

    Where other processes may be writing, give an age in seconds as `older_than`.
    """
    for path in folder.glob(".*"):
        with suppress(FileNotFoundError):
            if _TEMPORARY_NAME.fullmatch(path.name) and time.time() - path.stat().st_mtime >= older_than:
                path.unlink()


def explain_write_error(error: OSError) -> str | None:
    """Return what to do about a full disk or missing write permission, and None for other errors."""
    if error.errno in DISK_FULL:
        return f"the disk is full, or a file size limit is reached ({error.strerror}); free some space and start again"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"the folder is not writable ({error.strerror}); choose another folder, or change its permissions"
    return None


# Checksums


def file_checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    checksum = 0
    chunk = memoryview(bytearray(CHUNK_BYTES))
    with open_regular(path) as file:
        while length := file.readinto(chunk):
            checksum = zlib.crc32(chunk[:length], checksum)
    return checksum


def check_file(path: Path, expected: int) -> None:
    """Raise a DamagedFileError if a file's checksum is not `expected`."""
    if file_checksum(path) != expected:
        raise DamagedFileError(f"{path}: damaged (its checksum differs).")


def file_inside(folder: Path, name: str) -> Path:
    """Return ``folder / name`` for a name that a manifest lists.

    A name that is absolute, contains ``..`` or leads through a symbolic link out of the folder is refused.
    """
    relative = PurePosixPath(name)
    path = folder / relative
    if relative.is_absolute() or ".." in relative.parts or "\\" in name or ":" in name:
        raise DamagedFileError(f"{folder}: the file name {name!r} points outside the folder.")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DamagedFileError(f"{path}: a link that leads outside the folder.")
    return path


def open_regular(path: Path) -> Any:
    """Open a regular file for reading, unbuffered. Anything else, such as a pipe or a device, is refused."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would block
        raise DamagedFileError(f"{path}: not a regular file.")
    return open(path, "rb", buffering=0)


# JSON


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object together with its checksum."""
    plain = json.loads(json.dumps(content))  # as it will be read: all keys are strings
    plain.pop(CHECKSUM_KEY, None)
    write_atomic(path, json.dumps({**plain, CHECKSUM_KEY: json_checksum(plain)}, indent=2) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object that :func:`write_json` wrote, after a comparison with its checksum."""
    with open_regular(path) as file:
        data = file.read()
    try:
        content = json.loads(data)
        expected = content.pop(CHECKSUM_KEY)
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:  # no JSON object with a checksum
        raise DamagedFileError(f"{path}: damaged ({type(error).__name__}: {error}).") from error
    if expected != json_checksum(content):
        raise DamagedFileError(f"{path}: damaged (its checksum differs).")
    return content


def json_checksum(content: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a JSON object. The order of its keys does not matter."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


# Tables


def write_table(path: Path, frame: pd.DataFrame) -> int:
    """Write a table as Parquet with page checksums, and return the file's checksum for a manifest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(frame, preserve_index=False)
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return write_atomic(path, sink.getvalue().to_pybytes())


def read_table(path: Path, expected: int | None = None) -> pd.DataFrame:
    """Return the table of a Parquet file, compared with the checksum that its manifest lists, if that is given."""
    import pandas  # noqa: F401 - pyarrow needs it below
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_regular(path) as file:
        data = file.read()
    if expected is not None and zlib.crc32(data) != expected:
        raise DamagedFileError(f"{path}: damaged (its checksum differs).")
    try:
        return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read().to_pandas()
    except Exception as error:  # a damaged file makes pyarrow raise almost anything
        raise DamagedFileError(f"{path}: not a readable Parquet file ({error}).") from error


# Arrays


def write_array_blocks(path: Path, dtype: Any, shape: tuple[int, ...], blocks: Iterator[NDArray]) -> int:
    """Write consecutive blocks of rows as one ``.npy`` file, holding one block at a time; return the checksum."""
    header = io.BytesIO()
    kind = np.lib.format.dtype_to_descr(np.dtype(dtype))
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    rows, checksum = 0, zlib.crc32(header.getvalue())
    with atomic_file(path) as file:
        file.write(header.getvalue())
        for block in blocks:
            content = np.ascontiguousarray(block, dtype).data
            checksum = zlib.crc32(content, checksum)
            file.write(content)
            rows += len(block)
        if rows != shape[0]:
            raise ValueError(f"{path}: got {rows} rows, expected {shape[0]}.")
    return checksum


def open_array(path: Path, dtype: Any = None, shape: tuple[int, ...] | None = None) -> NDArray:
    """Open an ``.npy`` file as a read-only memory map. Where `dtype` or `shape` is given, it must have that."""
    try:
        with open_regular(path):
            mapped = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file.") from None
    except (OSError, DamagedFileError):
        raise
    except Exception as error:  # NumPy evaluates the header as Python, so a damaged one can fail in many ways
        raise DamagedFileError(
            f"{path}: not a readable .npy file, or an incomplete one ({error}); numpy.save writes such files."
        ) from error
    size, needed = path.stat().st_size, mapped.offset + mapped.nbytes
    if size != needed:
        raise DamagedFileError(f"{path}: has {size:,} bytes, expected {needed:,}.")
    if dtype is not None and np.dtype(dtype) != mapped.dtype:
        raise DamagedFileError(f"{path}: has dtype {mapped.dtype}, expected {np.dtype(dtype)}.")
    if shape is not None and tuple(shape) != mapped.shape:
        raise DamagedFileError(f"{path}: has shape {mapped.shape}, expected {tuple(shape)}.")
    return mapped.view(np.ndarray)  # small slices of np.memmap are slow


# Locks


@contextmanager
def folder_lock(folder: Path, name: str = ".lock", *, timeout: float = 0.0) -> Iterator[None]:
    """Hold a folder's lock during the block. The system releases it when the process ends, even if it is killed.

    If another process holds it for `timeout` seconds (-1 for ever), a LockedError names that process. The folder is
    created if it does not exist.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # Mode 666: the lock file is empty, and other users of a shared folder must be able to lock it, too.
    lock, owner = FileLock(folder / name, mode=0o666), folder / f"{name}.owner"
    try:
        lock.acquire(timeout=timeout)
    except Timeout:
        holder = "another process"
        with suppress(OSError):
            holder = owner.read_text() or holder
        raise LockedError(f"{folder}: in use by {holder}; wait for it, or stop it.") from None
    try:
        with suppress(OSError):  # the owner only improves the message above
            owner.write_text(f"process {os.getpid()} on {platform.node()}")
        yield
    finally:
        with suppress(OSError):
            owner.unlink()
        lock.release()
