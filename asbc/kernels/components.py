"""Connected components by union-find, edge by edge."""

from __future__ import annotations

import numpy as np

from asbc.kernels.compiled import kernel


@kernel
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]  # path halving
        i = parent[i]
    return i


@kernel
def join_edges(parent, sources, targets):
    """Join the components of both ends of every edge; a component is named after its smallest node.

    `parent` is (n,) int64, initially 0 to n - 1, and changed in place; `sources` and `targets` are (m,) int64.
    """
    for e in range(len(sources)):
        a = _root(parent, sources[e])
        b = _root(parent, targets[e])
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b


@kernel
def join_rows(parent, first, indices, weights):
    """Join along the rows of the nodes from `first` on: an edge is a neighbour with weight above 0."""
    for i in range(indices.shape[0]):
        for j in range(indices.shape[1]):
            if weights[i, j] > 0.0:
                a = _root(parent, first + i)
                b = _root(parent, indices[i, j])
                if a < b:
                    parent[b] = a
                elif b < a:
                    parent[a] = b


@kernel
def piece_names(parent):
    """Return the smallest node (n,) of every node's component."""
    out = np.empty_like(parent)
    for i in range(len(parent)):
        out[i] = _root(parent, i)
    return out
