"""The rule for dense weights: the effective number of neighbours is a multiple of the dimension."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from asbc.bandwidth.rule import Bandwidth, BandwidthChoice, check_dimension
from asbc.kernels.perplexity import match_neighbors
from asbc.neighbors.types import kth_distance
from asbc.validation import positive_number

__all__ = ["Perplexity"]


class Perplexity(Bandwidth):
    """Per node, the bandwidth at which its Gaussian weights have ``beta d`` effective neighbours.

    The effective number of neighbours is ``exp`` of the entropy of the node's normalised weights. It rises with the
    bandwidth, so the rule finds the target by bisection. The target is at most 0.9 k, where k is the number of
    neighbours.

    Parameters
    ----------
    beta : float, default=2.0
        Effective neighbours per node, as a multiple of the node's dimension d.

    See Also
    --------
    SpectralBandwidth : matches the rank of the kernel among neighbours; the better rule for NNK weights.
    SelfTuning : a rule for dense weights that does not use the dimension.

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

    local = True
    presets: ClassVar = {"perplexity": {}}

    def __init__(self, beta: float = 2.0):
        self.beta = beta

    def check_parameters(self, k):
        positive_number(self.beta, "beta")

    def choose(self, X, neighbors, dimension):
        target = np.clip(float(self.beta) * check_dimension(dimension, neighbors), 1.0, max(1.0, 0.9 * neighbors.k))
        nearest = kth_distance(neighbors, 1)
        constant = nearest == 0
        low = np.where(constant, 1.0, 0.05 * nearest)
        high = np.where(constant, 1.0, 100.0 * kth_distance(neighbors, neighbors.k))
        sigma = match_neighbors(neighbors.distances**2, target, low, high)
        at_edge = (sigma <= low * (1 + 1e-9)) | (sigma >= high * (1 - 1e-9))
        return BandwidthChoice(np.where(constant, 0.0, sigma), at_edge)
