"""Files that know when they are damaged: the tables, notes and settings of a run.

Each holds a checksum of its own contents, so a bit that flips on a disk or on the way is found when the file is read,
and never becomes another number. Files of versions that wrote no checksum are read as they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.extras import needed
from asbc.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

ALL = 0  # in columns of levels: every node, and not so many samples per class
FORMAT = 1  # number of the layout of rows and notes; it rises when older versions could no longer read them
# Stands before the checksum of a Parquet file, which stands before the footer, where readers do not look.
MARK = b"\nasbc-sha256-of-the-other-bytes:"
# The last line of a text file that is sealed.
LAST_LINE = "# sha256 of the lines above: "
WAY_OUT = "move the run's folder away, or start the run again with rerun=true"


class ResultsError(RuntimeError):
    """A results folder that cannot be used as it is; the message says what to do."""


def read_rows(path: str | Path) -> pd.DataFrame:
    """Rows of one Parquet file that `asbc` wrote.

    Parameters
    ----------
    path : str or Path
        A run's `results.parquet`, or a file of its folder `parts`.

    Returns
    -------
    DataFrame
        As :func:`asbc.results.collect` gives them. Rows of version 0.1 have `k_cand` under its name of today.

    Raises
    ------
    ResultsError
        If the file is not as it was written, or was not written by `asbc`; the message names it.

    See Also
    --------
    asbc.results.collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.results import read_rows
    >>> from asbc.runs.sealed import write_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rows(Path(folder) / "results.parquet", [{"method": "knn", "value": 0.9}])
    ...     print(read_rows(Path(folder) / "results.parquet").to_dict("records"))
    [{'method': 'knn', 'value': 0.9}]
    """
    return read_unit(path)[1]


def read_unit(path: str | Path) -> tuple[str | None, pd.DataFrame]:
    """Name of the unit of work that a Parquet file was written for, `None` if it was for none, and its rows."""
    with needed("reading results", "experiments"):
        import pandas  # noqa: F401  (what pyarrow makes of the table)
        import pyarrow as pa
        import pyarrow.parquet as pq

    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file") from None
    _check_parquet(path, data)
    try:
        table = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read()
        known = {key: value.decode() for key, value in (table.schema.metadata or {}).items() if key.startswith(b"asbc")}
        frame = table.to_pandas()
    except Exception as error:
        raise ResultsError(
            f"{path}: not a readable Parquet file ({error}); move it away, or start again with rerun=true"
        ) from error
    if known.get(b"asbc_format") != str(FORMAT):
        raise ResultsError(
            f"{path}: rows of format {known.get(b'asbc_format', 'unknown')}, this version reads format {FORMAT}; "
            "move it away"
        )
    return known.get(b"asbc_unit"), frame.rename(columns={"neighbors.k": "k_cand"})  # its name before version 0.2


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]] | pd.DataFrame, *, unit: str | None = None) -> None:
    """Write rows to a Parquet file, whole or not at all, with a checksum of every page and one of the file.

    Parameters
    ----------
    path : Path
    rows : mappings of column to value, or a DataFrame
    unit : str, default=None
        The unit of work that the rows belong to, kept in the file: a file copied to another name is then known.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(list(rows))
    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException as error:
        raise ResultsError(f"{path}: rows whose values are of several kinds in one column ({error})") from error
    own = {b"asbc_format": str(FORMAT).encode()} | ({b"asbc_unit": unit.encode()} if unit else {})
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), **own})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    sealed = data[:footer] + MARK + hashlib.sha256(data).digest() + data[footer:]
    write_whole(path, lambda p: p.write_bytes(sealed))


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write plain values to a JSON file, whole or not at all, with their checksum under `sha256`."""
    text = json.dumps({**note, "sha256": _of_values(note)}, indent=2)
    write_whole(path, lambda p: p.write_text(text))


def read_note(path: Path) -> dict[str, Any]:
    """The plain values of a JSON file; a ResultsError that names the file if they are not those that were written."""
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: not readable ({error}); {WAY_OUT}") from error
    if not isinstance(note, dict):
        raise ResultsError(f"{path}: not a note of asbc; {WAY_OUT}")
    checksum = note.pop("sha256", None)
    if note.get("format", FORMAT) != FORMAT:
        return note  # of another version, which may have sealed it in another way: the caller says so
    if checksum is not None and checksum != _of_values(note):
        raise ResultsError(f"{path}: damaged, its checksum is another; {WAY_OUT}")
    return note


def write_text(path: Path, text: str) -> None:
    """Write lines of text whole or not at all; the last one is a comment with the checksum of the others."""
    sealed = f"{text}{LAST_LINE}{hashlib.sha256(text.encode()).hexdigest()}\n"
    write_whole(path, lambda p: p.write_bytes(sealed.encode()))


def read_text(path: Path) -> str:
    """The text of a file; a ResultsError that names the file if it is not the text that was written."""
    try:
        sealed = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ResultsError(f"{path}: not readable ({error}); {WAY_OUT}") from error
    text, line, checksum = sealed.rpartition(LAST_LINE)
    if line and checksum.strip() != hashlib.sha256(text.encode()).hexdigest():
        raise ResultsError(f"{path}: damaged, its checksum is another; {WAY_OUT}")
    return text if line else sealed


def _of_values(note: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(note, sort_keys=True).encode()).hexdigest()


def _check_parquet(path: str | Path, data: bytes) -> None:
    at = data.rfind(MARK)
    if at < 0:
        return
    end = at + len(MARK) + hashlib.sha256().digest_size
    if hashlib.sha256(data[:at] + data[end:]).digest() != data[at + len(MARK) : end]:
        raise ResultsError(
            f"{path}: damaged, its checksum is another; take it from a copy, or start again with rerun=true"
        )
