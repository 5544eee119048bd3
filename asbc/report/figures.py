"""The figures, drawn with matplotlib: one function per kind of figure."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import combinations, cycle
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, NullFormatter

from asbc.evaluate.comparison import Comparison
from asbc.evaluate.geometry import CELL, unpack_density
from asbc.report.evidence import BASELINE, Study, Sweep, compare_number, default_target, is_number, short
from asbc.report.names import (
    OWN_COLORS,
    OWN_METHODS,
    SPECTRAL,
    WEIGHTS,
    label,
    level_name,
    level_order,
    level_text,
    listed,
)
from asbc.runs.record import METHOD_COLORS, Figure
from asbc.storage import write_atomic

BLUE, GREEN, ORANGE, RED = "#0072b2", "#009e73", "#e69f00", "#d55e00"
BROWN, INDIGO = "#8c510a", "#4b3f9e"
INK, MUTED, FAINT, GRID = "#1f2933", "#5b6770", "#9aa5b1", "#e4e8ec"
WIDTHS = {"single": 3.5, "double": 7.16}  # inches, of one and of two columns of an IEEE paper
DPI = 300
MAX_HEATMAP_AXES = 4  # settings of a sweep that are drawn in pairs
# Without dates, so that the same data give the same files.
METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}


class Look(NamedTuple):
    """Colour, marker and dash of a method's line."""

    color: str
    marker: str
    dash: str


# Any two of the paper's methods differ in at least two of colour, marker and dash.
LOOKS = {
    name: Look(color, marker, dash)
    for (name, color), marker, dash in zip(
        METHOD_COLORS.items(), "osDv^P", (":", "--", "-.", "--", "-", "-."), strict=True
    )
}
# Looks of other methods, in the order in which they appear in a figure.
OTHER_LOOKS = [
    Look(color, marker, dash)
    for dash in ("-", "--", ":")
    for color, marker in zip((GREEN, BROWN, INDIGO, INK), "Xd<h", strict=True)
]


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return a look for each method: the paper's and the user's always have the same, others take what is free."""
    methods = list(methods)
    known = LOOKS | dict(zip(OWN_METHODS, cycle(OTHER_LOOKS), strict=False))
    taken = {known[method] for method in methods if method in known}
    free = cycle([look for look in OTHER_LOOKS if look not in taken] or OTHER_LOOKS)
    chosen = {method: known.get(method) or next(free) for method in methods}
    return {method: look._replace(color=OWN_COLORS.get(method, look.color)) for method, look in chosen.items()}


@contextmanager
def style(font_size: float = 10) -> Iterator[None]:
    """Apply the matplotlib settings of all figures, and none of the user's; `font_size` is in points."""
    settings: Any = {
        "font.size": font_size,
        "axes.titlesize": 1.05 * font_size,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.edgecolor": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "text.parse_math": False,  # names of methods may contain dollar signs
        "xtick.labelsize": 0.9 * font_size,
        "ytick.labelsize": 0.9 * font_size,
        "lines.markersize": 0.53 * font_size,
        "legend.frameon": False,
        "legend.fontsize": 0.9 * font_size,
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


@dataclass(frozen=True)
class Panel:
    """One set of axes: a title, a function that draws on matplotlib axes, and a text instead of an empty title."""

    title: str
    draw: Callable[[Axes], None]
    alt: str = ""


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
    panels: Sequence[Panel],
    columns: int,
    size: tuple[float, float] = (5.0, 3.7),
    font_size: float = 10,
    legend: bool = True,
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
    legend : bool, default=True
        Whether to add one legend below the panels. A panel that draws its own keeps it, and adds nothing to this one.
    """
    rows = -(-len(panels) // columns)
    letters = int((size[0] - 0.6) * 72 / (0.68 * font_size))  # of a title, next to the labels of the y axis
    with style(font_size):
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06)
        canvas = Canvas(figsize=(size[0] * columns, size[1] * rows), layout=layout)
        for place, panel in enumerate(panels, 1):
            axes = canvas.add_subplot(rows, columns, place)
            panel.draw(axes)
            axes.set_title(fill(panel.title, max(letters, 10)))
        if legend:
            _add_legend(canvas, canvas.axes, "outside lower center")
    return canvas


def _add_legend(canvas: Canvas, panels: Sequence[Axes], place: str) -> list[str]:
    """Add a legend of all panels without their own, in as many columns as fit, and return its names."""
    entries: dict[str, Any] = {}
    for axes in panels:
        if axes.get_legend() is None:
            for handle, name in zip(*axes.get_legend_handles_labels(), strict=True):
                entries.setdefault(name, handle)
    if entries:
        points = mpl.rcParams["font.size"]
        column = 0.6 * points * max(map(len, entries)) + 5 * points
        rows = -(-len(entries) // max(1, int(72 * canvas.get_figwidth() / column)))
        look: Any = {"loc": place, "ncols": -(-len(entries) // rows), "columnspacing": 1.4, "handlelength": 2.2}
        canvas.legend(list(entries.values()), list(entries), **look)
    return list(entries)


def figure_svgs(drawing: Drawing, salt: str) -> list[str]:
    """Return a figure as SVG elements for the page: each panel, then the legend if there is one.

    Panels of a row of three are drawn smaller, because they are shown smaller: their text stays readable.
    """
    size = (3.9, 3.1) if drawing.columns == 3 else (5.0, 3.5)
    drawn = [draw([panel], 1, size, legend=False) for panel in drawing.panels]
    parts = [_element(drawn[i], panel.title, f"{salt} {i}") for i, panel in enumerate(drawing.panels)]
    with style():
        canvas = Canvas(figsize=(5.0, 0.2))
        if names := _add_legend(canvas, [axes for one in drawn for axes in one.axes], "upper left"):
            _, _, width, height = canvas.legends[0].get_window_extent().bounds
            canvas.set_size_inches(width / canvas.dpi + 0.2, height / canvas.dpi + 0.1)
            parts.append(_element(canvas, f"Legend: {', '.join(names)}.", f"{salt} legend"))
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
    return _element(draw([panel], 1, size, legend=False), panel.alt or panel.title, salt)


def _element(canvas: Canvas, alt: str, salt: str) -> str:
    """Return a matplotlib figure as an SVG element for a page."""
    text = _file(canvas, "svg", salt).decode()
    text = re.sub(r"^.*?(?=<svg)", "", text, flags=re.S)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.S)
    text = re.sub(r'<g id="(?!keep-)[^"]*"', "<g", text)  # nothing refers to these, and they are not unique on a page
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text).replace("xlink:href", "href")
    text = re.sub(r"\n\s*", "\n", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)


def _file(canvas: Canvas, kind: str, salt: str = "asbc", **options: Any) -> bytes:
    sheet = io.BytesIO()
    with style(), mpl.rc_context({"svg.hashsalt": salt}):
        canvas.savefig(sheet, format=kind, metadata=METADATA[kind], **options)
    return sheet.getvalue()


def save(drawing: Drawing, folder: Path, width: str = "double", kinds: Iterable[str] = METADATA) -> list[Path]:
    """Write a figure as `<name>.svg`, `<name>.pdf` and `<name>.png`, the last with 300 dpi.

    Parameters
    ----------
    drawing : Drawing
    folder : Path
    width : {"single", "double"}, default="double"
        Width of one or of two columns of a paper. The text has 8 points in both.
    kinds : iterable of {"svg", "pdf", "png"}, default=all
    """
    columns = 1 if width == "single" else drawing.columns
    across = WIDTHS[width] / columns
    canvas = draw(drawing.panels, columns, (across, max(2.2, 0.74 * across)), font_size=8)
    paths = {kind: folder / f"{drawing.file_stem}.{kind}" for kind in kinds}
    for kind, path in paths.items():
        write_atomic(path, _file(canvas, kind, dpi=DPI))
    return list(paths.values())


# Figures of the paper: each function returns the panels of a figure, none if the results do not hold it


def regimes(study: Study, spec: Figure) -> list[Panel]:
    """Draw Figure 1: local kernels from a narrow bandwidth to a wide one."""
    if not study.has("chosen_rank_median"):
        return []
    k = int(study.rows["k_cand"].iloc[0])
    chosen = {q: float(study.of(f"chosen_scale_{q}")["value"].mean()) for q in ("q25", "median", "q75")}
    dimension = float(study.of("chosen_dimension_median")["value"].mean())
    tenth = "regimes.k" in study.rows and int(study.rows["regimes.k"].iloc[0]) == 10

    def panel(title: str, name: str, color: str, **settings: Any) -> Panel:
        def paint(axes: Axes) -> None:
            low, mid, high = (study.of(f"{name}_{q}").groupby("scale")["value"].mean() for q in chosen)
            axes.axvspan(chosen["q25"], chosen["q75"], color=GREEN, alpha=0.16, lw=0)
            axes.axvline(chosen["median"], color=GREEN, lw=1.2)
            axes.fill_between(mid.index, low, high, color=color, alpha=0.22, lw=0)
            axes.plot(mid.index, mid, color=color)
            axes.set(xscale="log", xlabel="σ / distance to the 10th neighbour" if tenth else "bandwidth scale")
            axes.set(**settings)
            _log_ticks(axes.xaxis, (1, 2, 5))
            if name == "rank":
                axes.axhline(dimension, color=INK, ls="--", lw=1)
                near: Any = {"textcoords": "offset points"}
                text = f"median dimension {dimension:.1f}"
                axes.annotate(text, (0.01, dimension), (0, 3), xycoords=("axes fraction", "data"), **near)
                near |= {"xycoords": ("data", "axes fraction"), "va": "top", "color": GREEN, "weight": "bold"}
                axes.annotate("chosen", (chosen["median"], 1), (4, -3), **near)
            if axes.get_yscale() == "log":
                _log_ticks(axes.yaxis)

        return Panel(title, paint)

    return [
        panel("Effective rank", "rank", BLUE, ylabel=f"rank r (of {k})", ylim=(0, k * 1.05)),
        panel("Log-log slope", "slope", ORANGE, ylabel="slope of log kernel sum", ylim=(0, None)),
        panel("Condition number", "condition", RED, ylabel="condition of the local kernel", yscale="log"),
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
        for pair, own in rows.groupby(["target", "estimator"], sort=False):
            target, name = map(str, pair)  # type: ignore[arg-type]
            found = compare_number(own, 0.0)
            if found is None:
                continue
            x = targets.index(target) + 0.22 * (estimators.index(name) - (len(estimators) - 1) / 2)
            known = study.record.paper.get("spearman", {}).get(name)
            if target == "mst" and known:
                box: dict[str, Any] = {"color": FAINT, "alpha": 0.55, "lw": 0, "label": "range in the paper"}
                axes.bar(x, known[1] - known[0], 0.18, known[0], **box)
            _whiskers(axes, [x], [found], *marks.get(name, (INK, "x")), f"with {label(name)}")
        axes.axhline(0, color=FAINT, lw=0.8)
        axes.set_xticks(range(len(targets)), [label(target) for target in targets])
        axes.grid(visible=False, axis="x")
        least = float(np.nanmin(rows["value"].astype(float), initial=0.0))
        axes.set(xlabel="dimension that r was matched to", ylabel="Spearman", ylim=(min(0.0, least - 0.05), 1))

    def medians(axes: Axes) -> None:
        own = study.rows[study.rows["target"] == study.rows["estimator"]]
        means = own.pivot_table(index="target", columns="metric", values="value")
        means = means.reindex(index=targets, columns=["dimension_median", "rank_median"])  # some may not be measured
        places = range(len(targets))
        axes.hlines(places, means["dimension_median"], means["rank_median"], color=FAINT, lw=2.5)
        axes.plot(means["dimension_median"], places, "o", ms=8, mfc="white", mec=INK, label="median dimension")
        axes.plot(means["rank_median"], places, "o", ms=8, color=RED, label="median rank")
        axes.set_yticks(places, [label(target) for target in targets])
        axes.grid(visible=False, axis="y")
        axes.set(xlabel="directions", xlim=(0, 1.08 * axes.get_xlim()[1]), ylim=(len(targets) - 0.5, -0.5))
        axes.legend(loc="lower left")

    clouds = [cloud for pair in spec.options.get("clouds", ()) if (cloud := _cloud(study, *pair)) is not None]
    return [*clouds, Panel("Rank correlation of r", spearman), Panel("Medians over the nodes", medians)]


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

        up, across = counts.shape
        shown = np.ma.masked_equal(counts, 0)
        norm = LogNorm(0.2, max(int(counts.max()), 2))  # a single node is not white
        axes.pcolormesh(edges[: across + 1], edges[: up + 1], shown, cmap="Blues", norm=norm, rasterized=True)
        ends = np.array([1.0, max(right, top)])
        axes.plot(ends, ends, color=INK, ls=":", lw=1, label="r = d")
        if {"slope", "intercept"} <= set(means.index):
            fit = means["slope"] * ends + means["intercept"]
            axes.plot(ends, fit, color=RED, label=f"fit, slope {means['slope']:.2f}")
        axes.set(xlabel=f"{label(estimator)} of the node", ylabel="effective rank r", xlim=(0, right), ylim=(0, top))
        axes.legend(loc="lower right")

    end = f", Spearman {means['spearman']:.2f}" if "spearman" in means else ""
    return Panel(f"r against {label(estimator)}{end}", cloud)


def levels(study: Study, spec: Figure) -> list[Panel]:
    """Draw metrics against their levels, and their paired differences from the baseline."""
    return [panel for metric in spec.metrics for panel in _level_panels(study, metric, spec.options.get("pair"))]


def _level_panels(study: Study, metric: str, pair: Sequence[str] | None) -> list[Panel]:
    study = study.largest_sample(metric)
    methods = study.methods_with(metric)
    if not methods:
        return []
    base = BASELINE if BASELINE in methods else methods[0]
    chosen = looks(methods)
    panels = [_means(study, metric, chosen, study.record.metric(metric).title)]
    compared = [(f"Difference from {label(base)}", [(method, base) for method in methods if method != base])]
    if pair and set(pair) <= set(methods):
        compared.append((f"{label(pair[0])} less {label(pair[1])}, own scale", [(pair[0], pair[1])]))
    for title, pairs in compared:
        found = {a: [study.compare(a, b, metric, level) for level in study.levels(metric)] for a, b in pairs}
        if found and not study.swept:
            panels.append(_differences(study, metric, found, chosen, title))
    return panels


def side_by_side(named: Sequence[tuple[str, Study]], spec: Figure, metric: str) -> Drawing | None:
    """Draw a metric of several subjects, one panel each on a shared scale; None for fewer than two."""
    shown = [(name, study.largest_sample(metric)) for name, study in named if study.scores(metric)]
    if len(shown) < 2:
        return None
    values = np.concatenate([own["value"].astype(float) for _, study in shown for own in study.scores(metric).values()])
    margin = 0.04 * (np.ptp(values) or 0.1)
    limits = values.min() - margin, values.max() + margin
    chosen = looks(dict.fromkeys(method for _, study in shown for method in study.methods_with(metric)))
    return Drawing(
        f"{spec.name}_side_by_side",
        f"{spec.title}, side by side",
        "Means over trials; small dots are single trials. All panels share one scale.",
        [_means(study, metric, chosen, name, limits) for name, study in shown],
    )


def sweep(study: Study, spec: Figure) -> list[Panel]:
    """Draw metrics against the swept setting, with the values of the paper where it prints them."""
    axis, paper, values = study.record.axis, study.record.paper, study.settings
    if axis is None or not study.swept:
        return []
    base = study.base
    printed = paper.get("value", [])
    paper_look: dict[str, Any] = {"color": INK, "ls": ":", "marker": "D", "lw": 1, "mfc": "white", "label": "the paper"}
    ratio: Any = spec.options.get("ratio")

    def differences(metric: str) -> Panel:
        chosen = looks(study.methods_with(metric))
        found = {m: [study.compare_settings(m, v, metric) if v != base else None for v in values] for m in chosen}
        title = f"{study.record.metric(metric).title}: difference from {axis.label} = {base:g}"

        def add_paper(axes: Axes) -> None:
            if metric in paper and base in printed:
                axes.plot(printed, np.array(paper[metric]) - paper[metric][printed.index(base)], **paper_look)

        return _differences(study, metric, found, chosen, title, base, add_paper)

    def fraction(axes: Axes) -> None:
        method = study.methods_with(ratio[0])[-1]  # the rank does not depend on the weights
        own = study.rows[study.rows["method"] == method]
        means = own.pivot_table(index="setting", columns="metric", values="value").reindex(values, columns=ratio)
        axes.plot(values, means[ratio[0]] / means[ratio[1]], color=RED, marker="o", label="measured")
        if set(ratio) <= set(paper):
            axes.plot(printed, np.array(paper[ratio[0]]) / paper[ratio[1]], **paper_look)
        axes.plot(values, values, color=FAINT, lw=1, label=f"r = {axis.label} d")
        axes.set(xlabel=axis.label, ylabel="r / d", ylim=(0, None), xticks=values)

    measured = [metric for metric in spec.metrics if study.has(metric)]
    panels = [differences(metric) for metric in measured]
    if ratio and all(map(study.has, ratio)):
        panels.append(Panel("Median rank over median dimension", fraction))
    elif len(measured) == 1:
        panels.insert(0, _means(study, measured[0], looks(study.methods), study.record.metric(measured[0]).title))
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
            _log_ticks(axes.xaxis, (1, 2, 5))

        return Panel(f"{WEIGHTS[kind]} weights", paint)

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
    at = level_text(sorted(found.frame["level"].unique(), key=level_order), found.metric.level)
    title = f"{found.metric.title} by {listed(list(found.axes))}"
    if len(found.axes) == 1:
        return Drawing(name, title, f"Means with 95% intervals, {at}.", [_sweep_curve(found, *found.axes)])
    method = "nnk_sigma" if "nnk_sigma" in found.methods else found.methods[-1]
    others = " Other settings are nearest to the paper, or the best ones." if len(found.axes) > 2 else ""
    return Drawing(name, title, f"Means of {label(method)} over trials, {at}.{others}", _heatmaps(found, method))


def _sweep_curve(found: Sweep, axis: str) -> Panel:
    values = found.values(axis)
    places = values if all(map(is_number, values)) else list(range(len(values)))
    means = {
        method: [compare_number(found.at({axis: value}, method), 0.0) for value in values] for method in found.methods
    }

    def paint(axes: Axes) -> None:
        _whisker_lines(axes, places, means, looks(means))
        axes.set_xticks(places, [short(value) for value in values])
        axes.set(xlabel=axis, ylabel=found.metric.title)

    return Panel(found.metric.title, paint)


def _heatmaps(found: Sweep, method: str) -> list[Panel]:
    """Return a heatmap for each pair of settings, with the others at the values of the paper and at the best ones."""
    means, panels = found.means(method), []
    best = found.best(method)
    for row, column in combinations(list(found.axes)[:MAX_HEATMAP_AXES], 2):
        others = [axis for axis in found.axes if axis not in (row, column)]
        fixed = [{axis: chosen[axis] for axis in others} for chosen in (found.axes, best)]
        kinds = (" (paper)", " (best)") if fixed[0] != fixed[1] else ("",)
        for settings, kind in zip(fixed, kinds, strict=False):
            rows = found.at(settings, method)
            if len(rows[[row, column]].drop_duplicates()) > 1:
                text = ", ".join(f"{axis} = {short(value)}" for axis, value in settings.items())
                table = rows.pivot_table(index=row, columns=column, values="value")
                panels.append(_heatmap(table, found.metric.title, text + kind, means.min(), means.max()))
    return panels


def _heatmap(table: pd.DataFrame, title: str, fixed: str, low: float, high: float) -> Panel:
    """Return a panel with means by two settings, written into the cells; colours span from `low` to `high`."""

    def paint(axes: Axes) -> None:

        image = axes.imshow(table, cmap="Blues", aspect="auto", vmin=low, vmax=high)
        bar = axes.figure.colorbar(image, ax=axes, label=title, pad=0.02, aspect=30)
        bar.ax.grid(visible=False)
        size = "medium" if len(table.columns) < 4 else "small" if len(table.columns) < 6 else "x-small"
        for (i, j), value in np.ndenumerate(table.to_numpy(float)):
            if np.isfinite(value):
                color = "white" if value > low + 0.6 * (high - low) else INK
                axes.text(j, i, f"{value:.3f}", ha="center", va="center", color=color, size=size)
        axes.set_xticks(range(len(table.columns)), [short(value) for value in table.columns])
        axes.set_yticks(range(len(table.index)), [short(value) for value in table.index])
        axes.grid(visible=False)
        axes.set(xlabel=table.columns.name, ylabel=table.index.name)

    return Panel(fixed or title, paint)


# Pieces


def _means(
    study: Study, metric: str, chosen: Mapping[str, Look], title: str, limits: tuple[float, float] | None = None
) -> Panel:
    """Return a panel with the means of each method over its trials, level by level or at each swept value."""
    by, places = _x_axis(study, metric)

    def paint(axes: Axes) -> None:
        rows = default_target(study.of(metric))
        for method in study.methods_with(metric):
            own = rows[rows["method"] == method]
            color, marker, dash = chosen[method]
            means = own.groupby(by)["value"].mean().reindex(list(places))
            axes.plot(list(places.values()), means, dash, color=color, marker=marker, label=_name(label(method)))
            axes.plot(own[by].map(places), own["value"].astype(float), "o", color=color, ms=1.5, alpha=0.45)
        _label_x_axis(axes, study, metric)
        axes.set(ylabel=study.record.metric(metric).title, ylim=limits)

    return Panel(title, paint)


def _differences(
    study: Study,
    metric: str,
    found: Mapping[str, Sequence[Comparison | None]],
    chosen: Mapping[str, Look],
    title: str,
    base: float | None = None,
    add: Callable[[Axes], None] = lambda axes: None,
) -> Panel:
    """Return a panel with paired differences, a list for each method; they are zero at the swept value `base`."""

    def paint(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, lw=1.2)
        _whisker_lines(axes, list(_x_axis(study, metric)[1].values()), found, chosen, base)
        _label_x_axis(axes, study, metric)
        axes.set_ylabel(f"difference in {study.record.metric(metric).title}")
        add(axes)

    return Panel(title, paint)


def _x_axis(study: Study, metric: str) -> tuple[str, dict[Any, float]]:
    """Return the column of the x axis, and the place of each value: levels are at equal steps."""
    if study.swept:
        return "setting", {value: value for value in study.settings}
    return "level", {level: place for place, level in enumerate(study.levels(metric))}


def _label_x_axis(axes: Axes, study: Study, metric: str) -> None:
    places, axis = _x_axis(study, metric)[1], study.record.axis
    axes.set_xticks(list(places.values()), [level_name(value) for value in places])
    axes.set_xlabel(axis.label if axis and study.swept else study.record.metric(metric).level)
    if not study.swept:
        axes.set_xlim(-0.5, len(places) - 0.5)


def _whisker_lines(
    axes: Axes,
    places: Sequence[float],
    found: Mapping[str, Sequence[Comparison | None]],
    chosen: Mapping[str, Look],
    base: float | None = None,
) -> None:
    """Draw differences with intervals, a line for each method, and zero at `base`; a missing one leaves a gap.

    Each method is moved aside a little, so that whiskers do not overlap.
    """
    step = float(np.diff(np.unique(places)).min()) if len(set(places)) > 1 else 1.0
    for index, (method, gains) in enumerate(found.items()):
        aside = step * min(0.11, 0.7 / len(found)) * (index - (len(found) - 1) / 2)
        known = {place + aside: c for place, c in zip(places, gains, strict=True) if c is not None}
        if known:
            color, marker, dash = chosen[method]
            line = [(x, c.difference) for x, c in known.items()] + ([] if base is None else [(base, 0.0)])
            axes.plot(*zip(*sorted(line), strict=True), dash, color=color, lw=1, alpha=0.6)
            _whiskers(axes, list(known), list(known.values()), color, marker, label(method))


def _whiskers(axes: Axes, x: Sequence[float], found: Sequence[Comparison], color: str, marker: str, name: str) -> None:
    y = np.array([c.difference for c in found])
    reach = np.maximum([[c.difference - c.low for c in found], [c.high - c.difference for c in found]], 0)
    axes.errorbar(x, y, reach, fmt=marker, color=color, capsize=2.5, elinewidth=1.3, label=_name(name))


def _log_ticks(axis: Any, steps: Sequence[float] = (1,)) -> None:
    """Label a logarithmic axis in plain text, at the given multiples of powers of ten."""
    axis.set_major_locator(LogLocator(subs=steps, numticks=8))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _name(text: str) -> str:
    """Return a legend entry; matplotlib hides entries that start with an underscore."""
    return text.replace("_", " ") or " "
