"""Vectors and labels from the user's files: .npy, and formats that name their arrays or columns.

Which array of an .npz, .csv, .parquet or .h5ad file holds the vectors and which the labels follows from their names,
shapes and types.
"""

from __future__ import annotations

import fnmatch
import glob
import logging
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.store import Embeddings, check_arrays, first_line, read_entry, read_entry_manifest
from asbc.extras import needed
from asbc.learn.labels import decode_partial, encode_partial, is_unlabeled
from asbc.storage import DamagedFileError, open_array, open_regular

log = logging.getLogger("asbc")

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".h5ad")
# Usual names, in order of preference.
VECTOR_NAMES = ("embeddings", "embedding", "vectors", "features", "x_pca", "x")
LABEL_NAMES = ("labels", "label", "y", "targets", "target", "classes", "class")
ROW_NAMES = ("", "id", "index", "unnamed: 0")  # columns that number the rows
LAYOUTS = ("x_umap", "x_tsne", "x_draw_graph_fa")  # two-dimensional layouts of an .h5ad file

OBJECTS = (  # why pickled arrays are refused, and how to save them instead
    "of Python objects, which are not read since they can run code; save labels as numbers with -1, or as strings with "
    '"", where there is none: ["" if label is None or label != label else str(label) for label in labels]'
)


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
        vectors, labels = read_vectors(path, self.labels, vectors=self.vectors, label=self.label)
        facts = read_entry_manifest(path) if path.is_dir() else {"dataset": path.stem, "encoder": "files"}
        encoder = facts["encoder"] if self.encoder == "files" else self.encoder
        return Embeddings(vectors, labels, self.name or facts["dataset"], encoder)


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
    asbc.learn.labels.encode_partial : turns such labels into class codes.

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
    else:
        contents = open_contents(path, "vectors", None if labels else label)
        name, found = contents.vectors(vectors)
        if not labels:
            label_name, found_labels = contents.labels(label, len(found), name)
            if len(contents.names) > 1:
                described = f"labels: {label_name}" if label_name else "no labels"
                log.info("%s: vectors: %s, %s; %s", path, name, found.shape, described)
    if labels:
        found_labels = read_labels(labels, len(found), label=label)
    elif found_labels is not None:
        found_labels = plain_labels(found_labels, str(path))
    check_arrays(found, found_labels, str(path))
    return found, found_labels


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
    try:
        codes, classes = encode_partial(array)
    except ValueError as error:
        raise ValueError(f"{origin}: {error}") from error
    return decode_partial(codes, classes.astype(np.int64) if classes.dtype.kind == "b" and missing.any() else classes)


def read_labels(path: str | PathLike, n: int, *, label: str | None = None) -> NDArray | None:
    """Return the labels of a file, for n vectors that come from elsewhere, as `read_vectors` returns them."""
    path = Path(path).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"labels={path}: no such file; label={path} names an array or column")
    contents = open_contents(path, "labels", label)
    only = next(iter(contents.names)) if len(contents.names) == 1 else None
    _, found = contents.labels(label or only, n)
    if found is None:
        raise contents.unclear(f"labels of {n} rows", "label", contents.columns)
    labels = plain_labels(found, str(path))
    if labels is not None and labels.shape != (n,):
        hint = "; the first line of a .csv file names its columns" if path.suffix == ".csv" else ""
        raise ValueError(f"{path}: labels must have one entry per row, got {labels.shape} for {n} rows{hint}")
    return labels


# Formats


@dataclass(frozen=True)
class Contents:
    """Named arrays of a file, each read when it is requested."""

    origin: str  # the file, for errors
    names: dict[str, str]  # every name, with a description of what it holds
    tables: list[str]  # names and patterns that can be vectors by their shape and type
    columns: list[str]  # names that can be labels
    get: Callable[[str], NDArray]  # returns the array of a name
    numbers: Sequence[str] = ()  # columns that a pattern for vectors selects from

    def vectors(self, name: str | None) -> tuple[str, NDArray]:
        """Return name and contents of the vectors: those called `name`, or the only candidate."""
        name = name or _usual_name(self.names, VECTOR_NAMES)
        name = name or (self.tables[0] if len(self.tables) == 1 else None)
        if name is not None:
            return name, self.read(name)
        raise self.unclear("floating-point vectors, one row per item", "vectors", self.tables)

    def labels(self, name: str | None, n: int, vectors: str = "") -> tuple[str | None, NDArray | None]:
        """Return name and contents of the labels of n rows; None if there are none, or several candidates.

        `vectors` is the name or pattern of the vectors, whose columns are not labels.
        """
        if name is not None and name not in self.names and Path(name).is_file():
            how = f"labels={name} (asbc: embedding.labels={name}; asbc-explore: --labels {name})"
            raise ValueError(f"{self.origin}: there is no {name!r} in it. A file of labels is given as {how}")
        name = name or _usual_name(self.columns, LABEL_NAMES)
        if name is not None:
            return name, self.read(name)
        others = [each for each in self.columns if each not in self.numbers or not fnmatch.fnmatchcase(each, vectors)]
        found = {each: array for each in others if _is_classes(array := self.get(each), n)}
        if len(found) > 1:
            how = how_to_name("label", list(found))
            log.warning("%s: no labels used, %s could be the labels. %s", self.origin, ", ".join(found), how)
        return found.popitem() if len(found) == 1 else (None, None)

    def unclear(self, what: str, option: str, names: Sequence[str]) -> ValueError:
        """Return the error that lists what the file holds, and how to name `what` with an option."""
        how = how_to_name(option, [*names, "'*'" if self.numbers else "NAME"])
        return ValueError(f"{self.origin}: cannot tell which part holds the {what}; {self.listing()}. {how}")

    def listing(self) -> str:
        """Return the first 12 names with descriptions for an error, the rare kinds first."""
        kinds = Counter(self.names.values())
        shown = [f"{name} {what}" for name, what in sorted(self.names.items(), key=lambda item: kinds[item[1]])]
        more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
        return f"it has {', '.join(shown[:12])}{more}" if shown else "it is empty"

    def read(self, name: str) -> NDArray:
        """Return the array of a name, or the columns that a pattern selects."""
        if name in self.names:
            return self.get(name)
        chosen = [self.get(each) for each in self.numbers if fnmatch.fnmatchcase(each, name)]
        if not chosen:
            raise ValueError(f"{self.origin}: there is no {name!r}; {self.listing()}")
        return _as_floats(np.column_stack(chosen))


def how_to_name(option: str, names: Sequence[str]) -> str:
    """Return how to name an array or column, with the first of `names` as the example."""
    return f"Name it: {option}={names[0]} (asbc: embedding.{option}={names[0]}; asbc-explore: --{option} {names[0]})"


def open_contents(path: Path, what: str, label: str | None) -> Contents:
    """Return what a file of vectors or labels (`what`) holds; the column `label` is never part of the vectors."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    if path.is_dir():
        raise ValueError(f"{path}: a folder that asbc-embed did not write; expected a file of {what}")
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: a file of {what} ends in {', '.join(FORMATS)}")
    open_regular(path).close()
    if path.suffix in (".csv", ".parquet"):
        return table_contents(path, label)
    return {".npy": npy_contents, ".npz": npz_contents, ".h5ad": h5ad_contents}[path.suffix](path)


def npy_contents(path: Path) -> Contents:
    """Return what a ``.npy`` file holds: one array, which is memory-mapped; pickled ones are refused."""
    try:
        array = open_array(path)
    except DamagedFileError as error:
        if "Python objects" in str(error):
            raise ValueError(f"{path}: an array {OBJECTS}") from error
        raise
    return Contents(str(path), {"array": f"{array.shape} {array.dtype}"}, ["array"], ["array"], lambda name: array)


def npz_contents(path: Path) -> Contents:
    """Return what an ``.npz`` file holds; pickled arrays are refused."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        found = {entry.filename.removesuffix(".npy"): _declared(archive, entry) for entry in entries}
    for name, (shape, dtype) in found.items():
        if dtype.hasobject and len(shape) == 1:
            log.warning("%s: %s is skipped, an array %s", path, name, OBJECTS)

    def get(name: str) -> NDArray:
        shape, dtype = found[name]
        if dtype.hasobject:
            raise ValueError(f"{path}: {name} is an array {OBJECTS}")
        check_memory(math.prod(shape) * dtype.itemsize, path)
        with _readable(path), np.load(path) as arrays:
            return arrays[f"{name}.npy"]  # np.load does not unpickle unless asked to

    return Contents(
        str(path),
        {name: f"{shape} {dtype}" for name, (shape, dtype) in found.items()},
        [name for name, (shape, dtype) in found.items() if len(shape) == 2 and dtype.kind == "f"],
        [name for name, (shape, dtype) in found.items() if len(shape) == 1 and dtype.kind in "biufUS"],
        get,
    )


def _declared(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype in the header of an array, without reading the array."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize > entry.file_size and not dtype.hasobject:
        raise ValueError(f"{entry.filename} declares shape {shape}, but has {entry.file_size} bytes")
    return shape, dtype


def table_contents(path: Path, label: str | None) -> Contents:
    """Return what a ``.csv`` or ``.parquet`` file holds: columns of numbers, of lists of numbers, and of labels."""
    with needed(f"a {path.suffix} file", "experiments"):
        import pandas as pd

        if path.suffix == ".parquet":
            import pyarrow  # noqa: F401 - pandas reads the file with it
    headless = False
    with _readable(path):
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
        else:
            first = pd.to_numeric(pd.read_csv(path, header=None, nrows=1).iloc[0], errors="coerce")
            headless = _is_data(first.to_numpy())
            frame = pd.read_csv(path, header=None if headless else "infer")
    if headless:
        log.info("%s: the first line holds numbers, so the columns are called 0, 1, ...", path)
    frame.columns = frame.columns.astype(str)
    if not frame.columns.is_unique:
        raise ValueError(f"{path}: two columns are called {frame.columns[frame.columns.duplicated()][0]!r}")
    names = frame.columns.tolist()
    lists = [name for name in names if any(isinstance(item, list | np.ndarray) for item in frame[name].head())]
    not_vectors = (*ROW_NAMES, (label or _usual_name(names, LABEL_NAMES) or "").casefold())
    numbers = [str(name) for name in frame.select_dtypes("number") if str(name).casefold() not in not_vectors]

    def get(name: str) -> NDArray:
        try:
            return np.stack(list(frame[name])) if name in lists else frame[name].to_numpy()
        except ValueError as error:
            raise ValueError(f"{path}: lists in {name} must have one length ({error})") from error

    # Columns f0, f1, ... belong together. Without such names all numbers do, but integers among floats may be labels.
    stems = Counter(re.sub(r"[\d.]+$", "", name) for name in numbers if name[-1:].isdigit() and not headless)
    groups = [f"{glob.escape(stem)}[0-9]*" for stem, count in stems.items() if count > 1]
    one_type = len({frame[name].dtype.kind == "f" for name in numbers}) == 1
    return Contents(
        str(path),
        {name: "lists" if name in lists else str(frame[name].dtype) for name in names},
        lists or groups or (["*"] if one_type else []),
        [name for name in names if name not in lists],
        get,
        numbers,
    )


def _is_data(first: NDArray) -> bool:
    """Whether the numbers of a CSV file's first line (NaN for text) are data. Names may be rising numbers, as years."""
    numbers = first[~np.isnan(first)]
    names = (np.diff(numbers) > 0).all() and (len(numbers) > 5 or (numbers == np.floor(numbers)).all())
    return 2 * len(numbers) > len(first) and not names


def h5ad_contents(path: Path) -> Contents:
    """Return what an ``.h5ad`` file holds: ``X``, the arrays of ``obsm``, and the columns of ``obs``."""
    with needed("a .h5ad file", "h5ad"):
        import anndata
    with _readable(path):
        data = anndata.read_h5ad(path, backed="r")
        tables = {str(key): data.obsm[key] for key in data.obsm} | ({} if data.X is None else {"X": data.X})
        shapes = {key: tuple(table.shape) for key, table in tables.items()}

    def get(name: str) -> NDArray:
        if name not in tables:
            return data.obs[name].to_numpy()
        check_memory(math.prod(shapes[name]) * 8, path)
        with _readable(path):
            table = tables[name][:] if name == "X" else tables[name]
            return _as_floats(table.toarray() if hasattr(table, "toarray") else np.asarray(table))

    return Contents(
        str(path),
        {key: str(shape) for key, shape in shapes.items()} | {str(key): "obs" for key in data.obs},
        [key for key in tables if key.casefold() not in LAYOUTS],
        [str(name) for name in data.obs],
        get,
    )


def check_memory(size: int, path: Path) -> None:
    """Raise a ValueError if `size` bytes do not fit into free memory, where the system reports it."""
    free = _free_memory()
    if free is not None and size > free:
        needs, has = f"{size / 1e9:.1f} GB", f"{free / 1e9:.1f} GB"
        raise ValueError(
            f"{path}: needs {needs} of memory, {has} are free; save the vectors as .npy, which is memory-mapped"
        )


def _free_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
        return int(found[1]) * 1024 if found else None
    except OSError:
        return None


def _usual_name(names: Iterable[str], usual: Sequence[str]) -> str | None:
    """Return the name that comes first among the usual ones."""
    found = {name.casefold(): name for name in names}
    return next((found[name] for name in usual if name in found), None)


def _is_classes(array: NDArray, n: int) -> bool:
    """Whether n values repeat; those that do not are ids or texts."""
    return array.shape == (n,) and array.dtype.kind != "f" and len(set(array.tolist())) < n


def _as_floats(array: NDArray) -> NDArray:
    return array if array.dtype.kind == "f" else array.astype(np.float64)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one line."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{path}: not a readable {path.suffix} file ({first_line(error)})") from error
