"""Weighted votes of each node's neighbours."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.threads import run_ranges

# Two classes whose votes differ by a smaller share than this are tied, so that rounding does not decide.
TIE = 1e-12


@njit(inline="always")
def _votes_from(indices, weights, codes, i, a):
    """Sum the votes of row i for the class of neighbour a; -1 if a nearer neighbour of that class votes."""
    label = codes[indices[i, a]]
    total = 0.0
    for b in range(indices.shape[1]):
        if weights[i, b] > 0.0 and codes[indices[i, b]] == label:
            if b < a:
                return -1.0
            total += weights[i, b]
    return total


@kernel
def _vote(first, last, indices, weights, codes, out):
    for i in range(first, last):
        best = 0.0
        winner = -1
        # Going from near to far, and replacing the winner only by a clear win, a tie goes to the nearest class.
        for a in range(indices.shape[1]):
            if weights[i, a] > 0.0:
                total = _votes_from(indices, weights, codes, i, a)
                if total > best * (1.0 + TIE):
                    best = total
                    winner = codes[indices[i, a]]
        out[i] = winner


def vote(indices, weights, codes):
    """Return the winning class (n,) of every row; -1 where no neighbour has weight.

    `indices` (n, k) are neighbours by ascending distance, `weights` (n, k) are at least 0, and `codes` are the class
    numbers of all nodes.
    """
    out = np.empty(len(indices), dtype=np.int64)
    run_ranges(_vote, len(indices), indices, weights, codes, out)
    return out
