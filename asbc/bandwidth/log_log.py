"""One bandwidth for all nodes, read off the curve of the whole kernel's sum against sigma."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from asbc.bandwidth.rule import Global, Summary, check_dimension, neighbor_number
from asbc.neighbors.types import kth_distance
from asbc.validation import one_of, whole_number

ROWS_AT_ONCE = 65536  # rows of distances that are looked at together; they may lie on disk


class LogLogCurve:
    """Slope of the log sum of the whole neighbour kernel, the diagonal included, against log sigma.

    Parameters
    ----------
    summary : mapping
        ``distances`` (n, k), ``at_k_mle`` (n,) and ``at_last`` (n,), the last two above zero where that can be.
    n_grid : int
        Bandwidths at which the slope is taken first.
    """

    def __init__(self, summary: Summary, n_grid: int):
        self.distances = summary["distances"]
        mean_low, mean_high = summary["at_k_mle"].mean(), summary["at_last"].mean()
        self.grid = np.geomspace(0.05 * mean_low, 3.0 * mean_high, n_grid)
        self.slopes = np.array([self(sigma) for sigma in self.grid])

    def __call__(self, sigma: float) -> float:
        mass, moment = float(len(self.distances)), 0.0
        for squared in _squares(self.distances):
            kernel = np.exp(squared * (-0.5 / sigma**2))
            mass += kernel.sum()
            moment += (kernel * squared).sum()
        return moment / sigma**2 / mass

    def steepest(self) -> tuple[float, bool]:
        """Where the slope is largest, and whether that is an end of the grid."""
        best = int(np.argmax(self.slopes))
        if best in (0, len(self.grid) - 1):
            return float(self.grid[best]), True
        bounds = np.log(self.grid[[best - 1, best + 1]])
        found = minimize_scalar(lambda t: -self(np.exp(t)), bounds=bounds, method="bounded")
        return float(np.exp(found.x)), False


def _squares(distances) -> Iterator[np.ndarray]:
    for start in range(0, len(distances), ROWS_AT_ONCE):
        yield np.asarray(distances[start : start + ROWS_AT_ONCE]) ** 2


class LogLog(Global):
    """One bandwidth, where the log-log curve of the whole neighbour kernel's sum is steepest (Coifman; Singer).

    Parameters
    ----------
    n_grid : int, default=48
        Bandwidths at which the slope is taken before the search goes on between the best ones.
    k_mle : int, default=10
        The grid starts at a twentieth of the mean distance to this neighbour.

    See Also
    --------
    DimensionMatching : takes the point of the same curve whose slope is the dimension.

    Examples
    --------
    >>> import asbc
    >>> asbc.GraphBuilder(weights="gaussian", bandwidth=asbc.LogLog())
    GraphBuilder(bandwidth=LogLog(), weights='gaussian')
    """

    uses_dimension = False

    def __init__(self, n_grid: int = 48, k_mle: int = 10):
        self.n_grid = n_grid
        self.k_mle = k_mle

    def summarize(self, X, neighbors, dimension):
        return curve_summary(neighbors, neighbor_number(self.k_mle, neighbors, "k_mle"))

    def one_sigma(self, summary):
        n_grid = whole_number(self.n_grid, "n_grid", 3)
        return LogLogCurve(summary, n_grid).steepest() if summary["at_last"].any() else (0.0, False)


def curve_summary(neighbors, k_mle: int) -> dict[str, np.ndarray]:
    """What :class:`LogLogCurve` needs of a block of nodes."""
    return {
        "distances": neighbors.distances,
        "at_k_mle": kth_distance(neighbors, k_mle),
        "at_last": kth_distance(neighbors, neighbors.k),
    }


class DimensionMatching(Global):
    """One bandwidth, from the dimension of the whole set (Lindenbaum).

    Parameters
    ----------
    rule : {"slope", "max_min"}, default="slope"
        ``"slope"``: where the rising log-log curve has the median dimension as slope; where it is steepest if it
        never gets there, which counts as an edge. ``"max_min"``: the largest distance to a nearest neighbour, which
        is the rule ``2 sigma^2 = C max_i min_j d_ij^2`` with C = 2.
    n_grid : int, default=48
        Bandwidths at which the slope is taken first.
    k_mle : int, default=10
        The grid starts at a twentieth of the mean distance to this neighbour.

    See Also
    --------
    LogLog : takes the steepest point of the same curve.

    Examples
    --------
    >>> import asbc
    >>> asbc.GraphBuilder(weights="gaussian", bandwidth=asbc.DimensionMatching("max_min"))
    GraphBuilder(bandwidth=DimensionMatching(rule='max_min'), weights='gaussian')
    """

    def __init__(self, rule: str = "slope", n_grid: int = 48, k_mle: int = 10):
        self.rule = rule
        self.n_grid = n_grid
        self.k_mle = k_mle

    @property
    def uses_dimension(self):
        return self.rule == "slope"

    def summarize(self, X, neighbors, dimension):
        if one_of(self.rule, "rule", ("slope", "max_min")) == "max_min":
            return {"nearest": neighbors.distances[:, 0].copy(), "at_last": kth_distance(neighbors, neighbors.k)}
        values = check_dimension(dimension, neighbors)
        k_mle = neighbor_number(self.k_mle, neighbors, "k_mle")
        return {"dimension": values, **curve_summary(neighbors, k_mle)}

    def one_sigma(self, summary):
        if self.rule == "max_min":
            widest = float(summary["nearest"].max())
            return (widest, False) if widest > 0 else (float(summary["at_last"].max()), True)
        target = float(np.median(summary["dimension"]))
        n_grid = whole_number(self.n_grid, "n_grid", 3)
        if not summary["at_last"].any():
            return 0.0, False
        curve = LogLogCurve(summary, n_grid)
        if curve.slopes[0] >= target:
            return float(curve.grid[0]), True
        above = np.flatnonzero(curve.slopes >= target)
        if not len(above):
            return curve.steepest()[0], True
        left, right = np.log(curve.grid[[above[0] - 1, above[0]]])
        return float(np.exp(brentq(lambda t: curve(np.exp(t)) - target, left, right))), False
