"""Bandwidths at which a row of Gaussian weights has a wanted effective number of neighbours."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

_HALVINGS = 60  # of the interval that is searched: after about 55 its ends differ by no more than rounding


@njit(cache=True, error_model="numpy")
def effective_neighbors(squared, sigma):
    """``exp(entropy)`` of the normalised Gaussian weights of one row (k,) of rising squared distances."""
    scale = -0.5 / (sigma * sigma)
    mass = 0.0
    moment = 0.0
    for j in range(squared.shape[0]):
        # Taking the least squared distance off multiplies all weights by one number, which normalising cancels; the
        # nearest neighbour then has weight 1, and the weights cannot all underflow.
        gap = squared[j] - squared[0]
        weight = np.exp(gap * scale)
        mass += weight
        moment += weight * gap
    return mass * np.exp(-moment * scale / mass)


@njit(cache=True, parallel=True, error_model="numpy")
def match_neighbors(squared, targets, low, high):
    """Bandwidth of each row within [low, high] by bisection of its logarithm; the nearer end where none fits.

    `squared` is (m, k); `targets`, `low`, `high` are (m,). Returns (m,) float64.
    """
    m = squared.shape[0]
    out = np.empty(m)
    for i in prange(m):
        left = np.log(low[i])
        right = np.log(high[i])
        for _ in range(_HALVINGS):
            middle = 0.5 * (left + right)
            if effective_neighbors(squared[i], np.exp(middle)) < targets[i]:
                left = middle
            else:
                right = middle
        out[i] = np.exp(0.5 * (left + right))
    return out
