"""What is known of a kernel before its eigenvalues are: its sums, and bounds on its slope and on its effective rank.

Pair distances come as :func:`asbc.kernels.distances.neighborhood_distances` gives them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.lanes import LANES, exp, lane_min, lane_sum, load, smaller, splat

# Bounds on r are loosened by k times this: a hundred times the rounding error of a computed rank.
SLACK = 1e-11


@njit(inline="always")
def kernel_sums(pairs, k, sigma):
    """Log-log slope of the kernel sum at `sigma`, and the purity ``|K|_F^2 / k^2``.

    The purity is the sum of the squared shares of the eigenvalues: 1 where one eigenvalue has all, 1 / k where all
    are equal.
    """
    factor = splat(-0.5 / (sigma * sigma))
    mass = splat(0.0)
    moment = splat(0.0)
    square = splat(0.0)
    for t in range(0, pairs.shape[0], LANES):
        squared = load(pairs, t)
        kernel = exp(squared * factor)
        mass = mass + kernel
        moment = moment + kernel * squared
        square = square + kernel * kernel
    slope = 2.0 * lane_sum(moment) / (sigma * sigma) / (k + 2.0 * lane_sum(mass))
    return slope, (k + 2.0 * lane_sum(square)) / (k * k)


@njit(inline="always")
def bound_slopes(pairs, k, grid, most):
    """Write to `most` (n_grid,) what a node's slopes do not exceed, at each bandwidth of its grid.

    With x the squared distance of a pair over twice the squared bandwidth, the slope is ``4 sum x exp(-x)`` over
    ``k + 2 sum exp(-x)``. The mean of x under the kernel is at most its plain mean, the limit for wide kernels, because
    the logarithm of a sum of exponentials is convex; and ``x exp(-x)`` falls for x above 1, so that the nearest pair
    bounds all of them.
    """
    count = k * (k - 1) // 2
    whole = count // LANES * LANES
    least = splat(np.inf)
    sums = splat(0.0)
    for t in range(0, whole, LANES):
        squared = load(pairs, t)
        least = smaller(least, squared)
        sums = sums + squared
    nearest = lane_min(least)
    total = lane_sum(sums)
    for t in range(whole, count):
        nearest = min(nearest, pairs[t])
        total += pairs[t]
    for g in range(grid.shape[0]):
        factor = 0.5 / (grid[g] * grid[g])
        bound = 4.0 * factor * total / (k * k)
        x = min(factor * nearest, 700.0)
        if x > 1.0:
            bound = min(bound, 4.0 * count * x * math.exp(-x) / k)
        most[g] = bound * (1.0 + SLACK) if bound >= 0.0 else np.inf


@njit(inline="always")
def _plogp(share):
    """``share * log(share)``, 0 at 0."""
    return share * math.log(share) if share > 0.0 else 0.0


@njit(inline="always")
def rank_bounds(purity, k):
    """The least and the largest effective rank that k eigenvalue shares with this sum of squares can have.

    The extremes of entropy at a given sum of squares (Harremoes and Topsoe 2001): least for m equal shares and
    one smaller, largest for one share above k - 1 equal ones.
    """
    purity = min(max(purity, 1.0 / k), 1.0)
    m = min(max(math.floor(1.0 / purity), 1.0), k - 1.0)
    a = (1.0 + math.sqrt(max(0.0, 1.0 - (m + 1.0) * (1.0 - purity) / m))) / (m + 1.0)
    low = math.exp(-m * _plogp(a) - _plogp(1.0 - m * a))
    x = math.sqrt(max(0.0, (purity * k - 1.0) / (k - 1.0)))
    high = math.exp(-_plogp((1.0 + (k - 1.0) * x) / k) - (k - 1.0) * _plogp((1.0 - x) / k))
    return low - SLACK * k, high + SLACK * k
