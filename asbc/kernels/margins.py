"""How much of each row's weight is on the node's own class and how much on the best other one, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out
from asbc.kernels.vote import TIE, votes_from


@njit(cache=True, nogil=True)
def _class_weights(first, last, indices, weights, codes, own, mine, other, winner, best):
    for i in range(first, last):
        for a in range(indices.shape[1]):
            label = codes[indices[i, a]]
            if weights[i, a] <= 0.0 or label < 0:
                continue
            total = votes_from(indices, weights, codes, i, a)
            if total < 0.0:
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
