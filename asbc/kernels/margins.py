"""How much of each row's weight is on the node's own class and how much on the best other one, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out

# Weights nearer than this, relatively, are a tie: rows of equal weights must not be decided by rounding.
TIE = 1e-12


@njit(cache=True, nogil=True)
def _class_weights(first, last, indices, weights, codes, own, mine, other, winner, best):
    k = indices.shape[1]
    for i in range(first, last):
        for a in range(k):
            if weights[i, a] <= 0.0:
                continue
            label = codes[indices[i, a]]
            if label < 0:
                continue
            # The first voter of a class collects for all of it, so that a tie stays with the nearest.
            total = 0.0
            nearest = True
            for b in range(k):
                if weights[i, b] > 0.0 and codes[indices[i, b]] == label:
                    if b < a:
                        nearest = False
                        break
                    total += weights[i, b]
            if not nearest:
                continue
            if label == own[i]:
                mine[i] = total
            else:
                other[i] = max(other[i], total)
            if total > best[i] * (1.0 + TIE):
                best[i] = total
                winner[i] = label


def class_weights(indices, weights, codes, own):
    """Weight of the own class, of the heaviest other class, and of the heaviest of all with its number.

    A neighbour with code -1 does not vote. The heaviest class is -1, with weight 0, where nobody votes; a tie goes
    to the class of the nearest voter. For a node with own code -1, every class is another one.

    indices : (m, k) int64, rows by rising distance; weights : (m, k) float64 >= 0
    codes : (n,) int64, of all nodes; own : (m,) int64, of these nodes
    returns own weight (m,), other weight (m,), winner (m,) int64, winner's weight (m,)
    """
    m = len(indices)
    mine, other, best = np.zeros((3, m))
    winner = np.full(m, -1, dtype=np.int64)
    share_out(_class_weights, m, indices, weights, codes, own, mine, other, winner, best)
    return mine, other, winner, best
