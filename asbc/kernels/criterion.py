"""The bandwidth criterion J: its exact minimum on a grid with few eigenproblems, and its value at given bandwidths.

``J(s) = |r(s) - t| / t + (l_max - l(s)) / l_max`` with the effective rank r, the target rank t, and the log-log
slope l of the kernel sum. A slope costs one pass over the kernel, a rank costs an eigenproblem. Three facts make most
eigenproblems unnecessary: r never rises with s; the sum of squares of the kernel bounds its spectral entropy from both
sides; and a grid point whose J is at least the best J found cannot win. A bound on the slope that needs no kernel
makes most passes over the kernel unnecessary, too.

Pair distances have the layout of :func:`asbc.kernels.distances.neighborhood_distances`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, exp, lane_min, lane_sum, load, smaller, splat, store
from asbc.kernels.spectrum import WORK_PER_ROW, effective_ranks
from asbc.kernels.threads import run_ranges

# Bounds on ranks are loosened by k times this: a hundred times the rounding error of a computed rank.
SLACK = 1e-11
_EPSILON = float(np.finfo(np.float64).eps)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# Golden sections of an interval of two grid steps. 26 of them shrink it 270,000-fold, so sigma is accurate to about one
# part in a million.
_SECTIONS = 26
# State of a grid point: its slope is bounded; slope and purity are computed; its rank is bounded, too.
_GUESSED, _SUMMED, _BOUNDED = 0, 1, 2


@njit(inline="always")
def kernel_sums(pairs, k, sigma):
    """Return the log-log slope of the kernel sum at `sigma`, and the purity ``|K|_F^2 / k^2``.

    The purity is the sum of the squared shares of the eigenvalues: 1 / k if all are equal, 1 if only one is not 0.
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
    """Write upper bounds of a node's slopes at each bandwidth of its grid to `most` (n_grid,).

    With x the squared distance of a pair over twice the squared bandwidth, the slope is ``4 sum x exp(-x)`` over
    ``k + 2 sum exp(-x)``. The mean of x under the kernel is at most its plain mean, because the logarithm of a sum of
    exponentials is convex. And ``x exp(-x)`` falls for x above 1, so the nearest pair bounds all of them.
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
    """Return bounds of the effective rank of k eigenvalue shares with this sum of squares.

    At a given sum of squares, the entropy is least for m equal shares and one smaller, and largest for one share above
    k - 1 equal ones (Harremoes and Topsoe 2001).
    """
    purity = min(max(purity, 1.0 / k), 1.0)
    m = min(max(math.floor(1.0 / purity), 1.0), k - 1.0)
    a = (1.0 + math.sqrt(max(0.0, 1.0 - (m + 1.0) * (1.0 - purity) / m))) / (m + 1.0)
    low = math.exp(-m * _plogp(a) - _plogp(1.0 - m * a))
    x = math.sqrt(max(0.0, (purity * k - 1.0) / (k - 1.0)))
    high = math.exp(-_plogp((1.0 + (k - 1.0) * x) / k) - (k - 1.0) * _plogp((1.0 - x) / k))
    return low - SLACK * k, high + SLACK * k


@njit(inline="always")
def _objective(rank, target, slope, slope_max):
    """The criterion J."""
    # Between grid points, a slope may exceed the largest slope on the grid. Its flatness is then 0, not negative.
    flatness = max(slope_max - slope, 0.0) / slope_max if slope_max > 0.0 else 0.0
    return abs(rank - target) / target + flatness


@njit(inline="always")
def _objective_bound(low, high, target, slope, slope_max):
    """The least possible J for a rank between `low` and `high`."""
    return _objective(min(max(target, low), high), target, slope, slope_max)


@njit(inline="always")
def _spread(pairs, k, lane, interleaved):
    """Copy a node's pair distances into its lane of the array `interleaved`."""
    for t in range(k * (k - 1) // 2):
        interleaved[t * LANES + lane] = pairs[t]


@njit(inline="always")
def _lane_kernels(interleaved, factors, k, A):
    """Write the lower triangles of the lanes' kernels to A; ``factors = -1 / (2 sigma^2)``."""
    factor = load(factors, 0)
    one = splat(1.0)
    source = 0
    target = 0
    for r in range(k):
        for _ in range(r):
            store(A, target, exp(load(interleaved, source) * factor))
            source += LANES
            target += LANES
        store(A, target, one)
        target += LANES


@njit(inline="always")
def _least(values):
    """Return the place of the first least value."""
    g = 0
    for h in range(1, values.shape[0]):
        if values[h] < values[g]:
            g = h
    return g


@njit(inline="always")
def _steepest(pairs, k, grid, everywhere, slopes, purities, state):
    """Return the largest slope on a node's grid; with `everywhere`, compute all slopes.

    `slopes` starts with upper bounds. Where a bound does not exceed the largest slope found, the slope is not computed.
    """
    largest = 0.0
    while True:
        h = -1
        for g in range(grid.shape[0]):
            if state[g] == _GUESSED and (slopes[g] > largest or everywhere) and (h < 0 or slopes[g] > slopes[h]):
                h = g
        if h < 0:
            return largest
        slopes[h], purities[h] = kernel_sums(pairs, k, grid[h])
        state[h] = _SUMMED
        largest = max(largest, slopes[h])


@kernel
def next_grid_point(pairs, k, grid, target, slope_max, best, best_value, slopes, purities, low, high, bounds, state):
    """Return the unsolved grid point with the least bound on J, or -1 if none of them can win.

    Solved points have an infinite bound. A point that only equals the best wins if its bandwidth is smaller. A point's
    bounds are tightened only when it would be next.
    """
    while True:
        g = _least(bounds)
        if not (bounds[g] < best_value or (bounds[g] == best_value and g < best)):
            return -1
        if state[g] == _BOUNDED:
            return g
        if state[g] == _GUESSED:
            slopes[g], purities[g] = kernel_sums(pairs, k, grid[g])
        else:
            least, most = rank_bounds(purities[g], k)
            low[g] = max(low[g], least)
            high[g] = min(high[g], most)
        state[g] += 1
        bounds[g] = _objective_bound(low[g], high[g], target, slopes[g], slope_max)


@kernel
def _search(first, last, pairs, grid, targets, k, prune, choice, rank, slope, objective, slope_max, solved):
    n_grid = grid.shape[1]
    A = np.empty(k * (k + 1) // 2 * LANES)
    work = np.empty(WORK_PER_ROW * k)
    interleaved = np.zeros(k * (k - 1) // 2 * LANES)
    factors = np.zeros(LANES)
    ranks = np.empty(LANES)
    node = np.empty(LANES, np.int64)
    for lane in range(LANES):
        node[lane] = -1
    point = np.empty(LANES, np.int64)
    slopes = np.empty((LANES, n_grid))
    purities = np.empty((LANES, n_grid))
    low = np.empty((LANES, n_grid))
    high = np.empty((LANES, n_grid))
    bounds = np.empty((LANES, n_grid))
    state = np.empty((LANES, n_grid), np.int64)
    upcoming = first
    # Eight nodes are processed at a time, one per lane. A node keeps its lane until its minimum is certain. Then the
    # next node takes the lane, so no lane waits for the slowest.
    while True:
        busy = False
        for lane in range(LANES):
            i = node[lane]
            if i >= 0:  # record the rank just computed, which bounds those at the other grid points
                g = point[lane]
                solved[i] += 1
                value = _objective(ranks[lane], targets[i], slopes[lane, g], slope_max[i])
                if value < objective[i] or (value == objective[i] and g < choice[i]):
                    choice[i] = g
                    objective[i] = value
                    rank[i] = ranks[lane]
                    slope[i] = slopes[lane, g]
                bounds[lane, g] = np.inf
                for h in range(n_grid):
                    if h < g:
                        low[lane, h] = max(low[lane, h], ranks[lane] - SLACK * k)
                    elif h > g:
                        high[lane, h] = min(high[lane, h], ranks[lane] + SLACK * k)
            while True:
                if i < 0:
                    if upcoming == last:
                        break
                    i = upcoming
                    upcoming += 1
                    objective[i] = np.inf
                    _spread(pairs[i], k, lane, interleaved)
                    bound_slopes(pairs[i], k, grid[i], slopes[lane])
                    for g in range(n_grid):
                        state[lane, g] = _GUESSED
                        low[lane, g] = 1.0 - SLACK * k
                        high[lane, g] = k + SLACK * k
                        bounds[lane, g] = -1.0
                    slope_max[i] = _steepest(pairs[i], k, grid[i], not prune, slopes[lane], purities[lane], state[lane])
                for g in range(n_grid):
                    if not prune:
                        state[lane, g] = _BOUNDED
                    elif bounds[lane, g] < np.inf:
                        bounds[lane, g] = _objective_bound(
                            low[lane, g], high[lane, g], targets[i], slopes[lane, g], slope_max[i]
                        )
                g = next_grid_point(
                    pairs[i],
                    k,
                    grid[i],
                    targets[i],
                    slope_max[i],
                    choice[i],
                    objective[i],
                    slopes[lane],
                    purities[lane],
                    low[lane],
                    high[lane],
                    bounds[lane],
                    state[lane],
                )
                if g >= 0:
                    busy = True
                    factors[lane] = -0.5 / (grid[i, g] * grid[i, g])
                    point[lane] = g
                    break
                i = -1
            node[lane] = i
        if not busy:
            break
        _lane_kernels(interleaved, factors, k, A)
        effective_ranks(A, k, work, ranks)


def search_grid(pairs, grid, targets, k, prune):
    """Find the grid point of least J for every node.

    `pairs` is (m, pair_count(k)), `grid` (m, n_grid) with ascending rows, and `targets` (m,) are the target ranks.
    ``prune=False`` solves every grid point: the same result, but slower. Returns six arrays (m,): the column of `grid`,
    rank, slope and objective there, the largest slope over the grid, and the number of eigenproblems solved.
    """
    m = len(grid)
    choice, solved = np.zeros((2, m), np.int64)
    rank, slope, objective, slope_max = np.empty((4, m))
    run_ranges(_search, m, pairs, grid, targets, k, prune, choice, rank, slope, objective, slope_max, solved)
    return choice, rank, slope, objective, slope_max, solved


@kernel
def _evaluate(first, last, pairs, sigma, k, rank, slope, condition):
    A = np.empty(k * (k + 1) // 2 * LANES)
    work = np.empty(WORK_PER_ROW * k)
    interleaved = np.zeros(k * (k - 1) // 2 * LANES)
    factors = np.zeros(LANES)
    ranks = np.empty(LANES)
    for start in range(first, last, LANES):
        count = min(last - start, LANES)
        for lane in range(count):
            _spread(pairs[start + lane], k, lane, interleaved)
            factors[lane] = -0.5 / (sigma[start + lane] * sigma[start + lane])
            slope[start + lane] = kernel_sums(pairs[start + lane], k, sigma[start + lane])[0]
        _lane_kernels(interleaved, factors, k, A)
        effective_ranks(A, k, work, ranks)
        for lane in range(count):
            rank[start + lane] = ranks[lane]
            least = np.inf
            most = 0.0
            for j in range(k):
                least = min(least, work[j * LANES + lane])
                most = max(most, work[j * LANES + lane])
            condition[start + lane] = most / max(least, most * _EPSILON)


def evaluate_at(pairs, sigma, k):
    """Return effective rank and slope of every node's kernel, like :func:`evaluate_all_at`."""
    return evaluate_all_at(pairs, sigma, k)[:2]


def evaluate_all_at(pairs, sigma, k):
    """Return effective rank, slope and condition number of every node's kernel at its bandwidth: three (m,) arrays.

    `pairs` is (m, pair_count(k)), `sigma` is (m,). The condition number is the largest eigenvalue over the least, and
    at most 1 over the machine epsilon.
    """
    rank, slope, condition = np.empty((3, len(sigma)))
    run_ranges(_evaluate, len(sigma), pairs, sigma, k, rank, slope, condition)
    return rank, slope, condition


@kernel
def _refine(first, last, pairs, low, high, targets, slope_max, k, sigma, rank, slope, objective):
    A = np.empty(k * (k + 1) // 2 * LANES)
    work = np.empty(WORK_PER_ROW * k)
    interleaved = np.zeros(k * (k - 1) // 2 * LANES)
    factors = np.zeros(LANES)
    ranks = np.empty(LANES)
    left = np.empty(LANES)
    right = np.empty(LANES)
    position = np.empty((2, LANES))
    value = np.empty((2, LANES))
    side = np.empty(LANES, np.int64)
    for start in range(first, last, LANES):
        count = min(last - start, LANES)
        for lane in range(count):
            i = start + lane
            _spread(pairs[i], k, lane, interleaved)
            left[lane] = math.log(low[i])
            right[lane] = math.log(high[i])
            width = right[lane] - left[lane]
            position[0, lane] = right[lane] - _GOLDEN * width
            position[1, lane] = left[lane] + _GOLDEN * width
            objective[i] = np.inf
        for step in range(_SECTIONS + 2):
            for lane in range(count):
                i = start + lane
                if step < 2:
                    side[lane] = step
                else:
                    # Keep the part around the lower value. One of its two inner points is already solved, so a round
                    # costs one eigenproblem.
                    if value[0, lane] <= value[1, lane]:
                        right[lane] = position[1, lane]
                        position[1, lane] = position[0, lane]
                        value[1, lane] = value[0, lane]
                        position[0, lane] = right[lane] - _GOLDEN * (right[lane] - left[lane])
                        side[lane] = 0
                    else:
                        left[lane] = position[0, lane]
                        position[0, lane] = position[1, lane]
                        value[0, lane] = value[1, lane]
                        position[1, lane] = left[lane] + _GOLDEN * (right[lane] - left[lane])
                        side[lane] = 1
                here = math.exp(position[side[lane], lane])
                factors[lane] = -0.5 / (here * here)
            _lane_kernels(interleaved, factors, k, A)
            effective_ranks(A, k, work, ranks)
            for lane in range(count):
                i = start + lane
                here = math.exp(position[side[lane], lane])
                slope_here = kernel_sums(pairs[i], k, here)[0]
                found = _objective(ranks[lane], targets[i], slope_here, slope_max[i])
                value[side[lane], lane] = found
                if found < objective[i]:
                    sigma[i] = here
                    rank[i] = ranks[lane]
                    slope[i] = slope_here
                    objective[i] = found


def refine(pairs, low, high, targets, slope_max, k):
    """Find the least J between two bandwidths by golden-section search on the logarithm.

    `pairs` is (m, pair_count(k)); `low`, `high`, `targets` and `slope_max` are (m,), and so are the results.
    """
    sigma, rank, slope, objective = np.empty((4, len(low)))
    run_ranges(_refine, len(low), pairs, low, high, targets, slope_max, k, sigma, rank, slope, objective)
    return sigma, rank, slope, objective


@kernel
def _slopes(first, last, pairs, grid, k, out):
    for i in range(first, last):
        out[i] = 0.0
        for g in range(grid.shape[1]):
            out[i] = max(out[i], kernel_sums(pairs[i], k, grid[i, g])[0])


def grid_slopes(pairs, grid, k):
    """Return the largest slope (m,) over each node's grid."""
    out = np.empty(len(grid))
    run_ranges(_slopes, len(grid), pairs, grid, k, out)
    return out
