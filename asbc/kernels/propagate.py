"""Label propagation on a CSR graph, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.lanes import LANES, farthest, load, splat, store, where_positive
from asbc.kernels.threads import share_out

# Classes are worked on in strips of this many. Eight doubles fill one cache line, so reading the scores of a neighbour
# costs one line; and one strip of all nodes stays in the cache, where the scores of all classes would not.
CLASSES_PER_STRIP = LANES


@njit(inline="always")
def _heard(indptr, indices, data, scores, i):
    """Row i of P @ scores, for one strip of flat arrays."""
    # Four sums that are joined at the end: one alone would have to wait for each addition before the next.
    a = splat(0.0)
    b = splat(0.0)
    c = splat(0.0)
    d = splat(0.0)
    e = indptr[i]
    stop = indptr[i + 1]
    while e + 4 <= stop:
        a = a + splat(data[e]) * load(scores, indices[e] * LANES)
        b = b + splat(data[e + 1]) * load(scores, indices[e + 1] * LANES)
        c = c + splat(data[e + 2]) * load(scores, indices[e + 2] * LANES)
        d = d + splat(data[e + 3]) * load(scores, indices[e + 3] * LANES)
        e += 4
    while e < stop:
        a = a + splat(data[e]) * load(scores, indices[e] * LANES)
        e += 1
    return (a + b) + (c + d)


@njit(inline="always")
def _round(indptr, indices, data, alpha, source, old, new, change):
    """new = alpha * P @ old + source for one strip of flat arrays; returns the largest change."""
    shrink = splat(alpha)
    largest = splat(0.0)
    for i in range(indptr.shape[0] - 1):
        fresh = shrink * _heard(indptr, indices, data, old, i) + load(source, i * LANES)
        largest = farthest(largest, fresh - load(old, i * LANES))
        store(new, i * LANES, fresh)
    store(change, 0, largest)
    return change.max()


@njit(cache=True, nogil=True)
def _propagate(first, last, indptr, indices, data, alpha, source, max_rounds, tol, out, rounds, change):
    scratch = np.empty(LANES)
    for s in range(first, last):
        old = source[s].copy()
        new = np.empty_like(old)
        while rounds[s] < max_rounds and not change[s] < tol:
            change[s] = _round(indptr, indices, data, alpha, source[s], old, new, scratch)
            old, new = new, old
            rounds[s] += 1
        out[s] = old


def propagate_strips(indptr, indices, data, alpha, source, max_rounds, tol):
    """Iterate F <- alpha * P @ F + source in every strip until its largest change is below tol.

    The scores of one class never enter those of another, so a strip runs all its rounds without waiting for others.

    Parameters
    ----------
    indptr, indices, data : P, n rows, in CSR form
    alpha : float
    source : (strips, n, CLASSES_PER_STRIP) float64
    max_rounds : int
    tol : float

    Returns
    -------
    F : (strips, n, CLASSES_PER_STRIP) float64
    rounds : (strips,) int64
    change : (strips,) float64, the largest change in the last round
    """
    return _on_strips(_propagate, (indptr, indices, data, alpha), source, max_rounds, tol)


@njit(inline="always")
def _share(part, whole):
    """``part / whole`` lane by lane, 0 where the whole is 0: a class that is done, or has no label."""
    return where_positive(whole, part / where_positive(whole, whole, splat(1.0)), splat(0.0))


@njit(cache=True, nogil=True)
def _conjugate(first, last, indptr, indices, data, alpha, degree, source, max_rounds, tol, out, rounds, change):
    n = indptr.shape[0] - 1
    shrink = splat(alpha)
    scratch = np.empty(LANES)
    rest = np.empty(n * LANES)  # by how much a round of the formula would change each score
    step = np.empty(n * LANES)
    image = np.empty(n * LANES)  # what the step does to the rest
    for s in range(first, last):
        scores = source[s].copy()
        power = splat(0.0)
        largest = splat(0.0)
        for i in range(n):
            fresh = shrink * _heard(indptr, indices, data, scores, i)  # scores are the source still
            store(rest, i * LANES, fresh)
            store(step, i * LANES, fresh)
            power = power + splat(degree[i]) * (fresh * fresh)
            largest = farthest(largest, fresh)
        store(scratch, 0, largest)
        change[s] = scratch.max()
        rounds[s] = 1
        while rounds[s] < max_rounds and not change[s] < tol:
            along = splat(0.0)
            for i in range(n):
                own = load(step, i * LANES)
                moved = own - shrink * _heard(indptr, indices, data, step, i)
                store(image, i * LANES, moved)
                along = along + splat(degree[i]) * (own * moved)
            length = _share(power, along)
            before = power
            power = splat(0.0)
            largest = splat(0.0)
            for i in range(n):
                store(scores, i * LANES, load(scores, i * LANES) + length * load(step, i * LANES))
                left = load(rest, i * LANES) - length * load(image, i * LANES)
                store(rest, i * LANES, left)
                power = power + splat(degree[i]) * (left * left)
                largest = farthest(largest, left)
            turn = _share(power, before)
            for i in range(n):
                store(step, i * LANES, load(rest, i * LANES) + turn * load(step, i * LANES))
            store(scratch, 0, largest)
            change[s] = scratch.max()
            rounds[s] += 1
        out[s] = scores


def conjugate_strips(indptr, indices, data, alpha, degree, source, max_rounds, tol):
    """Where the rounds of :func:`propagate_strips` lead, by conjugate gradients: in about a third of the rounds.

    P must be the rows of a symmetric matrix divided by their sums `degree` (n,), or empty: ``I - alpha P`` is then
    symmetric and positive in the inner product that weighs node i by its degree. The scores on the way are no rounds of
    the formula; `change` says how much one such round would still change them, which bounds their error.

    Parameters and results are those of :func:`propagate_strips`.
    """
    return _on_strips(_conjugate, (indptr, indices, data, alpha, degree), source, max_rounds, tol)


def _on_strips(kernel, arguments, source, max_rounds, tol):
    strips = len(source)
    flat = source.reshape(strips, -1)  # lanes live in flat arrays
    out = np.empty_like(flat)
    rounds = np.zeros(strips, np.int64)
    change = np.full(strips, np.inf)
    share_out(kernel, strips, *arguments, flat, max_rounds, tol, out, rounds, change, least=1)
    return out.reshape(source.shape), rounds, change
