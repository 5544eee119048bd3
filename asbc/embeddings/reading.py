"""Vectors and labels of a user's own file, whatever its format and whatever its arrays or columns are called."""

from __future__ import annotations

import logging
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.arrays import check_arrays, read_array
from asbc.embeddings.contents import Contents, h5ad_contents, how_to_name, npz_contents, table_contents
from asbc.embeddings.store import read_entry
from asbc.files import misnamed
from asbc.learn.labels import is_unlabeled

log = logging.getLogger("asbc")

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".h5ad")


def read_vectors(
    path: str | PathLike,
    labels: str | PathLike | None = None,
    *,
    vectors: str | None = None,
    label: str | None = None,
) -> tuple[NDArray, NDArray | None]:
    """Vectors of a file, and their labels from the same file or another.

    Which array or column is meant is told by its name (``embeddings``, ``X``, ...; ``labels``, ``y``, ...), else by its
    shape and kind. Where that does not tell, the error lists what there is and how to name it. A guess is logged.

    Parameters
    ----------
    path : str or path
        ``.npy`` of shape (n, d), which is memory-mapped; ``.npz``; ``.csv`` or ``.parquet``, a row per item, with a
        number per column or with lists in one column; ``.h5ad``; or the folder of an entry that ``asbc-embed`` wrote.
    labels : str or path, default=None
        Another file with the labels, of any of these formats, in the order of the vectors. None takes those in `path`,
        if it has any.
    vectors : str, default=None
        Name of the vectors in `path`: an array of an ``.npz`` file; a column with lists, or a pattern such as ``f*``
        for the names of the columns, of a table; a key of ``obsm``, or ``X``, of an ``.h5ad`` file.
    label : str, default=None
        Name of the labels: an array or column of `labels`, or of `path` where that is not given.

    Returns
    -------
    vectors : (n, d) array or memmap of floats
        Finite, and at least one.
    labels : (n,) array of integers, booleans or strings, or None
        Class of every row; -1, or "" among strings, where it has none (in the file: -1, NaN, None or ""). None where
        there are no labels at all.

    See Also
    --------
    asbc.embeddings.Files : the same as ``embedding=files`` of an experiment.
    asbc.learn.labels.encode_partial : from such labels to class numbers.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.embeddings.reading import read_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "birds.csv"
    ...     size = file.write_text("name,f0,f1\\nowl,0.5,1.5\\nowl,0.25,1.0\\n,2.0,3.0\\n")
    ...     vectors, labels = read_vectors(file)
    >>> vectors.shape, labels.tolist()
    ((3, 2), ['owl', 'owl', ''])
    """
    path = Path(path).expanduser()
    if (path / "manifest.json").is_file():
        entry = read_entry(path)
        found, own = entry.vectors, entry.labels
    else:
        found, own = _read(path, vectors, None if labels else label, labeled=not labels)
    if labels:
        own = _read_labels(Path(labels).expanduser(), label, len(found))
    own = None if own is None else plain_labels(own, str(labels or path))
    check_arrays(found, own, str(path))
    return found, own


def read_labels(path: str | PathLike, n: int, *, label: str | None = None) -> NDArray | None:
    """Labels of a file, for vectors that come from elsewhere.

    Parameters
    ----------
    path : str or path
        Of any format that :func:`read_vectors` takes.
    n : int
        How many vectors there are.
    label : str or None, default=None
        Name of the array or column, where the file has several.

    Returns
    -------
    (n,) array of integers, booleans or strings, or None
        As :func:`read_vectors` gives them.
    """
    labels = plain_labels(_read_labels(Path(path).expanduser(), label, n), str(path))
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"{path}: labels must have one entry per row, got {labels.shape} for {n} nodes")
    return labels


def plain_labels(labels: Any, origin: str) -> NDArray | None:
    """Labels of any kind as integers, booleans or strings, with one mark for those that are missing.

    Parameters
    ----------
    labels : (n,) array
        As they were found.
    origin : str
        Where, for an error.

    Returns
    -------
    (n,) array, or None
        Integers with -1 or strings with "" for the unlabelled. None where all of them are unlabelled. An array that is
        so already comes back as it is.
    """
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array):
        return array  # refused beside the vectors
    missing = is_unlabeled(array)
    if missing.all():
        log.warning("%s: all %d labels are missing (-1, NaN, None or empty), so there are none", origin, len(array))
        return None
    if array.dtype.kind in "biuUS":
        return array
    kinds = {type(value).__name__ for value in array[~missing].tolist()}
    known = np.array(array[~missing].tolist())
    if known.dtype.kind == "f" and np.array_equal(known, np.trunc(known)):
        known = known.astype(np.int64)
    if known.dtype.kind not in "biuUS" or ("str" in kinds and len(kinds) > 1):
        raise ValueError(f"{origin}: labels must be integers or strings, got {' and '.join(sorted(kinds))}")
    if known.dtype.kind in "bu" and missing.any():
        known = known.astype(np.int64)
    whole = np.zeros(len(array), known.dtype)  # strings of length 0 where they are strings
    whole[~missing] = known
    if missing.any() and known.dtype.kind == "i":
        whole[missing] = -1
    return whole


def _read(path: Path, vectors: str | None, label: str | None, *, labeled: bool) -> tuple[NDArray, NDArray | None]:
    """Vectors of a file; and its labels, if they are wanted and there."""
    contents = _open(path, label)
    if contents is None:
        if vectors or label:
            raise ValueError(f"{path}: a .npy file has one array without a name, got {vectors or label!r} as its name")
        return read_array(path), None
    name, found = contents.vectors(vectors)
    if not labeled:
        return found, None
    own_name, own = contents.labels(label, len(found), name)
    if not vectors or (own_name and not label):
        said = f"labels: {own_name}" if own_name else "no labels"
        log.info("%s: vectors: %s, %s; %s", path, name, found.shape, said)
    return found, own


def _read_labels(path: Path, label: str | None, n: int) -> NDArray:
    """Labels of a file that may have nothing else."""
    if not path.exists() and path.suffix not in FORMATS:
        raise FileNotFoundError(
            f"labels={path}: no such file; an array or column of the file of vectors is named by label={path}"
        )
    contents = _open(path, label, "labels")
    if contents is None:
        if label:
            raise ValueError(f"{path}: a .npy file has one array without a name, got label={label}")
        return np.asarray(read_array(path))
    only = next(iter(contents.names)) if len(contents.names) == 1 else None
    _, found = contents.labels(label or only, n)
    if found is None:
        raise ValueError(
            f"{path}: which are the labels of {n} rows cannot be told; {contents.listed()}. "
            + how_to_name("label", [*contents.columns, "NAME"])
        )
    if path.suffix == ".csv" and len(found) == n - 1:
        raise ValueError(f"{path}: {n - 1} labels for {n} rows; the first line of a .csv file names its columns")
    return found


def _open(path: Path, label: str | None, what: str = "vectors") -> Contents | None:
    """What is in a file under which names; None for a ``.npy`` file, which has no names."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: a folder that asbc-embed did not write; a file of vectors is wanted")
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: a file of {what} ends in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    wrong = misnamed(path)
    if wrong:
        raise ValueError(wrong)
    if path.suffix == ".npz":
        return npz_contents(path, str(path))
    if path.suffix in (".csv", ".parquet"):
        return table_contents(path, label)
    return h5ad_contents(path) if path.suffix == ".h5ad" else None
