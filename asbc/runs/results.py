"""Rows on disk: append, resume, collect.

A run is a folder named by its id, the hash of its settings and its data::

    <root>/<run id>/
        config.yaml       the resolved settings
        status.json       running, finished, failed or interrupted; a traceback if it failed
        parts/*.parquet   rows of each finished unit of work, while the run is not finished
        results.parquet   all rows, once it is

Every file is written beside its final name and moved there in one step, so a reader never sees half of one,
and a killed run goes on after its last finished unit.
"""

from __future__ import annotations

import json
import shutil
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from asbc.extras import needed
from asbc.files import write_whole

if TYPE_CHECKING:
    import pandas as pd

FORMAT = 1


class ResultsError(RuntimeError):
    """A results folder that cannot be used as it is; the message says what to do."""


class Run:
    """The folder of one run, opened by one process at a time.

    Parameters
    ----------
    root : str or Path
        Where all runs are.
    id : str
        From :func:`asbc.runs.identity.run_id`.
    settings : mapping of plain values, default=None
        Kept as `config.yaml`.
    rerun : bool, default=False
        Start anew; what was there is set aside as `<run id>.replaced-<number>`.

    See Also
    --------
    collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root, Run(root, "abc") as run:
    ...     done = run.begin(experiment="loo")
    ...     run.append("trial-0", [{"metric": "loo", "value": 0.9}])
    ...     table = run.finish()
    >>> table["value"].tolist()
    [0.9]
    """

    def __init__(
        self, root: str | Path, id: str, settings: Mapping[str, Any] | None = None, *, rerun: bool = False
    ) -> None:
        self.id = id
        self.path = Path(root) / id
        self.settings = dict(settings or {})
        self.rerun = rerun
        self.status: dict[str, Any] = {}
        self._lock = FileLock(str(Path(root) / f".{id}.lock"))

    def __enter__(self) -> Run:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise ResultsError(f"{self.path}: another process is working on this run") from None
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise
        return self

    def _open(self) -> None:
        if self.rerun and self.path.exists():
            number = 1
            while (aside := self.path.with_name(f"{self.id}.replaced-{number}")).exists():
                number += 1
            self.path.rename(aside)
        previous = read_status(self.path) if (self.path / "status.json").exists() else {}
        self.status = {
            "format": FORMAT,
            "run_id": self.id,
            "state": previous.get("state", "new"),
            "attempt": int(previous.get("attempt", 0)),
            **{
                key: previous[key] for key in ("started", "ended", "seconds", "traceback", "version") if key in previous
            },
        }

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        try:
            if error is not None and self.status["state"] == "running":
                stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
                self.note(
                    "interrupted" if stopped else "failed",
                    error=f"{type(error).__name__}: {error}",
                    traceback="".join(traceback.format_exception(kind, error, trace)),
                )
        finally:
            self._lock.release()

    @property
    def finished(self) -> bool:
        """Whether all rows are there; then there is nothing left to do."""
        return (self.path / "results.parquet").exists()

    def begin(self, **facts: Any) -> set[str]:
        """Say that work starts, and tell which units of work an earlier attempt has finished.

        Parameters
        ----------
        **facts
            Plain values to keep in `status.json`.

        Returns
        -------
        done : set of str
            Names of finished units, whose rows are safe.
        """
        from omegaconf import OmegaConf

        text = OmegaConf.to_yaml(OmegaConf.create(self.settings))
        write_whole(self.path / "config.yaml", lambda p: p.write_text(text))
        self.status.pop("traceback", None)
        self.status.pop("error", None)
        self.status["attempt"] += 1
        self.note("running", started=time.time(), **facts)
        parts = sorted((self.path / "parts").glob("*.parquet"))
        for part in parts:
            read_rows(part)  # a torn or foreign file is found now, not after hours of work
        return {part.stem for part in parts}

    def append(self, unit: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the rows of one finished unit of work, all or none.

        Parameters
        ----------
        unit : str
            Name of the unit; it becomes a file name.
        rows : mappings of column to value
        """
        write_rows(self.path / "parts" / f"{unit}.parquet", rows)

    def rows(self) -> pd.DataFrame:
        """All rows on disk so far."""
        if self.finished:
            return read_rows(self.path / "results.parquet")
        return _concat([read_rows(part) for part in sorted((self.path / "parts").glob("*.parquet"))])

    def finish(self, **facts: Any) -> pd.DataFrame:
        """Join the parts into `results.parquet` and mark the run finished."""
        frame = self.rows()
        if not self.finished:
            _write_frame(self.path / "results.parquet", frame)
        self.note("finished", rows=len(frame), **facts)
        # Only now may the parts go: at any earlier moment a kill would leave rows in neither place.
        shutil.rmtree(self.path / "parts", ignore_errors=True)
        return frame

    def note(self, state: str, **facts: Any) -> None:
        """Keep the run's state, and plain values beside it, in `status.json`."""
        self.status.update(facts, state=state)
        if state != "running":
            self.status["ended"] = time.time()
            self.status["seconds"] = self.status["ended"] - self.status.get("started", self.status["ended"])
        text = json.dumps(self.status, indent=2)
        write_whole(self.path / "status.json", lambda p: p.write_text(text))


def read_status(folder: Path) -> dict[str, Any]:
    """Status of a run's folder, refused if another version of the format wrote it."""
    path = folder / "status.json"
    try:
        status = json.loads(path.read_text())
    except FileNotFoundError:
        raise ResultsError(f"{folder}: not a run's folder, it has no status.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: not readable ({error}); move the folder away to run anew") from error
    found = status.get("format") if isinstance(status, dict) else None
    if found != FORMAT:
        raise ResultsError(
            f"{folder}: results of format {found}, this version reads and writes format {FORMAT}; "
            "give another results folder, or move this one away"
        )
    return status


def read_settings(folder: Path) -> dict[str, Any]:
    """Settings of a run from its `config.yaml`, with `k_cand` where it stands today; empty if there are none."""
    from omegaconf import OmegaConf

    path = folder / "config.yaml"
    try:
        found = OmegaConf.to_container(OmegaConf.load(path))
    except FileNotFoundError:
        return {}
    except Exception as error:
        raise ResultsError(f"{path}: not readable ({error}); move the folder away") from error
    settings = {str(key): value for key, value in found.items()} if isinstance(found, dict) else {}
    if "k_cand" not in settings and isinstance(settings.get("neighbors"), dict):
        settings["k_cand"] = settings["neighbors"].get("k")  # where it stood before version 0.2
    return settings


def runs(root: str | Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every run under a folder, with its status.

    Runs that `rerun=true` has set aside are left out.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.

    Yields
    ------
    folder : Path
        Of the run; `results.parquet` in it has the rows once the run is finished.
    status : dict
        Contents of its `status.json`: `state` (running, finished, failed or interrupted), `experiment`, `dataset`,
        `encoder`, `version` of asbc, `rows`, `seconds` and more.

    See Also
    --------
    collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.results import runs
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with Run(root, "abc") as run:
    ...         done = run.begin(experiment="loo")
    ...         table = run.finish()
    ...     print([(folder.name, status["state"]) for folder, status in runs(root)])
    [('abc', 'finished')]
    """
    root = Path(root)
    if not root.exists():
        raise ResultsError(f"{root}: no such folder")
    for path in sorted(root.rglob("status.json")):
        if ".replaced-" not in path.parent.name:
            yield path.parent, read_status(path.parent)


def collect(root: str | Path, *, finished_only: bool = False) -> pd.DataFrame:
    """One long table of all runs under a folder.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.
    finished_only : bool, default=False
        Leave out runs that are still going, failed or were stopped.

    Returns
    -------
    DataFrame
        One row per run, method, level, trial and metric: `value` is what was measured, and every setting has a
        column of its own (`k_cand`, `bandwidth.gamma`, ...), empty where a run does not have it.

    See Also
    --------
    runs : the folders and states of the runs.
    asbc.evaluate.compare_methods : two methods of the table against each other.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.results import collect
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for number, name in enumerate(["abc", "def"]):
    ...         with Run(root, name) as run:
    ...             done = run.begin(experiment="loo")
    ...             run.append("trial-0", [{"method": "knn", "metric": "loo", "value": 0.5 + number / 4}])
    ...             table = run.finish()
    ...     print(collect(root)["value"].tolist())
    [0.5, 0.75]
    """
    frames: list[pd.DataFrame] = []
    for folder, status in runs(root):
        if finished_only and status["state"] != "finished":
            continue
        whole = folder / "results.parquet"
        parts = [whole] if whole.exists() else sorted((folder / "parts").glob("*.parquet"))
        frames.extend(read_rows(part) for part in parts)
    if not frames:
        raise ResultsError(f"{root}: no results in it")
    return _concat(frames)


def read_rows(path: str | Path) -> pd.DataFrame:
    """Rows of one Parquet file that `asbc` wrote.

    Parameters
    ----------
    path : str or Path
        A run's `results.parquet`, or a file of its folder `parts`.

    Returns
    -------
    DataFrame
        As :func:`collect` gives them. Rows of version 0.1 have `k_cand` under its name of today.

    See Also
    --------
    collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.results import read_rows
    >>> from asbc.runs.results import write_rows
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_rows(Path(folder) / "results.parquet", [{"method": "knn", "value": 0.9}])
    ...     print(read_rows(Path(folder) / "results.parquet").to_dict("records"))
    [{'method': 'knn', 'value': 0.9}]
    """
    with needed("reading results", "experiments"):
        import pandas  # noqa: F401  (what pyarrow makes of the table)
        import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except FileNotFoundError:
        raise ResultsError(f"{path}: no such file") from None
    except Exception as error:
        raise ResultsError(
            f"{path}: not a readable Parquet file ({error}); move it away, or start again with rerun=true"
        ) from error
    kept = (table.schema.metadata or {}).get(b"asbc_format")
    if kept != str(FORMAT).encode():
        raise ResultsError(
            f"{path}: rows of format {kept.decode() if kept else 'unknown'}, "
            f"this version reads format {FORMAT}; move it away"
        )
    return table.to_pandas().rename(columns={"neighbors.k": "k_cand"})  # its name before version 0.2


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows to a Parquet file, whole or not at all."""
    import pandas as pd

    _write_frame(path, pd.DataFrame(list(rows)))


def _write_frame(path: Path, frame: pd.DataFrame) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), b"asbc_format": str(FORMAT).encode()})
    write_whole(path, lambda p: pq.write_table(table, p, compression="zstd"))


def _concat(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    # All-missing columns must not take part in the choice of a column's type.
    filled = [frame.dropna(axis="columns", how="all") for frame in frames if len(frame)]
    joined = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()
    return joined.reindex(columns=columns)
