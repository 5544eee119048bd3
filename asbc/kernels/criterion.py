"""The bandwidth criterion J: its exact minimum on a grid with few eigenproblems, and its value at given bandwidths.

``J(s) = |r(s) - t| / t + (l_max - l(s)) / l_max`` with the effective rank r, the target rank t, and the log-log
slope l of the kernel sum. A slope costs one pass over the kernel, a rank costs an eigenproblem. Three facts make most
eigenproblems unnecessary: r never rises with s; the sum of squares of the kernel bounds its spectral entropy from both
sides; and a grid point whose J is at least the best J found cannot win. Bounds of the slope save most passes, too.

Pair distances have the layout of :func:`asbc.kernels.distances.neighborhood_distances`.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.distances import PADDING
from asbc.kernels.lanes import LANES, exp, lane_min, lane_sum, load, smaller, splat, store, where_less
from asbc.kernels.spectrum import WORK_PER_ROW, effective_ranks
from asbc.kernels.threads import run_ranges

# Bounds on ranks are loosened by k times this: a hundred times the rounding error of a computed rank.
SLACK = 1e-11
_EPSILON = float(np.finfo(np.float64).eps)
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
# Golden sections of an interval of two grid steps. 26 of them shrink it 270,000-fold, so sigma is accurate to about one
# part in a million.
_SECTIONS = 26


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
def _bound_slopes(pairs, k, grid, slopes):
    """Write upper bounds of a node's slopes at each bandwidth of its grid, without a pass over the kernel for each.

    The slope is the mean of the squared distances under the kernel, over the squared bandwidth. The mean under the
    kernel is at most the plain mean, because it never falls with the bandwidth. With x the squared distance of a pair
    over twice the squared bandwidth, the slope is also at most ``4 sum x exp(-x) / k``, and ``x exp(-x)`` falls for x
    above 1, so the nearest pair bounds all of them.
    """
    least, total = splat(PADDING), splat(0.0)
    for t in range(0, pairs.shape[0], LANES):
        squared = load(pairs, t)
        least = smaller(least, squared)
        total = total + where_less(squared, splat(PADDING), squared, splat(0.0))
    nearest, mean = lane_min(least), 2.0 * lane_sum(total) / (k * k)
    for g in range(grid.shape[0]):
        bound = mean / (grid[g] * grid[g])
        x = 0.5 * nearest / (grid[g] * grid[g])
        if x > 1.0:
            bound = min(bound, 2.0 * (k - 1.0) * min(x, 700.0) * math.exp(-min(x, 700.0)))
        slopes[g] = bound * (1.0 + SLACK)


@njit(inline="always")
def _sum_point(pairs, k, grid, g, slopes, low, high, summed):
    """Compute a node's slope at grid point g, and bound its rank there."""
    slopes[g], purity = kernel_sums(pairs, k, grid[g])
    least, most = rank_bounds(purity, k)
    low[g], high[g] = max(low[g], least), min(high[g], most)
    summed[g] = True


@kernel
def _start(pairs, k, grid, slopes, low, high, summed):
    """Bound a node's slopes and ranks at each bandwidth of its grid; return the largest slope."""
    low[:], high[:], summed[:] = 1.0 - SLACK * k, k + SLACK * k, False
    _bound_slopes(pairs, k, grid, slopes)
    while True:
        g = np.argmax(slopes)
        if summed[g]:
            return slopes[g]
        _sum_point(pairs, k, grid, g, slopes, low, high, summed)


@njit(inline="always")
def _record_rank(rank, g, k, low, high):
    """Bound the ranks at the other grid points by the rank at g, and mark g as solved."""
    for h in range(g):
        low[h] = max(low[h], rank - SLACK * k)
    for h in range(g + 1, high.shape[0]):
        high[h] = min(high[h], rank + SLACK * k)
    high[g] = -np.inf  # the bound on J is then infinite


@njit(inline="always")
def _next_point(target, slopes, slope_max, low, high, best, best_value):
    """Return the grid point with the least bound on J, or -1 if none can win; of equal ones, the first wins."""
    found = -1
    for g in range(slopes.shape[0]):
        bound = _objective(min(max(target, low[g]), high[g]), target, slopes[g], slope_max)
        if bound < best_value or (bound == best_value and g < best):
            found = best = g
            best_value = bound
    return found


@kernel
def _search(first, last, pairs, grid, targets, k, choice, rank, slope, objective, slope_max, solved):
    n_grid = grid.shape[1]
    A = np.empty(k * (k + 1) // 2 * LANES)
    work = np.empty(WORK_PER_ROW * k)
    interleaved = np.zeros(k * (k - 1) // 2 * LANES)
    factors = np.zeros(LANES)
    ranks = np.empty(LANES)
    node = np.full(LANES, -1)
    point = np.empty(LANES, np.int64)
    slopes, low, high = np.empty((LANES, n_grid)), np.empty((LANES, n_grid)), np.empty((LANES, n_grid))
    summed = np.empty((LANES, n_grid), np.bool_)
    upcoming = first
    # Eight nodes are processed at a time, one per lane. A node keeps its lane until its minimum is certain. Then the
    # next node takes the lane, so no lane waits for the slowest.
    while True:
        busy = False
        for lane in range(LANES):
            i, g = node[lane], point[lane]
            if i >= 0:
                value = _objective(ranks[lane], targets[i], slopes[lane, g], slope_max[i])
                if value < objective[i] or (value == objective[i] and g < choice[i]):
                    choice[i], objective[i], rank[i], slope[i] = g, value, ranks[lane], slopes[lane, g]
                solved[i] += 1
                _record_rank(ranks[lane], g, k, low[lane], high[lane])
            while True:
                if i < 0:
                    if upcoming == last:
                        break
                    i = upcoming
                    upcoming += 1
                    objective[i] = np.inf
                    _spread(pairs[i], k, lane, interleaved)
                    slope_max[i] = _start(pairs[i], k, grid[i], slopes[lane], low[lane], high[lane], summed[lane])
                g = _next_point(targets[i], slopes[lane], slope_max[i], low[lane], high[lane], choice[i], objective[i])
                if g >= 0 and not summed[lane, g]:
                    _sum_point(pairs[i], k, grid[i], g, slopes[lane], low[lane], high[lane], summed[lane])
                elif g >= 0:
                    busy = True
                    factors[lane] = -0.5 / (grid[i, g] * grid[i, g])
                    point[lane] = g
                    break
                else:
                    i = -1
            node[lane] = i
        if not busy:
            break
        _lane_kernels(interleaved, factors, k, A)
        effective_ranks(A, k, work, ranks)


def search_grid(pairs, grid, targets, k):
    """Find the grid point of least J for every node.

    `pairs` is (m, pair_count(k)), `grid` (m, n_grid) with ascending rows, and `targets` (m,) are the target ranks.
    Returns six arrays (m,): the column of `grid`, rank, slope and objective there, the largest slope over the grid, and
    the number of eigenproblems solved.
    """
    m = len(grid)
    choice, solved = np.zeros((2, m), np.int64)
    rank, slope, objective, slope_max = np.empty((4, m))
    run_ranges(_search, m, pairs, grid, targets, k, choice, rank, slope, objective, slope_max, solved)
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
    """Return effective rank, slope and condition number of every node's kernel at its bandwidth: three (m,) arrays.

    `pairs` is (m, pair_count(k)), `sigma` is (m,). The condition number is the largest eigenvalue over the least, and
    at most 1 over the machine epsilon.
    """
    rank, slope, condition = np.empty((3, len(sigma)))
    run_ranges(_evaluate, len(sigma), pairs, sigma, k, rank, slope, condition)
    return rank, slope, condition


def objective_of(rank, target, slope, slope_max):
    """Return the criterion J of every node; all arguments are (m,)."""
    flatness = np.divide(np.maximum(slope_max - slope, 0.0), slope_max, out=np.zeros_like(slope), where=slope_max > 0)
    return np.abs(rank - target) / target + flatness


def refine(pairs, low, high, targets, slope_max, k):
    """Find the least J between two bandwidths by golden-section search on the logarithm.

    `pairs` is (m, pair_count(k)); `low`, `high`, `targets` and `slope_max` are (m,). Returns bandwidth, rank, slope and
    objective, (m,) each.
    """
    best = np.full((4, len(low)), np.inf)

    def objective_at(position):
        rank, slope, _ = evaluate_at(pairs, np.exp(position), k)
        value = objective_of(rank, targets, slope, slope_max)
        np.copyto(best, [np.exp(position), rank, slope, value], where=value < best[3])
        return value

    left, right = np.log(low), np.log(high)
    inner = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    values = [objective_at(position) for position in inner]
    for _ in range(_SECTIONS):
        # Keep the part around the lower value. One of its two inner points is already solved.
        lower = values[0] <= values[1]
        left, right = np.where(lower, left, inner[0]), np.where(lower, inner[1], right)
        kept = np.where(lower, inner[0], inner[1]), np.where(lower, values[0], values[1])
        fresh = np.where(lower, right - _GOLDEN * (right - left), left + _GOLDEN * (right - left))
        value = objective_at(fresh)
        inner = np.where(lower, fresh, kept[0]), np.where(lower, kept[0], fresh)
        values = [np.where(lower, value, kept[1]), np.where(lower, kept[1], value)]
    return best


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
