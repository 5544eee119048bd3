"""Non-negative kernel regression: ``argmin_{w >= 0} w'Kw / 2 - b'w`` for every node, exactly.

Lawson and Hanson's active set method: neighbours enter one at a time, and leave when their weight would turn negative.
The Cholesky factor of the kernel among the members grows by one column when a neighbour enters. When one leaves, the
factor is computed again.
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


@kernel
def _enter(K, j, count, columns, pivots, state):
    """Let neighbour j enter as member `count`, unless it is a combination of the members; return whether it did.

    Row c of `columns` (k, 2 k) is column c of the Cholesky factor, for all neighbours, followed by column c of the
    inverse of its transpose. Each is orthogonalised against those before it, and so the gradients and the weights of
    all neighbours, which are the two halves of `state` (2 k,), are updated by one multiple of it.
    """
    if pivots[j] <= _DEPENDENT:
        return False
    k = len(pivots)
    column = columns[count]
    for i in range(k):
        column[i] = K[j, i]
        column[k + i] = 0.0
    column[k + j] = 1.0
    for c in range(count):
        share = columns[c, j]
        for i in range(2 * k):
            column[i] -= share * columns[c, i]
    scale = 1.0 / math.sqrt(pivots[j])
    change = -state[j] * scale
    for i in range(2 * k):
        column[i] *= scale
        state[i] += change * column[i]
    for i in range(k):
        pivots[i] -= column[i] * column[i]
    return True


@kernel
def _enter_all(K, b, members, count, columns, pivots, state):
    """Let the first `count` members enter one after the other; return how many remain, without dependent ones."""
    k = len(b)
    pivots[:] = 1.0
    state[:k] = -b
    state[k:] = 0.0
    entered = 0
    for c in range(count):
        members[entered] = members[c]
        if _enter(K, members[c], entered, columns, pivots, state):
            entered += 1
    return entered


@kernel
def solve_exactly(K, b, weights):
    """Write the solution to `weights` (k,); K is (k, k) positive semi-definite with unit diagonal, b (k,)."""
    k = b.shape[0]
    columns, pivots, state = np.empty((k, 2 * k)), np.empty(k), np.empty(2 * k)
    gradient, solution = state[:k], state[k:]
    members = np.empty(k, np.int64)
    refused = np.zeros(k, np.bool_)  # until another neighbour enters
    tolerance = _TOLERANCE * b.max()
    weights[:] = 0.0
    count = _enter_all(K, b, members, 0, columns, pivots, state)
    # Every round lowers the objective, so no set of members occurs twice and the loop ends. The limit guards against
    # rounding errors.
    for _ in range(20 * k):
        entering = -1
        steepest = -tolerance
        for j in range(k):
            if gradient[j] < steepest and weights[j] == 0.0 and not refused[j]:
                steepest = gradient[j]
                entering = j
        if entering < 0:
            break
        if not _enter(K, entering, count, columns, pivots, state):
            refused[entering] = True
            continue
        if solution[entering] <= 0.0:
            # Only due to rounding: in exact arithmetic, a neighbour with a negative gradient gets a positive weight.
            refused[entering] = True
            count = _enter_all(K, b, members, count, columns, pivots, state)
            continue
        members[count] = entering
        count += 1
        refused[:] = False
        while True:
            # Move towards the solution until the first weight reaches zero; that neighbour leaves.
            step = 1.0
            stopper = -1
            for c in range(count):
                j = members[c]
                if solution[j] <= 0.0 and weights[j] / (weights[j] - solution[j]) <= step:
                    step = weights[j] / (weights[j] - solution[j])
                    stopper = j
            if stopper < 0:
                break
            kept = 0
            for c in range(count):
                j = members[c]
                weights[j] += step * (solution[j] - weights[j])
                if j == stopper or weights[j] <= 0.0:
                    weights[j] = 0.0
                else:
                    members[kept] = j
                    kept += 1
            count = _enter_all(K, b, members, kept, columns, pivots, state)
        weights[:] = solution


@kernel
def solve_by_dropping(K, b, weights):
    """Solve without the sign constraint, drop negative weights, and repeat: the approximation of PyNNK.

    It can miss the optimum because a dropped neighbour never comes back. Arguments as in :func:`solve_exactly`.
    """
    k = b.shape[0]
    columns, pivots, state = np.empty((k, 2 * k)), np.empty(k), np.empty(2 * k)
    members = np.arange(k)
    left = k
    while True:
        count = _enter_all(K, b, members, left, columns, pivots, state)
        left = 0
        for c in range(count):
            if state[k + members[c]] > 0.0:
                members[left] = members[c]
                left += 1
        if left == count:
            break
    weights[:] = state[k:]


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
