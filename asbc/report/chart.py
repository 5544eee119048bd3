"""What a figure shows, as plain data: the page draws it as SVG (`svg.py`), matplotlib as PNG and PDF (`canvas.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.report.style import INK

MARGIN = 0.05  # share of the data's extent that an axis shows beyond them, at either end


@dataclass(frozen=True)
class Line:
    """Points, joined by a line (`dash` is not empty) and marked one by one (`marker` is not empty)."""

    x: Sequence[float]
    y: Sequence[float]
    color: str
    dash: str = "-"
    marker: str = ""
    width: float = 1.8
    size: float = 5.5
    alpha: float = 1.0
    hollow: bool = False
    label: str = ""


@dataclass(frozen=True)
class Whiskers:
    """Values with their intervals."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    color: str
    marker: str
    label: str = ""


@dataclass(frozen=True)
class Band:
    """What lies between two curves."""

    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    color: str
    alpha: float = 0.22


@dataclass(frozen=True)
class Rule:
    """A line from edge to edge: level, or upright."""

    at: float
    color: str
    upright: bool = False
    dash: str = "-"
    width: float = 1.2
    label: str = ""


@dataclass(frozen=True)
class Box:
    """A filled rectangle; where `bottom` and `top` are not given it reaches from edge to edge."""

    left: float
    right: float
    color: str
    alpha: float
    bottom: float | None = None
    top: float | None = None
    label: str = ""


@dataclass(frozen=True)
class Cells:
    """How many nodes fall into each cell of a lattice, the darker the more; the corner of the first is `start`."""

    counts: NDArray[Any]  # (rows, columns), rows upwards
    start: float
    step: float
    shades: Sequence[str]  # from the lightest to the darkest


@dataclass(frozen=True)
class Note:
    """Words beside a point: above it, or below."""

    x: float
    y: float
    text: str
    color: str = INK
    above: bool = True
    bold: bool = False


Mark = Line | Whiskers | Band | Rule | Box | Cells | Note


@dataclass(frozen=True)
class Axis:
    """One axis of a panel.

    Attributes
    ----------
    label : str
    low, high : float or None
        Its ends; None to go a little beyond the data.
    log : bool
    ticks : sequence of (float, str), or None for round numbers
    grid : bool
    """

    label: str = ""
    low: float | None = None
    high: float | None = None
    log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None
    grid: bool = True


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes
    ----------
    title : str
    x, y : Axis
    marks : sequence of Mark
        Drawn in this order.
    columns : int
        Of the legend below; 0 for none.
    room : float
        Share of the width that the axes give up on the left, for long names of ticks.
    """

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    columns: int = 0
    room: float = 0.0

    @property
    def legend(self) -> list[Mark]:
        """Marks with a name, one for each name."""
        named: dict[str, Mark] = {}
        for mark in self.marks:
            if label := getattr(mark, "label", ""):
                named.setdefault(label, mark)
        return list(named.values())

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Ends of both axes."""
        reaches = [_reach(mark) for mark in self.marks]
        return _limits(self.x, (across for across, _ in reaches)), _limits(self.y, (up for _, up in reaches))


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes
    ----------
    name : str
        Of its files.
    title, caption : str
    panels : sequence of Panel
    alt : sequence of str
        What each panel shows, in words, for those who cannot see it.
    columns : int
        Panels side by side in the files; 0 for all of them. On the page they flow.
    key : sequence of Line
        What one legend for all panels explains; empty where panels have legends of their own.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    alt: Sequence[str]
    columns: int = 0
    key: Sequence[Line] = field(default=())

    @property
    def three(self) -> bool:
        """Whether the page shows three of its panels side by side where there is room, and not two."""
        return self.columns == 3 or len(self.panels) in (3, 5, 6)


def panel_size(across: int) -> tuple[int, int]:
    """Width and height of a panel, in hundredths of an inch, where so many stand side by side.

    Two are readable on a telephone and fill a page. Three are shown smaller, so they are drawn narrower: their text,
    which has one size in all panels, then hardly shrinks.
    """
    return (390, 330) if across == 3 else (500, 370)


def named_ticks(places: Iterable[float]) -> list[tuple[float, str]]:
    """Ticks at some numbers, written as they are."""
    return [(place, f"{place:g}") for place in places]


def round_ticks(low: float, high: float, most: int = 8) -> list[tuple[float, str]]:
    """Ticks of an even axis at round numbers, at most so many."""
    low, high = min(low, high), max(low, high)
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10, 20) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)) + (round(step / power, 6) == 2.5))
    return [(n * step, f"{n * step:.{digits}f}".replace("-", "−")) for n in range(first, last + 1)]


def decades(low: float, high: float, most: int = 8) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis at powers of ten; at round numbers where fewer than two are in sight."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last <= first:
        return [(value, text) for value, text in round_ticks(low, high) if value > 0]
    powers = range(first, last + 1, -(-(last - first + 1) // most))
    return [(10.0**n, "10" + str(n).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))) for n in powers]


def _limits(axis: Axis, reaches: Iterable[Sequence[float]]) -> tuple[float, float]:
    values = np.array([v for reach in reaches for v in reach], float)
    values = values[np.isfinite(values) & ((values > 0) | (not axis.log))]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.5, 1.0)
    if axis.log:
        if low == high:
            low, high = low / 2, high * 2
        beyond = (high / low) ** MARGIN
        low, high = low / beyond, high * beyond
    else:
        if low == high:
            low, high = low - (abs(low) * MARGIN or 0.5), high + (abs(high) * MARGIN or 0.5)
        beyond = MARGIN * (high - low)
        low, high = low - beyond, high + beyond
    low, high = low if axis.low is None else axis.low, high if axis.high is None else axis.high
    return (low, high) if low != high else (low, low + 1.0)


def _reach(mark: Mark) -> tuple[Sequence[float], Sequence[float]]:
    """Values that the axes must show, across and up."""
    match mark:
        case Line():
            return mark.x, mark.y
        case Whiskers():
            return mark.x, [*mark.y, *mark.low, *mark.high]
        case Band():
            return mark.x, [*mark.low, *mark.high]
        case Rule():
            return ([mark.at], []) if mark.upright else ([], [mark.at])
        case Box():
            return [mark.left, mark.right], [v for v in (mark.bottom, mark.top) if v is not None]
        case Cells():
            up, across = mark.counts.shape
            return [mark.start, mark.start + across * mark.step], [mark.start, mark.start + up * mark.step]
    return [], []  # a note stands where there is room
