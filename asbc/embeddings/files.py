"""Vectors and labels from the user's files, in any of several formats."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.formats import OBJECTS, Contents, h5ad_contents, how_to_name, npz_contents, table_contents
from asbc.embeddings.store import Embeddings, check_arrays, read_entry
from asbc.learn.labels import is_unlabeled
from asbc.storage import DamagedFileError, explain_format, open_array

log = logging.getLogger("asbc")

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".h5ad")


@dataclass
class Files:
    """Vectors and labels from your own files.

    Parameters
    ----------
    path : str, default=None
        A file of vectors (``.npy``, ``.npz``, ``.csv``, ``.parquet`` or ``.h5ad``), or the folder of an entry that
        ``asbc-embed`` wrote. `load` needs it. See `asbc.embeddings.files.read_vectors` for this and the next three.
    labels : str, default=None
        Another file with the labels; replaces labels in `path`.
    vectors : str, default=None
        Name of the vectors in `path`, if there are several candidates.
    label : str, default=None
        Name of the array or column with the labels, if there are several candidates.
    name : str, default=None
        Name of the data set; None takes the file's name, or the name in the entry.
    encoder : str, default="files"
        What computed the vectors. An entry keeps its own name unless another one is given.

    See Also
    --------
    EncoderSource : embeds images.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from asbc.embeddings import Files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "corners.npz")
    ...     np.savez(path, embeddings=np.eye(3), labels=[0, 0, 1])
    ...     found = Files(path).load()
    >>> found.name, found.vectors.shape, found.labels.tolist()
    ('corners', (3, 3), [0, 0, 1])
    """

    path: str | None = None
    labels: str | None = None
    vectors: str | None = None
    label: str | None = None
    name: str | None = None
    encoder: str = "files"

    def load(self) -> Embeddings:
        """Read the files."""
        if not self.path:
            raise ValueError("path: no file of vectors given; for example embedding.path=vectors.npy")
        path = Path(self.path).expanduser()
        stored = read_entry(path) if (path / "manifest.json").is_file() else None
        encoder = stored.encoder if stored and self.encoder == "files" else self.encoder
        name = self.name or (stored.name if stored else path.stem)
        if stored and not self.labels:
            return replace(stored, name=name, encoder=encoder)
        vectors, labels = read_vectors(path, self.labels, vectors=self.vectors, label=self.label)
        return Embeddings(vectors, labels, name, encoder)


def read_vectors(
    path: str | PathLike,
    labels: str | PathLike | None = None,
    *,
    vectors: str | None = None,
    label: str | None = None,
) -> tuple[NDArray, NDArray | None]:
    """Return the vectors of a file, and their labels from the same file or another one.

    Arrays and columns are recognised by their names (``embeddings``, ``X``, ...; ``labels``, ``y``, ...), then by shape
    and type. The choice is logged. If there are several candidates, the error lists them and how to name one.

    Parameters
    ----------
    path : str or path
        ``.npy`` of shape (n, d), which is memory-mapped; ``.npz``; ``.csv`` or ``.parquet``, a row per item, with a
        number per column or with lists in one column; ``.h5ad``; or the folder of an entry that ``asbc-embed`` wrote.
    labels : str or path, default=None
        Another file with the labels, in the order of the vectors. None takes those in `path`, if it has any.
    vectors : str, default=None
        Name of the vectors in `path`: an array of an ``.npz`` file; a column with lists, or a pattern such as ``f*``
        for the columns of a table; a key of ``obsm``, or ``X``, of an ``.h5ad`` file.
    label : str, default=None
        Name of the labels: an array or column of `labels`, or of `path` if `labels` is None.

    Returns
    -------
    vectors : (n, d) array of floats
        Finite, n at least 1.
    labels : (n,) array of integers, booleans or strings, or None
        Class of every row; unlabelled rows (-1, NaN, None or "" in the file) are -1, or "" among strings. None if there
        are no labels.

    See Also
    --------
    asbc.embeddings.Files : the same for experiments, ``embedding=files``.
    asbc.learn.labels.encode_partial : turns such labels into class numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.embeddings.files import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "birds.csv"
    ...     size = file.write_text("name,f0,f1\\nowl,0.5,1.5\\nowl,0.25,1.0\\n,2.0,3.0\\n")
    ...     vectors, labels = read_vectors(file)
    >>> vectors.shape, labels.tolist()
    ((3, 2), ['owl', 'owl', ''])
    """
    path = Path(path).expanduser()
    found_labels: NDArray | None = None
    if (path / "manifest.json").is_file():
        entry = read_entry(path)
        found, found_labels = entry.vectors, entry.labels
    elif contents := _open(path, None if labels else label):
        name, found = contents.vectors(vectors)
        if not labels:
            label_name, found_labels = contents.labels(label, len(found), name)
            if not vectors or (label_name and not label):
                described = f"labels: {label_name}" if label_name else "no labels"
                log.info("%s: vectors: %s, %s; %s", path, name, found.shape, described)
    else:
        found = _unnamed(path, vectors or (None if labels else label))
    if labels:
        found_labels = _read_labels(Path(labels).expanduser(), label, len(found))
    if found_labels is not None:
        found_labels = plain_labels(found_labels, str(labels or path))
    check_arrays(found, found_labels, str(path))
    return found, found_labels


def read_labels(path: str | PathLike, n: int, *, label: str | None = None) -> NDArray | None:
    """Return the labels of a file, for n vectors that come from elsewhere, as `read_vectors` returns them."""
    labels = plain_labels(_read_labels(Path(path).expanduser(), label, n), str(path))
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"{path}: labels must have one entry per row, got {labels.shape} for {n} nodes")
    return labels


def plain_labels(labels: Any, origin: str) -> NDArray | None:
    """Convert labels of any type to integers with -1, or strings with "", for the unlabelled; None if all are."""
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array):
        return array  # check_arrays refuses it
    missing = is_unlabeled(array)
    if missing.all():
        log.warning("%s: all %d labels are missing (-1, NaN, None or empty), so none are used", origin, len(array))
        return None
    if array.dtype.kind in "biuUS":
        return array
    types = {type(value).__name__ for value in array[~missing].tolist()}
    known = np.array(array[~missing].tolist())
    if known.dtype.kind == "f" and np.array_equal(known, np.trunc(known)):
        known = known.astype(np.int64)
    if known.dtype.kind not in "biuUS" or ("str" in types and len(types) > 1):
        raise ValueError(f"{origin}: labels must be integers or strings, got {' and '.join(sorted(types))}")
    if known.dtype.kind in "bu" and missing.any():
        known = known.astype(np.int64)
    plain = np.zeros(len(array), known.dtype)  # empty strings if they are strings
    plain[~missing] = known
    if known.dtype.kind == "i":
        plain[missing] = -1
    return plain


def read_array(path: Path) -> NDArray:
    """Memory-map a ``.npy`` file; pickled arrays are refused."""
    try:
        return open_array(path)
    except DamagedFileError as error:
        if "Python objects" in str(error):
            raise ValueError(f"{path}: an array {OBJECTS}") from error
        raise


def _unnamed(path: Path, name: str | None) -> NDArray:
    if name:
        raise ValueError(f"{path}: a .npy file has one array without a name, got {name!r} as its name")
    return read_array(path)


def _read_labels(path: Path, label: str | None, n: int) -> NDArray:
    if not path.exists() and path.suffix not in FORMATS:
        raise FileNotFoundError(
            f"labels={path}: no such file; label={path} names an array or column of the file of vectors"
        )
    contents = _open(path, label, "labels")
    if contents is None:
        return np.asarray(_unnamed(path, label))
    only = next(iter(contents.names)) if len(contents.names) == 1 else None
    _, found = contents.labels(label or only, n)
    if found is None:
        raise ValueError(
            f"{path}: no array or column is clearly the labels of {n} rows; {contents.listing()}. "
            + how_to_name("label", [*contents.columns, "NAME"])
        )
    if path.suffix == ".csv" and len(found) == n - 1:
        raise ValueError(f"{path}: {n - 1} labels for {n} rows; the first line of a .csv file names its columns")
    return found


def _open(path: Path, label: str | None, what: str = "vectors") -> Contents | None:
    """Return what a file holds, or None for a ``.npy`` file, which has no names."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: a folder that asbc-embed did not write; expected a file of vectors")
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: a file of {what} ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if message := explain_format(path):
        raise ValueError(message)
    if path.suffix == ".npz":
        return npz_contents(path, str(path))
    if path.suffix in (".csv", ".parquet"):
        return table_contents(path, label)
    return h5ad_contents(path) if path.suffix == ".h5ad" else None
