"""The rule for dense weights: as many effective neighbours per node as a multiple of its dimension."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth.choice import Vector
from asbc.bandwidth.report import report_at
from asbc.bandwidth.rule import Bandwidth, check_dimension, fill_constant
from asbc.kernels.perplexity import match_neighbors
from asbc.neighbors.types import Neighbors, kth_distance
from asbc.validation import positive_number


class Perplexity(Bandwidth):
    """Per node, the bandwidth at which its Gaussian weights count as ``beta d`` neighbours.

    The effective number of neighbours is ``exp`` of the entropy of the node's normalised weights. It rises with the
    bandwidth, so bisection finds the number that is wanted; of k neighbours at most 0.9 k are asked for.

    Parameters
    ----------
    beta : float, default=2.0
        Effective neighbours per node, as a multiple of the node's dimension d.

    See Also
    --------
    SpectralBandwidth : matches the rank of the kernel among neighbours; the better rule for NNK weights.
    SelfTuning : a rule for dense weights that does not look at the dimension.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> neighbors = asbc.search_neighbors(X, k=20)
    >>> choice = asbc.Perplexity(beta=2.0).select(X, neighbors, dimension=np.full(100, 3.0))
    >>> weights = asbc.normalize_weights(asbc.gaussian_weights(neighbors, choice.sigma))
    >>> float(np.exp(-(weights[0] * np.log(weights[0])).sum()).round(6))
    6.0
    """

    def __init__(self, beta: float = 2.0):
        self.beta = beta

    @property
    def local(self):
        return True

    def constant(self, neighbors):
        return neighbors.distances[:, -1] == 0

    def check_parameters(self, k):
        positive_number(self.beta, "beta")

    def sigma(self, neighbors: Neighbors, dimension: ArrayLike | None) -> tuple[Vector, NDArray[np.bool_]]:
        """The bandwidths (n,) alone, and which of them lie at an end of what is considered (n,)."""
        self.check_parameters(neighbors.k)
        target = np.clip(float(self.beta) * check_dimension(dimension, neighbors), 1.0, max(1.0, 0.9 * neighbors.k))
        nearest = kth_distance(neighbors, 1)
        constant = nearest == 0
        low = np.where(constant, 1.0, 0.05 * nearest)
        high = np.where(constant, 1.0, 100.0 * kth_distance(neighbors, neighbors.k))
        sigma = match_neighbors(neighbors.distances**2, target, low, high)
        return sigma, (sigma <= low * (1 + 1e-9)) | (sigma >= high * (1 - 1e-9))

    def choose(self, X, neighbors, dimension):
        sigma, at_edge = self.sigma(neighbors, dimension)
        return report_at(X, neighbors, fill_constant(sigma, self.constant(neighbors)), dimension, at_edge)
