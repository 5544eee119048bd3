"""The tables: one function per kind of table. Every difference has its paired interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.scores import PER_SAMPLE, Comparison, Metric, balanced_differs
from asbc.report.evidence import BASELINE, Study, Sweep, default_target, is_number
from asbc.report.style import SPECTRAL, WEIGHTS, label, level_name
from asbc.runs.record import Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

Cell = str | Comparison | None


@dataclass(frozen=True)
class FilledTable:
    """A table of the report."""

    name: str
    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    less_is_better: bool = False  # whether a difference below 0 is the better one

    def without_empty_columns(self) -> FilledTable:
        kept = [i for i in range(len(self.header)) if not self.rows or any(row[i] is not None for row in self.rows)]
        rows = [[row[i] for i in kept] for row in self.rows]
        return replace(self, header=[self.header[i] for i in kept], rows=rows)

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
    tables = [table.without_empty_columns() for table in filled if table is not None]
    return [table for table in tables if len(table.header) > 1]


def levels(study: Study, spec: Table) -> FilledTable | None:
    """Fill a table of one metric: methods by levels, and the difference from kNN over all levels."""
    metric = spec.metrics[0]
    if not study.has(metric):
        return None
    study = study.largest_sample(metric)
    names, found = study.methods_with(metric), study.levels(metric)
    base = BASELINE if BASELINE in names else names[0]
    balanced = f"{metric}_balanced" if balanced_differs(study.rows, metric) else ""
    unreached = f"{metric}_unreached" if study.has(f"{metric}_unreached") else ""
    means = study.of(metric).groupby(["method", "level"])["value"].mean()
    body: list[list[Cell]] = []
    for method in names:
        gain = None if method == base else study.compare(method, base, metric)
        body.append(
            [
                label(method),
                *(_number(means.get((method, level)), 3) for level in found),
                *(
                    _mean(study, method, name, 3 if name == balanced else None)
                    for name in (balanced, unreached)
                    if name
                ),
                gain,
                None if gain is None else f"{gain.wins}/{gain.ties}/{gain.losses}, p={gain.p_value:.2g}",
            ]
        )
    header = [
        "method",
        *map(level_name, found),
        *(["class-balanced"] if balanced else []),
        *(["unreached"] if unreached else []),
        f"difference from {label(base)}",
        "W/T/L, p",
    ]
    note = (
        "Means over trials. The difference is over all levels, paired by trial. W/T/L: pairs won, tied, lost. "
        + ("Class-balanced: mean over classes of each class's accuracy, over all levels. " if balanced else "")
        + _short_classes(study, metric)
        + ("Unreached: nodes that no label reaches; they count as wrong. " if unreached else "")
        + _intervals(body)
    )
    return FilledTable(spec.name, spec.title, _join(spec.caption, note), header, body)


def methods(study: Study, spec: Table) -> FilledTable:
    """Fill a table with the means of several metrics by method."""
    named = [metric for metric in spec.metrics if study.has(metric)]
    if spec.kind not in RENDERERS and not named:
        named = list(study.rows["metric"].unique())
    body = [[label(method), *(_mean(study, method, metric) for metric in named)] for method in study.methods]
    header = ["method", *(study.record.metric(metric).title for metric in named)]
    return FilledTable(spec.name, spec.title, spec.caption, header, body)


def steps(study: Study, spec: Table) -> FilledTable:
    """Fill a table with the differences between consecutive methods."""
    named = [metric for metric in spec.metrics if study.has(metric)]
    body: list[list[Cell]] = [
        [f"{label(before)} → {label(method)}", *(study.compare(method, before, metric) for metric in named)]
        for before, method in pairwise(study.methods)
    ]
    header = ["step", *(study.record.metric(metric).title for metric in named)]
    return FilledTable(spec.name, spec.title, _join(spec.caption, _intervals(body)), header, body)


def sweep(study: Study, spec: Table) -> FilledTable | None:
    """Fill a table with metrics at each value of the swept setting, next to those of the paper."""
    axis, paper = study.record.axis, study.record.paper
    if axis is None:
        return None
    values = study.settings
    base = axis.base if axis.base in values else values[0]
    named = [metric for metric in spec.metrics if study.has(metric)]
    printed = {metric: dict(zip(paper.get("value", ()), column, strict=False)) for metric, column in paper.items()
               if isinstance(column, list) and metric in named}  # fmt: skip
    first = spec.metrics[0] if spec.metrics else ""
    header = ["method", axis.label]
    for metric in named:
        header += [study.record.metric(metric).title, *(["paper"] if metric in printed else [])]
        header += [f"from {axis.label} = {base:g}"] if metric == first else []
    body: list[list[Cell]] = []
    for method in study.methods:
        for value in values:
            cells: list[Cell] = [label(method), f"{value:g}"]
            for metric in named:
                about = study.record.metric(metric)
                cells.append(_mean(study, method, metric, setting=value))
                if metric in printed:
                    known = printed[metric].get(value) if method == paper.get("method", method) else None
                    cells.append(_number(known, 3 if about.digits > 1 else about.digits))
                if metric == first:
                    cells.append(None if value == base else study.compare_settings(method, value, base, metric))
            if any(cell is not None for cell in cells[2:]):
                body.append(cells)
    note = _intervals(body, f"Differences are from {axis.label} = {base:g}, in the same trials. ")
    return FilledTable(spec.name, spec.title, _join(spec.caption, note), header, body)


def rules(study: Study, spec: Table) -> FilledTable:
    """Fill a table of bandwidth rules, each against the spectral rule with the same weights."""
    named = [metric for metric in spec.metrics if study.has(metric)]
    body: list[list[Cell]] = []
    for kind, ranked in _by_weights(study):
        base = SPECTRAL.get(kind, "nnk_sigma")
        for method in ranked:
            cells: list[Cell] = [_rule(method), WEIGHTS.get(kind, "its own")]
            for metric in named:
                gain = None if method == base else study.compare(method, base, metric)
                cells += [_mean(study, method, metric), gain]
            body.append(cells)
    header = ["rule", "weights"]
    for metric in named:
        header += [study.record.metric(metric).title, "difference from spectral"]
    return FilledTable(spec.name, spec.title, _join(spec.caption, _intervals(body)), header, body)


def regret(study: Study, spec: Table) -> FilledTable:
    """Fill a table of how far each rule is from the best bandwidth that tuning with labels finds."""
    body: list[list[Cell]] = []
    for kind, ranked in _by_weights(study):
        for method in ranked:
            best = study.of("regret")
            best = best[best["method"] == method]
            if not best.empty:
                scales = ", ".join(f"{scale:g}" for scale in sorted(best["best_scale"].unique()))
                found = study.regret(method)
                body.append([_rule(method), WEIGHTS.get(kind, kind), _mean(study, method, "loo"), found, scales])
    header = ["rule", "weights", "LOO", "regret", "best c"]
    note = _join(spec.caption, _intervals(body))
    return FilledTable(spec.name, spec.title, note, header, body, less_is_better=True)


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
    axes, methods = list(sweep.axes), sweep.methods
    means = sweep.frame.groupby([*axes, "method"], sort=False, dropna=False)["value"].mean().unstack("method")
    means = means[methods]
    ascending = sweep.metric.higher_is_better is False
    order = (means.min(axis=1) if ascending else means.max(axis=1)).sort_values(ascending=ascending, kind="stable")
    body: list[list[Cell]] = []
    for settings in order.index:
        found = settings if isinstance(settings, tuple) else (settings,)
        shown = [f"{value:g}" if is_number(value) else str(value) for value in found]
        body.append([*shown, *(_number(means.loc[settings, method], None, sweep.metric) for method in methods)])
    header = [*axes, *(f"{sweep.metric.title} {label(method)}" for method in methods)]
    note = "Means over trials at the largest samples, sorted by the best method of each run."
    return FilledTable("runs", "All runs by their settings", note, header, body)


def _short_classes(study: Study, metric: str) -> str:
    """Return a note on classes with fewer samples than a level asks for, and on nodes without a label."""
    rows = study.of(metric)
    if "short_classes" not in rows or rows["short_classes"].isna().all():
        return ""
    note = ""
    most = rows.groupby("level")["short_classes"].max()
    few = [f"{int(most[level])} at {level_name(level)}" for level in study.levels(metric) if most[level] > 0]
    if few:
        by_samples = study.record.metric(metric).level == PER_SAMPLE
        what = "give all the samples they have" if by_samples else "are all labelled and are not scored"
        classes = int(rows["classes"].max())
        note = f"Of {classes} classes, those with too few samples for a level {what}: {', '.join(few)}. "
    unlabeled = int(rows["unlabelled"].max())
    return note + (f"{unlabeled:,} nodes without a label are in the graph and are not scored. " if unlabeled else "")


def _by_weights(study: Study) -> Iterable[tuple[str, list[str]]]:
    """Yield the methods of each kind of weights, the best in LOO first."""
    loo = study.of("loo")
    if loo.empty:
        return
    order = loo[loo["method"].isin(study.methods)].groupby(["weights", "method"])["value"].mean().sort_values()
    there = order.index.get_level_values(0).unique().tolist()
    for kind in dict.fromkeys([*("gaussian", "nnk", "uniform"), *there]):
        if kind in there:
            yield kind, order.loc[kind].index.tolist()[::-1]


def _rule(method: str) -> str:
    """Return the name of a method where its kind of weights is in the next column."""
    known = {"knn_sigma": "spectral", "nnk_sigma": "spectral", "knn_fixed": "fixed", "nnk_fixed": "fixed"}
    return known.get(method, label(method))


def _mean(study: Study, method: str, metric: str, digits: int | None = None, setting: Any = None) -> str | None:
    rows = default_target(study.of(metric))
    rows = rows[rows["method"] == method]
    if setting is not None:
        rows = rows[rows["setting"] == setting]
    values = rows["value"].astype(float)
    return _number(values.mean(), digits, study.record.metric(metric)) if len(values) else None


def _number(value: float | None, digits: int | None, about: Metric | None = None) -> str | None:
    if value is None or not np.isfinite(value):
        return None
    digits = about.digits if digits is None and about is not None else digits
    return f"{value:.{digits}%}" if about is not None and about.percent else f"{value:,.{digits}f}"


def _intervals(body: Iterable[Sequence[Cell]], first: str = "") -> str:
    """Return a note on how the intervals of a table were computed; empty if there are none."""
    found = [cell for row in body for cell in row if isinstance(cell, Comparison)]
    if not found:
        return ""
    over = " or ".join(sorted({c.over for c in found}, reverse=True))
    trials = ", ".join(map(str, sorted({c.trials for c in found})))
    return f"{first}{found[0].confidence:.0%} bootstrap intervals over {over}; trials: {trials}."


def _join(*notes: str) -> str:
    return " ".join(note.strip() for note in notes if note)
