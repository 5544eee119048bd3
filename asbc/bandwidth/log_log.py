"""Two rules that read one bandwidth for all nodes off a curve: the log of the kernel's sum against log sigma."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from asbc.bandwidth.resolved import Global
from asbc.bandwidth.rule import Summary, check_dimension, neighbor_number
from asbc.neighbors.types import kth_distance
from asbc.validation import MOST_GRID, one_of, whole_number

ROWS_AT_ONCE = 65536  # nodes whose distances are read together: all of them may lie on disk and not fit into memory


class LogLogCurve:
    """The slope, at any sigma, of the log of the kernel's sum against log sigma.

    The sum runs over all nodes and their neighbours, and over each node with itself.

    Parameters
    ----------
    summary : mapping
        What :func:`curve_summary` gives, for all n nodes: ``distances`` (n, k) to the neighbours, and the distances
        ``at_k_mle`` (n,) and ``at_last`` (n,) to two of them.
    n_grid : int
        Bandwidths at which the slope is taken first.
    """

    def __init__(self, summary: Summary, n_grid: int):
        self.distances = summary["distances"]
        mean_low, mean_high = summary["at_k_mle"].mean(), summary["at_last"].mean()
        self.grid = np.geomspace(0.05 * mean_low, 3.0 * mean_high, n_grid)
        self.slopes = np.array([self(sigma) for sigma in self.grid])

    def __call__(self, sigma: float) -> float:
        mass, moment = float(len(self.distances)), 0.0  # each node's kernel with itself is 1
        for squared in _squares(self.distances):
            kernel = np.exp(squared * (-0.5 / sigma**2))
            mass += kernel.sum()
            moment += (kernel * squared).sum()
        return moment / sigma**2 / mass

    def steepest(self) -> tuple[float, bool]:
        """The sigma at which the slope is largest, and whether that is an end of the grid."""
        best = int(np.argmax(self.slopes))
        if best in (0, len(self.grid) - 1):
            return float(self.grid[best]), True
        bounds = np.log(self.grid[[best - 1, best + 1]])
        found = minimize_scalar(lambda t: -self(np.exp(t)), bounds=bounds, method="bounded")
        return float(np.exp(found.x)), False


def _squares(distances) -> Iterator[np.ndarray]:
    """The squared distances (m, k), some nodes at a time."""
    for start in range(0, len(distances), ROWS_AT_ONCE):
        yield np.asarray(distances[start : start + ROWS_AT_ONCE]) ** 2


class LogLog(Global):
    """One bandwidth for all nodes, where the log of the kernel's sum rises most steeply with log sigma.

    The rule goes back to Coifman and to Singer. The sum runs over all nodes and their neighbours.

    Parameters
    ----------
    n_grid : int, default=48
        Bandwidths at which the slope is taken first; the search then goes on between the two beside the best one.
    k_mle : int, default=10
        The neighbour, counted from 1, that sets the least bandwidth: a twentieth of the mean distance to it.

    See Also
    --------
    DimensionMatching : takes the point of the same curve whose slope is the dimension.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = asbc.LogLog().select(X, asbc.search_neighbors(X, k=10))
    >>> len(np.unique(choice.sigma)), bool(choice.at_edge.any())
    (1, False)
    """

    uses_dimension = False

    def __init__(self, n_grid: int = 48, k_mle: int = 10):
        self.n_grid = n_grid
        self.k_mle = k_mle

    def check_parameters(self, k):
        _check_curve(self.n_grid, self.k_mle, k)

    def summarize(self, X, neighbors, dimension):
        self.check_parameters(neighbors.k)
        return curve_summary(neighbors, int(self.k_mle))

    def one_sigma(self, summary):
        return LogLogCurve(summary, int(self.n_grid)).steepest() if summary["at_last"].any() else (0.0, False)


def _check_curve(n_grid: Any, k_mle: Any, k: int) -> None:
    whole_number(n_grid, "n_grid", 3, MOST_GRID)
    neighbor_number(k_mle, k, "k_mle")


def curve_summary(neighbors, k_mle: int) -> dict[str, np.ndarray]:
    """What :class:`LogLogCurve` needs of a block of nodes."""
    return {
        "distances": neighbors.distances,
        "at_k_mle": kth_distance(neighbors, k_mle),
        "at_last": kth_distance(neighbors, neighbors.k),
    }


class DimensionMatching(Global):
    """Lindenbaum's rules: one bandwidth for all nodes, from the dimension of the whole set.

    Parameters
    ----------
    rule : {"slope", "max_min"}, default="slope"
        ``"slope"`` takes the least sigma at which the log of the kernel's sum rises with log sigma as fast as the
        median dimension says. Where it never rises that fast, the steepest point is taken, and reported as
        ``at_edge``. ``"max_min"`` takes the largest distance to a nearest neighbour, which is the rule
        ``2 sigma^2 = C max_i min_j d_ij^2`` with C = 2.
    n_grid : int, default=48
        Bandwidths at which the slope is taken first.
    k_mle : int, default=10
        The neighbour, counted from 1, that sets the least bandwidth: a twentieth of the mean distance to it.

    See Also
    --------
    LogLog : takes the steepest point of the same curve.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> neighbors = asbc.search_neighbors(X, k=2)
    >>> asbc.DimensionMatching("max_min").select(X, neighbors).sigma  # 3 is 2 away from its nearest neighbour
    array([2., 2., 2.])
    """

    def __init__(self, rule: str = "slope", n_grid: int = 48, k_mle: int = 10):
        self.rule = rule
        self.n_grid = n_grid
        self.k_mle = k_mle

    @property
    def uses_dimension(self):  # type: ignore[override]
        return self.rule == "slope"

    def check_parameters(self, k):
        if one_of(self.rule, "rule", ("slope", "max_min")) == "slope":
            _check_curve(self.n_grid, self.k_mle, k)

    def summarize(self, X, neighbors, dimension):
        self.check_parameters(neighbors.k)
        if self.rule == "max_min":
            return {"nearest": neighbors.distances[:, 0].copy(), "at_last": kth_distance(neighbors, neighbors.k)}
        values = check_dimension(dimension, neighbors)
        return {"dimension": values, **curve_summary(neighbors, int(self.k_mle))}

    def one_sigma(self, summary):
        if self.rule == "max_min":
            widest = float(summary["nearest"].max())
            return (widest, False) if widest > 0 else (float(summary["at_last"].max()), True)
        target = float(np.median(summary["dimension"]))
        if not summary["at_last"].any():
            return 0.0, False
        curve = LogLogCurve(summary, int(self.n_grid))
        if curve.slopes[0] >= target:
            return float(curve.grid[0]), True
        above = np.flatnonzero(curve.slopes >= target)
        if not len(above):
            return curve.steepest()[0], True
        left, right = np.log(curve.grid[[above[0] - 1, above[0]]])
        return float(np.exp(brentq(lambda t: curve(np.exp(t)) - target, left, right))), False
