"""The weighted vote of each node's neighbours, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out

# Two classes whose votes differ by a smaller share than this are tied: rounding must not decide between equal weights.
TIE = 1e-12


@njit(inline="always")
def votes_from(indices, weights, codes, i, a):
    """All votes of row i for the class of its neighbour a; -1 if a nearer neighbour of that class has a vote."""
    label = codes[indices[i, a]]
    total = 0.0
    for b in range(indices.shape[1]):
        if weights[i, b] > 0.0 and codes[indices[i, b]] == label:
            if b < a:
                return -1.0
            total += weights[i, b]
    return total


@njit(cache=True, nogil=True)
def _vote(first, last, indices, weights, codes, out):
    for i in range(first, last):
        best = 0.0
        winner = -1
        # The votes of a class are added up when its nearest neighbour is reached. Going from near to far, and
        # replacing the winner only by a clear win, leaves a tie to the class of the nearest.
        for a in range(indices.shape[1]):
            if weights[i, a] > 0.0:
                total = votes_from(indices, weights, codes, i, a)
                if total > best * (1.0 + TIE):
                    best = total
                    winner = codes[indices[i, a]]
        out[i] = winner


def vote(indices, weights, codes):
    """Winning class of every row; -1 where no neighbour has weight.

    Parameters
    ----------
    indices : (n, k) int, neighbours by rising distance
    weights : (n, k) float64, 0 or more
    codes : (m,) int64, class number of every node that `indices` may name

    Returns
    -------
    (n,) int64
    """
    out = np.empty(len(indices), dtype=np.int64)
    share_out(_vote, len(indices), indices, weights, codes, out)
    return out
