"""Runs in folders, sorted by data set and experiment, and every comparison that a report shows of them."""

from __future__ import annotations

import json
import logging
import re
import shlex
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from asbc.evaluate.comparison import Comparison, compare, hits_of
from asbc.evaluate.tasks import METRICS, PER_SAMPLE, Metric
from asbc.report.names import level_order, set_own_methods
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment
from asbc.runs.results import (
    CANDIDATES,
    ResultsError,
    StoredRun,
    flat_settings,
    last_level,
    open_run,
    run_folders,
    varying_settings,
)

log = logging.getLogger("asbc")

# Settings of the paper. Claims come from the runs that are nearest to them.
PAPER_DEFAULTS = {
    "k_cand": 30,
    "bandwidth.gamma": 1.0,
    "bandwidth.n_grid": 12,
    "dimension.n_rep": 5,
    "graph.k_min": 6,
    "neighbors.metric": "cosine",
    "seed": 0,
}
REQUIRED = {"dataset", "encoder", "method", "samples", "level", "trial", "metric", "value"}
BASELINE = "knn"  # the method that others are compared with
FEWEST_TRIALS = 3  # verdicts need at least this many
PLACE = ["samples", "level", "trial"]  # what two methods must share to be a pair


@dataclass(frozen=True)
class Sweep:
    """All runs of an experiment that differ in some settings."""

    metric: Metric  # what is shown: the headline of the experiment
    axes: dict[str, Any]  # the settings that differ, by short names, with the values nearest to the paper
    frame: pd.DataFrame  # the settings, `method`, `level`, `trial` and `value` of each score at the largest samples

    @property
    def methods(self) -> list[str]:
        return self.frame["method"].drop_duplicates().tolist()

    def values(self, axis: str) -> list[Any]:
        """Return the values of a setting: numbers by size, others as text."""
        found = self.frame[axis].drop_duplicates().tolist()
        return sorted(found, key=lambda value: (not is_number(value), value if is_number(value) else str(value)))

    def at(self, settings: Mapping[str, Any], method: str) -> pd.DataFrame:
        """Return the rows of a method at some settings."""
        rows = self.frame[self.frame["method"] == method]
        for axis, value in settings.items():
            rows = rows[rows[axis] == value]
        return rows

    def means(self, method: str) -> pd.Series:
        """Return the mean of a method at all settings."""
        return self.at({}, method).groupby(list(self.axes), dropna=False)["value"].mean()

    def best(self, method: str) -> dict[str, Any]:
        """Return the settings at which a method has the best mean."""
        means = self.means(method).sort_values(ascending=self.metric.higher_is_better is False, kind="stable")
        return {axis: means.reset_index()[axis].iloc[0] for axis in self.axes}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def short(value: Any) -> str:
    """Return the value of a setting as text."""
    return f"{value:g}" if is_number(value) else str(value)


@dataclass
class Study:
    """Results of one experiment on one data set. The settings of its runs differ only in what the experiment sweeps."""

    record: Experiment
    rows: pd.DataFrame  # in a sweep, the column `setting` holds the swept value
    runs: list[StoredRun]  # the runs that the rows come from
    others: list[StoredRun] = field(default_factory=list)  # runs with other settings, not among the rows
    sweep: Sweep | None = None  # all runs, if they differ in more than the setting that the experiment sweeps
    _computed: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def all_ids(self) -> set[str]:
        return {run.id for run in (*self.runs, *self.others)}

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the results, without the bandwidths that were tuned with labels."""
        return [name for name in self.rows["method"].drop_duplicates().tolist() if not name.startswith(CANDIDATES)]

    @property
    def settings(self) -> list[Any]:
        """The swept values, sorted."""
        return sorted(self.rows["setting"].dropna().unique().tolist())

    @property
    def swept(self) -> bool:
        """Whether there are several values of the swept setting."""
        return len(self.settings) > 1

    @property
    def base(self) -> Any:
        """The swept value that others are compared with."""
        wanted = None if self.record.axis is None else self.record.axis.base
        return wanted if wanted in self.settings else self.settings[0]

    def of(self, metric: str) -> pd.DataFrame:
        """Return the rows of one metric."""
        return self.rows[self.rows["metric"] == metric]

    def has(self, metric: str) -> bool:
        return bool((self.rows["metric"] == metric).any())

    def methods_with(self, metric: str) -> list[str]:
        """Return the methods that have rows of a metric."""
        measured = set(self.of(metric)["method"])
        return [method for method in self.methods if method in measured]

    def levels(self, metric: str) -> list[Any]:
        """Return the levels of a metric by size, all samples last."""
        return sorted(self.of(metric)["level"].unique().tolist(), key=level_order)

    def largest_sample(self, metric: str) -> Study:
        """Return the part with the most samples per class, for a metric whose levels are not samples per class."""
        by_samples = self.record.metric(metric).level == PER_SAMPLE
        return self if by_samples or not self.has(metric) else self.at_samples(last_level(self.of(metric)))

    def at_samples(self, samples: int) -> Study:
        """Return the part with one number of samples per class."""
        own = self.rows["samples"] == samples
        return self if own.all() else self._once(("samples", samples), lambda: replace(self, rows=self.rows[own]))

    def generic_metrics(self) -> list[str]:
        """Return the metrics that need a generic figure or table: those that no record describes.

        A record without figures and tables of its own also gets them for its headline and for metrics of a task.
        """
        shown = (*self.record.figures, *self.record.tables)
        named = {metric for spec in shown for metric in spec.metrics}

        def wanted(metric: str) -> bool:
            if metric in METRICS and (shown or not (metric in self.record.headline or METRICS[metric].task)):
                return False
            return metric not in named and bool(self.scores(metric))

        return [metric for metric in self.rows["metric"].unique().tolist() if wanted(metric)]

    # Comparisons. Each is computed once; claims, tables and figures share it.

    def scores(self, metric: str, by: str | tuple[str, ...] = "method") -> dict[Any, pd.DataFrame]:
        """Return the finite rows of each method, or of each value of other columns, by samples, level and trial."""
        return self._once(("scores", metric, by), lambda: _scores(self.of(metric), by))

    def compare(
        self, a: Any, b: Any, metric: str, level: int | None = None, by: str | tuple[str, ...] = "method"
    ) -> Comparison | None:
        """Compare method `a` with method `b`, or values of other columns; None if they have no trial in common."""
        scores = self.scores(metric, by)
        return self._once((a, b, metric, level, by), lambda: _compare(scores.get(a), scores.get(b), level))

    def compare_settings(self, method: str, setting: Any, metric: str, base: Any = None) -> Comparison | None:
        """Compare a method at one swept value with itself at another, by default at the base."""
        base = self.base if base is None else base
        return self.compare((method, setting), (method, base), metric, by=("method", "setting"))

    def regret(self, method: str) -> Comparison | None:
        """Compare the best bandwidth that tuning with labels finds in each trial with the one a method chose."""
        best = self.of("regret")
        best = best[best["method"] == method][["weights", "samples", "trial", "best_scale", "best_per_node"]]
        tuned = self.of("loo")
        tuned = tuned[tuned["method"].str.startswith(CANDIDATES)]
        if best.empty or tuned.empty:
            return None
        best = best.rename(columns={"best_scale": "scale", "best_per_node": "per_node"}).astype({"per_node": bool})
        tuned = tuned.astype({"per_node": bool}).assign(method="tuned").merge(best, on=list(best.columns))
        return _compare(_scores(tuned, "method").get("tuned"), self.scores("loo").get(method))

    def _once(self, key: Hashable, work: Callable[[], Any]) -> Any:
        if key not in self._computed:
            self._computed[key] = work()
        return self._computed[key]


def _compare(a: pd.DataFrame | None, b: pd.DataFrame | None, level: int | None = None) -> Comparison | None:
    """Compare two tables of scores where both have one, at one level or at all; None if that is nowhere."""
    if a is None or b is None:
        return None
    places = a.index.intersection(b.index).sort_values()
    if level is not None:
        places = places[places.get_level_values("level") == level]
    if not len(places):
        return None
    first, second = a.loc[places], b.loc[places]
    return compare(
        first["value"].to_numpy(float),
        second["value"].to_numpy(float),
        trial=places.get_level_values("trial"),
        hits_a=hits_of(first),
        hits_b=hits_of(second),
    )


def default_target(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows of alignment that compare r with another estimate than dimMST, or match it to another one."""
    if "estimator" not in rows:
        return rows
    return rows[rows["estimator"].isna() | ((rows["estimator"] == "mst") & (rows["target"] == "mst"))]


def _scores(rows: pd.DataFrame, by: str | tuple[str, ...]) -> dict[Any, pd.DataFrame]:
    """Return the finite rows of each group, indexed by place; groups with several rows for one place are left out."""
    rows = rows if "target" in by else default_target(rows)
    rows = rows[np.isfinite(rows["value"].astype(float))]
    columns = [*PLACE, "value", *(name for name in ("scored", "right") if name in rows)]
    groups = rows.groupby(by if isinstance(by, str) else list(by), sort=False)
    found = {name: own[columns].set_index(PLACE) for name, own in groups}
    return {name: own for name, own in found.items() if not own.index.has_duplicates}


def compare_number(rows: pd.DataFrame, number: float) -> Comparison | None:
    """Compare the finite values of some rows with a number; None if there are none."""
    rows = rows[np.isfinite(rows["value"].astype(float))]
    if rows.empty:
        return None
    values = rows["value"].to_numpy(float)
    hits = hits_of(rows) if number == 0 else None
    none = None if hits is None else np.minimum(hits, 0)
    return compare(values, np.full(len(values), number), trial=rows["trial"].to_numpy(), hits_a=hits, hits_b=none)


# Subjects


@dataclass(frozen=True)
class Subject:
    """Embeddings that were studied: one data set seen by one encoder."""

    dataset: str
    encoder: str
    studies: dict[str, Study]  # by experiment
    overrides: list[str]  # what was typed about these embeddings
    mark: str = ""  # start of their fingerprint, if other embeddings have the same name
    failed: dict[str, str] = field(default_factory=dict)  # errors of experiments that have no rows
    labeled: bool = True

    @property
    def name(self) -> str:
        return " · ".join(dict.fromkeys((self.dataset, self.encoder))) + (f" ({self.mark})" if self.mark else "")

    @property
    def slug(self) -> str:
        """Name for files and links."""
        return _slug(self.name)

    @property
    def missing(self) -> list[str]:
        """Experiments that were not run and can be run: without labels, only those that need none."""
        left = {name: r for name, r in EXPERIMENTS.items() if r.suggested and (self.labeled or not r.needs_labels)}
        return [name for name in left if name not in self.studies and name not in self.failed]

    def heading(self, experiment: str) -> str:
        """Return the title of an experiment's section."""
        known = self.studies[experiment].record if experiment in self.studies else EXPERIMENTS.get(experiment)
        return experiment if known is None else known.heading

    def anchor(self, experiment: str) -> str:
        """Return the id of an experiment's section."""
        return f"{_slug(experiment)}-{self.slug}"

    def command(self, experiment: str) -> str:
        """Return the command that runs an experiment on these embeddings."""
        return shlex.join(["asbc", f"experiment={experiment}", *map(str, self.overrides)])


@dataclass(frozen=True)
class Evidence:
    """Everything that was found in some folders: subjects, runs (oldest first), and why folders were skipped."""

    subjects: list[Subject]
    runs: list[StoredRun]
    skipped: dict[str, str] = field(default_factory=dict)


def data_name(run: StoredRun) -> str:
    """Return the name of the data of a run: data set and encoder, once if they are the same."""
    return " · ".join(dict.fromkeys(str(run.status.get(key, "unknown")) for key in ("dataset", "encoder")))


def _slug(name: str) -> str:
    """Return a name for files and links."""
    return "-".join(re.findall(r"\w+", name.lower()))


def read_evidence(folders: Iterable[str | Path]) -> Evidence:
    """Read all runs under some folders. Nothing that the files name is imported.

    The titles and colours in the records of these runs are used from then on.

    Parameters
    ----------
    folders : iterable of str or Path
        Results folders (`outputs`), single runs, or folders above them. A run that is found twice counts once.

    Returns
    -------
    Evidence

    See Also
    --------
    asbc.collect : the rows alone, as one table.
    asbc.report.command.make_report : write the page.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.report.evidence import read_evidence
    >>> from asbc.runs.results import Run
    >>> row = {"dataset": "mine", "encoder": "files", "method": "knn", "samples": 20, "level": 20, "trial": 0}
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with Run(root, "abc", {"k_cand": 30}) as run:
    ...         done = run.begin(experiment="loo", dataset="mine", encoder="files")
    ...         run.append("trial-0", [{**row, "metric": "loo", "value": 0.9}])
    ...         table = run.finish()
    ...     (subject,) = read_evidence([root]).subjects
    >>> subject.name, list(subject.studies)
    ('mine · files', ['loo'])
    """
    roots = [Path(folder) for folder in folders]
    found: dict[str, StoredRun] = {}
    skipped: dict[str, str] = {}
    for folder in roots:
        paths = run_folders(folder)
        if not paths:
            raise ResultsError(
                f"{folder}: no runs in it; give a folder that `asbc` wrote (`outputs` by default), "
                "or run an experiment first: asbc experiment=loo"
            )
        for path in paths:
            run = _read(path, skipped)
            if run is not None and (run.id not in found or (run.finished and not found[run.id].finished)):
                found[run.id] = run
    stored = sorted(found.values(), key=lambda run: run.status.get("started", 0.0))
    if all(run.rows is None for run in stored):
        states = [f"{run.id} {run.status['state']}" for run in stored]
        states += [f"{path} skipped ({reason})" for path, reason in skipped.items()]
        raise ResultsError(f"{', '.join(map(str, roots))}: no run has results yet ({', '.join(states)})")
    methods = [name for run in stored if run.rows is not None for name in run.rows["method"].unique()]
    set_own_methods([run.record for run in stored], methods)
    return Evidence(_subjects(stored), stored, skipped)


def _read(path: Path, skipped: dict[str, str]) -> StoredRun | None:
    """Read a run; one that cannot be read is named in `skipped`."""
    try:
        run = open_run(path)
        if run.rows is not None and (missing := REQUIRED - set(run.rows.columns)):
            raise ResultsError(f"the rows have no {', '.join(sorted(missing))}; `asbc` did not write them")
        return run
    except (ResultsError, ValueError, OSError, RecursionError, MemoryError) as error:
        skipped[str(path)] = str(error).removeprefix(f"{path}: ")
        log.warning("%s: skipped (%s)", path, skipped[str(path)])
    return None


def _subjects(stored: list[StoredRun]) -> list[Subject]:
    """Return a subject for the runs on the same vectors. Those of one name get the start of their fingerprint."""
    groups: dict[tuple[str, str], list[StoredRun]] = {}
    for run in stored:
        vectors = str(run.status.get("vectors", run.status.get("fingerprint", "")))
        groups.setdefault((_slug(data_name(run)), vectors), []).append(run)
    times = Counter(slug for slug, _ in groups)
    subjects = []
    for (slug, vectors), group in groups.items():
        if not (studies := _studies(group)):
            continue
        typed: list[str] = next((run.status["typed"] for run in reversed(group) if run.status["typed"]), [])
        failed = {
            run.experiment: str(run.status.get("error") or "no reason was recorded")
            for run in group
            if run.status["state"] == "failed" and run.experiment not in studies
        }
        subjects.append(
            Subject(
                str(group[0].status.get("dataset", "unknown")),
                str(group[0].status.get("encoder", "unknown")),
                studies,
                typed,
                mark=vectors[:8] if times[slug] > 1 else "",
                failed=failed,
                labeled=any(run.status.get("labelled", True) for run in group),
            )
        )
    return subjects


# Studies


def _studies(group: list[StoredRun]) -> dict[str, Study]:
    """Return the studies of one subject: asbc's own experiments first, then others in the order of their runs."""
    usable = [run for run in group if run.rows is not None]
    others = [run for run in usable if run.experiment not in EXPERIMENTS]
    studies: dict[str, Study] = {}
    for name, record in EXPERIMENTS.items():
        accepted = [run for run in others if record.accepts in set(run.rows["metric"])]  # type: ignore[index]
        own = _study([run for run in usable if run.experiment == name])
        if study := own or _study(accepted, record, least=2 if record.axis else 1):
            # The same runs may be shown as several experiments; the first shows the sweep.
            if any(study.all_ids == other.all_ids for other in studies.values()):
                study.sweep = None
            studies[name] = study
    shown = {run.id for study in studies.values() for run in study.runs}
    for name in dict.fromkeys(run.experiment for run in others):
        named = [run for run in others if run.experiment == name]
        # A plain `asbc` run that another section shows adds nothing.
        if (name != "default" or any(run.id not in shown for run in named)) and (study := _study(named)):
            studies[name] = study
    return studies


def _study(group: list[StoredRun], shown_as: Experiment | None = None, least: int = 1) -> Study | None:
    """Return the study of one experiment: its runs nearest to the settings of the paper.

    Runs that differ only in the setting that the experiment sweeps belong together. Runs of other experiments are
    `shown_as` this one.
    """
    if not group:
        return None
    record = group[-1].record
    record = shown_as.described(record.metrics) if shown_as else record
    axis = record.axis.key if record.axis else None
    series: dict[str, dict[Any, StoredRun]] = {}
    for run in group:
        value = run.setting(axis) if axis else None
        if axis is None or is_number(value):
            own = series.setdefault(_other_settings(run, axis), {})
            if value not in own or run.finished or not own[value].finished:
                own[value] = run

    def preference(own: dict[Any, StoredRun]) -> tuple[Any, ...]:
        runs = list(own.values())
        defaults = [(key, value) for key, value in PAPER_DEFAULTS.items() if key != axis]
        away = sum(run.setting(key) not in (None, value) for run in runs for key, value in defaults)
        newest = max(map(group.index, runs))
        return len(own) > 1, all(run.finished for run in runs), -away / len(own), len(own), newest

    best = max(series.values(), key=preference, default={})
    if len(best) < least:
        return None
    kept = [best[value] for value in sorted(best)]
    tables = [best[value].rows.assign(setting=value) for value in sorted(best)]  # type: ignore[union-attr]
    others = [run for run in group if run not in kept]
    sweep = _sweep(group, kept[-1], record) if others else None
    return Study(record, pd.concat(tables, ignore_index=True), kept, others, sweep)


def _sweep(group: list[StoredRun], nearest: StoredRun, record: Experiment) -> Sweep | None:
    """Return all runs of an experiment with the settings in which they differ; None if these cannot be compared."""
    flat = {run.id: flat_settings(run.settings) for run in group}
    axes = varying_settings(list(flat.values()))
    tables: dict[str, Any] = {run.id: run.rows for run in group}
    measured = [name for name in record.headline if any((rows["metric"] == name).any() for rows in tables.values())]
    metric = record.metric(measured[0] if measured else str(tables[group[-1].id]["metric"].iloc[0]))
    frames = []
    for run in sorted(group, key=lambda run: run.finished):
        rows = default_target(tables[run.id][tables[run.id]["metric"] == metric.name])
        rows = rows[~rows["method"].str.startswith(CANDIDATES)]
        if len(rows):
            rows = rows[rows["samples"] == last_level(rows)]
            frames.append(rows.assign(**{name: _plain(flat[run.id].get(key)) for key, name in axes.items()}))
    if len(frames) < 2 or not axes:
        return None
    frame = pd.concat(frames, ignore_index=True)
    frame = frame.drop_duplicates([*axes.values(), "method", "level", "trial"], keep="last")
    usual = {name: _plain(flat[nearest.id].get(key)) for key, name in axes.items()}
    if record.axis is not None and record.axis.key in axes:
        usual[axes[record.axis.key]] = record.axis.base
    return Sweep(metric, usual, frame)


def _plain(value: Any) -> Any:
    """Return a number as it is, and everything else (lists, maps, missing values) as text."""
    return value if is_number(value) else str(value)


def _other_settings(run: StoredRun, axis: str | None) -> str:
    """Return a key that is equal for runs that differ only in the swept setting."""
    flat = flat_settings(run.settings)
    if axis:
        # Methods hold copies of the bandwidth's settings, and the search holds one of k_cand.
        last = axis.rpartition(".")[2]
        copies = {axis, "neighbors.k"} if axis == "k_cand" else {axis}
        flat = {key: value for key, value in flat.items() if key not in copies and not key.endswith("." + last)}
    flat["fingerprint"] = run.status.get("fingerprint")
    return json.dumps(flat, sort_keys=True, default=str)
