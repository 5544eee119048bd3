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
def _fill(squared, gaps):
    """Subtract the least squared distance of a row (k,) from each; `gaps` is padded to whole lanes."""
    for j in range(squared.shape[0]):
        gaps[j] = squared[j] - squared[0]


@njit(inline="always")
def _effective(gaps, sigma):
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
def _effective_of(squared, sigma, gaps):
    _fill(squared, gaps)
    return _effective(gaps, sigma)


def effective_neighbors(squared, sigma):
    """Return ``exp(entropy)`` of the normalised Gaussian weights of one row (k,) of ascending squared distances."""
    return _effective_of(squared, sigma, np.full(padded(len(squared)), PADDING))


@kernel
def _match(first, last, squared, targets, low, high, width, out):
    gaps = np.full(width, PADDING)
    for i in range(first, last):
        _fill(squared[i], gaps)
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
