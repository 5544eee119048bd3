"""Zelnik-Manor and Perona's rule: each node's distance to one of its neighbours."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.rule import Bandwidth, OneEach, fill_constant, neighbor_number, report_at
from asbc.neighbors.types import kth_distance, vectors_for


class SelfTuning(Bandwidth):
    """Zelnik-Manor and Perona: ``exp(-d_ij^2 / (s_i s_j))`` with s_i the distance to the k-th neighbour.

    In terms of ``exp(-d^2 / (2 sigma_i sigma_j))``, ``sigma_i = s_i / sqrt(2)``. That kernel need not be positive
    semi-definite, so NNK weights take a node's own sigma on its whole neighbourhood.

    Parameters
    ----------
    k : int, default=7
        Which neighbour's distance is the scale of a node.

    See Also
    --------
    Perplexity : a rule for the same, dense weights that follows the dimension.

    Examples
    --------
    >>> import asbc
    >>> asbc.GraphBuilder(weights="gaussian", bandwidth=asbc.SelfTuning(k=7))
    GraphBuilder(bandwidth=SelfTuning(), weights='gaussian')
    """

    uses_dimension = False

    def __init__(self, k: int = 7):
        self.k = k

    def summarize(self, X, neighbors, dimension):
        scale = kth_distance(neighbors, neighbor_number(self.k, neighbors, "k"))
        return {"sigma": np.where(scale > 0, scale, 1.0) / np.sqrt(2.0), "constant": scale == 0}

    def resolve(self, summary):
        return OneEach(fill_constant(np.asarray(summary["sigma"]), np.asarray(summary["constant"])), mutual=True)

    def extend(self, choice, X, neighbors, dimension=None):
        sigma = fill_constant(*self.summarize(None, neighbors, None).values())
        return report_at(vectors_for(X, neighbors), neighbors, sigma, dimension, mutual=True)
