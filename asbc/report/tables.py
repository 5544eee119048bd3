"""The tables: one function per kind of table. Every difference has its paired interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.comparison import Comparison
from asbc.evaluate.tasks import PER_SAMPLE, Metric, balanced_differs
from asbc.report.evidence import BASELINE, Study, Sweep, default_target, short
from asbc.report.names import SPECTRAL, WEIGHTS, label, level_name
from asbc.runs.record import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Cell = str | Comparison | None
Column = tuple[str, Callable[[Any], Cell]]  # heading, and the cell of a row


@dataclass(frozen=True)
class FilledTable:
    """A table of the report."""

    name: str
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    less_is_better: bool = False  # whether a difference below 0 is the better one

    def text(self) -> list[list[str]]:
        """Return the cells as plain text."""
        return [
            ["" if c is None else interval(c) if isinstance(c, Comparison) else c for c in row] for row in self.rows
        ]

    def markdown(self) -> str:
        """Return the table for a README."""
        lines = [list(self.header), ["---"] + ["---:"] * (len(self.header) - 1), *self.text()]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def rich(self) -> RichTable:
        """Return the table for a terminal."""
        from rich.table import Table as RichTable

        view = RichTable(title=self.title, caption=self.note)
        for column, name in enumerate(self.header):
            view.add_column(name, justify="left" if column == 0 else "right")
        for row in self.text():
            view.add_row(*row)
        return view


def interval(c: Comparison) -> str:
    """Return a difference and its interval in one short line; trials that all agree have no interval."""
    if np.isclose(c.low, c.high, rtol=0, atol=1e-12):
        return f"{c.difference:+.4f} in every trial"
    return f"{c.difference:+.4f} [{c.low:+.4f}, {c.high:+.4f}]"


def fill_tables(study: Study) -> list[FilledTable]:
    """Return the tables that the record of a study asks for, and generic ones of metrics that it does not name."""
    record = study.record
    specs = list(record.tables)
    generic = study.generic_metrics()
    scored = [metric for metric in generic if record.metric(metric).task or "right" in study.of(metric).dropna(axis=1)]
    for metric in scored:
        unit = record.metric(metric).level
        specs.append(Table("levels", metric, f"{record.metric(metric).title} by {unit}", metrics=(metric,)))
    others = tuple(metric for metric in generic if metric not in scored)
    if others:
        title = "Other measurements" if specs else "Measurements"
        specs.append(Table("methods", "measurements", title, "Means over trials and levels.", others))
    filled = [RENDERERS.get(spec.kind, methods)(study, spec) for spec in specs]
    if study.sweep is not None:
        filled.append(_sweep_runs(study.sweep))
    return [table for table in filled if table is not None and len(table.header) > 1]


def _fill(
    spec: Table, rows: Iterable[Any], columns: Iterable[Column], *notes: str, about_differences: str = "", **more: Any
) -> FilledTable:
    """Fill a table: each column has a heading and a function from a row's key to its cell.

    Empty columns are left out. `about_differences` is noted where there are any.
    """
    named = list(columns)
    body = [[cell(row) for _, cell in named] for row in rows]
    kept = [i for i in range(len(named)) if not body or any(cells[i] is not None for cells in body)]
    found = [cell for cells in body for cell in cells if isinstance(cell, Comparison)]
    if found:
        over = " or ".join(sorted({c.over for c in found}, reverse=True))
        trials = ", ".join(map(str, sorted({c.trials for c in found})))
        how = f"95% bootstrap intervals over {over}; trials: {trials}."
        notes = (*notes, about_differences, how)
    note = " ".join(text for text in (spec.caption, *notes) if text)
    header = [named[i][0] for i in kept]
    return FilledTable(spec.name, spec.title, note, header, [[cells[i] for i in kept] for cells in body], **more)


def _mean_of(study: Study, metric: str, title: str | None = None, digits: int | None = None) -> Column:
    """Return a column with the means of a metric by method."""
    return title or study.record.metric(metric).title, lambda method: _mean(study, method, metric, digits)


def levels(study: Study, spec: Table) -> FilledTable | None:
    """Fill a table of one metric: methods by levels, and the difference from kNN over all levels."""
    metric = spec.metrics[0]
    if not study.has(metric):
        return None
    study = study.largest_sample(metric)
    about, names = study.record.metric(metric), study.methods_with(metric)
    base = BASELINE if BASELINE in names else names[0]
    means = study.of(metric).groupby(["method", "level"])["value"].mean()
    gains = {method: study.compare(method, base, metric) for method in names if method != base}

    def at(level: float) -> Column:
        return level_name(level), lambda method: _number(means.get((method, level)), about, 3)

    def counts(method: str) -> Cell:
        gain = gains.get(method)
        return None if gain is None else f"{gain.wins}/{gain.ties}/{gain.losses}, p={gain.p_value:.2g}"

    columns = [("method", label), *map(at, study.levels(metric))]
    notes = ["Means over trials. The difference is over all levels, paired by trial. W/T/L: pairs won, tied, lost."]
    if balanced_differs(study.rows, metric):
        columns.append(_mean_of(study, f"{metric}_balanced", "class-balanced", 3))
        notes.append("Class-balanced: mean over classes of each class's accuracy, over all levels.")
    notes += _short_classes(study, metric)
    if study.has(f"{metric}_unreached"):
        columns.append(_mean_of(study, f"{metric}_unreached", "unreached"))
        notes.append("Unreached: nodes that no label reaches; they count as wrong.")
    columns += [(f"difference from {label(base)}", gains.get), ("W/T/L, p", counts)]
    return _fill(spec, names, columns, *notes)


def methods(study: Study, spec: Table) -> FilledTable:
    """Fill a table with the means of several metrics by method."""
    named = [metric for metric in spec.metrics if study.has(metric)]
    return _fill(spec, study.methods, [("method", label), *(_mean_of(study, metric) for metric in named)])


def steps(study: Study, spec: Table) -> FilledTable:
    """Fill a table with the differences between consecutive methods."""

    def gain(metric: str) -> Column:
        return study.record.metric(metric).title, lambda pair: study.compare(pair[1], pair[0], metric)

    step: Column = ("step", lambda pair: f"{label(pair[0])} → {label(pair[1])}")
    columns = [step, *(gain(metric) for metric in spec.metrics if study.has(metric))]
    return _fill(spec, pairwise(study.methods), columns)


def sweep(study: Study, spec: Table) -> FilledTable | None:
    """Fill a table with metrics at each value of the swept setting, next to those of the paper."""
    axis, paper = study.record.axis, study.record.paper
    if axis is None:
        return None
    base = study.base

    def columns(metric: str) -> Iterator[Column]:
        about = study.record.metric(metric)
        yield about.title, lambda row: _mean(study, row[0], metric, setting=row[1])
        if isinstance(paper.get(metric), list):
            printed = dict(zip(paper.get("value", ()), paper[metric], strict=False))
            digits = 3 if about.digits > 1 else about.digits
            only = [paper["method"]] if "method" in paper else study.methods
            yield "paper", lambda row: _number(printed.get(row[1]) if row[0] in only else None, about, digits)
        if metric == spec.metrics[0]:
            heading = f"from {axis.label} = {base:g}"
            yield heading, lambda row: None if row[1] == base else study.compare_settings(row[0], row[1], metric)

    keys: list[Column] = [("method", lambda row: label(row[0])), (axis.label, lambda row: f"{row[1]:g}")]
    measured = [column for metric in spec.metrics if study.has(metric) for column in columns(metric)]
    rows = [row for row in product(study.methods, study.settings) if any(cell(row) is not None for _, cell in measured)]
    about = f"Differences are from {axis.label} = {base:g}, in the same trials."
    return _fill(spec, rows, [*keys, *measured], about_differences=about)


def rules(study: Study, spec: Table) -> FilledTable:
    """Fill a table of bandwidth rules, each against the spectral rule with the same weights."""

    def columns(metric: str) -> Iterator[Column]:
        def gain(row: tuple[str, str]) -> Cell:
            kind, method = row
            base = SPECTRAL.get(kind, "nnk_sigma")
            return None if method == base else study.compare(method, base, metric)

        title, mean = _mean_of(study, metric)
        yield title, lambda row: mean(row[1])
        yield "difference from spectral", gain

    weights: Column = ("weights", lambda row: WEIGHTS.get(row[0], "its own"))
    measured = [column for metric in spec.metrics if study.has(metric) for column in columns(metric)]
    return _fill(spec, _by_weights(study), [RULE, weights, *measured])


def regret(study: Study, spec: Table) -> FilledTable:
    """Fill a table of how far each rule is from the best bandwidth that tuning with labels finds."""
    best = study.of("regret")
    scales = {
        method: ", ".join(f"{scale:g}" for scale in sorted(own.unique()))
        for method, own in (best.groupby("method")["best_scale"] if len(best) else ())
    }
    columns: list[Column] = [
        RULE,
        ("weights", lambda row: WEIGHTS.get(row[0], row[0])),
        ("LOO", lambda row: _mean(study, row[1], "loo")),
        ("regret", lambda row: study.regret(row[1])),
        ("best c", lambda row: scales[row[1]]),
    ]
    return _fill(spec, [row for row in _by_weights(study) if row[1] in scales], columns, less_is_better=True)


RENDERERS: dict[str, Callable[[Study, Table], FilledTable | None]] = {
    "levels": levels,
    "methods": methods,
    "steps": steps,
    "sweep": sweep,
    "rules": rules,
    "regret": regret,
}


def _sweep_runs(sweep: Sweep) -> FilledTable:
    """Fill a table of all runs of a sweep by the settings in which they differ, the best first."""
    low = sweep.metric.higher_is_better is False
    means = sweep.frame.pivot_table(index=list(sweep.axes), columns="method", values="value", sort=False)
    means = means.reindex(columns=sweep.methods)  # a method without a finite value has no column
    best = means.min(axis=1) if low else means.max(axis=1)
    rows = means.loc[best.sort_values(ascending=low, kind="stable").index].reset_index().to_dict("records")

    def setting(axis: str) -> Column:
        return axis, lambda row: short(row[axis])

    def mean(method: str) -> Column:
        return f"{sweep.metric.title} {label(method)}", lambda row: _number(row[method], sweep.metric)

    note = "Means over trials at the largest samples, sorted by the best method of each run."
    spec = Table("runs", "runs", "All runs by their settings", note)
    return _fill(spec, rows, [*map(setting, sweep.axes), *map(mean, sweep.methods)])


def _short_classes(study: Study, metric: str) -> list[str]:
    """Return notes on classes with fewer samples than a level asks for, and on nodes without a label."""
    rows = study.of(metric)
    if "short_classes" not in rows or rows["short_classes"].isna().all():
        return []
    notes = []
    most = rows.groupby("level")["short_classes"].max()
    few = [f"{int(most[level])} at {level_name(level)}" for level in study.levels(metric) if most[level] > 0]
    if few:
        by_samples = study.record.metric(metric).level == PER_SAMPLE
        what = "give all the samples they have" if by_samples else "are all labelled and are not scored"
        classes = int(rows["classes"].max())
        notes.append(f"Of {classes} classes, those with too few samples for a level {what}: {', '.join(few)}.")
    if unlabeled := int(rows["unlabelled"].max()):
        notes.append(f"{unlabeled:,} nodes without a label are in the graph and are not scored.")
    return notes


def _by_weights(study: Study) -> list[tuple[str, str]]:
    """Return the kind of weights and the name of each method, by kind and the best in LOO first."""
    loo = study.of("loo")
    means = loo[loo["method"].isin(study.methods)].groupby(["weights", "method"])["value"].mean().sort_values()
    kinds = dict.fromkeys(["gaussian", "nnk", "uniform", *means.index.get_level_values(0)])
    return sorted(means.index[::-1], key=lambda row: list(kinds).index(row[0]))


# The name of a method where its kind of weights is in the next column.
KNOWN_RULES = {"knn_sigma": "spectral", "nnk_sigma": "spectral", "knn_fixed": "fixed", "nnk_fixed": "fixed"}
RULE: Column = ("rule", lambda row: KNOWN_RULES.get(row[1], label(row[1])))


def _mean(study: Study, method: str, metric: str, digits: int | None = None, setting: Any = None) -> str | None:
    rows = default_target(study.of(metric))
    rows = rows[(rows["method"] == method) & ((setting is None) | (rows["setting"] == setting))]
    return _number(rows["value"].astype(float).mean(), study.record.metric(metric), digits)


def _number(value: float | None, about: Metric, digits: int | None = None) -> str | None:
    if value is None or not np.isfinite(value):
        return None
    return f"{value:,.{about.digits if digits is None else digits}{'%' if about.percent else 'f'}}"
