"""Atomic file writes, checksums and folder locks.

Every room writes and reads its files through this module. A file appears under its name only once it is complete and on
disk. JSON files carry a checksum of their contents; other files have theirs in a manifest.
"""

from __future__ import annotations

import errno
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

    Parameters
    ----------
    path : Path
        Final name of the file. Missing parent folders are created.
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
    """Remove the temporary files that killed processes have left in a folder.

    Parameters
    ----------
    folder : Path
        The folder, without those below it.
    older_than : float, default=0
        Age in seconds. Give it where other processes may be writing.
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
    """Return ``folder / name`` for a name that a manifest lists, after a check that it stays inside the folder.

    Raises
    ------
    DamagedFileError
        If the name is absolute, contains ``..`` or leads through a symbolic link out of the folder.
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
    """Return the JSON object that :func:`write_json` wrote.

    Raises
    ------
    DamagedFileError
        If the file is not a JSON object, or its checksum is missing or differs.
    """
    try:
        with open_regular(path) as file:
            content = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path}: damaged ({error}).") from error
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path}: damaged (not a JSON object).")
    expected = content.pop(CHECKSUM_KEY, None)
    if expected != json_checksum(content):
        raise DamagedFileError(f"{path}: damaged (its checksum {'is missing' if expected is None else 'differs'}).")
    return content


def json_checksum(content: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a JSON object. The order of its keys does not matter."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


# Tables


def write_table(path: Path, frame: pd.DataFrame, metadata: Mapping[str, str] | None = None) -> int:
    """Write a table as Parquet with page checksums, and return the file's checksum for a manifest.

    Parameters
    ----------
    path : Path
    frame : DataFrame
    metadata : mapping of str to str, optional
        Stored in the schema; :func:`read_table` returns it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    own = {f"asbc_{key}".encode(): value.encode() for key, value in (metadata or {}).items()}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({**(table.schema.metadata or {}), **own}),
        sink,
        compression="zstd",
        write_page_checksum=True,
    )
    return write_atomic(path, sink.getvalue().to_pybytes())


def read_table(path: Path, expected: int | None = None) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the table and the metadata of a Parquet file.

    Parameters
    ----------
    path : Path
    expected : int, optional
        The file's checksum in its manifest.
    """
    import pandas  # noqa: F401 - pyarrow needs it below
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_regular(path) as file:
        data = file.read()
    if expected is not None and zlib.crc32(data) != expected:
        raise DamagedFileError(f"{path}: damaged (its checksum differs).")
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        pairs = (table.schema.metadata or {}).items()
        metadata = {key.decode().removeprefix("asbc_"): value.decode() for key, value in pairs if key[:5] == b"asbc_"}
        return table.to_pandas(), metadata
    except Exception as error:  # a damaged file makes pyarrow raise almost anything
        raise DamagedFileError(f"{path}: not a readable Parquet file ({error}).") from error


# Arrays


class ChecksumWriter:
    """Wrap a binary file that is open for writing, and compute the checksum of what is written.

    Attributes
    ----------
    checksum : int
        CRC-32 of everything written so far.
    """

    def __init__(self, file: Any):
        self._file = file
        self.checksum = 0

    def write(self, content: Any) -> None:
        self.checksum = zlib.crc32(content, self.checksum)
        self._file.write(content)


def write_array(path: Path, array: NDArray) -> int:
    """Write an array as ``.npy``, and return the file's checksum for a manifest."""
    return write_array_blocks(path, array.dtype, array.shape, iter([array]))


def write_array_blocks(path: Path, dtype: Any, shape: tuple[int, ...], blocks: Iterator[NDArray]) -> int:
    """Write consecutive blocks of rows as one ``.npy`` file, holding one block at a time; return the checksum."""
    rows = 0
    with atomic_file(path) as file:
        writer = ChecksumWriter(file)
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(writer, header)
        for block in blocks:
            rows += len(block)
            writer.write(np.ascontiguousarray(block, dtype).data)
        if rows != shape[0]:
            raise ValueError(f"{path}: got {rows} rows, expected {shape[0]}.")
    return writer.checksum


def open_array(path: Path, dtype: Any = None, shape: tuple[int, ...] | None = None) -> NDArray:
    """Open an ``.npy`` file as a read-only memory map, after checking its header and size.

    Parameters
    ----------
    path : Path
    dtype, shape : optional
        What the file must hold; None accepts anything.
    """
    try:
        with open_regular(path) as file:
            version = np.lib.format.read_magic(file)
            readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in readers:
                raise ValueError(f"version {version} of the format")
            found_shape, fortran, found_dtype = readers[version](file)
            start = file.tell()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file.") from None
    except (OSError, DamagedFileError):
        raise
    except Exception as error:  # NumPy evaluates the header as Python, so a damaged one can fail in many ways
        raise DamagedFileError(explain_format(path) or f"{path}: not a readable .npy file ({error}).") from error
    if found_dtype.hasobject:
        raise DamagedFileError(f"{path}: holds Python objects; expected plain numbers.")
    size = path.stat().st_size
    needed = start + int(np.prod(found_shape, dtype=object)) * found_dtype.itemsize
    if size != needed:
        raise DamagedFileError(f"{path}: has {size:,} bytes, expected {needed:,}.")
    if dtype is not None and np.dtype(dtype) != found_dtype:
        raise DamagedFileError(f"{path}: has dtype {found_dtype}, expected {np.dtype(dtype)}.")
    if shape is not None and tuple(shape) != found_shape:
        raise DamagedFileError(f"{path}: has shape {found_shape}, expected {tuple(shape)}.")
    if 0 in found_shape:
        return np.empty(found_shape, found_dtype)
    mapped = np.memmap(path, found_dtype, "r", start, found_shape, "F" if fortran else "C")
    return mapped.view(np.ndarray)  # small slices of np.memmap are slow


# The first bytes of a file of each format.
_SIGNATURES = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet", b"\x89HDF\r\n": ".h5ad"}


def guess_suffix(path: Path) -> str | None:
    """Return the suffix that fits a file's first bytes, and None if they are not recognised.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.storage import guess_suffix
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vectors.npy"
    ...     size = path.write_text("0.5,1.5")
    ...     print(guess_suffix(path))
    .csv
    """
    with open_regular(path) as file:
        head = file.read(4096)
    for start, suffix in _SIGNATURES.items():
        if head.startswith(start):
            return suffix
    try:
        head[: 4096 - 3].decode()  # the last character may be cut
    except UnicodeDecodeError:
        return None
    return ".csv" if head and b"\0" not in head else None


def explain_format(path: Path) -> str | None:
    """Return an error message for a file whose contents do not fit its suffix, and None if they do."""
    found = guess_suffix(path)
    if found is None or found == path.suffix.lower():
        return None
    kind = "plain text, such as CSV" if found == ".csv" else f"a {found} file"
    return f"{path}: not a {path.suffix} file but {kind}; rename it to {path.stem}{found}"


# Locks


@contextmanager
def folder_lock(folder: Path, name: str = ".lock", *, timeout: float = 0.0) -> Iterator[None]:
    """Hold a folder's lock during the block. The system releases it when the process ends, even if it is killed.

    Parameters
    ----------
    folder : Path
        Created if it does not exist.
    name : str, default=".lock"
        Name of the lock file in the folder.
    timeout : float, default=0
        Seconds to wait for another process; -1 waits for ever.

    Raises
    ------
    LockedError
        If another process holds the lock. The message names that process.
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
