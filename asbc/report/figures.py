"""The figures, drawn with matplotlib: one function per kind of figure."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.comparison import Comparison, compare
from asbc.evaluate.geometry import CELL, unpack_density
from asbc.report.study import BASELINE, Study, Sweep, default_target, is_number
from asbc.report.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    RED,
    Look,
    label,
    level_name,
    listed,
    looks,
    style,
)
from asbc.runs.record import Figure
from asbc.storage import write_atomic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

WIDTHS = {"single": 3.5, "double": 7.16}  # inches, of one and of two columns of an IEEE paper
DPI = 300
MAX_HEATMAP_AXES = 4  # settings of a sweep that are drawn in pairs
# Light to dark, for few nodes to many.
SHADES = ("#d7e8f4", "#a6cbe4", "#75aed3", "#4491c3", "#1475b2", "#006299", "#005079", "#003d5a", "#00283f")


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    Attributes
    ----------
    title : str
    draw : callable
        Draws on matplotlib axes.
    alt : str
        What the panel shows, for readers who cannot see it.
    legend : int
        Columns of the legend below the axes; 0 for none.
    """

    title: str
    draw: Callable[[Axes], None]
    alt: str
    legend: int = 0


@dataclass(frozen=True)
class Drawing:
    """A figure of the report.

    Attributes
    ----------
    name : str
        Stem of its files.
    title, caption : str
    panels : sequence of Panel
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]

    @property
    def file_stem(self) -> str:
        """The name without characters that could lead to another folder: records may be a stranger's."""
        return re.sub(r"[^\w-]", "_", self.name)[:100] or "figure"

    @property
    def columns(self) -> int:
        """Panels side by side where there is room."""
        return 3 if len(self.panels) in (3, 5, 6) or len(self.panels) > 8 else min(2, len(self.panels))


# Output


def panel_svg(panel: Panel, columns: int = 2, salt: str = "asbc", size: tuple[float, float] | None = None) -> str:
    """Return a panel as an SVG element for the page. The same data give the same text.

    Parameters
    ----------
    panel : Panel
    columns : int, default=2
        Panels side by side. Three are shown smaller, so they are drawn smaller: their text stays readable.
    salt : str, default="asbc"
        Makes the ids inside the element unique on a page. Ids that start with "keep-" stay as they are.
    size : (float, float), optional
        Width and height in inches; the default depends on `columns`.
    """
    size = size or ((3.9, 3.3) if columns == 3 else (5.0, 3.7))
    text = _svg(draw([panel], columns=1, size=size), salt)
    text = re.sub(r"^.*?(?=<svg)", "", text, flags=re.S)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r'<g id="(?!keep-)[^"]*"', "<g", text)  # nothing refers to these, and they are not unique on a page
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r"\n\s*", "\n", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(panel.alt)}"', 1)


def save_svg(drawing: Drawing, folder: Path) -> Path:
    """Write a figure as `<name>.svg`."""
    path = folder / f"{drawing.file_stem}.svg"
    write_atomic(path, _svg(draw(drawing.panels, drawing.columns)))
    return path


def save_print(drawing: Drawing, folder: Path, width: str = "double") -> list[Path]:
    """Write a figure as `<name>.png` with 300 dpi and as `<name>.pdf`.

    Parameters
    ----------
    drawing : Drawing
    folder : Path
    width : {"single", "double"}, default="double"
        Width of one or of two columns of a paper. The text has 8 points in both.
    """
    columns = 1 if width == "single" else drawing.columns
    across = WIDTHS[width] / columns
    with style(8):
        canvas = draw(drawing.panels, columns, (across, max(2.5, 0.74 * across)), font_size=8)
        paths = []
        for kind, options in (("png", {"dpi": DPI}), ("pdf", {"metadata": {"CreationDate": None, "Creator": "asbc"}})):
            sheet = io.BytesIO()
            canvas.savefig(sheet, format=kind, **options)  # type: ignore[arg-type]
            paths.append(folder / f"{drawing.file_stem}.{kind}")
            write_atomic(paths[-1], sheet.getvalue())
    return paths


def draw(
    panels: Sequence[Panel], columns: int, size: tuple[float, float] = (5.0, 3.7), font_size: float = 10
) -> Canvas:
    """Draw panels row by row on one matplotlib figure.

    Parameters
    ----------
    panels : sequence of Panel
    columns : int
    size : (float, float), default=(5.0, 3.7)
        Width and height of a panel, in inches.
    font_size : float, default=10
        In points.
    """
    from matplotlib.figure import Figure as Canvas

    rows = -(-len(panels) // columns)
    with style(font_size):
        canvas = Canvas(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        grid = canvas.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            axes.set_title(panel.title)
            panel.draw(axes)
            handles, names = axes.get_legend_handles_labels()
            found = dict(zip(names, handles, strict=True))  # one entry for each name
            if panel.legend and found:
                axes.legend(
                    found.values(),
                    found,
                    loc="upper center",
                    bbox_to_anchor=(0.5, -0.2),
                    ncols=panel.legend,
                    columnspacing=1.4,
                    handlelength=2.2,
                )
        for axes in grid[len(panels) :]:
            axes.remove()
    return canvas


def _svg(canvas: Canvas, salt: str = "asbc") -> str:
    import matplotlib as mpl

    sheet = io.StringIO()
    with style(), mpl.rc_context({"svg.hashsalt": salt}):
        canvas.savefig(sheet, format="svg", metadata={"Date": None, "Creator": "asbc"})
    return sheet.getvalue()


# Figures of the paper


def regimes(study: Study, spec: Figure) -> Drawing | None:
    """Draw Figure 1: local kernels from a narrow bandwidth to a wide one."""
    if not study.has("chosen_rank_median"):
        return None
    k = int(study.rows["k_cand"].iloc[0])
    chosen = {q: float(study.of(f"chosen_scale_{q}")["value"].mean()) for q in ("q25", "median", "q75")}
    dimension = float(study.of("chosen_dimension_median")["value"].mean())
    tenth = "regimes.k" in study.rows and int(study.rows["regimes.k"].iloc[0]) == 10

    def curve(axes: Axes, name: str, color: str) -> None:
        low, mid, high = (study.of(f"{name}_{q}").groupby("scale")["value"].mean() for q in ("q25", "median", "q75"))
        axes.axvspan(chosen["q25"], chosen["q75"], color=GREEN, alpha=0.16, lw=0)
        axes.axvline(chosen["median"], color=GREEN, lw=1.2)
        axes.fill_between(mid.index, low, high, color=color, alpha=0.22, lw=0)
        axes.plot(mid.index, mid, color=color)
        axes.set_xscale("log")
        axes.set_xlabel("bandwidth / distance to the 10th neighbour" if tenth else "bandwidth scale")
        _ticks(axes, [0.05, 0.1, 0.2, 0.5, 1, 2, 5], within=True)

    def rank(axes: Axes) -> None:
        curve(axes, "rank", BLUE)
        axes.axhline(dimension, color=INK, ls="--", lw=1)
        axes.set(ylabel=f"rank r (of {k})", ylim=(0, k * 1.05))
        axes.annotate(
            f"median dimension {dimension:.1f}",
            (0.01, dimension),
            (0, 3),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )
        axes.annotate(
            "chosen",
            (chosen["median"], 1),
            (4, -3),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            color=GREEN,
            weight="bold",
        )

    def slope(axes: Axes) -> None:
        curve(axes, "slope", ORANGE)
        axes.set(ylabel="slope of log kernel sum", ylim=(0, None))

    def condition(axes: Axes) -> None:
        curve(axes, "condition", RED)
        axes.set(ylabel="condition of the local kernel", yscale="log")
        _power_ticks(axes)

    return Drawing(
        spec.name,
        spec.title,
        spec.caption,
        [
            Panel(
                "Effective rank", rank, f"Effective rank falls as the bandwidth grows; chosen: {chosen['median']:.2f}."
            ),
            Panel("Log-log slope", slope, "The log-log slope rises to a peak and falls again."),
            Panel("Condition number", condition, "The condition number grows with the bandwidth."),
        ],
    )


def alignment(study: Study, spec: Figure) -> Drawing | None:
    """Draw Figure 2: the effective rank against estimates of the intrinsic dimension."""
    rows = study.of("spearman")
    if rows.empty:
        return None
    targets = rows["target"].drop_duplicates().tolist()
    estimators = rows["estimator"].drop_duplicates().tolist()
    marks = {"mst": (RED, "o"), "levina_bickel": (BLUE, "s"), "two_nn": (ORANGE, "^")}

    def spearman(axes: Axes) -> None:
        for e, name in enumerate(estimators):
            color, marker = marks.get(name, (INK, "x"))
            for t, target in enumerate(targets):
                own = rows[(rows["target"] == target) & (rows["estimator"] == name)]
                found = study.compare_number(own, 0.0)
                if found is None:
                    continue
                x = t + 0.22 * (e - (len(estimators) - 1) / 2)
                known = study.record.paper.get("spearman", {}).get(name)
                if target == "mst" and known:
                    box: dict[str, Any] = {"color": FAINT, "alpha": 0.55, "lw": 0, "label": "range in the paper"}
                    axes.bar(x, known[1] - known[0], 0.18, known[0], **box)
                _whiskers(axes, [x], [found], color, marker, f"with {label(name)}")
        axes.axhline(0, color=FAINT, lw=0.8)
        axes.set_xticks(range(len(targets)), [label(target) for target in targets])
        axes.grid(visible=False, axis="x")
        least = float(np.nanmin(rows["value"].astype(float), initial=0.0))
        axes.set(xlabel="dimension that r was matched to", ylabel="Spearman", ylim=(min(0.0, least - 0.05), 1))

    def medians(axes: Axes) -> None:
        for t, target in enumerate(targets):
            own = study.rows[(study.rows["target"] == target) & (study.rows["estimator"] == target)]
            means = own.groupby("metric")["value"].mean()
            d, r = (float(means.get(name, np.nan)) for name in ("dimension_median", "rank_median"))
            axes.plot([d, r], [t, t], color=FAINT, lw=2.5)
            axes.plot([d], [t], "o", ms=8, mfc="white", mec=INK, label="median dimension")
            axes.plot([r], [t], "o", ms=8, color=RED, label="median rank")
        axes.set_yticks(range(len(targets)), [label(target) for target in targets])
        axes.grid(visible=False, axis="y")
        axes.set(xlabel="directions", xlim=(0, None), ylim=(len(targets) - 0.5, -0.5))

    clouds = [cloud for pair in spec.options.get("clouds", ()) if (cloud := _cloud(study, *pair)) is not None]
    return Drawing(
        spec.name,
        spec.title,
        spec.caption,
        [
            *clouds,
            Panel("Rank correlation of r", spearman, "Spearman correlation of r with each dimension estimate.", 2),
            Panel("Medians over the nodes", medians, "Median rank and median dimension for each target.", 2),
        ],
    )


def _cloud(study: Study, target: str, estimator: str) -> Panel | None:
    """Return the density of nodes by rank and dimension with its fit; None if the results do not hold it."""
    rows = study.of("spearman")
    own = rows[(rows["target"] == target) & (rows["estimator"] == estimator)]
    tables = [unpack_density(cell) for cell in own.get("density", []) if isinstance(cell, bytes)]
    if not tables:
        return None
    counts = np.zeros((max(map(len, tables)), tables[0].shape[1]))
    for table in tables:
        counts[: len(table)] += table
    fit = {}
    for name in ("slope", "intercept"):
        line = study.of(name)
        values = line[(line["target"] == target) & (line["estimator"] == estimator)]["value"]
        fit[name] = float(values.mean()) if len(values) else None
    edges = 1 + CELL * np.arange(max(counts.shape) + 1)
    seen = np.flatnonzero(np.cumsum(counts.sum(axis=0)) >= 0.995 * counts.sum())
    right = float(edges[max(int(seen[0]) + 1, 8)])
    top = float(edges[max(int(np.flatnonzero(counts.any(axis=1)).max()) + 2, 8)])
    correlation = own["value"].astype(float)
    correlation = correlation[np.isfinite(correlation)]

    def cloud(axes: Axes) -> None:
        from matplotlib.colors import ListedColormap, LogNorm

        up, across = counts.shape
        axes.pcolormesh(
            edges[: across + 1],
            edges[: up + 1],
            np.ma.masked_equal(counts, 0),
            cmap=ListedColormap(SHADES),
            norm=LogNorm(1, max(int(counts.max()), 2)),
            rasterized=True,
        )
        ends = np.array([1.0, max(right, top)])
        axes.plot(ends, ends, color=INK, ls=":", lw=1, label="r = d")
        if fit["slope"] is not None and fit["intercept"] is not None:
            axes.plot(ends, fit["slope"] * ends + fit["intercept"], color=RED, label=f"fit, slope {fit['slope']:.2f}")
        axes.set(xlabel=f"{label(estimator)} of the node", ylabel="effective rank r", xlim=(0, right), ylim=(0, top))

    end = f", Spearman {correlation.mean():.2f}" if len(correlation) else ""
    alt = f"Effective rank of each node against {label(estimator)}, with a fit."
    return Panel(f"r against {label(estimator)}{end}", cloud, alt, 2)


def levels(study: Study, spec: Figure) -> Drawing | None:
    """Draw metrics against their levels, and their paired differences from the baseline."""
    panels = [panel for metric in spec.metrics for panel in _level_panels(study, metric, spec.options.get("pair"))]
    return Drawing(spec.name, spec.title, spec.caption, panels) if panels else None


def _level_panels(study: Study, metric: str, pair: Sequence[str] | None) -> list[Panel]:
    study = study.largest_sample(metric)
    about = study.record.metric(metric)
    levels, methods = study.levels(metric), study.methods_with(metric)
    if not methods:
        return []
    base = BASELINE if BASELINE in methods else methods[0]
    chosen = looks(methods)
    places = np.arange(len(levels))

    def differences(pairs: Sequence[tuple[str, str]]) -> Callable[[Axes], None]:
        def paint(axes: Axes) -> None:
            axes.axhline(0, color=MUTED, lw=1.2)
            for index, (method, other) in enumerate(pairs):
                found = [study.compare(method, other, metric, level) for level in levels]
                beside = places + min(0.11, 0.7 / len(pairs)) * (index - (len(pairs) - 1) / 2)
                _gains(axes, beside, found, chosen[method], label(method))
            _level_axis(axes, levels, about.level)
            axes.set_ylabel(f"difference in {about.title}")

        return paint

    panels = [Panel(about.title, _means(study, metric, chosen), f"{about.title} of {len(methods)} methods.", 3)]
    others = [(method, base) for method in methods if method != base]
    if others:
        alt = f"Paired differences from {label(base)} with intervals."
        panels.append(Panel(f"Difference from {label(base)}", differences(others), alt, 3))
    if pair and set(pair) <= set(methods):
        first, second = pair
        title = f"{label(first)} less {label(second)}, own scale"
        panels.append(Panel(title, differences([(first, second)]), f"Paired differences: {title}."))
    return panels


def side_by_side(named: Sequence[tuple[str, Study]], spec: Figure, metric: str) -> Drawing | None:
    """Draw a metric of several subjects, one panel each on a shared scale; None for fewer than two."""
    shown = [(name, study.largest_sample(metric)) for name, study in named if study.has(metric)]
    if len(shown) < 2:
        return None
    values = np.concatenate([study.of(metric)["value"].to_numpy(float) for _, study in shown])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    margin = 0.04 * (np.ptp(values) or 0.1)
    chosen = looks(dict.fromkeys(method for _, study in shown for method in study.methods_with(metric)))

    def panel(name: str, study: Study) -> Panel:
        paint = _means(study, metric, chosen)

        def limited(axes: Axes) -> None:
            paint(axes)
            axes.set_ylim(values.min() - margin, values.max() + margin)

        return Panel(name, limited, f"{spec.title} of {name}.", 3)

    return Drawing(
        f"{spec.name}_side_by_side",
        f"{spec.title}, side by side",
        "Means over trials; small dots are single trials. All panels share one scale.",
        [panel(name, study) for name, study in shown],
    )


def _means(study: Study, metric: str, chosen: dict[str, Look]) -> Callable[[Axes], None]:
    levels, about = study.levels(metric), study.record.metric(metric)

    def paint(axes: Axes) -> None:
        place = {level: i for i, level in enumerate(levels)}
        rows = default_target(study.of(metric))
        for method in study.methods_with(metric):
            own = rows[rows["method"] == method]
            color, marker, dash = chosen[method]
            means = own.groupby("level")["value"].mean().reindex(levels)
            trials = [place[level] for level in own["level"]]
            axes.plot(range(len(levels)), means, dash, color=color, marker=marker, label=_name(label(method)))
            axes.plot(trials, own["value"].astype(float), "o", color=color, ms=1.5, alpha=0.45)
        _level_axis(axes, levels, about.level)
        axes.set_ylabel(about.title)

    return paint


def sweep(study: Study, spec: Figure) -> Drawing | None:
    """Draw metrics against the swept setting, with the values of the paper where it prints them."""
    axis, paper = study.record.axis, study.record.paper
    values = study.settings
    if axis is None or len(values) < 2:
        return None
    base = axis.base if axis.base in values else values[0]
    printed = paper.get("value", [])
    paper_look: dict[str, Any] = {"color": INK, "ls": ":", "marker": "D", "lw": 1, "mfc": "white", "label": "the paper"}
    ratio: Any = spec.options.get("ratio")

    def means(metric: str) -> Panel:
        about = study.record.metric(metric)

        def paint(axes: Axes) -> None:
            rows = default_target(study.of(metric))
            for method, (color, marker, dash) in looks(study.methods_with(metric)).items():
                mean = rows[rows["method"] == method].groupby("setting")["value"].mean().reindex(values)
                axes.plot(values, mean, dash, color=color, marker=marker, label=_name(label(method)))
            axes.set(xlabel=axis.label, ylabel=about.title)

        return Panel(about.title, paint, f"Mean {about.title} for each {axis.label}.", 3)

    def differences(metric: str) -> Panel:
        about = study.record.metric(metric)

        def paint(axes: Axes) -> None:
            axes.axhline(0, color=MUTED, lw=1.2)
            for method, look in looks(study.methods_with(metric)).items():
                found = [study.compare_settings(method, v, base, metric) if v != base else None for v in values]
                _gains(axes, values, found, look, label(method))
            if metric in paper and base in printed:
                axes.plot(printed, np.array(paper[metric]) - paper[metric][printed.index(base)], **paper_look)
            axes.set(xlabel=axis.label, ylabel=f"difference in {about.title}")

        title = f"{about.title}: difference from {axis.label} = {base:g}"
        return Panel(title, paint, f"Paired differences in {about.title} for each {axis.label}.", 3)

    def fraction(axes: Axes) -> None:
        own = study.rows[study.rows["method"] == study.methods[-1]]  # the rank does not depend on the weights
        above, below = (
            own[own["metric"] == name].groupby("setting")["value"].mean().reindex(values).to_numpy(float)
            for name in ratio
        )
        axes.plot(values, above / below, color=RED, marker="o", label="measured")
        if set(ratio) <= set(paper):
            axes.plot(printed, np.array(paper[ratio[0]]) / paper[ratio[1]], **paper_look)
        axes.plot(values, values, color=FAINT, lw=1, label=f"r = {axis.label} d")
        axes.set(xlabel=axis.label, ylabel="r / d", ylim=(0, None))

    measured = [metric for metric in spec.metrics if study.has(metric)]
    panels = [means(measured[0])] if len(measured) == 1 and not ratio else []
    panels += [differences(metric) for metric in measured]
    if ratio and all(map(study.has, ratio)):
        panels.append(Panel("Median rank over median dimension", fraction, "Rank over dimension at each value.", 3))
    return Drawing(spec.name, spec.title, spec.caption, panels) if panels else None


def tuning(study: Study, spec: Figure) -> Drawing | None:
    """Draw the accuracy over bandwidths that labels could tune, and that of rules that see no labels."""
    if not study.has("regret"):
        return None
    rows = study.of("loo")
    means = rows.groupby("method")["value"].mean()
    lines = ((RED, "-"), (GREEN, "-."), (BLUE, ":"), (ORANGE, "--"))
    rules = dict(zip(spec.options.get("rules", ()), lines, strict=False))

    def panel(kind: str) -> Panel:
        def paint(axes: Axes) -> None:
            for scope, color, marker, text in (
                ("local", INK, "o", "tuned, one per node"),
                ("global", FAINT, "s", "tuned, one for all"),
            ):
                tuned = rows[rows["method"] == f"tuned_{scope}_{kind}"].groupby("scale")["value"].mean()
                axes.plot(tuned.index, tuned, color=color, marker=marker, ms=4, label=text)
            for rule, (color, dash) in rules.items():
                method = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}[kind] if rule == "spectral" else f"{rule}_{kind}"
                if method in means:
                    axes.axhline(means[method], color=color, ls=dash, lw=1.6, label=rule.replace("_", " "))
            axes.set(xscale="log", xlabel="bandwidth scale c", ylabel="LOO")
            _ticks(axes, [0.2, 0.5, 1, 2])

        title = "NNK weights" if kind == "nnk" else "Gaussian weights"
        return Panel(title, paint, f"LOO against the bandwidth scale with {kind} weights.", 2)

    return Drawing(
        spec.name,
        spec.title,
        spec.caption,
        [panel(kind) for kind in ("gaussian", "nnk") if f"tuned_local_{kind}" in means],
    )


RENDERERS: dict[str, Callable[[Study, Figure], Drawing | None]] = {
    "levels": levels,
    "sweep": sweep,
    "regimes": regimes,
    "alignment": alignment,
    "tuning": tuning,
}


def draw_figures(study: Study) -> list[Drawing]:
    """Return the figures that the record of a study asks for, and generic ones of metrics that nobody describes."""
    record = study.record
    specs = list(record.figures)
    named = {metric for spec in record.figures for metric in spec.metrics}
    named |= {metric for spec in record.tables for metric in spec.metrics}
    about = [record.metric(metric) for metric in study.generic_metrics(named)]
    specs += [Figure("levels", metric.name, metric.title, metric.description, (metric.name,)) for metric in about]
    drawn = [RENDERERS.get(spec.kind, levels)(study, spec) for spec in specs]
    if study.sweep is not None:
        drawn.append(draw_sweep(study.sweep, f"{record.name}_sweep"))
    return [drawing for drawing in drawn if drawing is not None]


def draw_sweep(found: Sweep, name: str) -> Drawing:
    """Draw all runs of a sweep: a curve for one setting, heatmaps for each pair of several."""
    axes_names, title = list(found.axes), found.metric.title
    if len(axes_names) == 1:
        panels = [_sweep_curve(found, axes_names[0])]
        caption = "Means with 95% intervals over trials."
    else:
        method = "nnk_sigma" if "nnk_sigma" in found.methods else found.methods[-1]
        best, panels = found.best(method), []
        own = found.frame[found.frame["method"] == method].groupby(axes_names, dropna=False)["value"].mean()
        span = float(own.min()), float(own.max())
        for row, column in combinations(axes_names[:MAX_HEATMAP_AXES], 2):
            others = [axis for axis in axes_names if axis not in (row, column)]
            fixed = [{axis: chosen[axis] for axis in others} for chosen in (found.axes, best)]
            kinds = ("paper", "best") if fixed[0] != fixed[1] else ("",)
            for settings, kind in zip(fixed, kinds, strict=False):
                rows = found.at(settings)
                rows = rows[rows["method"] == method]
                if len(rows[[row, column]].drop_duplicates()) > 1:
                    words = [f"{axis} = {_short(value)}" for axis, value in settings.items()]
                    fixed_text = ", ".join(words) + (f" ({kind})" if kind else "")
                    panels.append(_heatmap(rows, row, column, title, fixed_text, span))
        caption = f"Means of {label(method)} over trials" + (
            ", with the other settings at the values nearest to the paper and at the best ones. All panels share one "
            "colour scale."
            if len(axes_names) > 2
            else "."
        )
    return Drawing(name, f"{title} by {listed(axes_names)}", caption, panels)


def _sweep_curve(found: Sweep, axis: str) -> Panel:
    values = found.values(axis)
    numbers = all(map(is_number, values))
    places = dict(zip(values, values if numbers else range(len(values)), strict=True))

    def paint(axes: Axes) -> None:
        for method, (color, marker, dash) in looks(found.methods).items():
            own = found.frame[found.frame["method"] == method]
            known = [value for value in values if (own[axis] == value).any()]
            trials = [own[own[axis] == value]["value"].to_numpy(float) for value in known]
            intervals = [compare(own_trials, np.zeros(len(own_trials))) for own_trials in trials]
            x = [places[value] for value in known]
            axes.plot(x, [c.difference for c in intervals], dash, color=color, lw=1)
            _whiskers(axes, x, intervals, color, marker, label(method))
        axes.set_xticks(list(places.values()), [_short(value) for value in values])
        axes.set(xlabel=axis, ylabel=found.metric.title)

    return Panel(found.metric.title, paint, f"{found.metric.title} for each {axis}.", 3)


def _heatmap(rows: pd.DataFrame, row: str, column: str, title: str, fixed: str, span: tuple[float, float]) -> Panel:
    """Return a panel with means by two settings, written into the cells, with colours that span a given range."""
    table = rows.pivot_table(index=row, columns=column, values="value", aggfunc="mean")

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        values = table.to_numpy(float)
        shades = LinearSegmentedColormap.from_list("asbc", SHADES[:6])
        axes.imshow(values, cmap=shades, aspect="auto", vmin=span[0], vmax=span[1])
        dark = span[0] + 0.6 * (span[1] - span[0])
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                color = "white" if value > dark else INK
                axes.text(j, i, f"{value:.3f}", ha="center", va="center", color=color)
        axes.set_xticks(range(len(table.columns)), [_short(value) for value in table.columns])
        axes.set_yticks(range(len(table.index)), [_short(value) for value in table.index])
        axes.grid(visible=False)
        axes.set(xlabel=column, ylabel=row)

    return Panel(fixed or title, paint, f"Mean {title} by {row} and {column}. {fixed}")


# Pieces


def _whiskers(axes: Axes, x: Sequence[float], found: Sequence[Comparison], color: str, marker: str, name: str) -> None:
    y = np.array([c.difference for c in found])
    reach = np.maximum([[c.difference - c.low for c in found], [c.high - c.difference for c in found]], 0)
    axes.errorbar(x, y, reach, fmt=marker, color=color, capsize=2.5, elinewidth=1.3, label=_name(name))


def _gains(axes: Axes, x: Any, found: Sequence[Comparison | None], look: Look, name: str) -> None:
    """Draw differences with intervals in the look of a method; a missing one leaves a gap."""
    known = [(place, c) for place, c in zip(x, found, strict=True) if c is not None]
    if known:
        places, comparisons = [place for place, _ in known], [c for _, c in known]
        axes.plot(places, [c.difference for c in comparisons], look.dash, color=look.color, lw=1, alpha=0.6)
        _whiskers(axes, places, comparisons, look.color, look.marker, name)


def _level_axis(axes: Axes, levels: Sequence[float], unit: str) -> None:
    """Place levels at equal steps: small levels would crowd together otherwise."""
    axes.set_xticks(range(len(levels)), [level_name(level) for level in levels])
    axes.set_xlabel(unit)


def _ticks(axes: Axes, values: Sequence[float], within: bool = False) -> None:
    """Label a logarithmic axis at given numbers; `within` drops those outside the data."""
    low, high = axes.get_xlim()
    values = [value for value in values if not within or low <= value <= high]
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.set_xticks([], minor=True)


def _power_ticks(axes: Axes) -> None:
    """Label a logarithmic axis by powers of ten in plain text."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: "10" + f"{np.log10(y):.0f}".translate(digits)))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _name(text: str) -> str:
    """Return a legend entry; matplotlib hides entries that start with an underscore."""
    return text.replace("_", " ") or " "


def _short(value: Any) -> str:
    return f"{value:g}" if is_number(value) else str(value)
