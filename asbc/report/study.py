"""The results of one experiment on one data set, and every comparison that a report shows of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.comparison import Bootstrap, Comparison, compare, unpack_hits
from asbc.evaluate.metrics import METRICS, PER_SAMPLE, Metric
from asbc.report.style import level_order
from asbc.runs.record import Experiment

if TYPE_CHECKING:
    import pandas as pd

BASELINE = "knn"  # the method that others are compared with
FEWEST_TRIALS = 3  # verdicts need at least this many
PLACE = ["samples", "level", "trial"]  # what two methods must share to be a pair


@dataclass(frozen=True)
class StoredRun:
    """One run's folder."""

    id: str
    status: dict[str, Any]  # `status.json`
    settings: dict[str, Any]  # the resolved config
    rows: pd.DataFrame | None  # the results so far; None if there are none yet
    text: str  # the resolved config as YAML
    record: Experiment

    @property
    def experiment(self) -> str:
        return str(self.status.get("experiment", "unknown"))

    @property
    def finished(self) -> bool:
        return self.status["state"] == "finished"

    def setting(self, path: str) -> Any:
        """Return a setting by its dotted path, such as `bandwidth.gamma`; None if there is none."""
        value: Any = self.settings
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Sweep:
    """All runs of an experiment that differ in some settings."""

    metric: Metric  # what is shown: the headline of the experiment
    axes: dict[str, Any]  # the settings that differ, by short names, with the values nearest to the paper
    frame: pd.DataFrame  # the settings, `method`, `level`, `trial` and `value` of each score at the largest samples
    bootstrap: Bootstrap

    @property
    def methods(self) -> list[str]:
        return self.frame["method"].drop_duplicates().tolist()

    def values(self, axis: str) -> list[Any]:
        """Return the values of a setting: numbers by size, others as text."""
        found = self.frame[axis].drop_duplicates().tolist()
        return sorted(found, key=lambda value: (not is_number(value), value if is_number(value) else str(value)))

    def at(self, settings: Mapping[str, Any]) -> pd.DataFrame:
        """Return the rows at some settings."""
        rows = self.frame
        for axis, value in settings.items():
            rows = rows[rows[axis] == value]
        return rows

    def best(self, method: str) -> dict[str, Any]:
        """Return the settings at which a method has the best mean."""
        means = self.frame[self.frame["method"] == method].groupby(list(self.axes), dropna=False)["value"].mean()
        best = means.idxmin() if self.metric.higher_is_better is False else means.idxmax()
        return dict(zip(self.axes, best if isinstance(best, tuple) else (best,), strict=True))

    def mean(self, method: str, settings: Mapping[str, Any]) -> Comparison | None:
        """Return the mean of a method at some settings and its interval, as a difference from zero."""
        rows = self.at(settings)
        rows = rows[rows["method"] == method]
        return compare_number(rows, 0.0, self.bootstrap)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass
class Study:
    """Results of one experiment on one data set. The settings of its runs differ only in what the experiment sweeps."""

    record: Experiment
    rows: pd.DataFrame  # in a sweep, the column `setting` holds the swept value
    runs: list[StoredRun]  # the runs that the rows come from
    others: list[StoredRun] = field(default_factory=list)  # runs with other settings, not among the rows
    bootstrap: Bootstrap = field(default_factory=Bootstrap, repr=False)  # shared by all comparisons of a report
    sweep: Sweep | None = None  # all runs, if they differ in more than the setting that the experiment sweeps
    _computed: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def experiment(self) -> str:
        return self.record.name

    @property
    def finished(self) -> bool:
        return all(run.finished for run in self.runs)

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the results, without the bandwidths that were tuned with labels."""
        return [name for name in self.rows["method"].drop_duplicates().tolist() if not name.startswith("tuned_")]

    @property
    def settings(self) -> list[Any]:
        """The swept values, sorted."""
        return sorted(self.rows["setting"].dropna().unique().tolist())

    def of(self, metric: str) -> pd.DataFrame:
        """Return the rows of one metric."""
        return self._once(("rows", metric), lambda: self.rows[self.rows["metric"] == metric])

    def has(self, metric: str) -> bool:
        return not self.of(metric).empty

    def methods_with(self, metric: str) -> list[str]:
        """Return the methods that have rows of a metric."""
        measured = set(self.of(metric)["method"])
        return [method for method in self.methods if method in measured]

    def levels(self, metric: str) -> list[Any]:
        """Return the levels of a metric by size, all samples last."""
        return sorted(self.of(metric)["level"].unique().tolist(), key=level_order)

    def largest_sample(self, metric: str) -> Study:
        """Return the part with the most samples per class, for a metric whose levels are not samples per class."""
        samples = sorted(self.of(metric)["samples"].unique().tolist(), key=level_order)
        by_samples = self.record.metric(metric).level == PER_SAMPLE
        return self if by_samples or len(samples) < 2 else self.at_samples(samples[-1])

    def at_samples(self, samples: int) -> Study:
        """Return the part with one number of samples per class."""
        if (self.rows["samples"] == samples).all():
            return self
        return self._once(("samples", samples), lambda: self._part(self.rows[self.rows["samples"] == samples]))

    def _part(self, rows: pd.DataFrame) -> Study:
        return Study(self.record, rows, self.runs, self.others, self.bootstrap)

    def generic_metrics(self) -> list[str]:
        """Return the metrics that need a generic figure or table: those that no record describes.

        A record without figures and tables of its own also gets them for the metrics that measure a task.
        """
        shown = (*self.record.figures, *self.record.tables)
        named = {metric for spec in shown for metric in spec.metrics}

        def wanted(metric: str) -> bool:
            own = metric in self.record.headline or metric not in METRICS or bool(METRICS[metric].task)
            return metric not in named and own and (metric not in METRICS or not shown)

        return [metric for metric in self.rows["metric"].unique().tolist() if wanted(metric) and self.scores(metric)]

    # Comparisons. Each is computed once; claims, tables and figures share it.

    def scores(self, metric: str, by: str | tuple[str, ...] = "method") -> dict[Any, pd.DataFrame]:
        """Return the finite rows of each method, or of each value of other columns, by samples, level and trial."""
        return self._once(("scores", metric, by), lambda: _scores(self.of(metric), by))

    def compare(
        self, a: Any, b: Any, metric: str, level: int | None = None, by: str | tuple[str, ...] = "method"
    ) -> Comparison | None:
        """Compare method `a` with method `b`, or values of other columns; None if they have no trial in common."""
        scores = self.scores(metric, by)
        return self._pair((a, b, metric, level, by), scores.get(a), scores.get(b), level)

    def compare_settings(self, method: str, setting: Any, base: Any, metric: str) -> Comparison | None:
        """Compare a method at one swept value with itself at another."""
        return self.compare((method, setting), (method, base), metric, by=("method", "setting"))

    def compare_number(self, rows: pd.DataFrame, number: float) -> Comparison | None:
        """Compare the values of some rows with a number; None if no value is finite."""
        return compare_number(rows, number, self.bootstrap)

    def regret(self, method: str) -> Comparison | None:
        """Compare the best bandwidth that tuning with labels finds in each trial with the one a method chose."""
        best = self.of("regret")
        best = best[best["method"] == method][["weights", "samples", "trial", "best_scale", "best_per_node"]]
        tuned = self.of("loo")
        tuned = tuned[tuned["method"].str.startswith("tuned_")]
        if best.empty or tuned.empty:
            return None
        best = best.rename(columns={"best_scale": "scale", "best_per_node": "per_node"})
        best["per_node"] = best["per_node"].astype(bool)
        tuned = tuned.assign(per_node=tuned["per_node"].astype(bool), method="tuned")
        chosen = _scores(tuned.merge(best, on=list(best.columns)), "method").get("tuned")
        return self._pair(("regret", method), chosen, self.scores("loo").get(method))

    def _pair(
        self, key: Hashable, a: pd.DataFrame | None, b: pd.DataFrame | None, level: int | None = None
    ) -> Comparison | None:
        if a is None or b is None:
            return None

        def work() -> Comparison | None:
            places = a.index.intersection(b.index).sort_values()
            if level is not None:
                places = places[places.get_level_values("level") == level]
            if not len(places):
                return None
            sides = [a.loc[places], b.loc[places]]
            hits = [packed_hits(side) for side in sides]
            hits_a, hits_b = (unpack_hits(side) for side in hits) if all(hits) else (None, None)  # type: ignore[arg-type]
            return compare(
                *(side["value"].to_numpy(float) for side in sides),
                trial=places.get_level_values("trial"),
                hits_a=hits_a,
                hits_b=hits_b,
                bootstrap=self.bootstrap,
            )

        return self._once(("comparison", key), work)

    def _once(self, key: Hashable, work: Callable[[], Any]) -> Any:
        if key not in self._computed:
            self._computed[key] = work()
        return self._computed[key]


def default_target(rows: pd.DataFrame) -> pd.DataFrame:
    """Drop the rows of alignment that compare r with another estimate than dimMST, or match it to another one."""
    if "estimator" not in rows:
        return rows
    return rows[rows["estimator"].isna() | ((rows["estimator"] == "mst") & (rows["target"] == "mst"))]


def packed_hits(scores: pd.DataFrame) -> list[tuple[bytes, bytes]] | None:
    """Return for each row which nodes were scored and which were right; None if a row does not say so."""
    if "right" not in scores or not all(isinstance(bits, bytes) for bits in scores["right"]):
        return None
    return list(zip(scores["scored"], scores["right"], strict=True))


def _scores(rows: pd.DataFrame, by: str | tuple[str, ...]) -> dict[Any, pd.DataFrame]:
    """Return the finite rows of each group, indexed by place; groups with several rows for one place are left out."""
    rows = rows if "target" in by else default_target(rows)
    rows = rows[np.isfinite(rows["value"].astype(float))]
    columns = [*PLACE, "value", *(name for name in ("scored", "right") if name in rows)]
    groups = rows.groupby(by if isinstance(by, str) else list(by), sort=False)
    found = {name: own[columns].set_index(PLACE) for name, own in groups}
    return {name: own for name, own in found.items() if not own.index.has_duplicates}


def compare_number(rows: pd.DataFrame, number: float, bootstrap: Bootstrap) -> Comparison | None:
    """Compare the finite values of some rows with a number; None if there are none."""
    rows = rows[np.isfinite(rows["value"].astype(float))]
    if rows.empty:
        return None
    values = rows["value"].to_numpy(float)
    packed = packed_hits(rows) if number == 0 else None
    hits = None if packed is None else unpack_hits(packed)
    return compare(
        values,
        np.full(len(values), number),
        trial=rows["trial"].to_numpy(),
        hits_a=hits,
        hits_b=None if hits is None else np.minimum(hits, 0),
        bootstrap=bootstrap,
    )
