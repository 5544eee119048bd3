"""Non-negative kernel regression: ``argmin_{w >= 0} w'Kw / 2 - b'w`` for every node, exactly.

Lawson and Hanson's active set method: neighbours enter one at a time, and leave when their weight would turn negative.
The Cholesky factor of the kernel among the members grows by one row when a neighbour enters. When one leaves, the rows
from its place on are computed again.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, exp, load, splat, store
from asbc.kernels.threads import run_ranges

# A neighbour enters while its gradient is below -_TOLERANCE max(b): a hundred times stricter than the documented 1e-8,
# and relative to b, so that narrow kernels with tiny values keep weights.
_TOLERANCE = 1e-10
# The least pivot (squared diagonal entry of the Cholesky factor) of a neighbour that may enter. Below it, the neighbour
# is a combination of the members up to rounding, for example a duplicate, and cannot improve the fit. Its remaining
# gradient is at most the square root of this number. On sets full of near duplicates the largest was 5e-9; with a
# limit of 1e-14 it was 1.5e-8, above the documented 1e-8.
_DEPENDENT = 1e-15
_OUTSIDE, _INSIDE, _REFUSED = 0, 1, 2  # a neighbour's state; a refused one may enter only after another has


@kernel
def _factor_row(K, b, factor, half, members, row):
    """Append row `row` of the Cholesky factor of ``K[members][:, members]``, and of ``half = factor^-1 b[members]``.

    Returns False, with nothing appended, if the row is a combination of those before it.
    """
    j = members[row]
    left = K[j, j]
    for c in range(row):
        total = K[j, members[c]]
        for t in range(c):
            total -= factor[row, t] * factor[c, t]
        total /= factor[c, c]
        factor[row, c] = total
        left -= total * total
    if left <= _DEPENDENT:
        return False
    factor[row, row] = math.sqrt(left)
    total = b[j]
    for c in range(row):
        total -= factor[row, c] * half[c]
    half[row] = total / factor[row, row]
    return True


@njit(inline="always")
def _solve(factor, half, count, solution):
    """Weights of the first `count` members without the sign constraint, from ``half`` by back substitution."""
    for r in range(count - 1, -1, -1):
        total = half[r]
        for c in range(r + 1, count):
            total -= factor[c, r] * solution[c]
        solution[r] = total / factor[r, r]


@kernel
def solve_exactly(K, b, weights):
    """Write the solution to `weights` (k,); K is (k, k) positive semi-definite with unit diagonal, b (k,)."""
    k = b.shape[0]
    factor = np.empty((k, k))
    members = np.empty(k, np.int64)
    state = np.empty(k, np.int64)
    half = np.empty(k)
    solution = np.empty(k)
    current = np.empty(k)
    gradient = np.empty(k)
    tolerance = 0.0
    for j in range(k):
        state[j] = _OUTSIDE
        gradient[j] = -b[j]
        tolerance = max(tolerance, _TOLERANCE * b[j])
    count = np.int64(0)  # with a literal 0, numba would compile the functions below for that constant, too
    # Every round lowers the objective, so no set of members occurs twice and the loop ends. The limit guards against
    # rounding errors.
    for _ in range(20 * k):
        entering = -1
        steepest = -tolerance
        for j in range(k):
            if state[j] == _OUTSIDE and gradient[j] < steepest:
                steepest = gradient[j]
                entering = j
        if entering < 0:
            break
        members[count] = entering
        if not _factor_row(K, b, factor, half, members, count):
            state[entering] = _REFUSED
            continue
        state[entering] = _INSIDE
        current[count] = 0.0
        count += 1
        _solve(factor, half, count, solution)
        if solution[count - 1] <= 0.0:
            # Only due to rounding: in exact arithmetic, a neighbour with a negative gradient gets a positive weight.
            count -= 1
            state[entering] = _REFUSED
            continue
        for j in range(k):
            if state[j] == _REFUSED:
                state[j] = _OUTSIDE
        while True:
            # Move towards the solution until the first weight reaches zero; that neighbour leaves.
            step = 1.0
            stopper = -1
            for c in range(count):
                if solution[c] <= 0.0 and current[c] / (current[c] - solution[c]) <= step:
                    step = current[c] / (current[c] - solution[c])
                    stopper = c
            if stopper < 0:
                break
            kept = 0
            first_lost = count
            for c in range(count):
                moved = current[c] + step * (solution[c] - current[c])
                if c == stopper or moved <= 0.0:
                    state[members[c]] = _OUTSIDE
                    first_lost = min(first_lost, c)
                else:
                    members[kept] = members[c]
                    current[kept] = moved
                    kept += 1
            count = kept
            # The remaining rows are independent; a row that rounding makes dependent leaves, too.
            row = first_lost
            while row < count:
                if _factor_row(K, b, factor, half, members, row):
                    row += 1
                else:
                    state[members[row]] = _REFUSED
                    for c in range(row + 1, count):
                        members[c - 1] = members[c]
                        current[c - 1] = current[c]
                    count -= 1
            if count == 0:
                break
            _solve(factor, half, count, solution)
        for c in range(count):
            current[c] = solution[c]
        for j in range(k):
            gradient[j] = -b[j]
        for c in range(count):
            row = members[c]
            weight = current[c]
            for j in range(k):
                gradient[j] += K[row, j] * weight  # K is symmetric, and its rows are contiguous
    for j in range(k):
        weights[j] = 0.0
    for c in range(count):
        weights[members[c]] = current[c]


@kernel
def solve_by_dropping(K, b, weights):
    """Solve without the sign constraint, drop negative weights, and repeat: the approximation of PyNNK.

    It can miss the optimum because a dropped neighbour never comes back. Arguments as in :func:`solve_exactly`.
    """
    k = b.shape[0]
    factor = np.empty((k, k))
    members = np.arange(k)
    half = np.empty(k)
    solution = np.empty(k)
    count = k
    while count > 0:
        row = 0
        while row < count:
            if _factor_row(K, b, factor, half, members, row):
                row += 1
            else:
                for c in range(row + 1, count):
                    members[c - 1] = members[c]
                count -= 1
        _solve(factor, half, count, solution)
        kept = 0
        for c in range(count):
            if solution[c] > 0.0:
                members[kept] = members[c]
                kept += 1
        if kept == count:
            break
        count = kept
    for j in range(k):
        weights[j] = 0.0
    for c in range(count):
        weights[members[c]] = solution[c]


@njit(inline="always")
def _fill(pairs, squared, sigma, kernel, K, b):
    """Write the kernel among a node's neighbours to K and that to the node to b; `kernel` is scratch space."""
    scale = -0.5 / (sigma * sigma)
    factor = splat(scale)
    for t in range(0, pairs.shape[0], LANES):
        store(kernel, t, exp(load(pairs, t) * factor))
    t = 0
    for r in range(b.shape[0]):
        b[r] = math.exp(squared[r] * scale)
        K[r, r] = 1.0
        for c in range(r):
            K[r, c] = kernel[t]
            K[c, r] = kernel[t]
            t += 1


@njit(inline="always")
def _add_nearest(b, k_min, weights):
    """Give the nearest neighbours weight until `k_min` have some: their kernel value times what NNK leaves unexplained.

    The unexplained share is ``max(0, 1 - b'w)``. It is 0 next to an exact copy of the node, which keeps all the weight.
    """
    present = 0
    unexplained = 1.0
    for r in range(b.shape[0]):
        unexplained -= b[r] * weights[r]
        if weights[r] > 0.0:
            present += 1
    if unexplained <= 0.0:
        return
    for r in range(b.shape[0]):
        if present >= k_min:
            break
        if weights[r] == 0.0:
            weights[r] = b[r] * unexplained
            present += 1


@kernel
def _rows(first, last, pairs, squared, sigma, k_min, exact, out):
    k = squared.shape[1]
    K = np.empty((k, k))
    b = np.empty(k)
    kernel = np.empty(pairs.shape[1])
    for i in range(first, last):
        _fill(pairs[i], squared[i], sigma[i], kernel, K, b)
        if exact:
            solve_exactly(K, b, out[i])
        else:
            solve_by_dropping(K, b, out[i])
        _add_nearest(b, k_min, out[i])


def nnk_rows(pairs, squared, sigma, k_min, exact):
    """Return the NNK weights (m, k) of every node's neighbours.

    Parameters
    ----------
    pairs : (m, pair_count(k)) float64, squared distances among the neighbours
    squared : (m, k) float64, squared distances from node to neighbours, ascending
    sigma : (m,) float64
    k_min : int
        Rows with fewer positive weights than this get their nearest neighbours too; see :func:`_add_nearest`.
    exact : bool
        True for :func:`solve_exactly`, False for :func:`solve_by_dropping`.
    """
    out = np.empty(squared.shape)
    run_ranges(_rows, len(out), pairs, squared, sigma, k_min, exact, out)
    return out
