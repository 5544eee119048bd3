"""Marks that figures share: differences with whiskers, legends, ticks and levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asbc.evaluate.comparison import Comparison
from asbc.report.style import INK, LOOKS, plain_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def whiskers(axes: Axes, x: NDArray[Any], found: Sequence[Comparison | None], method: str) -> None:
    """Differences with their intervals, in the look of a method; a gap where there is none."""
    color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
    kept = [(at, c) for at, c in zip(x, found, strict=True) if c is not None]
    if not kept:
        return
    middle = np.array([c.difference for _, c in kept])
    reach = np.array([[c.difference - c.low for _, c in kept], [c.high - c.difference for _, c in kept]])
    places = [at for at, _ in kept]
    axes.plot(places, middle, color=color, ls=dash, lw=1, alpha=0.6)
    axes.errorbar(
        places,
        middle,
        np.maximum(reach, 0),
        fmt=marker,
        color=color,
        capsize=2.5,
        elinewidth=1.3,
        label=plain_label(method),
    )


def legend_below(axes: Axes, columns: int) -> None:
    """A legend under the axis, where it hides nothing."""
    legend = axes.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 0.005),
        bbox_transform=axes.figure.transSubfigure,
        ncols=columns,
        columnspacing=1.4,
        handlelength=2.2,
    )
    make_room(axes, below=0.06 * -(-len(legend.get_texts()) // columns))


def make_room(axes: Axes, *, left: float = 0.0, below: float = 0.0) -> None:
    """Shares of a panel's width and height that the axes give up, for long labels or a legend."""
    place = axes.get_position()
    axes.set_position((place.x0 + left, place.y0 + below, place.width - left, place.height - below))


def plain_ticks(axes: Axes, which: str, places: Sequence[float]) -> None:
    """Ticks of a logarithmic axis at round numbers, written as such."""
    from matplotlib.ticker import NullFormatter, NullLocator

    ruler = getattr(axes, f"{which}axis")
    ruler.set_ticks(places, [f"{p:g}" for p in places])
    ruler.set_minor_locator(NullLocator())
    ruler.set_minor_formatter(NullFormatter())


def mean_of(rows: pd.DataFrame) -> float:
    """Mean of the values of some rows; NaN where there are none."""
    return float(rows["value"].mean())
