"""Panels drawn by matplotlib, as PNG for slides and PDF for a paper. The page itself needs neither (`svg.py`)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asbc.files import write_whole
from asbc.report.chart import Axis, Band, Box, Cells, Figure, Line, Mark, Note, Panel, Rule, Whiskers, panel_size
from asbc.report.style import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

# All lengths are in inches.
LEFT, RIGHT, TOP, BOTTOM = 0.775, 0.15, 0.407, 0.6105  # what is left free around the axes
ROW = 0.222  # height of a legend's line
KEY = 0.45  # height of the line below all panels that says which mark is which method


def draw(panels: Sequence[Panel], columns: int = 0, key: Sequence[Line] = ()) -> Canvas:
    """Panels on one matplotlib figure, row by row, each in a part of its own."""
    from matplotlib.figure import Figure as Canvas

    across = columns or len(panels)
    down = -(-len(panels) // across)
    wide, high = (length / 100 for length in panel_size(across))
    with style():
        size = (wide * across, high * down + (KEY if key else 0))
        canvas = Canvas(figsize=size)
        upper, *lower = canvas.subfigures(
            2 if key else 1, 1, squeeze=False, height_ratios=[high * down, KEY] if key else None
        )[:, 0]
        cells = upper.subfigures(down, across, squeeze=False).ravel()
        for cell, panel in zip(cells, panels, strict=False):
            _paint(cell.add_axes(_frame(panel, wide, high)), panel)
        for strip in lower:
            strip.legend(handles=[_joined(line) for line in key], loc="center", ncols=len(key))
    return canvas


def png(panels: Sequence[Panel], dpi: int = 160) -> bytes:
    """Panels as one PNG image; the same bytes for the same data."""
    with style():
        return _encoded(draw(panels), dpi)


def save(figure: Figure, folder: Path, dpi: int = 160) -> list[Path]:
    """Write a figure as `<name>.png` and `<name>.pdf`, each whole or not at all."""
    sheet = io.BytesIO()
    with style():
        canvas = draw(figure.panels, figure.columns, figure.key)
        canvas.savefig(sheet, format="pdf", metadata={"CreationDate": None, "Creator": "asbc"})
        image = _encoded(canvas, dpi)
    paths = []
    for kind, content in (("png", image), ("pdf", sheet.getvalue())):
        path = folder / f"{figure.name}.{kind}"
        write_whole(path, lambda p, c=content: p.write_bytes(c))  # type: ignore[misc]
        paths.append(path)
    return paths


def _encoded(canvas: Canvas, dpi: int) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    canvas.savefig(buffer, format="rgba", dpi=dpi)
    width, height = (round(inches * dpi) for inches in canvas.get_size_inches())
    pixels = Image.frombytes("RGBA", (width, height), buffer.getvalue()).convert("RGB")
    # Few colours: 256 of them are enough, and the file is a third of the size.
    out = io.BytesIO()
    pixels.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(out, format="png")
    return out.getvalue()


def _frame(panel: Panel, wide: float, high: float) -> tuple[float, float, float, float]:
    """Left, bottom, width and height of the axes, as shares of the panel; panels side by side have one height."""
    left = LEFT / wide + panel.room
    bottom = (BOTTOM + ROW * (-(-len(panel.legend) // panel.columns) if panel.columns else 0)) / high
    return left, bottom, 1 - RIGHT / wide - left, 1 - TOP / high - bottom


def _paint(axes: Axes, panel: Panel) -> None:
    for axis, name in ((panel.x, "x"), (panel.y, "y")):
        if axis.log:
            axes.set(**{f"{name}scale": "log"})
    for mark in panel.marks:
        _put(axes, mark)
    across, up = panel.limits()
    axes.set(title=_safe(panel.title), xlabel=_safe(panel.x.label), ylabel=_safe(panel.y.label), xlim=across, ylim=up)
    for axis, name in ((panel.x, "x"), (panel.y, "y")):
        _rule_off(axes, axis, name)
    if panel.columns:
        axes.legend(
            handles=[_handle(mark) for mark in panel.legend],
            loc="lower center",
            bbox_to_anchor=(0.5, 0.005),
            bbox_transform=axes.figure.transSubfigure,
            ncols=panel.columns,
            columnspacing=1.4,
            handlelength=2.2,
        )


def _rule_off(axes: Axes, axis: Axis, name: str) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    ruler = getattr(axes, f"{name}axis")
    if axis.ticks is not None:
        ruler.set_ticks([place for place, _ in axis.ticks], [_safe(text) for _, text in axis.ticks])
        ruler.set_minor_locator(NullLocator())
        ruler.set_minor_formatter(NullFormatter())
    if not axis.grid:
        ruler.grid(visible=False)


def _put(axes: Axes, mark: Mark) -> None:
    match mark:
        case Line():
            axes.add_line(_joined(mark))
        case Whiskers():
            y = np.asarray(mark.y)
            reach = [np.maximum(y - np.asarray(mark.low), 0), np.maximum(np.asarray(mark.high) - y, 0)]
            look = {"fmt": mark.marker, "color": mark.color, "capsize": 2.5, "elinewidth": 1.3}
            axes.errorbar(mark.x, y, reach, label=_safe(mark.label), **look)  # type: ignore[arg-type]
        case Band():
            axes.fill_between(mark.x, mark.low, mark.high, color=mark.color, alpha=mark.alpha, lw=0)
        case Rule():
            along = axes.axvline if mark.upright else axes.axhline
            along(mark.at, color=mark.color, lw=mark.width, ls=mark.dash)
        case Box(bottom=None) | Box(top=None):
            axes.axvspan(mark.left, mark.right, color=mark.color, alpha=mark.alpha, lw=0)
        case Box():
            place = ((mark.left + mark.right) / 2, mark.top - mark.bottom, mark.right - mark.left)  # type: ignore[operator]
            axes.bar(*place, bottom=mark.bottom, color=mark.color, alpha=mark.alpha, lw=0)
        case Cells():
            _cells(axes, mark)
        case Note():
            down = (0, 3) if mark.above else (0, -3)
            axes.annotate(
                _safe(mark.text),
                (mark.x, mark.y),
                xytext=down,
                textcoords="offset points",
                va="bottom" if mark.above else "top",
                color=mark.color,
                fontsize=9,
                weight="bold" if mark.bold else "normal",
            )


def _cells(axes: Axes, mark: Cells) -> None:
    from matplotlib.colors import ListedColormap, LogNorm

    edges = mark.start + mark.step * np.arange(max(mark.counts.shape) + 1)
    shown = np.ma.masked_equal(mark.counts, 0)
    up, across = mark.counts.shape
    norm = LogNorm(1, max(int(mark.counts.max()), 2))
    axes.pcolormesh(
        edges[: across + 1], edges[: up + 1], shown, cmap=ListedColormap(list(mark.shades)), norm=norm, rasterized=True
    )


def _joined(line: Line):
    from matplotlib.lines import Line2D

    return Line2D(
        line.x,
        line.y,
        color=line.color,
        ls=line.dash or "none",
        marker=line.marker or "none",
        lw=line.width,
        ms=line.size,
        alpha=line.alpha if line.alpha < 1 else None,
        mfc="white" if line.hollow else line.color,
        mec=line.color,
        label=_safe(line.label),
    )


def _handle(mark: Mark):
    """What stands for a mark in a legend."""
    from matplotlib.patches import Patch

    match mark:
        case Whiskers():
            return _joined(Line([], [], mark.color, "", mark.marker, label=mark.label))
        case Rule():
            return _joined(Line([], [], mark.color, mark.dash, width=mark.width, label=mark.label))
        case Box():
            return Patch(color=mark.color, alpha=mark.alpha, lw=0, label=_safe(mark.label))
    assert isinstance(mark, Line)
    return _joined(mark)


def _safe(text: str) -> str:
    """Text as matplotlib shows it: there a dollar sign would begin a formula, and _ would hide it from a legend."""
    return text.replace("$", r"\$").replace("_", " ")
