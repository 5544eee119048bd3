"""The rule of the paper: the effective rank of a node's kernel equals its intrinsic dimension."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from asbc.bandwidth.rule import Bandwidth, BandwidthChoice, check_dimension, geometric_grid, neighbor_number
from asbc.kernels import criterion
from asbc.neighbors.types import neighborhoods
from asbc.validation import MOST_GRID, positive_number, real_array, true_or_false, whole_number

__all__ = ["SpectralBandwidth", "effective_rank"]


def effective_rank(K: ArrayLike) -> float:
    """Effective rank of a kernel matrix: ``exp`` of the entropy of its normalised eigenvalues.

    Parameters
    ----------
    K : (k, k) array
        A symmetric, positive semi-definite matrix.

    Returns
    -------
    float
        Within [1, k].

    See Also
    --------
    SpectralBandwidth : chooses the bandwidth by it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> round(asbc.effective_rank(np.eye(5)), 6)  # all separate
    5.0
    >>> round(asbc.effective_rank(np.ones((5, 5))), 6)  # all alike
    1.0
    """
    K = real_array(K, "K")
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not len(K):
        raise ValueError(f"K must be a square matrix; got shape {K.shape}.")
    if not np.isfinite(K).all():
        raise ValueError("K must be finite; it holds NaN or infinity.")
    values = np.clip(np.linalg.eigvalsh(K), 0.0, None)
    if values.sum() <= 0:
        raise ValueError("K must have a positive trace; its eigenvalues are all zero.")
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


class SpectralBandwidth(Bandwidth):
    """Per node, the bandwidth at which the effective rank of the kernel equals the intrinsic dimension.

    Minimises ``J = |r - gamma d| / (gamma d) + (l_max - l) / l_max`` over a geometric grid of bandwidths. Here r is the
    effective rank of the kernel among the node's neighbours, d the intrinsic dimension, l the slope of the log of the
    kernel's sum against log sigma, and l_max the largest slope on the grid. The minimum over the grid is exact, but
    few of its points need an eigenproblem. The smaller bandwidth wins a tie.

    Parameters
    ----------
    gamma : float, default=1.0
        The target rank, as a multiple of the dimension.
    n_grid : int, default=12
        Bandwidths per node to consider, at least 2.
    k_mle : int, default=10
        The neighbour, counted from 1, whose distance `low` refers to.
    low : float, default=0.05
        The smallest bandwidth, as a multiple of the distance to the k_mle-th neighbour.
    high : float, default=3.0
        The largest bandwidth, as a multiple of the distance to the last neighbour.
    refine : bool, default=False
        Whether to continue the search between the two grid points next to the best one. The rank may change by a third
        from one grid point to the next, so this brings it closer to ``gamma d``. The paper does not do it.

    See Also
    --------
    effective_rank : r of any kernel matrix.
    Perplexity : the rule for dense weights.
    dim_mst : the default estimate of the dimension.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> neighbors = asbc.search_neighbors(X, k=20)
    >>> choice = asbc.SpectralBandwidth(refine=True).select(X, neighbors, dimension=np.full(100, 5.0))
    >>> float(np.median(choice.effective_rank).round(1))
    5.0
    """

    local = True
    presets: ClassVar = {"spectral": {}}

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

    def check_parameters(self, k):
        positive_number(self.gamma, "gamma")
        whole_number(self.n_grid, "n_grid", 2, MOST_GRID)
        low, high = positive_number(self.low, "low"), positive_number(self.high, "high")
        if low >= high:
            raise ValueError(f"low must be below high; got low={low} and high={high}.")
        true_or_false(self.refine, "refine")
        if k < 2:
            raise ValueError(f"neighbors must have k of at least 2; got {k}.")
        neighbor_number(self.k_mle, k, "k_mle")

    def choose(self, X, neighbors, dimension):
        k = neighbors.k
        target = float(self.gamma) * check_dimension(dimension, neighbors)
        grid = geometric_grid(neighbors, int(self.n_grid), int(self.k_mle), float(self.low), float(self.high))
        n = neighbors.n
        sigma, rank, slope, objective = np.empty((4, n))
        at_edge = np.empty(n, bool)
        solved = np.empty(n, np.int64)
        for rows, pairs in neighborhoods(X, neighbors):
            points = grid[rows]
            column, rank[rows], slope[rows], objective[rows], steepest, solved[rows] = criterion.search_grid(
                pairs, points, target[rows], k
            )
            at_edge[rows] = (column == 0) | (column == points.shape[1] - 1)
            each = np.arange(len(points))
            sigma[rows] = points[each, column]
            if self.refine:
                left = points[each, np.maximum(column - 1, 0)]
                right = points[each, np.minimum(column + 1, points.shape[1] - 1)]
                found = criterion.refine(pairs, left, right, target[rows], steepest, k)
                better = found[3] < objective[rows]
                for array, new in zip((sigma, rank, slope, objective), found, strict=True):
                    array[rows] = np.where(better, new, array[rows])
        sigma[neighbors.distances[:, -1] == 0] = 0.0
        return BandwidthChoice(sigma, at_edge, solved=solved, kernels=(rank, slope, objective))
