"""What a file of vectors holds under which names, and which of it is what: the formats that name their arrays."""

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

from asbc.embeddings.arrays import OBJECTS, declared, fits_memory
from asbc.extras import needed

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# What arrays and columns are often called: the first is taken wherever it is, another where it is the only one.
VECTOR_NAMES = ("embeddings", "embedding", "vectors", "features", "x", "x_pca")
LABEL_NAMES = ("labels", "label", "y", "targets", "target", "classes", "class")
ROW_NAMES = ("", "id", "index", "unnamed: 0")  # columns that number the rows
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
LAYOUTS = ("x_umap", "x_tsne", "x_draw_graph_fa")  # drawings in the plane, which are no vectors to build a graph on


@dataclass(frozen=True)
class Contents:
    """Named arrays of a file, which is read no further than is asked for.

    Attributes
    ----------
    origin : str
        The file, for errors.
    names : dict of str to str
        Every name that can be given, with what it holds in words.
    tables : list of str
        Names that can be vectors by their shape and kind.
    columns : list of str
        Names that can be labels.
    get : callable
        From a name to its array.
    numbers : sequence of str, default=()
        Columns that a pattern for vectors picks from.
    example : str, default="NAME"
        A name to give, where nothing better can be proposed.
    """

    origin: str
    names: dict[str, str]
    tables: list[str]
    columns: list[str]
    get: Callable[[str], NDArray]
    numbers: Sequence[str] = ()
    example: str = "NAME"

    def vectors(self, wanted: str | None) -> tuple[str, NDArray]:
        """Name and contents of the vectors: those that are named, or the only ones that can be meant."""
        if wanted:
            return wanted, self.get(wanted)
        name = _usual(list(self.names), VECTOR_NAMES) or (self.tables[0] if len(self.tables) == 1 else None)
        if name is None:
            if not self.tables and not self.numbers:
                raise ValueError(
                    f"{self.origin}: nothing in it can be vectors, which are fractions (floats) with a row per item; "
                    + self.listed()
                )
            raise ValueError(
                f"{self.origin}: which are the vectors cannot be told; {self.listed()}. "
                + how_to_name("vectors", [*self.tables, self.example])
            )
        return name, self.get(name)

    def labels(self, wanted: str | None, n: int, besides: str = "") -> tuple[str | None, NDArray | None]:
        """Name and contents of the labels of n rows; None where there are none, or where it cannot be told.

        `besides` is the name of the vectors: what belongs to them is no label.
        """
        if wanted:
            return wanted, self.get(wanted)
        name = _usual(self.columns, LABEL_NAMES)
        if name is not None:
            return name, self.get(name)
        # A column of classes names some of them more than once; one that does not is of ids, texts or the like.
        others = [n for n in self.columns if n not in self.numbers or not fnmatch.fnmatchcase(n, besides)]
        found = {name: array for name in others if _classes(array := self.get(name), n)}
        if len(found) > 1:
            log.warning(
                "%s: which are the labels cannot be told, so there are none; it could be %s. %s",
                self.origin,
                ", ".join(found),
                how_to_name("label", list(found)),
            )
        return found.popitem() if len(found) == 1 else (None, None)

    def listed(self) -> str:
        """Names and what they hold, for an error; of many, the kinds that are rare, since the others are alike."""
        kinds = Counter(self.names.values()) if len(self.names) > 12 else Counter()
        shown = [f"{name} {what}" for name, what in sorted(self.names.items(), key=lambda item: kinds[item[1]])]
        more = f" and {len(shown) - 12} more" if len(shown) > 12 else ""
        return f"it has {', '.join(shown[:12])}{more}" if shown else "it has nothing"

    def missing(self, name: str) -> ValueError:
        """The error that a name is not there."""
        return ValueError(f"{self.origin}: there is no {name!r}; {self.listed()}")


def npz_contents(source: Path | IO[bytes], origin: str) -> Contents:
    """What an ``.npz`` file holds; nothing in it is ever unpickled."""
    with _plain(origin), zipfile.ZipFile(source) as archive:
        for entry in archive.infolist():
            archive.open(entry).close()  # a damaged name differs from the one beside the data, and would hide an array
        entries = [entry for entry in archive.infolist() if entry.filename.endswith(".npy")]
        found = {entry.filename.removesuffix(".npy"): declared(archive, entry) for entry in entries}

    for name, (shape, dtype, _) in found.items():
        if dtype.hasobject and len(shape) == 1:
            log.warning("%s: %s is left out, an array %s", origin, name, OBJECTS)

    def get(name: str) -> NDArray:
        if name not in found:
            raise contents.missing(name)
        _, dtype, size = found[name]
        if dtype.hasobject:
            raise ValueError(
                f"{origin}: {name} holds Python objects, not an .npz file of plain numbers and strings; save text as "
                'strings, and "" or -1 where a label is missing'
            )
        fits_memory(size, origin)
        if not isinstance(source, Path):
            source.seek(0)
        with _plain(origin), np.load(source, allow_pickle=False) as arrays:
            return arrays[name]

    contents = Contents(
        origin,
        {name: f"{shape} {dtype}" for name, (shape, dtype, _) in found.items()},
        [name for name, (shape, dtype, _) in found.items() if len(shape) == 2 and dtype.kind == "f"],
        [name for name, (shape, dtype, _) in found.items() if len(shape) == 1 and dtype.kind in "biufUS"],
        get,
    )
    return contents


def table_contents(path: Path, label: str | None = None) -> Contents:
    """What a ``.csv`` or ``.parquet`` file holds: columns of numbers, lists of numbers, and columns of labels.

    `label` is a column that is none of the vectors, whatever it holds.
    """
    with needed(f"a {path.suffix} file", "experiments"):
        import pandas as pd

        if path.suffix == ".parquet":
            import pyarrow  # noqa: F401  (what pandas reads it with)
    with _readable(path):
        headless = path.suffix == ".csv" and not _names_columns(path)
        if path.suffix == ".csv":
            frame = pd.read_csv(path, header=None if headless else "infer")
        else:  # pages that have checksums are compared with them
            frame = pd.read_parquet(path, engine="pyarrow", page_checksum_verification=True)
    if headless:
        log.info("%s: the first line holds numbers, not names, so the columns are called 0, 1, ...", path)
    frame.columns = frame.columns.astype(str)
    if not frame.columns.is_unique:
        raise ValueError(f"{path}: two columns are called {frame.columns[frame.columns.duplicated()][0]!r}")
    names = [str(name) for name in frame.columns]
    kinds = pd.api.types
    lists = [name for name in names if _holds_lists(frame[name])]
    columns = [name for name in names if name not in lists and not kinds.is_float_dtype(frame[name])]
    own = label or _usual(names, LABEL_NAMES)
    if own in names and own not in columns:
        columns.append(own)  # whole numbers with gaps are read as floats
    numbers = [
        name
        for name in names
        if kinds.is_numeric_dtype(frame[name]) and not kinds.is_bool_dtype(frame[name])
        if name.casefold() not in ROW_NAMES and name != own
    ]

    def get(name: str) -> NDArray:
        if name in lists:
            sizes = sorted({len(item) if _is_list(item) else 0 for item in frame[name]})
            if len(sizes) > 1:
                raise ValueError(f"{path}: lists in {name} must have one length, got {sizes[:5]}")
            return np.stack([np.asarray(item) for item in frame[name]])
        if name in names:
            return frame[name].astype(object).to_numpy() if name in columns else frame[name].to_numpy()
        chosen = [own for own in numbers if fnmatch.fnmatchcase(own, name)]
        if not chosen:
            raise contents.missing(name)
        return _as_floats(frame[chosen])

    contents = Contents(
        str(path),
        {name: "lists" if name in lists else str(frame[name].dtype) for name in names},
        lists or ([] if headless else _series(numbers)) or _one_kind(numbers, frame),
        columns,
        get,
        numbers,
        example="'*'",
    )
    return contents


def h5ad_contents(path: Path) -> Contents:
    """What an ``.h5ad`` file holds: ``X`` and the arrays of ``obsm``, and the columns of ``obs``."""
    with needed("a .h5ad file", "h5ad"):
        import anndata
    with _readable(path):
        data = anndata.read_h5ad(path, backed="r")
        with_x = {"X": data.X} if data.X is not None else {}
        tables = {**{str(key): data.obsm[key] for key in data.obsm}, **with_x}
        columns = [str(name) for name in data.obs if data.obs[name].dtype.kind != "f"]
    usual = _usual([str(name) for name in data.obs], LABEL_NAMES)
    columns += [usual] if usual is not None and usual not in columns else []

    def get(name: str) -> NDArray:
        if name in tables:
            table = tables[name]
            fits_memory(math.prod(table.shape) * 8, str(path))
            with _readable(path):
                table = table[:] if name == "X" else table
                dense = table.toarray() if hasattr(table, "toarray") else np.asarray(table)
            return dense if dense.dtype.kind == "f" else dense.astype(np.float64)
        if name in data.obs:
            return data.obs[name].astype(object).to_numpy()
        raise contents.missing(name)

    vectors = [key for key in tables if key != "X" and key.casefold() not in LAYOUTS] or list(with_x)
    contents = Contents(
        str(path),
        {key: str(tuple(table.shape)) for key, table in tables.items()} | {str(k): "obs" for k in data.obs},
        ["X_pca"] if "X_pca" in tables else vectors,  # what scanpy takes
        columns,
        get,
    )
    return contents


def _usual(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The one of `names` that has a usual name; None where none or several do, unless one has the first of them."""
    found = [name for name in names if name.casefold() in usual]
    first = [name for name in found if name.casefold() == usual[0]]
    return first[0] if len(first) == 1 else found[0] if len(found) == 1 else None


def how_to_name(option: str, names: Sequence[str]) -> str:
    """The words that tell how to name an array or a column, with the first of `names` as the example."""
    return f"Say which: {option}={names[0]} (asbc: embedding.{option}={names[0]}; asbc-explore: --{option} {names[0]})"


def _classes(array: NDArray, n: int) -> bool:
    if array.shape != (n,) or array.dtype.kind == "f":
        return False
    return len(set(array.tolist())) < len(array)


def _holds_lists(column: pd.Series) -> bool:
    return column.dtype == object and len(column) > 0 and any(_is_list(item) for item in column.head())


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _names_columns(path: Path) -> bool:
    """Whether the first line of a CSV file names its columns, or is of numbers like all others.

    Names can be numbers too: those that pandas counts columns by, years or wavelengths, all of which rise.
    """
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        fields = next(csv.reader(file), [])
    numbers = [float(field) for field in fields if NUMBER.fullmatch(field.strip())]
    if 2 * len(numbers) <= len(fields):
        return True
    rising = all(a < b for a, b in itertools.pairwise(numbers))
    return rising and (len(numbers) > 5 or all(number.is_integer() for number in numbers))


def _one_kind(numbers: list[str], frame: pd.DataFrame) -> list[str]:
    """The pattern for all columns, if one kind of number is in them: whole ones among fractions may be labels."""
    return ["*"] if len({frame[name].dtype.kind == "f" for name in numbers}) == 1 else []


def _series(numbers: list[str]) -> list[str]:
    """Patterns for columns that belong together: f0, f1, ..."""
    stems: dict[str, int] = {}
    for name in numbers:
        stem = "" if NUMBER.fullmatch(name) else re.sub(r"\d+$", "", name)
        stems[stem] = stems.get(stem, 0) + 1 if stem != name else stems.get(stem, 0)
    return [f"{glob.escape(stem)}[0-9]*" for stem, count in stems.items() if count > 1]


def _as_floats(frame: pd.DataFrame) -> NDArray:
    array = frame.to_numpy()
    return array if array.dtype.kind == "f" else array.astype(np.float64)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Around other libraries that read a file: damaged, it makes them raise almost anything, which becomes one line."""
    try:
        yield
    except Exception as error:
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"{path}: not a readable {path.suffix} file ({said})") from error


@contextmanager
def _plain(origin: str) -> Iterator[None]:
    """Around the reading of an ``.npz`` file: whatever is wrong with it becomes one line."""
    try:
        yield
    except Exception as error:  # a damaged archive makes zipfile and NumPy raise almost anything
        raise ValueError(f"{origin}: not an .npz file of plain numbers and strings ({error})") from error
