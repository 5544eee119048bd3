"""The figures, drawn with matplotlib: one function per kind of figure."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import combinations
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asbc.evaluate.geometry import CELL, unpack_density
from asbc.evaluate.scores import Comparison
from asbc.report.evidence import BASELINE, Study, Sweep, compare_number, default_target, is_number
from asbc.report.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    RED,
    SPECTRAL,
    WEIGHTS,
    Look,
    label,
    level_name,
    level_order,
    level_text,
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
    """One set of axes: a title, a function that draws on matplotlib axes, and a description for the blind."""

    title: str
    draw: Callable[[Axes], None]
    alt: str


@dataclass(frozen=True)
class Drawing:
    """A figure of the report. `name` is the stem of its files."""

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


def draw(
    panels: Sequence[Panel], columns: int, size: tuple[float, float] = (5.0, 3.7), font_size: float = 10
) -> Canvas:
    """Draw panels row by row on one matplotlib figure, with one legend below them.

    Parameters
    ----------
    panels : sequence of Panel
        A panel that draws a legend keeps it, and adds nothing to the one below.
    columns : int
    size : (float, float), default=(5.0, 3.7)
        Width and height of a panel, in inches.
    font_size : float, default=10
        In points.
    """
    with style(font_size):
        canvas = _draw_axes(panels, columns, size, font_size)
        _add_legend(canvas, _legend_entries(canvas.axes), "outside lower center")
    return canvas


def _draw_axes(panels: Sequence[Panel], columns: int, size: tuple[float, float], font_size: float = 10) -> Canvas:
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = -(-len(panels) // columns)
    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
    canvas = Canvas(figsize=(size[0] * columns, size[1] * rows), layout=layout)
    letters = int((size[0] - 0.6) * 72 / (0.68 * font_size))  # of a title, next to the labels of the y axis
    for place, panel in enumerate(panels, 1):
        axes = canvas.add_subplot(rows, columns, place)
        panel.draw(axes)
        axes.set_title(fill(panel.title, max(letters, 10)))
    return canvas


def _legend_entries(panels: Sequence[Axes]) -> dict[str, Any]:
    """Return the artists of a legend for all panels without their own, one for each name."""
    entries: dict[str, Any] = {}
    for axes in panels:
        if axes.get_legend() is None:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(name, handle)
    return entries


def _add_legend(canvas: Canvas, entries: dict[str, Any], place: Any) -> None:
    """Add a legend with as many columns as fit into the figure."""
    import matplotlib as mpl

    if entries:
        points = mpl.rcParams["font.size"]
        column = 0.6 * points * max(map(len, entries)) + 5 * points
        columns = max(1, min(len(entries), int(72 * canvas.get_figwidth() / column)))
        columns = -(-len(entries) // -(-len(entries) // columns))  # rows of equal length
        canvas.legend(
            list(entries.values()), list(entries), loc=place, ncols=columns, columnspacing=1.4, handlelength=2.2
        )


def figure_svgs(drawing: Drawing, salt: str) -> list[str]:
    """Return a figure as SVG elements for the page: each panel, then the legend if there is one.

    Panels of a row of three are drawn smaller, because they are shown smaller: their text stays readable.
    """
    from matplotlib.figure import Figure as Canvas

    drawn: list[Axes] = []
    parts = []
    with style():
        for number, panel in enumerate(drawing.panels):
            canvas = _draw_axes([panel], 1, (3.9, 3.1) if drawing.columns == 3 else (5.0, 3.5))
            drawn += canvas.axes
            parts.append(_element(canvas, panel.alt, f"{salt} {number}"))
        if entries := _legend_entries(drawn):
            canvas = Canvas(figsize=(5.0, 0.2))
            _add_legend(canvas, entries, "upper left")
            _, _, width, height = canvas.legends[0].get_window_extent().bounds
            canvas.set_size_inches(width / canvas.dpi + 0.2, height / canvas.dpi + 0.1)
            parts.append(_element(canvas, f"Legend: {', '.join(entries)}.", f"{salt} legend"))
    return parts


def panel_svg(panel: Panel, size: tuple[float, float], salt: str = "asbc") -> str:
    """Return a panel as an SVG element. The same data give the same text.

    Parameters
    ----------
    panel : Panel
    size : (float, float)
        Width and height in inches.
    salt : str, default="asbc"
        Makes the ids inside the element unique on a page. Ids that start with "keep-" stay as they are.
    """
    with style():
        return _element(_draw_axes([panel], 1, size), panel.alt, salt)


def _element(canvas: Canvas, alt: str, salt: str) -> str:
    """Return a matplotlib figure as an SVG element for a page."""
    text = _svg(canvas, salt)
    text = re.sub(r"^.*?(?=<svg)", "", text, flags=re.S)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r'<g id="(?!keep-)[^"]*"', "<g", text)  # nothing refers to these, and they are not unique on a page
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r"\n\s*", "\n", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)


def _svg(canvas: Canvas, salt: str = "asbc") -> str:
    import matplotlib as mpl

    sheet = io.StringIO()
    with style(), mpl.rc_context({"svg.hashsalt": salt}):
        canvas.savefig(sheet, format="svg", metadata={"Date": None, "Creator": "asbc"})
    return sheet.getvalue()


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
    paths = []
    with style(8):
        canvas = draw(drawing.panels, columns, (across, max(2.2, 0.74 * across)), font_size=8)
        for kind, options in (("png", {"dpi": DPI}), ("pdf", {"metadata": {"CreationDate": None, "Creator": "asbc"}})):
            sheet = io.BytesIO()
            canvas.savefig(sheet, format=kind, **options)  # type: ignore[arg-type]
            paths.append(folder / f"{drawing.file_stem}.{kind}")
            write_atomic(paths[-1], sheet.getvalue())
    return paths


# Figures of the paper: each function returns the panels of a figure, none if the results do not hold it


def regimes(study: Study, spec: Figure) -> list[Panel]:
    """Draw Figure 1: local kernels from a narrow bandwidth to a wide one."""
    if not study.has("chosen_rank_median"):
        return []
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
        axes.set(xscale="log", xlabel="σ / distance to the 10th neighbour" if tenth else "bandwidth scale")
        _ticks(axes, [0.05, 0.1, 0.2, 0.5, 1, 2, 5])

    def rank(axes: Axes) -> None:
        curve(axes, "rank", BLUE)
        axes.axhline(dimension, color=INK, ls="--", lw=1)
        axes.set(ylabel=f"rank r (of {k})", ylim=(0, k * 1.05))
        near: Any = {"textcoords": "offset points"}
        text = f"median dimension {dimension:.1f}"
        axes.annotate(text, (0.01, dimension), (0, 3), xycoords=("axes fraction", "data"), **near)
        near |= {"xycoords": ("data", "axes fraction"), "va": "top", "color": GREEN, "weight": "bold"}
        axes.annotate("chosen", (chosen["median"], 1), (4, -3), **near)

    def slope(axes: Axes) -> None:
        curve(axes, "slope", ORANGE)
        axes.set(ylabel="slope of log kernel sum", ylim=(0, None))

    def condition(axes: Axes) -> None:
        curve(axes, "condition", RED)
        axes.set(ylabel="condition of the local kernel", yscale="log")
        _power_ticks(axes)

    alt = f"Effective rank falls as the bandwidth grows; chosen: {chosen['median']:.2f}."
    return [
        Panel("Effective rank", rank, alt),
        Panel("Log-log slope", slope, "The log-log slope rises to a peak and falls again."),
        Panel("Condition number", condition, "The condition number grows with the bandwidth."),
    ]


def alignment(study: Study, spec: Figure) -> list[Panel]:
    """Draw Figure 2: the effective rank against estimates of the intrinsic dimension."""
    rows = study.of("spearman")
    if rows.empty:
        return []
    targets = rows["target"].drop_duplicates().tolist()
    estimators = rows["estimator"].drop_duplicates().tolist()
    marks = {"mst": (RED, "o"), "levina_bickel": (BLUE, "s"), "two_nn": (ORANGE, "^")}

    def spearman(axes: Axes) -> None:
        for e, name in enumerate(estimators):
            color, marker = marks.get(name, (INK, "x"))
            known = study.record.paper.get("spearman", {}).get(name)
            for t, target in enumerate(targets):
                found = compare_number(rows[(rows["target"] == target) & (rows["estimator"] == name)], 0.0)
                x = t + 0.22 * (e - (len(estimators) - 1) / 2)
                if found is not None and target == "mst" and known:
                    box: dict[str, Any] = {"color": FAINT, "alpha": 0.55, "lw": 0, "label": "range in the paper"}
                    axes.bar(x, known[1] - known[0], 0.18, known[0], **box)
                if found is not None:
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
            first = t == 0  # one entry in the legend
            axes.plot([d, r], [t, t], color=FAINT, lw=2.5)
            axes.plot([d], [t], "o", ms=8, mfc="white", mec=INK, label="median dimension" if first else None)
            axes.plot([r], [t], "o", ms=8, color=RED, label="median rank" if first else None)
        axes.set_yticks(range(len(targets)), [label(target) for target in targets])
        axes.grid(visible=False, axis="y")
        right = 1.08 * axes.get_xlim()[1]
        axes.set(xlabel="directions", xlim=(0, right), ylim=(len(targets) - 0.5, -0.5))
        axes.legend(loc="lower left")

    clouds = [cloud for pair in spec.options.get("clouds", ()) if (cloud := _cloud(study, *pair)) is not None]
    return [
        *clouds,
        Panel("Rank correlation of r", spearman, "Spearman correlation of r with each dimension estimate."),
        Panel("Medians over the nodes", medians, "Median rank and median dimension for each target."),
    ]


def _cloud(study: Study, target: str, estimator: str) -> Panel | None:
    """Return the density of nodes by rank and dimension with its fit; None if the results do not hold it."""
    pairs = study.rows[(study.rows["target"] == target) & (study.rows["estimator"] == estimator)]
    packed: Any = pairs[pairs["metric"] == "spearman"].get("density", [])
    tables = [unpack_density(cell) for cell in packed if isinstance(cell, bytes)]
    if not tables:
        return None
    counts = np.zeros((max(map(len, tables)), tables[0].shape[1]))
    for table in tables:
        counts[: len(table)] += table
    edges = 1 + CELL * np.arange(max(counts.shape) + 1)
    seen = np.flatnonzero(np.cumsum(counts.sum(axis=0)) >= 0.995 * counts.sum())
    right = float(edges[max(int(seen[0]) + 1, 8)])
    top = float(edges[max(int(np.flatnonzero(counts.any(axis=1)).max()) + 2, 8)])
    values = pairs["value"].astype(float)
    means = values[np.isfinite(values)].groupby(pairs["metric"]).mean()

    def cloud(axes: Axes) -> None:
        from matplotlib.colors import ListedColormap, LogNorm

        up, across = counts.shape
        shown = np.ma.masked_equal(counts, 0)
        look: Any = {"cmap": ListedColormap(SHADES), "norm": LogNorm(1, max(int(counts.max()), 2)), "rasterized": True}
        axes.pcolormesh(edges[: across + 1], edges[: up + 1], shown, **look)
        ends = np.array([1.0, max(right, top)])
        axes.plot(ends, ends, color=INK, ls=":", lw=1, label="r = d")
        if {"slope", "intercept"} <= set(means.index):
            fit = means["slope"] * ends + means["intercept"]
            axes.plot(ends, fit, color=RED, label=f"fit, slope {means['slope']:.2f}")
        axes.set(xlabel=f"{label(estimator)} of the node", ylabel="effective rank r", xlim=(0, right), ylim=(0, top))
        axes.legend(loc="lower right")

    end = f", Spearman {means['spearman']:.2f}" if "spearman" in means else ""
    return Panel(
        f"r against {label(estimator)}{end}", cloud, f"Rank of each node against {label(estimator)}, and a fit."
    )


def levels(study: Study, spec: Figure) -> list[Panel]:
    """Draw metrics against their levels, and their paired differences from the baseline."""
    return [panel for metric in spec.metrics for panel in _level_panels(study, metric, spec.options.get("pair"))]


def _level_panels(study: Study, metric: str, pair: Sequence[str] | None) -> list[Panel]:
    study = study.largest_sample(metric)
    about, methods = study.record.metric(metric), study.methods_with(metric)
    if not methods:
        return []
    base = BASELINE if BASELINE in methods else methods[0]
    chosen = looks(methods)

    def differences(title: str, pairs: Sequence[tuple[str, str]]) -> Panel:
        def paint(axes: Axes) -> None:
            levels = study.levels(metric)
            axes.axhline(0, color=MUTED, lw=1.2)
            for index, (method, other) in enumerate(pairs):
                found = [study.compare(method, other, metric, level) for level in levels]
                _gains(axes, _dodge(range(len(levels)), index, len(pairs)), found, chosen[method], label(method))
            axes.set_xlim(-0.5, len(levels) - 0.5)
            _level_axis(axes, levels, about.level)
            axes.set_ylabel(f"difference in {about.title}")

        return Panel(title, paint, f"{title}: paired, with intervals.")

    panels = [_means(study, metric, chosen, about.title)]
    if len(methods) > 1:
        panels.append(differences(f"Difference from {label(base)}", [(m, base) for m in methods if m != base]))
    if pair and set(pair) <= set(methods):
        panels.append(differences(f"{label(pair[0])} less {label(pair[1])}, own scale", [(pair[0], pair[1])]))
    return panels


def side_by_side(named: Sequence[tuple[str, Study]], spec: Figure, metric: str) -> Drawing | None:
    """Draw a metric of several subjects, one panel each on a shared scale; None for fewer than two."""
    shown = [(name, study.largest_sample(metric)) for name, study in named if study.scores(metric)]
    if len(shown) < 2:
        return None
    values = [own["value"].astype(float) for _, study in shown for own in study.scores(metric).values()]
    low, high = min(own.min() for own in values), max(own.max() for own in values)
    margin = 0.04 * ((high - low) or 0.1)
    chosen = looks(dict.fromkeys(method for _, study in shown for method in study.methods_with(metric)))

    def panel(name: str, study: Study) -> Panel:
        plain = _means(study, metric, chosen, name)

        def paint(axes: Axes) -> None:
            plain.draw(axes)
            axes.set_ylim(low - margin, high + margin)

        return replace(plain, draw=paint)

    return Drawing(
        f"{spec.name}_side_by_side",
        f"{spec.title}, side by side",
        "Means over trials; small dots are single trials. All panels share one scale.",
        [panel(name, study) for name, study in shown],
    )


def _means(study: Study, metric: str, chosen: dict[str, Look], title: str) -> Panel:
    """Return a panel with the means of each method over its trials, level by level or at each swept value."""
    about, axis, values = study.record.metric(metric), study.record.axis, study.settings
    by = "setting" if axis and len(values) > 1 else "level"
    levels = values if by == "setting" else study.levels(metric)
    places = {level: level if by == "setting" else i for i, level in enumerate(levels)}

    def paint(axes: Axes) -> None:
        rows = default_target(study.of(metric))
        for method in study.methods_with(metric):
            own = rows[rows["method"] == method]
            color, marker, dash = chosen[method]
            means = own.groupby(by)["value"].mean().reindex(levels)
            axes.plot(list(places.values()), means, dash, color=color, marker=marker, label=_name(label(method)))
            axes.plot(own[by].map(places), own["value"].astype(float), "o", color=color, ms=1.5, alpha=0.45)
        if by == "level":
            _level_axis(axes, levels, about.level)
        elif axis is not None:
            axes.set(xlabel=axis.label, xticks=levels)
        axes.set_ylabel(about.title)

    return Panel(title, paint, f"{about.title} of {len(study.methods_with(metric))} methods.")


def sweep(study: Study, spec: Figure) -> list[Panel]:
    """Draw metrics against the swept setting, with the values of the paper where it prints them."""
    axis, paper = study.record.axis, study.record.paper
    values = study.settings
    if axis is None or len(values) < 2:
        return []
    base = axis.base if axis.base in values else values[0]
    printed = paper.get("value", [])
    paper_look: dict[str, Any] = {"color": INK, "ls": ":", "marker": "D", "lw": 1, "mfc": "white", "label": "the paper"}
    ratio: Any = spec.options.get("ratio")

    def differences(metric: str) -> Panel:
        about = study.record.metric(metric)

        def paint(axes: Axes) -> None:
            axes.axhline(0, color=MUTED, lw=1.2)
            chosen = looks(study.methods_with(metric))
            for index, (method, look) in enumerate(chosen.items()):
                found = [study.compare_settings(method, v, base, metric) if v != base else None for v in values]
                _gains(axes, _dodge(values, index, len(chosen)), found, look, label(method), base)
            if metric in paper and base in printed:
                axes.plot(printed, np.array(paper[metric]) - paper[metric][printed.index(base)], **paper_look)
            axes.set(xlabel=axis.label, ylabel=f"difference in {about.title}", xticks=values)

        title = f"{about.title}: difference from {axis.label} = {base:g}"
        return Panel(title, paint, f"Paired differences in {about.title} for each {axis.label}.")

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
        axes.set(xlabel=axis.label, ylabel="r / d", ylim=(0, None), xticks=values)

    measured = [metric for metric in spec.metrics if study.has(metric)]
    panels = []
    if len(measured) == 1 and not ratio:
        panels.append(_means(study, measured[0], looks(study.methods), study.record.metric(measured[0]).title))
    panels += [differences(metric) for metric in measured]
    if ratio and all(map(study.has, ratio)):
        panels.append(Panel("Median rank over median dimension", fraction, "Rank over dimension at each value."))
    return panels


def tuning(study: Study, spec: Figure) -> list[Panel]:
    """Draw the accuracy over bandwidths that labels could tune, and that of rules that see no labels."""
    if not study.has("regret"):
        return []
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
                method = SPECTRAL[kind] if rule == "spectral" else f"{rule}_{kind}"
                if method in means:
                    axes.axhline(means[method], color=color, ls=dash, lw=1.6, label=rule.replace("_", " "))
            axes.set(xscale="log", xlabel="bandwidth scale c", ylabel="LOO")
            _ticks(axes, [0.2, 0.5, 1, 2])

        return Panel(f"{WEIGHTS[kind]} weights", paint, f"LOO against the bandwidth scale with {kind} weights.")

    return [panel(kind) for kind in SPECTRAL if f"tuned_local_{kind}" in means]


RENDERERS: dict[str, Callable[[Study, Figure], list[Panel]]] = {
    "levels": levels,
    "sweep": sweep,
    "regimes": regimes,
    "alignment": alignment,
    "tuning": tuning,
}


def draw_figures(study: Study) -> list[Drawing]:
    """Return the figures that the record of a study asks for, and generic ones of metrics that nobody describes."""
    record = study.record
    generic = [record.metric(metric) for metric in study.generic_metrics()]
    specs = [*record.figures, *(Figure("levels", m.name, m.title, m.description, (m.name,)) for m in generic)]
    drawn = [Drawing(s.name, s.title, s.caption, RENDERERS.get(s.kind, levels)(study, s)) for s in specs]
    if study.sweep is not None:
        drawn.append(draw_sweep(study.sweep, f"{record.name}_sweep"))
    return [drawing for drawing in drawn if drawing.panels]


# Sweeps of any settings


def draw_sweep(found: Sweep, name: str) -> Drawing:
    """Draw all runs of a sweep: a curve for one setting, heatmaps for each pair of several."""
    axes_names, title = list(found.axes), found.metric.title
    at = level_text(sorted(found.frame["level"].unique(), key=level_order), found.metric.level)
    if len(axes_names) == 1:
        panels = [_sweep_curve(found, axes_names[0])]
        caption = f"Means with 95% intervals, {at}."
    else:
        method = "nnk_sigma" if "nnk_sigma" in found.methods else found.methods[-1]
        panels = _heatmaps(found, method)
        caption = f"Means of {label(method)} over trials, {at}. Darker is higher; the bar shows the scale."
        if len(axes_names) > 2:
            caption += " Other settings are at the values nearest to the paper, and at the best ones."
    return Drawing(name, f"{title} by {listed(axes_names)}", caption, panels)


def _sweep_curve(found: Sweep, axis: str) -> Panel:
    values = found.values(axis)
    places = dict(zip(values, values if all(map(is_number, values)) else range(len(values)), strict=True))

    def paint(axes: Axes) -> None:
        for index, (method, look) in enumerate(looks(found.methods).items()):
            means = [found.mean(method, {axis: value}) for value in values]
            _gains(axes, _dodge(list(places.values()), index, len(found.methods)), means, look, label(method))
        axes.set_xticks(list(places.values()), [_short(value) for value in values])
        axes.set(xlabel=axis, ylabel=found.metric.title)

    return Panel(found.metric.title, paint, f"{found.metric.title} for each {axis}.")


def _heatmaps(found: Sweep, method: str) -> list[Panel]:
    """Return a heatmap for each pair of settings, with the others at the values of the paper and at the best ones."""
    means = found.frame[found.frame["method"] == method].groupby(list(found.axes), dropna=False)["value"].mean()
    span = float(means.min()), float(means.max())
    best, panels = found.best(method), []
    for row, column in combinations(list(found.axes)[:MAX_HEATMAP_AXES], 2):
        others = [axis for axis in found.axes if axis not in (row, column)]
        fixed = [{axis: chosen[axis] for axis in others} for chosen in (found.axes, best)]
        kinds = (" (paper)", " (best)") if fixed[0] != fixed[1] else ("",)
        for settings, kind in zip(fixed, kinds, strict=False):
            rows = found.at(settings)
            rows = rows[rows["method"] == method]
            if len(rows[[row, column]].drop_duplicates()) > 1:
                text = ", ".join(f"{axis} = {_short(value)}" for axis, value in settings.items())
                panels.append(_heatmap(rows, row, column, found.metric.title, text + kind, span))
    return panels


def _heatmap(rows: pd.DataFrame, row: str, column: str, title: str, fixed: str, span: tuple[float, float]) -> Panel:
    """Return a panel with means by two settings, written into the cells, with colours that span a given range."""
    table = rows.pivot_table(index=row, columns=column, values="value", aggfunc="mean")

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap

        values = table.to_numpy(float)
        shades = LinearSegmentedColormap.from_list("asbc", SHADES[:6])
        image = axes.imshow(values, cmap=shades, aspect="auto", vmin=span[0], vmax=span[1])
        bar = axes.figure.colorbar(image, ax=axes, label=title, pad=0.02, aspect=30)
        bar.ax.grid(visible=False)
        dark = span[0] + 0.6 * (span[1] - span[0])
        size = "medium" if len(table.columns) < 4 else "small" if len(table.columns) < 6 else "x-small"
        for (i, j), value in np.ndenumerate(values):
            if np.isfinite(value):
                color = "white" if value > dark else INK
                axes.text(j, i, f"{value:.3f}", ha="center", va="center", color=color, size=size)
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


def _gains(
    axes: Axes, x: Any, found: Sequence[Comparison | None], look: Look, name: str, base: float | None = None
) -> None:
    """Draw differences with intervals in the look of a method, and zero at `base`; a missing one leaves a gap."""
    known = [(place, c) for place, c in zip(x, found, strict=True) if c is not None]
    if known:
        line = [(place, c.difference) for place, c in known] + ([] if base is None else [(base, 0.0)])
        axes.plot(*zip(*sorted(line), strict=True), look.dash, color=look.color, lw=1, alpha=0.6)
        _whiskers(axes, [place for place, _ in known], [c for _, c in known], look.color, look.marker, name)


def _dodge(x: Sequence[float], index: int, count: int) -> NDArray[np.float64]:
    """Return places on an axis, moved aside for one of several methods, so that their whiskers do not overlap."""
    step = float(np.diff(np.unique(x)).min()) if len(set(x)) > 1 else 1.0
    return np.asarray(x, float) + step * min(0.11, 0.7 / count) * (index - (count - 1) / 2)


def _level_axis(axes: Axes, levels: Sequence[float], unit: str) -> None:
    """Place levels at equal steps: small levels would crowd together otherwise."""
    axes.set_xticks(range(len(levels)), [level_name(level) for level in levels])
    axes.set_xlabel(unit)


def _ticks(axes: Axes, values: Sequence[float]) -> None:
    """Label a logarithmic axis at those of some numbers that the data span."""
    low, high = axes.get_xlim()
    values = [value for value in values if low <= value <= high]
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
