"""Bandwidths at which a row of Gaussian weights has a given effective number of neighbours."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.distances import PADDING, padded
from asbc.kernels.lanes import LANES, exp, lane_sum, load, splat
from asbc.kernels.threads import run_ranges

_HALVINGS = 60  # the most steps of a bisection; it ends after about 52, when no number lies between the ends


@njit(inline="always")
def _effective(gaps, sigma):
    """Return ``exp(entropy)`` of the normalised Gaussian weights; `gaps` are padded to whole lanes."""
    scale = -0.5 / (sigma * sigma)
    factor = splat(scale)
    mass = splat(0.0)
    moment = splat(0.0)
    for j in range(0, gaps.shape[0], LANES):
        # Subtracting the least squared distance multiplies all weights by one factor, which normalisation cancels. The
        # nearest neighbour then has weight 1, so the weights cannot all underflow.
        gap = load(gaps, j)
        weight = exp(gap * factor)
        mass = mass + weight
        moment = moment + weight * gap
    total = lane_sum(mass)
    return total * math.exp(-lane_sum(moment) * scale / total)


@kernel
def _match(first, last, squared, targets, low, high, width, out):
    gaps = np.full(width, PADDING)
    for i in range(first, last):
        for j in range(squared.shape[1]):
            gaps[j] = squared[i, j] - squared[i, 0]
        left = math.log(low[i])
        right = math.log(high[i])
        for _ in range(_HALVINGS):
            middle = 0.5 * (left + right)
            if not left < middle < right:
                break
            if _effective(gaps, math.exp(middle)) < targets[i]:
                left = middle
            else:
                right = middle
        out[i] = math.exp(0.5 * (left + right))


def match_neighbors(squared, targets, low, high):
    """Return the bandwidth (m,) of each row within [low, high], by bisection of its logarithm.

    A row that cannot reach its target gets the nearer end. `squared` is (m, k); `targets`, `low` and `high` are (m,).
    """
    out = np.empty(len(squared))
    run_ranges(_match, len(squared), squared, targets, low, high, padded(squared.shape[1]), out)
    return out
