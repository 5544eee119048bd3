"""Connected components by union-find, block by block."""

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
def join_rows(parent, first, indices, weights):
    """Join along the rows of the nodes from `first` on: an edge is a neighbour with weight above 0.

    `parent` is (n,) int64, initially 0 to n - 1, and changed in place. A component is named after its smallest node.
    """
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
