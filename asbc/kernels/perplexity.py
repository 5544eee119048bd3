"""Bandwidths at which a row of Gaussian weights has a wanted effective number of neighbours."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out

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
        weight = math.exp(gap * scale)
        mass += weight
        moment += weight * gap
    return mass * math.exp(-moment * scale / mass)


@njit(cache=True, nogil=True, error_model="numpy")
def _match(first, last, squared, targets, low, high, out):
    for i in range(first, last):
        left = math.log(low[i])
        right = math.log(high[i])
        for _ in range(_HALVINGS):
            middle = 0.5 * (left + right)
            if effective_neighbors(squared[i], math.exp(middle)) < targets[i]:
                left = middle
            else:
                right = middle
        out[i] = math.exp(0.5 * (left + right))


def match_neighbors(squared, targets, low, high):
    """Bandwidth of each row within [low, high] by bisection of its logarithm; the nearer end where none fits.

    `squared` is (m, k); `targets`, `low`, `high` are (m,). Returns (m,) float64.
    """
    out = np.empty(len(squared))
    share_out(_match, len(squared), squared, targets, low, high, out)
    return out
