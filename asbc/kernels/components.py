"""Which nodes hang together, found edge by edge, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]  # halve the way for whoever comes next
        i = parent[i]
    return i


@njit(cache=True)
def join_edges(parent, sources, targets):
    """Join the pieces of both ends of every edge; a piece is named by its smallest node.

    parent : (n,) int64, at first 0 to n - 1, changed in place; sources, targets : (m,) int64
    """
    for e in range(len(sources)):
        a = _root(parent, sources[e])
        b = _root(parent, targets[e])
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b


@njit(cache=True)
def join_rows(parent, first, indices, weights):
    """The same for the rows of nodes `first` and on: an edge is a neighbour with weight above 0."""
    for i in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            if weights[i, j] > 0.0:
                a = _root(parent, first + i)
                b = _root(parent, indices[i, j])
                if a < b:
                    parent[b] = a
                elif b < a:
                    parent[a] = b


@njit(cache=True)
def piece_names(parent):
    """The smallest node of every node's piece, (n,) int64."""
    out = np.empty_like(parent)
    for i in range(len(parent)):
        out[i] = _root(parent, i)
    return out
