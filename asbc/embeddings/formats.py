"""File formats that name their arrays or columns: .npz, .csv, .parquet and .h5ad.

Which array holds the vectors and which the labels follows from their names, shapes and types.
"""

from __future__ import annotations

import csv
import fnmatch
import glob
import itertools
import logging
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.store import first_line
from asbc.extras import needed

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# Usual names. The first is taken wherever it occurs, another one if it is the only one.
VECTOR_NAMES = ("embeddings", "embedding", "vectors", "features", "x", "x_pca")
LABEL_NAMES = ("labels", "label", "y", "targets", "target", "classes", "class")
ROW_NAMES = ("", "id", "index", "unnamed: 0")  # columns that number the rows
LAYOUTS = ("x_umap", "x_tsne", "x_draw_graph_fa")  # two-dimensional layouts of an .h5ad file
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)

OBJECTS = (  # why pickled arrays are refused, and how to save them instead
    "of Python objects, which are not read since they can run code; save labels as numbers with -1, or as strings with "
    '"", where there is none: ["" if label is None or label != label else str(label) for label in labels]'
)


@dataclass(frozen=True)
class Contents:
    """Named arrays of a file, each read when it is requested."""

    origin: str  # the file, for errors
    names: dict[str, str]  # every name, with a description of what it holds
    tables: list[str]  # names and patterns that can be vectors by their shape and type
    columns: list[str]  # names that can be labels
    get: Callable[[str], NDArray]  # returns the array of a name
    numbers: Sequence[str] = ()  # columns that a pattern for vectors selects from
    example: str = "NAME"  # shown in the error if there is no better proposal

    def vectors(self, name: str | None) -> tuple[str, NDArray]:
        """Return name and contents of the vectors: those called `name`, or the only candidate."""
        name = name or _usual_name(list(self.names), VECTOR_NAMES)
        name = name or (self.tables[0] if len(self.tables) == 1 else None)
        if name is not None:
            return name, self.read(name)
        if not self.tables and not self.numbers:
            raise ValueError(f"{self.origin}: holds no floating-point vectors with one row per item; {self.listing()}")
        raise ValueError(
            f"{self.origin}: several arrays can be the vectors; {self.listing()}. "
            + how_to_name("vectors", [*self.tables, self.example])
        )

    def labels(self, name: str | None, n: int, vectors: str = "") -> tuple[str | None, NDArray | None]:
        """Return name and contents of the labels of n rows; None if there are none, or several candidates.

        `vectors` is the name or pattern of the vectors, whose columns are not labels.
        """
        name = name or _usual_name(self.columns, LABEL_NAMES)
        if name is not None:
            return name, self.read(name)
        others = [n for n in self.columns if n not in self.numbers or not fnmatch.fnmatchcase(n, vectors)]
        found = {name: array for name in others if _is_classes(array := self.get(name), n)}
        if len(found) > 1:
            how = how_to_name("label", list(found))
            log.warning("%s: no labels used, %s could be the labels. %s", self.origin, ", ".join(found), how)
        return found.popitem() if len(found) == 1 else (None, None)

    def listing(self) -> str:
        """Return names and descriptions for an error; of more than 12, the rare kinds first."""
        kinds = Counter(self.names.values()) if len(self.names) > 12 else Counter()
        shown = [f"{name} {what}" for name, what in sorted(self.names.items(), key=lambda item: kinds[item[1]])]
        more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
        return f"it has {', '.join(shown[:12])}{more}" if shown else "it is empty"

    def read(self, name: str) -> NDArray:
        """Return the array of a name, or the columns that a pattern selects."""
        if name in self.names:
            return self.get(name)
        chosen = [self.get(number) for number in self.numbers if fnmatch.fnmatchcase(number, name)]
        if not chosen:
            raise ValueError(f"{self.origin}: there is no {name!r}; {self.listing()}")
        return _as_floats(np.column_stack(chosen))


def how_to_name(option: str, names: Sequence[str]) -> str:
    """Return how to name an array or column, with the first of `names` as the example."""
    return f"Name it: {option}={names[0]} (asbc: embedding.{option}={names[0]}; asbc-explore: --{option} {names[0]})"


def npz_contents(source: Path | IO[bytes], origin: str) -> Contents:
    """Return what an ``.npz`` file holds; pickled arrays are refused."""
    with _readable(origin, "an .npz file of plain numbers and strings"), zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            archive.open(entry).close()  # raises if the name in the directory is not the one at the data
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        found = {entry.filename.removesuffix(".npy"): _declared(archive, entry) for entry in entries}
    for name, (shape, dtype) in found.items():
        if dtype.hasobject and len(shape) == 1:
            log.warning("%s: %s is skipped, an array %s", origin, name, OBJECTS)

    def get(name: str) -> NDArray:
        shape, dtype = found[name]
        if dtype.hasobject:
            raise ValueError(f"{origin}: {name} is an array {OBJECTS}")
        check_memory(math.prod(shape) * dtype.itemsize, origin)
        if not isinstance(source, Path):
            source.seek(0)
        with _readable(origin, "an .npz file of plain numbers and strings"), np.load(source) as arrays:
            return arrays[name]  # np.load does not unpickle unless asked to

    return Contents(
        origin,
        {name: f"{shape} {dtype}" for name, (shape, dtype) in found.items()},
        [name for name, (shape, dtype) in found.items() if len(shape) == 2 and dtype.kind == "f"],
        [name for name, (shape, dtype) in found.items() if len(shape) == 1 and dtype.kind in "biufUS"],
        get,
    )


def table_contents(path: Path, label: str | None = None) -> Contents:
    """Return what a ``.csv`` or ``.parquet`` file holds: columns of numbers, of lists of numbers, and of labels.

    The column `label` is never part of the vectors.
    """
    with needed(f"a {path.suffix} file", "experiments"):
        import pandas as pd

        if path.suffix == ".parquet":
            import pyarrow  # noqa: F401 - pandas reads the file with it
    with _readable(str(path), f"a readable {path.suffix} file"):
        headless = path.suffix == ".csv" and not _has_header(path)
        if path.suffix == ".csv":
            frame = pd.read_csv(path, header=None if headless else "infer")
        else:
            frame = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
    if headless:
        log.info("%s: the first line holds numbers, so the columns are called 0, 1, ...", path)
    frame.columns = frame.columns.astype(str)
    if not frame.columns.is_unique:
        raise ValueError(f"{path}: two columns are called {frame.columns[frame.columns.duplicated()][0]!r}")
    names, kinds = [str(name) for name in frame.columns], pd.api.types
    lists = [name for name in names if _holds_lists(frame[name])]
    label = label or _usual_name(names, LABEL_NAMES)
    numbers = [
        name
        for name in names
        if kinds.is_numeric_dtype(frame[name]) and not kinds.is_bool_dtype(frame[name])
        if name.casefold() not in ROW_NAMES and name != label
    ]

    def get(name: str) -> NDArray:
        if name in lists:
            sizes = sorted({len(item) if _is_list(item) else 0 for item in frame[name]})
            if len(sizes) > 1:
                raise ValueError(f"{path}: lists in {name} must have one length, got {sizes[:5]}")
            return np.stack([np.asarray(item) for item in frame[name]])
        return frame[name].to_numpy()

    one_type = len({frame[name].dtype.kind == "f" for name in numbers}) == 1  # integers among floats may be labels
    return Contents(
        str(path),
        {name: "lists" if name in lists else str(frame[name].dtype) for name in names},
        lists or ([] if headless else _numbered_columns(numbers)) or (["*"] if one_type else []),
        [name for name in names if name not in lists],
        get,
        numbers,
        example="'*'",
    )


def h5ad_contents(path: Path) -> Contents:
    """Return what an ``.h5ad`` file holds: ``X``, the arrays of ``obsm``, and the columns of ``obs``."""
    with needed("a .h5ad file", "h5ad"):
        import anndata
    readable = f"a readable {path.suffix} file"
    with _readable(str(path), readable):
        data = anndata.read_h5ad(path, backed="r")
        x = {"X": data.X} if data.X is not None else {}
        tables = {**{str(key): data.obsm[key] for key in data.obsm}, **x}
        shapes = {key: tuple(table.shape) for key, table in tables.items()}

    def get(name: str) -> NDArray:
        if name in tables:
            check_memory(math.prod(shapes[name]) * 8, str(path))
            with _readable(str(path), readable):
                table = tables[name][:] if name == "X" else tables[name]
                return _as_floats(table.toarray() if hasattr(table, "toarray") else np.asarray(table))
        return data.obs[name].to_numpy()

    vectors = [key for key in tables if key != "X" and key.casefold() not in LAYOUTS] or list(x)
    return Contents(
        str(path),
        {key: str(shape) for key, shape in shapes.items()} | {str(key): "obs" for key in data.obs},
        ["X_pca"] if "X_pca" in tables else vectors,  # as scanpy does
        [str(name) for name in data.obs],
        get,
    )


def check_memory(size: int, origin: str) -> None:
    """Raise a ValueError if `size` bytes do not fit into free memory, where the system reports it."""
    free = _free_memory()
    if free is not None and size > free:
        raise ValueError(
            f"{origin}: needs {size / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free; "
            "save the vectors as .npy, which is memory-mapped"
        )


def _free_memory() -> int | None:
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
        return int(found[1]) * 1024 if found else None
    except OSError:
        return None


def _declared(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype]:
    """Return shape and dtype in the header of an array, without reading the array."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if math.prod(shape) * dtype.itemsize > entry.file_size and not dtype.hasobject:
        raise ValueError(f"{entry.filename} declares shape {shape}, but has {entry.file_size} bytes")
    return shape, dtype


def _usual_name(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the only name among the usual ones, or the one that is the first of them."""
    found = [name for name in names if name.casefold() in usual]
    first = [name for name in found if name.casefold() == usual[0]]
    return first[0] if len(first) == 1 else found[0] if len(found) == 1 else None


def _is_classes(array: NDArray, n: int) -> bool:
    """Whether n values repeat; those that do not are ids or texts."""
    return array.shape == (n,) and array.dtype.kind != "f" and len(set(array.tolist())) < n


def _holds_lists(column: pd.Series) -> bool:
    return column.dtype == object and any(_is_list(item) for item in column.head())


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _has_header(path: Path) -> bool:
    """Whether the first line of a CSV file names its columns. Names may be rising numbers, such as years."""
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        fields = next(csv.reader(file), [])
    numbers = [float(field) for field in fields if NUMBER.fullmatch(field.strip())]
    if 2 * len(numbers) <= len(fields):
        return True
    rising = all(a < b for a, b in itertools.pairwise(numbers))
    return rising and (len(numbers) > 5 or all(number.is_integer() for number in numbers))


def _numbered_columns(numbers: list[str]) -> list[str]:
    """Return patterns for columns that belong together: f0, f1, ..."""
    stems: Counter[str] = Counter()
    for name in numbers:
        stem = "" if NUMBER.fullmatch(name) else re.sub(r"\d+$", "", name)
        stems[stem] += stem != name
    return [f"{glob.escape(stem)}[0-9]*" for stem, count in stems.items() if count > 1]


def _as_floats(array: NDArray) -> NDArray:
    return array if array.dtype.kind == "f" else array.astype(np.float64)


@contextmanager
def _readable(origin: str, expected: str) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one line."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{origin}: not {expected} ({first_line(error)})") from error
