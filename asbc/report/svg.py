"""Panels as SVG: text that the page's own font shows, sharp at any size, and drawn without importing matplotlib."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise

import numpy as np

from asbc.report.chart import (
    Axis,
    Band,
    Box,
    Cells,
    Figure,
    Line,
    Mark,
    Note,
    Panel,
    Rule,
    Whiskers,
    decades,
    panel_size,
    round_ticks,
)
from asbc.report.style import FAINT, FONT, GRID, INK, MUTED

# Lengths are in hundredths of an inch.
LEFT, RIGHT, TOP, BOTTOM = 78, 15, 41, 61  # what is left free around the axes
ROW = 22  # height of a legend's line
POINT = 100 / 72  # a point of type
DASHES = {"-": "", "--": "3.7 1.6", "-.": "6.4 1.6 1 1.6", ":": "1 1.65"}  # in widths of the line

Ruler = Callable[[float], float]  # from a value to a place


def figure_svg(figure: Figure) -> str:
    """All panels of a figure as one SVG file."""
    across = figure.columns or len(figure.panels)
    down = -(-len(figure.panels) // across)
    wide, high = panel_size(across)
    width, height = across * wide, down * high + (2 * ROW if figure.key else 0)
    inner = "".join(
        f'<svg x="{i % across * wide}" y="{i // across * high}" width="{wide}" height="{high}">'
        f"{_inside(panel, wide, high)}</svg>"
        for i, panel in enumerate(figure.panels)
    )
    if figure.key:
        inner += _legend(figure.key, len(figure.key), width, height - 1.5 * ROW)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="{escape(FONT)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{inner}</svg>\n'
    )


def panel_svg(panel: Panel, alt: str, size: tuple[int, int]) -> str:
    """One panel of some width and height for a page of HTML."""
    wide, high = size
    return f'<svg role="img" aria-label="{escape(alt)}" viewBox="0 0 {wide} {high}">{_inside(panel, wide, high)}</svg>'


def sample_svg(mark: Mark, width: float = 30, height: float = 14) -> str:
    """What stands for a mark in a legend."""
    return f'<svg width="{width}" height="{height}" aria-hidden="true">{_sample(mark, 0, height / 2, width)}</svg>'


def _inside(panel: Panel, wide: int, high: int) -> str:
    rows = -(-len(panel.legend) // panel.columns) if panel.columns else 0
    left = LEFT + panel.room * wide
    width, height = wide - left - RIGHT, high - TOP - BOTTOM - rows * ROW
    (x_low, x_high), (y_low, y_high) = panel.limits()
    x, y = _ruler(panel.x, x_low, x_high, 0, width), _ruler(panel.y, y_low, y_high, height, 0)
    columns = [(x(v), text) for v, text in _ticks(panel.x, x_low, x_high)]
    lines = [(y(v), text) for v, text in _ticks(panel.y, y_low, y_high)]
    grid = "".join(f"M{at:.1f} 0v{height:.1f}" for at, _ in columns if panel.x.grid)
    grid += "".join(f"M0 {at:.1f}h{width:.1f}" for at, _ in lines if panel.y.grid)
    notches = "".join(f"M{at:.1f} {height:.1f}v5" for at, _ in columns)
    notches += "".join(f"M0 {at:.1f}h-5" for at, _ in lines)
    words = "".join(_text(text, at, height + 19, 9, anchor="middle") for at, text in columns)
    words += "".join(_text(text, -9, at + 4.5, 9, anchor="end") for at, text in lines)
    words += _text(panel.x.label, width / 2, height + 41, 10, anchor="middle")
    if panel.y.label:
        place = f"translate({18 - left:.1f} {height / 2:.1f}) rotate(-90)"
        words += f'<g transform="{place}">{_text(panel.y.label, 0, 0, 10, anchor="middle")}</g>'
    marks = "".join(_mark(mark, x, y, width, height) for mark in panel.marks)
    legend = _legend(panel.legend, panel.columns, wide, high - rows * ROW - 1) if rows else ""
    return (
        f"{_text(panel.title, left, TOP - 14, 10.5, bold=True)}"
        f'<g transform="translate({left:.1f} {TOP})"><path d="{grid}" stroke="{GRID}" fill="none"/>'
        f'<svg width="{width:.1f}" height="{height:.1f}">{marks}</svg>'  # an svg in an svg cuts off what leaves it
        f'<path d="M0 0v{height:.1f}h{width:.1f}" stroke="{FAINT}" fill="none"/>'
        f'<path d="{notches}" stroke="{MUTED}"/>{words}</g>{legend}'
    )


def _ruler(axis: Axis, low: float, high: float, first: float, last: float) -> Ruler:
    if axis.log:
        base, span = math.log(low), math.log(high) - math.log(low)
        return lambda v: first + (math.log(v) - base) / span * (last - first) if v > 0 else math.nan
    return lambda v: first + (v - low) / (high - low) * (last - first)


def _ticks(axis: Axis, low: float, high: float) -> list[tuple[float, str]]:
    """Ticks that are in sight; on a logarithmic axis powers of ten."""
    found = list(axis.ticks) if axis.ticks is not None else decades(low, high) if axis.log else round_ticks(low, high)
    return [(v, text) for v, text in found if min(low, high) <= v <= max(low, high)]


def _mark(mark: Mark, x: Ruler, y: Ruler, width: float, height: float) -> str:
    match mark:
        case Line():
            points = [(x(a), y(b)) for a, b in zip(mark.x, mark.y, strict=True)]
            return _path(points, mark) + _points(points, mark)
        case Whiskers():
            caps = "".join(
                f"M{x(a):.1f} {y(low):.1f}V{y(high):.1f}m-3.5 0h7M{x(a) - 3.5:.1f} {y(low):.1f}h7"
                for a, low, high in zip(mark.x, mark.low, mark.high, strict=True)
            )
            line = Line(mark.x, mark.y, mark.color, "", mark.marker)
            return f'<path d="{caps}" stroke="{mark.color}" stroke-width="1.8"/>{_mark(line, x, y, width, height)}'
        case Band():
            edge = [*zip(mark.x, mark.high, strict=True), *reversed([*zip(mark.x, mark.low, strict=True)])]
            way = _joined((x(a), y(b)) for a, b in edge)
            return f'<path d="{way}z" fill="{mark.color}" fill-opacity="{mark.alpha:g}"/>' if way else ""
        case Rule():
            way = f"M{x(mark.at):.1f} 0v{height:.1f}" if mark.upright else f"M0 {y(mark.at):.1f}h{width:.1f}"
            return f'<path d="{way}" {_stroke(mark.color, mark.width, mark.dash)}/>'
        case Box():
            top, bottom = 0 if mark.top is None else y(mark.top), height if mark.bottom is None else y(mark.bottom)
            return (
                f'<rect x="{x(mark.left):.1f}" y="{top:.1f}" width="{x(mark.right) - x(mark.left):.1f}" '
                f'height="{bottom - top:.1f}" fill="{mark.color}" fill-opacity="{mark.alpha:g}"/>'
            )
        case Cells():
            return _cells(mark, x, y)
        case Note():
            down = -5 if mark.above else 14
            return _text(mark.text, x(mark.x), y(mark.y) + down, 9, color=mark.color, bold=mark.bold)


def _cells(mark: Cells, x: Ruler, y: Ruler) -> str:
    """Counts by shade, on the scale of their logarithms; cells of one shade side by side are one rectangle."""
    top = math.log(max(int(mark.counts.max()), 2))
    logs = np.log(np.maximum(mark.counts, 1)) / top
    shade = np.where(mark.counts > 0, np.minimum(logs * len(mark.shades), len(mark.shades) - 1).astype(int), -1)
    ways: list[list[str]] = [[] for _ in mark.shades]
    for row, line in enumerate(shade):
        starts = np.flatnonzero(np.diff(line, prepend=-2))
        for begin, end in zip(starts, [*starts[1:], len(line)], strict=True):
            if line[begin] >= 0:
                ways[line[begin]].append(f"M{begin} {row}h{end - begin}v1h{begin - end}z")
    origin, unit = (x(mark.start), y(mark.start)), (x(mark.step) - x(0), y(mark.step) - y(0))
    place = f"matrix({unit[0]:.4f} 0 0 {unit[1]:.4f} {origin[0]:.2f} {origin[1]:.2f})"
    drawn = "".join(
        f'<path d="{"".join(way)}" fill="{color}"/>' for way, color in zip(ways, mark.shades, strict=True) if way
    )
    return f'<g transform="{place}" shape-rendering="crispEdges">{drawn}</g>'


def _legend(marks: Sequence[Mark], columns: int, width: float, top: float) -> str:
    """Samples and names in columns of one width, in the middle; down first, as one reads a list."""
    rows = -(-len(marks) // columns)
    names = [str(getattr(mark, "label", "")) for mark in marks]
    each = 56 + 7.2 * max(map(len, names))  # letters are about this wide, and none is cut off if they are not
    used = -(-len(marks) // rows)
    left = (width - used * each) / 2 + 8
    out = []
    for i, (mark, name) in enumerate(zip(marks, names, strict=True)):
        at, middle = left + i // rows * each, top + (i % rows + 0.5) * ROW
        out.append(_sample(mark, at, middle, 30) + _text(name, at + 38, middle + 4.5, 9))
    return "".join(out)


def _sample(mark: Mark, left: float, middle: float, width: float) -> str:
    ends = [(left, middle), (left + width, middle)]
    center = [(left + width / 2, middle)]
    match mark:
        case Line():
            return _path(ends, mark) + _points(center, mark)
        case Whiskers():
            at = left + width / 2
            bar = (
                f'<path d="M{at:.1f} {middle - 8:.1f}v16m-3.5 0h7m-7 -16h7" stroke="{mark.color}" stroke-width="1.8"/>'
            )
            return bar + _points(center, Line([], [], mark.color, "", mark.marker))
        case Rule():
            return _path(ends, Line([], [], mark.color, mark.dash, width=mark.width))
        case Box():
            place = f'x="{left:.1f}" y="{middle - 5:.1f}" width="{width:.1f}" height="10"'
            return f'<rect {place} fill="{mark.color}" fill-opacity="{mark.alpha:g}"/>'
    return ""


def _path(points: Iterable[tuple[float, float]], line: Line) -> str:
    way = _joined(points) if line.dash else ""
    fade = f' stroke-opacity="{line.alpha:g}"' if line.alpha < 1 else ""
    return f'<path d="{way}" fill="none" {_stroke(line.color, line.width, line.dash)}{fade}/>' if way else ""


def _joined(points: Iterable[tuple[float, float]]) -> str:
    """A line through points, broken where there is none."""
    way, pen = [], "M"
    for a, b in points:
        known = math.isfinite(a) and math.isfinite(b)
        if known:
            way.append(f"{pen}{a:.1f} {b:.1f}")
        pen = "L" if known else "M"
    return "".join(way)


def _points(points: Iterable[tuple[float, float]], line: Line) -> str:
    """One path with the mark of every point."""
    if not line.marker:
        return ""
    shape = _shape(line.marker, line.size * POINT / 2)
    way = "".join(f"M{a:.1f} {b:.1f}{shape}" for a, b in points if math.isfinite(a) and math.isfinite(b))
    fill = "#fff" if line.hollow else "none" if line.marker == "x" else line.color
    edge = f' stroke="{line.color}" stroke-width="1.6"' if line.hollow or line.marker == "x" else ""
    fade = f' opacity="{line.alpha:g}"' if line.alpha < 1 else ""
    return f'<path d="{way}" fill="{fill}"{edge}{fade}/>' if way else ""


def _shape(marker: str, r: float) -> str:
    """A mark around the point where the pen is, `r` from its middle to its edge."""

    def way(*steps: tuple[str, float, float]) -> str:
        return "".join(f"{letter}{a * r:.2f} {b * r:.2f}" for letter, a, b in steps)

    def closed(*corners: tuple[float, float]) -> str:
        return way(("m", *corners[0]), *(("l", c[0] - b[0], c[1] - b[1]) for b, c in pairwise(corners))) + "z"

    t = 1 / 3
    match marker:
        case "s":
            return closed((-1, -1), (1, -1), (1, 1), (-1, 1))
        case "D":
            return closed((0, -1.35), (1.35, 0), (0, 1.35), (-1.35, 0))
        case "v":
            return closed((-1, -1), (1, -1), (0, 1))
        case "^":
            return closed((-1, 1), (1, 1), (0, -1))
        case "P":
            arms = ((-t, -1), (t, -1), (t, -t), (1, -t), (1, t), (t, t), (t, 1), (-t, 1), (-t, t), (-1, t), (-1, -t))
            return closed(*arms, (-t, -t))
        case "x":
            return way(("m", -1, -1), ("l", 2, 2), ("m", -2, 0), ("l", 2, -2))
    return f"m{-r:.2f} 0" + "".join(f"a{r:.2f} {r:.2f} 0 1 0 {side * r:.2f} 0" for side in (2, -2)) + "z"


def _stroke(color: str, width: float, dash: str) -> str:
    wide = width * POINT
    gaps = " ".join(f"{float(part) * wide:.1f}" for part in DASHES[dash].split())
    return f'stroke="{color}" stroke-width="{wide:.2f}"' + (f' stroke-dasharray="{gaps}"' if gaps else "")


def _text(
    text: str, x: float, y: float, points: float, *, anchor: str = "start", color: str = INK, bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    size = f'font-size="{points * POINT:.1f}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {size} fill="{color}"{place}{weight}>{escape(text)}</text>' if text else ""
