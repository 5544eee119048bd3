"""The rule of the paper: as many directions as the neighbourhood has."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.rule import (
    Bandwidth,
    BandwidthChoice,
    check_dimension,
    fill_constant,
    geometric_grid,
    neighbor_number,
)
from asbc.kernels import criterion
from asbc.neighbors.types import neighborhoods
from asbc.validation import positive_number, true_or_false, whole_number


class SpectralBandwidth(Bandwidth):
    """Per node, the bandwidth whose kernel resolves as many directions as the neighbourhood has.

    Minimises ``J = |r - gamma d| / (gamma d) + (l_max - l) / l_max`` over a geometric grid, with the effective rank r
    and the log-log slope l of the kernel among the node's neighbours and the intrinsic dimension d. The minimum is
    that of the whole grid, though few of its points need an eigenproblem; the smaller bandwidth wins a tie.

    Parameters
    ----------
    gamma : float
        The rank wanted is ``gamma d``.
    n_grid : int
    k_mle : int
        The grid starts at ``low`` times the distance to this neighbour, ...
    low, high : float
        ... and ends at ``high`` times the distance to the last one.
    refine : bool
        Search on between the two grid points beside the best one. A coarse grid lets r jump by a third between points.
    """

    def __init__(
        self,
        gamma: float = 1.0,
        n_grid: int = 12,
        k_mle: int = 10,
        low: float = 0.05,
        high: float = 3.0,
        refine: bool = False,
    ):
        self.gamma = gamma
        self.n_grid = n_grid
        self.k_mle = k_mle
        self.low = low
        self.high = high
        self.refine = refine

    @property
    def local(self):
        return True

    def constant(self, neighbors):
        return neighbors.distances[:, -1] == 0

    def choose(self, X, neighbors, dimension):
        gamma = positive_number(self.gamma, "gamma")
        n_grid = whole_number(self.n_grid, "n_grid", 2)
        low, high = positive_number(self.low, "low"), positive_number(self.high, "high")
        if low >= high:
            raise ValueError(f"low must be below high; got low={low} and high={high}.")
        refine = true_or_false(self.refine, "refine")
        k = neighbors.k
        if k < 2:
            raise ValueError(f"neighbors must have k of at least 2: one neighbour has no kernel to speak of; got {k}.")
        k_mle = neighbor_number(self.k_mle, neighbors, "k_mle")
        target = gamma * check_dimension(dimension, neighbors)
        grid = geometric_grid(neighbors, n_grid, k_mle, low, high)
        n = neighbors.n
        sigma, rank, slope, objective = np.empty((4, n))
        at_edge = np.empty(n, bool)
        solved = np.empty(n, np.int64)
        for rows, pairs in neighborhoods(X, neighbors):
            points = grid[rows]
            column, rank[rows], slope[rows], objective[rows], steepest, solved[rows] = criterion.search_grid(
                pairs, points, target[rows], k, True
            )
            at_edge[rows] = (column == 0) | (column == points.shape[1] - 1)
            each = np.arange(len(points))
            sigma[rows] = points[each, column]
            if refine:
                left = points[each, np.maximum(column - 1, 0)]
                right = points[each, np.minimum(column + 1, points.shape[1] - 1)]
                found = criterion.refine(pairs, left, right, target[rows], steepest, k)
                better = found[3] < objective[rows]
                for array, new in zip((sigma, rank, slope, objective), found, strict=True):
                    array[rows] = np.where(better, new, array[rows])
        sigma = fill_constant(sigma, self.constant(neighbors))
        return BandwidthChoice(sigma, rank, slope, objective, at_edge, solved=solved)
