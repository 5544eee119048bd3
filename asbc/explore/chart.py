"""How the map and the histograms are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.events import SelectionGeometry
from bokeh.models import (
    BoxSelectTool,
    ColumnDataSource,
    CustomJS,
    HoverTool,
    LassoSelectTool,
    LinearColorMapper,
    PanTool,
    Range1d,
    ResetTool,
    Scatter,
    TapTool,
    WheelZoomTool,
)
from bokeh.models.annotations import ColorBar, Span
from bokeh.plotting import figure
from bokeh.transform import transform
from numpy.typing import NDArray

from asbc.explore.colors import UNKNOWN, Coloring
from asbc.report.style import BLUE, FAINT, GRID, INK, MUTED, RED

BAR, ACCENT, LIMIT = "#b6c2cd", BLUE, RED
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WEBGL_FROM = 10_000  # nodes from which the graphics card draws, where there is one
BINS = 48  # bars of a histogram


def draw_map(source: ColumnDataSource, ways: list[Coloring], tooltip: str) -> tuple[Any, dict[str, Any]]:
    """The map as a Bokeh figure, and the models that the page's script works with.

    Parameters
    ----------
    source : ColumnDataSource
        ``x``, ``y`` and a column for every colouring.
    ways : list of Coloring
        The first is shown.
    tooltip : str
        What a hover shows, as Bokeh's template: ``@name`` stands for a column, its markup escaped.

    Returns
    -------
    figure, models
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
    pan, wheel, lasso = PanTool(), WheelZoomTool(), LassoSelectTool(continuous=False)
    lasso.overlay.fill_color, lasso.overlay.line_color = ACCENT, ACCENT
    lasso.overlay.fill_alpha = 0.08
    hover = HoverTool(renderers=[points], tooltips=tooltip, attachment="horizontal", point_policy="follow_mouse")
    # Where nodes lie on top of each other, the nearest one is shown and not a pile of them.
    hover.filters = {"@node": CustomJS(code="return window.exploreNearest(cb_data);")}
    hover.limit = 1
    plot.add_tools(pan, lasso, BoxSelectTool(), wheel, TapTool(), hover, ResetTool())
    plot.toolbar.active_drag, plot.toolbar.active_scroll = pan, wheel
    return plot, {"points": points, "plot": plot, "mapper": mapper, "bar": bar}


def draw_histogram(key: str, values: NDArray, label: str, limits: list[float], *, upper: float | None = None) -> Any:
    """A histogram of all nodes with its thresholds; nodes chosen on the map are drawn in front.

    Parameters
    ----------
    key : str
        Column that the chosen nodes' values are taken from, and name of the figure.
    values : (n,) float
        Of all nodes; infinite ones count into the last bar.
    label : str
        Of the axis.
    limits : list of float
        Thresholds, drawn as lines.
    upper : float or None, default=None
        Where the axis ends at most; what lies beyond counts into the last bar.

    Returns
    -------
    figure
        Its data source is called ``bars_of_`` and the key.
    """
    finite = values[np.isfinite(values)]
    low = float(min([*finite.min(initial=np.inf, keepdims=True), *limits])) if len(finite) else 0.0
    high = float(max([*np.quantile(finite, [0.999]), *limits])) if len(finite) else 1.0
    high = min(high, upper) if upper is not None else high
    span = (high - low) or 1.0
    edges = np.linspace(low, high + 0.02 * span, BINS + 1)
    counts, _ = np.histogram(np.clip(values[~np.isnan(values)], edges[0], edges[-1]), edges)
    columns: dict[str, Any] = {"left": edges[:-1], "right": edges[1:], "top": counts, "chosen": np.zeros(BINS)}
    bars = ColumnDataSource(columns, name=f"bars_of_{key}")
    plot = figure(
        name=f"histogram_{key}",
        sizing_mode="stretch_width",
        height=190,
        tools=[],
        toolbar_location=None,
        background_fill_color=None,
        border_fill_color=None,
        outline_line_color=None,
        x_axis_label=label,
        y_range=Range1d(start=0, end=max(1, int(counts.max())) * 1.08),
        x_range=Range1d(start=float(edges[0]), end=float(edges[-1])),
    )
    drawn: dict[str, Any] = {"source": bars, "left": "left", "right": "right", "bottom": 0, "line_color": "white"}
    drawn |= {"nonselection_fill_alpha": 1.0, "nonselection_line_alpha": 1.0}
    whole = plot.quad(top="top", fill_color=BAR, name="all", **drawn)
    plot.quad(top="chosen", fill_color=ACCENT, **drawn)
    for limit in limits:
        plot.add_layout(Span(location=limit, dimension="height", line_color=LIMIT, line_width=1.6, line_dash=[5, 3]))
    choose = BoxSelectTool(dimensions="width", renderers=[])
    choose.overlay.fill_color, choose.overlay.fill_alpha, choose.overlay.line_color = ACCENT, 0.08, ACCENT
    hover = HoverTool(renderers=[whole], tooltips=[("from", "@left{0.00}"), ("to", "@right{0.00}"), ("nodes", "@top")])
    plot.add_tools(choose, hover)
    plot.toolbar.active_drag = choose
    code = f"if (cb_obj.final) window.exploreRange('{key}', cb_obj.geometry.x0, cb_obj.geometry.x1);"
    plot.js_on_event(SelectionGeometry, CustomJS(code=code))
    style_axes(plot)
    return plot


def style_axes(plot: Any) -> None:
    """The look of a figure's axes."""
    plot.grid.grid_line_color = GRID
    plot.xgrid.visible = False
    plot.axis.axis_line_color = FAINT
    plot.axis.major_tick_line_color = FAINT
    plot.axis.minor_tick_line_color = None
    plot.axis.major_label_text_font = FONT
    plot.axis.major_label_text_font_size = "11px"
    plot.axis.major_label_text_color = MUTED
    plot.axis.axis_label_text_font = FONT
    plot.axis.axis_label_text_font_style = "normal"
    plot.axis.axis_label_text_font_size = "12px"
    plot.axis.axis_label_text_color = INK


def call_page(models: dict[str, Any]) -> CustomJS:
    """What starts the page's own script, with the models that it works on."""
    return CustomJS(args=models, code=f"window.exploreReady({{{', '.join(models)}}});")
