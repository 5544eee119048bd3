"""The folder of a run: write it, resume it, read it, collect the rows of many, and find the numbers to show first.

::

    <out>/runs/<run id>/
        status.json       state and settings of the run, and the checksums of its tables
        config.yaml       the settings again, for people; nothing reads it
        experiment.json   the record of the experiment (:mod:`asbc.runs.record`)
        parts/*.parquet   rows of each finished unit, while the run is not finished
        results.parquet   all rows, once it is

Every file is written atomically. A unit counts as finished once `status.json` has the checksum of its part, so a killed
run loses at most the unit in progress.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.evaluate.tasks import METRICS, PER_SAMPLE, Metric, balanced_differs
from asbc.extras import needed
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment, read_record
from asbc.storage import (
    DamagedFileError,
    LockedError,
    check_file,
    file_inside,
    folder_lock,
    read_json,
    read_table,
    remove_temporary_files,
    write_atomic,
    write_json,
    write_table,
)
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

ALL = 0  # in columns of levels: all nodes
FORMAT = 3  # rises when the files of a folder change
SETTINGS, STATUS, RESULTS = "config.yaml", "status.json", "results.parquet"
# Columns of packed bytes: which nodes were scored and right, and the density of rank and dimension.
PER_NODE = ["scored", "right", "density"]
CANDIDATES = "tuned_"  # start of the names of candidates that the regret task tunes with labels
# Metrics of the graph and its kernels, shown after the scores.
GRAPH = ("components", "isolated", "degree_median", "rank_median", "dimension_median")


class ResultsError(RuntimeError):
    """A results folder that cannot be used as it is. The message names the file and the way out.

    Examples
    --------
    >>> import asbc
    >>> from asbc.runs import ResultsError
    >>> try:
    ...     asbc.collect("nowhere")
    ... except ResultsError as error:
    ...     print(error)
    nowhere: no such folder
    """


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except DamagedFileError as error:
        hint = "move the run's folder away, or start the run again with rerun=true"
        raise ResultsError(f"{str(error).rstrip('.')}; {hint}") from error


def run_id(settings: Mapping[str, Any], fingerprint: str) -> str:
    """Return the name of a run: a hash of its resolved settings and of the fingerprint of its data.

    The order of keys does not matter, nor whether a whole number is written 1 or 1.0.
    """
    plain = json.loads(json.dumps(settings), parse_float=_whole)
    text = json.dumps([plain, fingerprint], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _whole(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() else number


class Run:
    """The folder of one run, opened by one process at a time.

    With `rerun` the run starts from scratch, and old results are set aside as `<run id>.replaced-<number>`.
    :func:`collect` has an example.
    """

    def __init__(
        self, root: str | Path, id: str, settings: Mapping[str, Any] | None = None, *, rerun: bool = False
    ) -> None:
        self.id = id
        self.path = Path(root) / id
        self.settings = dict(settings or {})
        self.rerun = rerun
        self.status: dict[str, Any] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Run:
        lock = f".{self.id}.lock"  # outside the run's folder, which may be set aside
        with ExitStack() as stack:
            try:
                stack.enter_context(folder_lock(self.path.parent, lock))
            except LockedError as error:
                log.warning("run %s: %s Waiting for it to end.", self.id, error)
                stack.enter_context(folder_lock(self.path.parent, lock, timeout=-1))
            self._open()
            self._stack = stack.pop_all()
        return self

    def _open(self) -> None:
        attempt = 0
        if self.rerun and self.path.exists():
            with suppress(ResultsError):
                attempt = read_status(self.path)["attempt"]  # the count continues: W&B refuses an id that it has
            self._set_aside()
        previous = read_status(self.path) if (self.path / STATUS).exists() else {}
        if previous.get("run_id", self.id) != self.id:
            raise ResultsError(f"{self.path}: holds a copy of the run {previous['run_id']}; move it away")
        version = previous.get("version", __version__)
        if version != __version__ and previous["state"] != "finished" and previous["parts"]:
            text = "%s: begun by asbc %s (this is %s); set aside as %s, and the run starts from scratch"
            log.warning(text, self.path, version, __version__, self._set_aside())
            previous = {}
        self.status = {"state": "new", "attempt": attempt, "parts": {}, **previous, "format": FORMAT, "run_id": self.id}
        remove_temporary_files(self.path)
        remove_temporary_files(self.path / "parts")
        if self.finished:
            shutil.rmtree(self.path / "parts", ignore_errors=True)

    def _set_aside(self) -> str:
        number = 1
        while (aside := self.path.with_name(f"{self.id}.replaced-{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside.name

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        with self._stack:
            if error is not None and self.status["state"] == "running":
                self.note(
                    "interrupted" if isinstance(error, KeyboardInterrupt | SystemExit) else "failed",
                    error=f"{type(error).__name__}: {error}",
                    traceback="".join(traceback.format_exception(kind, error, trace)),
                )

    @property
    def finished(self) -> bool:
        """Whether all rows are there."""
        return self.status["state"] == "finished"

    def begin(self, **facts: Any) -> set[str]:
        """Mark the run as running, and return the names of the units that an earlier attempt has finished.

        `facts` are plain values to keep in `status.json`.
        """
        self.status["parts"] = {name: crc for name, crc in self.status["parts"].items() if self._intact(name, crc)}
        write_atomic(self.path / SETTINGS, _to_yaml({**self.settings, "data": facts}))
        for key in ("traceback", "error", "ended", "seconds"):
            self.status.pop(key, None)
        self.status |= {"attempt": self.status["attempt"] + 1, "settings": self.settings, "started": time.time()}
        self.note("running", **facts, process=os.getpid(), host=platform.node(), version=__version__)
        return set(self.status["parts"])

    def _intact(self, unit: str, checksum: int) -> bool:
        try:
            check_file(self.path / "parts" / f"{unit}.parquet", checksum)
        except (OSError, DamagedFileError) as error:
            log.warning("%s Its rows are computed again.", error)
            return False
        return True

    def append(self, unit: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the rows of one finished unit, all or none. Its name becomes a file name."""
        import pandas as pd

        # Rows with the same columns have a type per column; the join keeps integers where others have no value.
        frame = join_rows([pd.DataFrame(list(alike)) for _, alike in groupby(rows, key=tuple)])
        self.status["parts"][unit] = _write_rows(self.path / "parts" / f"{unit}.parquet", frame)
        self.note("running")

    def rows(self) -> pd.DataFrame:
        """Return all rows so far."""
        return join_rows(read_run(self.path))

    def finish(self, **facts: Any) -> pd.DataFrame:
        """Join the parts into `results.parquet`, and mark the run finished."""
        frame = self.rows()
        self.status |= {"results": _write_rows(self.path / RESULTS, frame), "parts": {}}
        self.note("finished", rows=len(frame), **facts)
        shutil.rmtree(self.path / "parts", ignore_errors=True)  # only now: before, a kill would lose them
        return frame

    def note(self, state: str, **facts: Any) -> None:
        """Save the state of the run, and further plain values, in `status.json`."""
        self.status.update(facts, state=state)
        if state != "running":
            self.status["ended"] = time.time()
            self.status["seconds"] = self.status["ended"] - self.status.get("started", self.status["ended"])
        write_json(self.path / STATUS, self.status)


def _to_yaml(settings: Mapping[str, Any]) -> str:
    import yaml

    return yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)


def _write_rows(path: Path, frame: pd.DataFrame) -> int:
    import pyarrow as pa

    try:
        return write_table(path, frame)
    except pa.ArrowException as error:
        raise ResultsError(f"{path}: a column has values of several types ({error})") from error


def join_rows(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of several; a column that one of them does not have is empty there."""
    import pandas as pd

    columns = list(dict.fromkeys(column for frame in frames for column in frame.columns))
    # Columns without a value must not take part in the choice of a column's type.
    filled = [frame.dropna(axis="columns", how="all") for frame in frames if len(frame)]
    incomplete = {column for column in columns if any(column not in frame for frame in filled)}
    nullable = {"i": "Int64", "b": "boolean"}
    filled = [
        frame.astype({c: nullable[frame[c].dtype.kind] for c in incomplete & {*frame} if frame[c].dtype.kind in "ib"})
        for frame in filled
    ]
    joined = pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()
    # A setting that is 1 in one run and 0.5 in another is a plain float.
    joined = joined.astype({c: "float64" for c in joined if joined[c].dtype == "Float64"})
    return joined.reindex(columns=columns)


def last_level(table: pd.DataFrame) -> int:
    """Return the level with the most nodes: 0 for all nodes if it was run, the largest number otherwise."""
    return ALL if (table["samples"] == ALL).any() else int(table["samples"].max())


def read_status(folder: Path) -> dict[str, Any]:
    """Return the contents of a run's `status.json`."""
    path = folder / STATUS
    with _explained():
        try:
            status = read_json(path)
        except FileNotFoundError:
            raise ResultsError(f"{folder}: not a run's folder, it has no {STATUS}") from None
        if status.get("format") != FORMAT:
            raise ResultsError(
                f"{path}: results of format {status.get('format')}, this version reads format {FORMAT}; give another "
                "results folder, or move this one away"
            )
        kinds = {"state": str, "run_id": str, "parts": dict, "settings": dict, "attempt": int, "typed": list}
        status.setdefault("typed", [])
        if wrong := [key for key, kind in kinds.items() if not isinstance(status.get(key), kind)]:
            raise DamagedFileError(f"{path}: {', '.join(wrong)} missing or of a wrong type.")
    return status


def read_run(folder: Path) -> list[pd.DataFrame]:
    """Return all rows of a run so far: those of `results.parquet` if it is finished, of its parts otherwise."""
    status = read_status(folder)
    if status["state"] == "finished":
        return [read_rows(folder / RESULTS, status.get("results"))]
    try:
        with _explained():
            files = {file_inside(folder / "parts", f"{name}.parquet"): crc for name, crc in status["parts"].items()}
        return [read_rows(path, files[path]) for path in sorted(files)]
    except ResultsError:
        if read_status(folder)["state"] != "finished":
            raise
        return read_run(folder)  # it was finished in this moment, and the parts were removed


def read_rows(path: str | Path, checksum: int | None = None) -> pd.DataFrame:
    """Return the rows of a run's `results.parquet` or of one of its parts; `checksum` is that of `status.json`."""
    with _explained():
        try:
            return read_table(Path(path), checksum)
        except FileNotFoundError:
            raise ResultsError(f"{path}: no such file") from None


@dataclass(frozen=True)
class StoredRun:
    """One run's folder, as loggers and reports read it."""

    path: Path
    status: dict[str, Any]  # `status.json`
    settings: dict[str, Any]  # the resolved config
    record: Experiment

    @property
    def id(self) -> str:
        return str(self.status["run_id"])

    @property
    def experiment(self) -> str:
        return str(self.status.get("experiment", "unknown"))

    @property
    def finished(self) -> bool:
        return self.status["state"] == "finished"

    @property
    def text(self) -> str:
        """The resolved config as YAML."""
        return _to_yaml(self.settings)

    @cached_property
    def rows(self) -> pd.DataFrame | None:
        """The results so far; None if there are none yet."""
        rows = join_rows(read_run(self.path))
        return None if rows.empty else rows

    def setting(self, path: str) -> Any:
        """Return a setting by its dotted path, such as `bandwidth.gamma`; None if there is none."""
        value: Any = self.settings
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def open_run(folder: Path) -> StoredRun:
    """Return what is in a run's folder. Nothing that its files name is imported."""
    status = read_status(folder)
    own = EXPERIMENTS.get(name := str(status.get("experiment", "unknown")), Experiment(name))
    return StoredRun(folder, status, status.pop("settings"), read_record(folder, own))


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted path, such as "bandwidth.gamma"."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= flat_settings(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def varying_settings(runs: list[dict[str, Any]]) -> dict[str, str]:
    """Return the dotted paths in which runs differ, with a short name for each.

    Settings that change together are one, named by the shortest path: methods hold copies of the bandwidth.
    """
    together: dict[tuple[str, ...], list[str]] = {}
    for key in dict.fromkeys(key for run in runs for key in run):
        values = tuple(json.dumps(run.get(key), default=str) for run in runs)
        if len(set(values)) > 1:
            together.setdefault(values, []).append(key)
    chosen = [min(same, key=lambda key: (key.count("."), len(key))) for same in together.values()]
    short = Counter(key.rpartition(".")[2] for key in chosen)
    return {key: name if short[name := key.rpartition(".")[2]] == 1 else key for key in chosen}


def run_folders(root: Path) -> list[Path]:
    """Return the folders of all runs under a folder, without those that `rerun=true` has set aside."""
    if not root.exists():
        raise ResultsError(f"{root}: no such folder")
    return sorted(path.parent for path in root.rglob(STATUS) if ".replaced-" not in path.parent.name)


def list_runs(root: str | Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every run under a folder, with its status.

    Runs that `rerun=true` has set aside are left out. Of several copies of one run, a finished one is taken, and a
    warning names the others.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.

    Yields
    ------
    folder : Path
    status : dict
        Contents of its `status.json`: `state` (running, finished, failed or interrupted), `experiment`, `dataset`,
        `encoder`, `version` of asbc, `rows`, `seconds` and more.

    See Also
    --------
    collect : the rows of all runs in one table.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.runs import list_runs
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with Run(root, "abc") as run:
    ...         done = run.begin(experiment="loo")
    ...     for folder, status in list_runs(root):
    ...         print(folder.name, status["experiment"])
    abc loo
    """
    found: dict[str, list[tuple[Path, dict[str, Any]]]] = {}
    for folder in run_folders(Path(root)):
        status = read_status(folder)
        found.setdefault(status["run_id"], []).append((folder, status))
    for id, copies in found.items():
        best = max(copies, key=lambda copy: (copy[1]["state"] == "finished", copy[0].name == id))
        for folder, _ in copies:
            if folder is not best[0]:
                log.warning("%s: the same run as %s; left out", folder, best[0])
        yield best


def collect(root: str | Path, *, finished_only: bool = False, per_node: bool = False) -> pd.DataFrame:
    """Return one table of the rows of all runs under a folder.

    Parameters
    ----------
    root : str or Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.
    finished_only : bool, default=False
        Leave out runs that are running, have failed or were interrupted.
    per_node : bool, default=False
        Include the columns `scored` and `right` (which nodes were scored and right, as packed bits) and `density`.
        :func:`asbc.evaluate.compare_methods` uses them to resample nodes as well as trials.

    Returns
    -------
    DataFrame
        One row per run, method, level, trial and metric: `value` is what was measured, and every setting has its own
        column (`k_cand`, `bandwidth.gamma`, ...), empty where a run does not have it.

    See Also
    --------
    asbc.runs.list_runs : the folders and states of the runs.
    asbc.evaluate.compare_methods : two methods of the table against each other.

    Examples
    --------
    >>> import tempfile, asbc
    >>> from asbc.runs.results import Run
    >>> with tempfile.TemporaryDirectory() as root:
    ...     for number, name in enumerate(["abc", "def"]):
    ...         with Run(root, name) as run:
    ...             done = run.begin(experiment="loo")
    ...             run.append("trial-0", [{"method": "knn", "metric": "loo", "value": 0.5 + number / 4}])
    ...             table = run.finish()
    ...     print(asbc.collect(root)["value"].tolist())
    [0.5, 0.75]
    """
    with needed("reading results", "experiments"):
        import pandas  # noqa: F401
        import pyarrow  # noqa: F401
    frames: list[pd.DataFrame] = []
    for folder, status in list_runs(root):
        if status["state"] == "finished" or not finished_only:
            frames.extend(read_run(folder))
    if not frames:
        raise ResultsError(f"{root}: no results in it")
    table = join_rows(frames)
    return table if per_node else table.drop(columns=PER_NODE, errors="ignore")


# The numbers to show first


@dataclass(frozen=True)
class Column:
    """One metric at one level: the means over trials, by method."""

    metric: Metric
    title: str
    values: pd.Series


def headline(table: pd.DataFrame, record: Experiment) -> list[Column]:
    """Return what to show of a run first: the metrics that its record names, then other scores, then the graph.

    Levels are never averaged: values are those of the largest samples, and those of the fewest and the most labels in
    propagation.

    Examples
    --------
    >>> import pandas as pd
    >>> from asbc.runs import Experiment
    >>> from asbc.runs.results import headline
    >>> row = {"method": "knn", "metric": "loo", "trial": 0}
    >>> table = pd.DataFrame([{**row, "samples": s, "level": s, "value": v} for s, v in ((5, 0.4), (20, 0.8))])
    >>> [(column.title, float(column.values["knn"])) for column in headline(table, Experiment("loo"))]
    [('LOO', 0.8)]
    """
    rows = table[~table["method"].str.startswith(CANDIDATES)]
    rows = rows[rows["samples"] == last_level(rows)]
    measured = rows["metric"].unique().tolist()
    # Scores and metrics that asbc does not know; of those it knows, the rest would fill pages.
    others = [name for name in measured if record.metric(name).needs_labels or name not in METRICS]
    found: list[Column] = []
    for name in dict.fromkeys((*record.headline, *others, *GRAPH)):
        plain = name.removesuffix("_balanced")
        if name in measured and name != "lp_unreached" and (plain == name or balanced_differs(rows, plain)):
            metric = record.metric(name)
            for title, own in _slices(rows[rows["metric"] == name], metric):
                found.append(Column(metric, title, own.groupby("method", sort=False)["value"].mean()))
    return found


def _slices(rows: pd.DataFrame, metric: Metric) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield titles and rows of the columns of one metric."""
    by = [column for column in ("scale", *metric.by) if column in rows]
    own = rows[rows[by].isna().all(axis=1)]
    if own.empty and "target" in by:  # compare the first target with each estimator
        for estimator, group in rows[rows["target"] == rows["target"].iloc[0]].groupby("estimator", sort=False):
            yield f"{metric.title}, d by {estimator}", group
    elif metric.level != PER_SAMPLE:
        for level in sorted({own["level"].min(), own["level"].max()}):
            yield f"{metric.title}, {level:g} {metric.level.removesuffix(' per class')}", own[own["level"] == level]
    elif len(own):
        yield metric.title, own


def summary(table: pd.DataFrame, record: Experiment) -> dict[str, float]:
    """Return the numbers of the headline by ``metric/method``; where a metric has two levels, the last one counts."""
    return {
        f"{column.metric.name}/{method}": float(value)
        for column in headline(table, record)
        for method, value in column.values.items()
    }
