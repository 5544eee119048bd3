"""The rule for dense weights: as many neighbours as a multiple of the dimension."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.rule import Bandwidth, BandwidthChoice, check_dimension, fill_constant, report_at
from asbc.kernels.perplexity import match_neighbors
from asbc.neighbors.types import kth_distance
from asbc.validation import positive_number, true_or_false


class Perplexity(Bandwidth):
    """Per node, the bandwidth at which its Gaussian weights count as ``beta d`` neighbours.

    The effective number of neighbours is ``exp`` of the entropy of the node's normalised weights; it is capped at
    0.9 k, and rises with the bandwidth, so bisection finds it.

    Parameters
    ----------
    beta : float, default=2.0
    report : bool, default=True
        Whether to work out effective rank, slope and objective at the bandwidths, which takes longer than finding them.
        Without it they are NaN.
    """

    def __init__(self, beta: float = 2.0, report: bool = True):
        self.beta = beta
        self.report = report

    @property
    def local(self):
        return True

    def constant(self, neighbors):
        return neighbors.distances[:, -1] == 0

    def choose(self, X, neighbors, dimension):
        beta = positive_number(self.beta, "beta")
        target = np.clip(beta * check_dimension(dimension, neighbors), 1.0, max(1.0, 0.9 * neighbors.k))
        nearest = kth_distance(neighbors, 1)
        constant = nearest == 0
        low = np.where(constant, 1.0, 0.05 * nearest)
        high = np.where(constant, 1.0, 100.0 * kth_distance(neighbors, neighbors.k))
        sigma = match_neighbors(neighbors.distances**2, target, low, high)
        at_edge = (sigma <= low * (1 + 1e-9)) | (sigma >= high * (1 - 1e-9))
        sigma = fill_constant(sigma, constant)
        if true_or_false(self.report, "report"):
            return report_at(X, neighbors, sigma, dimension, at_edge)
        unknown = np.full(neighbors.n, np.nan)
        return BandwidthChoice(sigma, unknown, unknown, unknown, at_edge)
