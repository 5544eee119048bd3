"""What embeddings are: vectors, perhaps labels, and a hash that tells them from any others."""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 24  # bytes looked at in one go, so that a memory map is never read into memory whole

# Why what was pickled is refused, and how to save it otherwise.
OBJECTS = (
    "of Python objects, which are not read since they can run code; save labels as numbers with -1, or as strings with "
    '"", where there is none: ["" if label is None or label != label else str(label) for label in labels]'
)


@dataclass(frozen=True)
class Embeddings:
    """Vectors of one data set from one encoder.

    Attributes
    ----------
    vectors : ndarray or memmap of shape (n, d)
        One row per item, as the encoder gave it (not normalised).
    labels : ndarray of shape (n,), or None
        Class of every row.
    name : str
        The data set.
    encoder : str
        What turned its items into vectors.
    fingerprint : str, default=""
        SHA-256 of the contents of ``vectors`` and ``labels``; computed where it is not given.

    See Also
    --------
    asbc.embeddings.Files : reads them from files.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.embeddings import Embeddings
    >>> one = Embeddings(np.eye(3), np.array([0, 0, 1]), name="corners", encoder="none")
    >>> len(one), one.fingerprint == Embeddings(np.eye(3), np.array([0, 0, 1]), "other", "names").fingerprint
    (3, True)
    """

    vectors: NDArray
    labels: NDArray | None
    name: str
    encoder: str
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint(self.vectors, self.labels))

    def __len__(self) -> int:
        return len(self.vectors)


def fingerprint(*arrays: NDArray | None) -> str:
    """SHA-256 of the dtype, shape and contents of arrays; memory order and place do not matter."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none;")
            continue
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        for block in _blocks(array):
            digest.update(np.ascontiguousarray(block).tobytes())
    return digest.hexdigest()


def check_arrays(vectors: NDArray, labels: NDArray | None, origin: str) -> None:
    """Refuse arrays that are not embeddings; ``origin`` says where they come from."""
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{origin}: embeddings must have shape (n, d), got {vectors.shape}")
    if vectors.dtype.kind != "f":
        raise ValueError(f"{origin}: embeddings must be floating point, got dtype {vectors.dtype}")
    first = 0
    for block in _blocks(vectors):
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if bad.size:
            raise ValueError(f"{origin}: embeddings must be finite, row {first + bad[0]} has NaN or infinity")
        first += len(block)
    if labels is None:
        return
    if labels.shape != (len(vectors),):
        raise ValueError(
            f"{origin}: labels must have one entry per row, got {labels.shape} for {len(vectors)} embeddings"
        )
    if labels.dtype.kind not in "biuUS":
        raise ValueError(f"{origin}: labels must be integers or strings, got dtype {labels.dtype}")


def read_array(path: Path) -> NDArray:
    """Memory-map a ``.npy`` file, and never unpickle what it holds."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file") from None
    except Exception as error:  # NumPy reads the header as Python code, which damaged can fail in many ways
        if "Python objects" in str(error) or "Object arrays" in str(error):
            raise ValueError(f"{path}: not a .npy file of plain numbers or strings but {OBJECTS}") from error
        raise ValueError(f"{path}: not a .npy file of plain numbers or strings ({error})") from error


def declared(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype, int]:
    """Shape, dtype and bytes that an array of an ``.npz`` file says it has, without reading it."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    size = math.prod(shape) * dtype.itemsize
    if size > entry.file_size and not dtype.hasobject:
        raise ValueError(f"{entry.filename} says that it has shape {shape}, but is {entry.file_size} bytes long")
    return shape, dtype, size


def fits_memory(needed: int, origin: str) -> None:
    """Refuse to unpack what does not fit into memory, where the system says how much there is."""
    free = _free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{origin}: unpacked, its arrays take {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free; "
            "save the vectors as .npy, which is read piece by piece"
        )


def _free_memory() -> int | None:
    """Bytes of memory that can be had, where the system says so."""
    try:
        with open("/proc/meminfo") as file:
            found = re.search(r"MemAvailable: +(\d+) kB", file.read())
        return int(found[1]) * 1024 if found else None
    except OSError:
        return None


def _blocks(array: NDArray):
    rows = max(1, _BLOCK // max(1, array.nbytes // max(1, len(array)))) if array.ndim else 1
    for start in range(0, len(array), rows):
        yield array[start : start + rows]
