"""Label propagation on a CSR graph."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, SINGLES, larger_magnitude, load, safe_ratio, splat, store
from asbc.kernels.threads import run_ranges

# Classes are processed in strips of this size. Eight doubles fill one cache line, so reading a neighbour's scores costs
# one line; and one strip of all nodes fits into the cache, unlike the scores of all classes.
CLASSES_PER_STRIP = LANES


@njit(inline="always")
def _row_product(indptr, indices, data, scores, i, width, zero):
    """Row i of P @ scores for one strip of flat arrays of `width` lanes; `zero` is 0 in each lane."""
    # Four independent sums, so that an addition does not wait for the previous one.
    a = zero
    b = zero
    c = zero
    d = zero
    e = indptr[i]
    stop = indptr[i + 1]
    while e + 4 <= stop:
        a = a + splat(data[e]) * load(scores, indices[e] * width)
        b = b + splat(data[e + 1]) * load(scores, indices[e + 1] * width)
        c = c + splat(data[e + 2]) * load(scores, indices[e + 2] * width)
        d = d + splat(data[e + 3]) * load(scores, indices[e + 3] * width)
        e += 4
    while e < stop:
        a = a + splat(data[e]) * load(scores, indices[e] * width)
        e += 1
    return (a + b) + (c + d)


@njit(inline="always")
def _round(indptr, indices, data, alpha, source, old, new, change):
    """Set ``new = alpha * P @ old + source`` for one strip of flat arrays, and return the largest change."""
    shrink = splat(alpha)
    largest = splat(0.0)
    for i in range(indptr.shape[0] - 1):
        fresh = shrink * _row_product(indptr, indices, data, old, i, LANES, splat(0.0)) + load(source, i * LANES)
        largest = larger_magnitude(largest, fresh - load(old, i * LANES))
        store(new, i * LANES, fresh)
    store(change, 0, largest)
    return change.max()


@kernel
def _propagate(first, last, indptr, indices, data, alpha, source, begin, max_rounds, tol, out, rounds, change):
    scratch = np.empty(LANES)
    for s in range(first, last):
        old = begin[s].copy()
        new = np.empty_like(old)
        while rounds[s] < max_rounds and not change[s] < tol:
            change[s] = _round(indptr, indices, data, alpha, source[s], old, new, scratch)
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
    zero = splat(np.float32(0.0))
    shrink = splat(alpha)
    scratch = np.empty(SINGLES, np.float32)
    rest = np.empty(n * SINGLES, np.float32)  # the residual: by how much a round would change each score
    step = np.empty(n * SINGLES, np.float32)
    image = np.empty(n * SINGLES, np.float32)  # the change of the residual by a step
    for s in range(first, last):
        scores = out[s]
        scores[:] = source[s]
        power = zero
        largest = zero
        for i in range(n):
            fresh = shrink * _row_product(indptr, indices, data, scores, i, SINGLES, zero)
            store(rest, i * SINGLES, fresh)
            store(step, i * SINGLES, fresh)
            power = power + splat(degree[i]) * (fresh * fresh)
            largest = larger_magnitude(largest, fresh)
        store(scratch, 0, largest)
        rounds[s] = 1
        while rounds[s] < max_rounds and not scratch.max() < tol:
            along = zero
            for i in range(n):
                own = load(step, i * SINGLES)
                moved = own - shrink * _row_product(indptr, indices, data, step, i, SINGLES, zero)
                store(image, i * SINGLES, moved)
                along = along + splat(degree[i]) * (own * moved)
            length = safe_ratio(power, along)
            before = power
            power = zero
            largest = zero
            for i in range(n):
                place = i * SINGLES
                store(scores, place, load(scores, place) + length * load(step, place))
                left = load(rest, place) - length * load(image, place)
                store(rest, place, left)
                power = power + splat(degree[i]) * (left * left)
                largest = larger_magnitude(largest, left)
            turn = safe_ratio(power, before)
            for i in range(n):
                place = i * SINGLES
                store(step, place, load(rest, place) + turn * load(step, place))
            store(scratch, 0, largest)
            rounds[s] += 1


def conjugate_strips(indptr, indices, data, alpha, degree, source, max_rounds, tol):
    """Approximate the limit of :func:`propagate_strips` by conjugate gradients in single precision.

    Takes about a third of the rounds, each in half the time. The rows of P must be those of a symmetric matrix divided
    by their sums `degree` (n,), or empty: ``I - alpha P`` is then symmetric and positive in the inner product that
    weighs node i by its degree. Rounds of :func:`propagate_strips` that start with the result check its accuracy.

    Stops when a round would change every score by less than `tol`. Returns scores of at least 0 in the shape of
    `source`, and the largest number of rounds over strips.
    """
    strips, n, width = source.shape
    several = SINGLES // width
    pairs = -(-strips // several)
    joined = np.zeros((pairs, n, several, width), np.float32)
    for s in range(strips):
        joined[s // several, :, s % several] = source[s]
    flat = joined.reshape(pairs, -1)
    out = np.empty_like(flat)
    rounds = np.zeros(pairs, np.int64)
    matrix = indptr, indices, data.astype(np.float32), np.float32(alpha), (degree / degree.max()).astype(np.float32)
    run_ranges(_conjugate, pairs, *matrix, flat, max_rounds, np.float32(tol), out, rounds, least=1)
    out = np.maximum(out.reshape(joined.shape), 0.0)  # rounding may leave scores slightly below zero
    found = np.empty(source.shape)
    for s in range(strips):
        found[s] = out[s // several, :, s % several]
    return found, int(rounds.max())
