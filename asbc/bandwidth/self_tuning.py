"""Zelnik-Manor and Perona's rule: each node's scale is its distance to one of its neighbours."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.report import report_at
from asbc.bandwidth.resolved import OneEach
from asbc.bandwidth.rule import Bandwidth, fill_constant, neighbor_number
from asbc.neighbors.types import kth_distance, vectors_for


class SelfTuning(Bandwidth):
    """Zelnik-Manor and Perona's rule: ``exp(-d_ij^2 / (s_i s_j))``, where s_i is the distance to the k-th neighbour.

    Written as ``exp(-d_ij^2 / (2 sigma_i sigma_j))``, that is ``sigma_i = s_i / sqrt(2)``. Such a kernel need not be
    positive semi-definite, which NNK weights ask for; they take the node's own sigma for all pairs of its neighbours.

    Parameters
    ----------
    k : int, default=7
        The neighbour, counted from 1, whose distance is the scale of a node.

    See Also
    --------
    Perplexity : a rule for the same, dense weights that follows the dimension.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> choice = asbc.SelfTuning(k=1).select(X, asbc.search_neighbors(X, k=2))
    >>> choice.sigma.round(2), choice.mutual
    (array([0.71, 0.71, 1.41]), True)
    """

    uses_dimension = False

    def __init__(self, k: int = 7):
        self.k = k

    def check_parameters(self, k):
        neighbor_number(self.k, k, "k")

    def summarize(self, X, neighbors, dimension):
        self.check_parameters(neighbors.k)
        scale = kth_distance(neighbors, int(self.k))
        return {"sigma": np.where(scale > 0, scale, 1.0) / np.sqrt(2.0), "constant": scale == 0}

    def resolve(self, summary):
        return OneEach(fill_constant(np.asarray(summary["sigma"]), np.asarray(summary["constant"])), mutual=True)

    def extend(self, choice, X, neighbors, dimension=None):
        sigma = fill_constant(*self.summarize(None, neighbors, None).values())
        return report_at(vectors_for(X, neighbors), neighbors, sigma, dimension, mutual=True)
