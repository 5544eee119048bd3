"""The interactive map, drawn with Bokeh, and its colours."""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.core.properties import value
from bokeh.models import (
    BoxSelectTool,
    ColumnDataSource,
    CustomJS,
    HoverTool,
    ImageURL,
    LassoSelectTool,
    LinearColorMapper,
    PanTool,
    ResetTool,
    Scatter,
    TapTool,
    Text,
    WheelZoomTool,
)
from bokeh.models.annotations import ColorBar
from bokeh.palettes import cividis, plasma, viridis
from bokeh.plotting import figure
from bokeh.transform import transform
from numpy.typing import NDArray

from asbc.explore.clusters import place_names
from asbc.explore.findings import Findings
from asbc.report.style import BLUE, INK, MUTED

UNKNOWN = "#c9d1d9"  # colour of nodes without a value
# Okabe and Ito's colours and a few more: everybody can distinguish the first classes.
FIRST = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b4fa3", "#8c6d31", "#3f4a52", "#b0a800"]
MAX_LEGEND = 24  # entries of a legend
MAX_LABEL_COLORS = 20  # with more classes, the map is coloured by cluster first
NAME_SIZE = 12  # pixels of the names of clusters
PICTURE_SIZE = 40  # pixels of the pictures that stand for clusters
SCALE_QUANTILES = (0.01, 0.99)  # ends of a colour scale, so that single nodes do not stretch it
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WEBGL_FROM = 10_000  # nodes from which the graphics card draws


@dataclass(frozen=True)
class Entry:
    """One line of a legend: its name, colour, number of nodes, and class number."""

    name: str
    color: str
    count: int
    code: int


@dataclass(frozen=True)
class Coloring:
    """One way to colour the map.

    Attributes
    ----------
    key, title, note : str
        Column, name and explanation.
    values : (m,) float32
        Of the nodes on the map; NaN for none.
    palette : list of str
        Colours from `low` to `high`.
    low, high : float
    legend : list of Entry
        For classes; empty for a scale.
    hidden : int
        Classes that the legend leaves out.
    """

    key: str
    title: str
    note: str
    values: NDArray[np.float32]
    palette: list[str]
    low: float
    high: float
    legend: list[Entry]
    hidden: int = 0

    @property
    def field(self) -> str:
        """Column of the page that holds the values; class numbers have their own."""
        return f"number_of_{self.key}" if self.legend else self.key


def class_palette(count: int) -> list[str]:
    """Return `count` colours: ten that everybody can distinguish, then others spread over the hues."""
    more = []
    for i in range(max(0, count - len(FIRST))):
        hue = (0.11 + i * 0.61803398875) % 1.0  # steps of the golden ratio keep successive hues far apart
        lightness, saturation = ((0.42, 0.75), (0.58, 0.55), (0.32, 0.6), (0.68, 0.7))[i % 4]
        red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
        more.append(f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}")
    return (FIRST + more)[:count]


def colorings(found: Findings) -> list[Coloring]:
    """Return the ways to colour the map, the default one first."""
    nodes, shown = found.nodes, found.shown
    ways = []
    if "label" in nodes:
        ways.append(_classes(nodes["label"].to_numpy(dtype=object)[shown], "label", "Label", "label of each node"))
    if found.clusters is not None:
        many = "label" not in nodes or nodes["label"].nunique() > MAX_LABEL_COLORS
        ways.insert(0 if many else 1, _cluster_colors(found))
    scales: list[tuple[str, str, str, Sequence[str]]] = [
        ("dimension", "Local dimension", "intrinsic dimension around a node", viridis(256)),
        ("sigma", "Bandwidth σ", "width of the kernel chosen for a node", viridis(256)),
        ("density", "Density", "median distance to the last neighbour, divided by the node's own", cividis(256)),
    ]
    for key, title, note, palette in scales:
        if key in nodes:
            ways.append(_scale(nodes[key].to_numpy(float)[shown], title, note, palette, key=key))
    components = np.array([f"component {number + 1}" for number in nodes["component"].to_numpy()[shown]], dtype=object)
    note = "connected components of the graph; component 1 is the largest"
    ways.append(_classes(components, "component", "Component", note))
    if "suspicion" in nodes:
        suspicion = nodes["suspicion"].to_numpy(float)[shown]
        note = "0 if only the label has support, 1 if only another class has; above 0.5 the label is doubtful"
        ways.append(_scale(suspicion, "Label suspicion", note, plasma(256)[::-1], key="suspicion", ends=(0.0, 1.0)))
    return ways


def _cluster_colors(found: Findings) -> Coloring:
    table = found.clusters.table  # type: ignore[union-attr]
    palette = class_palette(len(table))
    legend = [
        Entry(name, palette[c], size, c)
        for c, name, size in zip(table["cluster"], table["name"], table["size"], strict=True)
    ]
    values = found.nodes["cluster"].to_numpy(np.float32)[found.shown]
    return Coloring(
        "cluster", "Cluster", "listed below, the largest first", values, palette, -0.5, len(table) - 0.5, legend
    )


def cluster_names(found: Findings, pictures: bool) -> list[list[dict[str, Any]]]:
    """Return the names on the map, by level from coarse to fine: row of the node where each is written, and its text.

    With `pictures`, the row of the most central node, whose picture is drawn instead.
    """
    if found.clusters is None:
        return []
    places = found.nodes[["x", "y"]].to_numpy()[found.shown]
    levels = []
    for cluster, names, examples in zip(
        found.clusters.levels, found.clusters.names, found.clusters.examples, strict=True
    ):
        central = np.searchsorted(found.shown, examples[:, 0]).tolist()
        rows = place_names(cluster[found.shown], places).tolist()
        levels.append(
            [
                {"row": row, "picture": central[c]} if pictures else {"row": row, "text": names[c]}
                for c, row in enumerate(rows)
            ]
        )
    return levels


def _classes(names: NDArray, key: str, title: str, note: str) -> Coloring:
    known = np.array([name is not None for name in names], dtype=bool)
    classes, codes, counts = np.unique(names[known].astype(str), return_inverse=True, return_counts=True)
    # The most frequent classes come first and get the clearest colours. Among equals, 2 comes before 10.
    order = np.array(
        sorted(range(len(classes)), key=lambda c: (-counts[c], _natural_order(str(classes[c])))), dtype=np.int64
    )
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    values = np.full(len(names), np.nan, dtype=np.float32)
    values[known] = rank[codes]
    palette = class_palette(len(classes))
    legend = [Entry(str(classes[c]), palette[i], int(counts[c]), i) for i, c in enumerate(order[:MAX_LEGEND])]
    high, hidden = max(len(classes), 1) - 0.5, max(0, len(classes) - MAX_LEGEND)
    return Coloring(key, title, note, values, palette or [UNKNOWN], -0.5, high, legend, hidden)


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key in which numbers inside names are compared by value."""
    parts = re.split(r"0*([0-9]+)", name)
    return [(len(part) if number % 2 else 0, part) for number, part in enumerate(parts)]


def _scale(values, title: str, note: str, palette, *, key: str, ends: tuple[float, float] | None = None) -> Coloring:
    usable = values[np.isfinite(values)]
    low, high = ends or (np.quantile(usable, SCALE_QUANTILES) if len(usable) else (0.0, 1.0))
    if not high > low:
        low, high = low - 0.5, low + 0.5
    return Coloring(key, title, note, values.astype(np.float32), list(palette), float(low), float(high), [])


def draw_map(source: ColumnDataSource, ways: list[Coloring], columns: set[str]) -> tuple[Any, dict[str, Any]]:
    """Return the map as a Bokeh figure, and the models that the script of the page uses.

    Parameters
    ----------
    source : ColumnDataSource
        ``x``, ``y`` and a column for every colouring.
    ways : list of Coloring
        The first is shown.
    columns : set of str
        Columns that the tooltip may show.
    """
    n = len(source.data["x"])
    size = float(np.clip(260.0 / np.sqrt(max(n, 1)), 2.2, 9.0))
    plot = figure(
        name="map",
        sizing_mode="stretch_both",
        min_height=320,
        match_aspect=True,
        toolbar_location="above",
        output_backend="webgl" if n >= WEBGL_FROM else "canvas",
        tools=[],
        background_fill_color="#ffffff",
        border_fill_color=None,
        outline_line_color=None,
    )
    plot.toolbar.logo = None
    plot.axis.visible = False
    plot.grid.visible = False
    plot.min_border = 0
    first = ways[0]
    mapper = LinearColorMapper(palette=first.palette, low=first.low, high=first.high, nan_color=UNKNOWN)
    fill: Any = transform(first.field, mapper)
    points = plot.add_glyph(
        source,
        Scatter(x="x", y="y", size=size, fill_color=fill, line_color=None, fill_alpha=0.82),
        selection_glyph=Scatter(x="x", y="y", size=size + 1.5, fill_color=fill, line_color=None, fill_alpha=1.0),
        nonselection_glyph=Scatter(x="x", y="y", size=size, fill_color="#d5dbe1", line_color=None, fill_alpha=0.35),
        name="points",
    )
    for span in (plot.x_range, plot.y_range):
        span.renderers = [points]
    names = ColumnDataSource({"x": [], "y": [], "text": []}, name="names")
    plot.add_glyph(
        names,
        Text(
            x="x",
            y="y",
            text="text",
            text_align="center",
            text_baseline="middle",
            text_font=value(FONT),
            text_font_size=f"{NAME_SIZE}px",
            text_color=INK,
            background_fill_color="#ffffff",
            background_fill_alpha=0.65,
            padding=2,
            border_radius=3,
        ),
        level="overlay",
    )
    pictures = ColumnDataSource({"x": [], "y": [], "url": []}, name="pictures")
    plot.add_glyph(
        pictures,
        ImageURL(
            x="x",
            y="y",
            url="url",
            anchor="center",
            w=PICTURE_SIZE,
            h=PICTURE_SIZE,
            w_units="screen",
            h_units="screen",
        ),
        level="overlay",
    )
    bar = ColorBar(
        color_mapper=mapper,
        visible=not first.legend,
        orientation="horizontal",
        height=8,
        padding=4,
        label_standoff=5,
        major_label_text_font=FONT,
        major_label_text_font_size="12px",
        major_label_text_color=MUTED,
        major_tick_line_color=None,
        bar_line_color=None,
        background_fill_color=None,
    )
    plot.add_layout(bar, "below")
    pan, wheel, lasso = PanTool(), WheelZoomTool(), LassoSelectTool(continuous=False, renderers=[points])
    lasso.overlay.fill_color, lasso.overlay.line_color = BLUE, BLUE
    lasso.overlay.fill_alpha = 0.08
    hover = HoverTool(
        renderers=[points], tooltips=_tooltip(columns), attachment="horizontal", point_policy="follow_mouse"
    )
    # Of nodes on top of each other, only the nearest one is shown.
    hover.filters = {"@node": CustomJS(code="return window.exploreNearest(cb_data);")}
    hover.limit = 1
    plot.add_tools(
        pan, lasso, BoxSelectTool(renderers=[points]), wheel, TapTool(renderers=[points]), hover, ResetTool()
    )
    plot.toolbar.active_drag, plot.toolbar.active_scroll = pan, wheel
    return plot, {"points": points, "plot": plot, "mapper": mapper, "bar": bar, "names": names, "pictures": pictures}


def _tooltip(columns: set[str]) -> str:
    """Return the template of the tooltip. Bokeh escapes every ``@`` value."""
    rows = [
        ("label", "label", "@label"),
        ("cluster_name", "cluster", "@cluster_name"),
        ("suggested", "suggested", "@suggested"),
        ("suspicion", "suspicion", "@suspicion{0.00}"),
        ("image_name", "image", "@image_name"),
        ("dimension", "dimension", "@dimension{0.0}"),
        ("sigma", "σ", "@sigma{0.000}"),
        ("density", "density", "@density{0.00}"),
    ]
    lines = "".join(
        f'<tr><td style="color:#5b6770;padding-right:8px">{name}</td>'
        f'<td style="overflow-wrap:anywhere">{value}</td></tr>'
        for key, name, value in rows
        if key in columns
    )
    image = (
        '<img src="data:image/webp;base64,@picture" alt="" '
        'style="display:block;max-width:96px;min-width:48px;border-radius:4px;margin:0 0 4px">'
        if "picture" in columns
        else ""
    )
    text = '<div style="margin:4px 0 0;overflow-wrap:anywhere">@text</div>' if "text" in columns else ""
    return (
        '<div style="max-width:260px;font:12px/1.4 system-ui,sans-serif;color:#1f2933">'
        f'{image}<strong>@node</strong><table style="border-spacing:0;font:inherit">{lines}</table>{text}</div>'
    )
