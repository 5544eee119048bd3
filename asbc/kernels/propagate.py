"""Label propagation on a CSR graph."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, load, splat, store, where_less, where_positive
from asbc.kernels.threads import run_ranges

# Classes are processed in strips of this size. Eight doubles fill one cache line, so reading a neighbour's scores costs
# one line; and one strip of all nodes fits into the cache, unlike the scores of all classes.
CLASSES_PER_STRIP = LANES


@njit(inline="always")
def _row_product(indptr, indices, data, scores, i):
    """Row i of P @ scores for one strip of flat arrays."""
    total = splat(0.0)
    for e in range(indptr[i], indptr[i + 1]):
        total = total + splat(data[e]) * load(scores, indices[e] * LANES)
    return total


@njit(inline="always")
def _larger_magnitude(value, other):
    """The larger of ``value`` and ``|other|``, lane by lane."""
    magnitude = where_positive(other, other, splat(0.0) - other)
    return where_less(value, magnitude, magnitude, value)


@njit(inline="always")
def _ratio(part, whole):
    """``part / whole`` lane by lane; 0 where the whole is not positive."""
    return where_positive(whole, part / where_positive(whole, whole, splat(1.0)), splat(0.0))


@kernel
def _propagate(first, last, indptr, indices, data, alpha, source, begin, max_rounds, tol, out, rounds, change):
    shrink = splat(alpha)
    scratch = np.empty(LANES)
    for s in range(first, last):
        old = begin[s].copy()
        new = np.empty_like(old)
        while rounds[s] < max_rounds and not change[s] < tol:
            largest = splat(0.0)
            for i in range(indptr.shape[0] - 1):
                fresh = shrink * _row_product(indptr, indices, data, old, i) + load(source[s], i * LANES)
                largest = _larger_magnitude(largest, fresh - load(old, i * LANES))
                store(new, i * LANES, fresh)
            store(scratch, 0, largest)
            change[s] = scratch.max()
            old, new = new, old
            rounds[s] += 1
        out[s] = old


def propagate_strips(indptr, indices, data, alpha, source, max_rounds, tol, begin=None):
    """Iterate F <- alpha * P @ F + source in every strip until its largest change is below tol.

    The scores of different classes are independent, so each strip runs all its rounds on its own.

    Parameters
    ----------
    indptr, indices, data : P, n rows, in CSR form
    alpha : float
    source : (strips, n, CLASSES_PER_STRIP) float64
    max_rounds : int
    tol : float
    begin : (strips, n, CLASSES_PER_STRIP) float64 or None, default=None
        The initial F; None for the source.

    Returns
    -------
    F : (strips, n, CLASSES_PER_STRIP) float64
    rounds : (strips,) int64
    change : (strips,) float64, the largest change in the last round
    """
    strips = len(source)
    flat = source.reshape(strips, -1)  # lanes need flat arrays
    start = flat if begin is None else begin.reshape(strips, -1)
    out = np.empty_like(flat)
    rounds = np.zeros(strips, np.int64)
    change = np.full(strips, np.inf)
    matrix = indptr, indices, data, alpha
    run_ranges(_propagate, strips, *matrix, flat, start, max_rounds, tol, out, rounds, change, least=1)
    return out.reshape(source.shape), rounds, change


@kernel
def _conjugate(first, last, indptr, indices, data, alpha, degree, source, max_rounds, tol, out, rounds):
    n = indptr.shape[0] - 1
    shrink = splat(alpha)
    scratch = np.empty(LANES)
    rest = np.empty(n * LANES)  # the residual: by how much a round would change each score
    step = np.empty(n * LANES)
    image = np.empty(n * LANES)  # the change of the residual by a step
    for s in range(first, last):
        scores = out[s]
        scores[:] = source[s]
        power = splat(0.0)
        largest = splat(0.0)
        for i in range(n):
            fresh = shrink * _row_product(indptr, indices, data, scores, i)
            store(rest, i * LANES, fresh)
            store(step, i * LANES, fresh)
            power = power + splat(degree[i]) * (fresh * fresh)
            largest = _larger_magnitude(largest, fresh)
        store(scratch, 0, largest)
        rounds[s] = 1
        while rounds[s] < max_rounds and not scratch.max() < tol:
            along = splat(0.0)
            for i in range(n):
                own = load(step, i * LANES)
                moved = own - shrink * _row_product(indptr, indices, data, step, i)
                store(image, i * LANES, moved)
                along = along + splat(degree[i]) * (own * moved)
            length = _ratio(power, along)
            before = power
            power = splat(0.0)
            largest = splat(0.0)
            for i in range(n):
                place = i * LANES
                store(scores, place, load(scores, place) + length * load(step, place))
                left = load(rest, place) - length * load(image, place)
                store(rest, place, left)
                power = power + splat(degree[i]) * (left * left)
                largest = _larger_magnitude(largest, left)
            turn = _ratio(power, before)
            for i in range(n):
                place = i * LANES
                store(step, place, load(rest, place) + turn * load(step, place))
            store(scratch, 0, largest)
            rounds[s] += 1


def conjugate_strips(indptr, indices, data, alpha, degree, source, max_rounds, tol):
    """Approximate the limit of :func:`propagate_strips` by conjugate gradients, in about a third of the rounds.

    The rows of P must be those of a symmetric matrix divided by their sums `degree` (n,), or empty: ``I - alpha P`` is
    then symmetric and positive in the inner product that weighs node i by its degree.

    Stops when a round would change every score by less than `tol`. Returns scores of at least 0 in the shape of
    `source`, and the largest number of rounds over strips.
    """
    strips = len(source)
    out = np.empty((strips, source[0].size))
    rounds = np.zeros(strips, np.int64)
    matrix = indptr, indices, data, alpha, degree / degree.max()
    run_ranges(_conjugate, strips, *matrix, source.reshape(strips, -1), max_rounds, tol, out, rounds, least=1)
    return np.maximum(out, 0.0).reshape(source.shape), int(rounds.max())  # rounding may leave scores below zero
