"""The rule for dense weights: as many neighbours as a multiple of the dimension."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth.rule import Bandwidth, Vector, check_dimension, fill_constant, report_at
from asbc.kernels.perplexity import match_neighbors
from asbc.neighbors.types import Neighbors, kth_distance
from asbc.validation import positive_number


class Perplexity(Bandwidth):
    """Per node, the bandwidth at which its Gaussian weights count as ``beta d`` neighbours.

    The effective number of neighbours is ``exp`` of the entropy of the node's normalised weights; it is capped at
    0.9 k, and rises with the bandwidth, so bisection finds it.
    """

    def __init__(self, beta: float = 2.0):
        self.beta = beta

    @property
    def local(self):
        return True

    def constant(self, neighbors):
        return neighbors.distances[:, -1] == 0

    def sigma(self, neighbors: Neighbors, dimension: ArrayLike | None) -> tuple[Vector, NDArray[np.bool_]]:
        """The bandwidths (n,) alone, and which of them lie at an end of what is considered (n,)."""
        beta = positive_number(self.beta, "beta")
        target = np.clip(beta * check_dimension(dimension, neighbors), 1.0, max(1.0, 0.9 * neighbors.k))
        nearest = kth_distance(neighbors, 1)
        constant = nearest == 0
        low = np.where(constant, 1.0, 0.05 * nearest)
        high = np.where(constant, 1.0, 100.0 * kth_distance(neighbors, neighbors.k))
        sigma = match_neighbors(neighbors.distances**2, target, low, high)
        return sigma, (sigma <= low * (1 + 1e-9)) | (sigma >= high * (1 - 1e-9))

    def choose(self, X, neighbors, dimension):
        sigma, at_edge = self.sigma(neighbors, dimension)
        return report_at(X, neighbors, fill_constant(sigma, self.constant(neighbors)), dimension, at_edge)
