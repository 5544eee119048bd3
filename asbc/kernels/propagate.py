"""Label propagation on a CSR graph, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.lanes import LANES, load, splat, store
from asbc.kernels.threads import share_out

# Classes are worked on in strips of this many. Eight doubles fill one cache line, so reading the scores of a neighbour
# costs one line; and one strip of all nodes stays in the cache, where the scores of all classes would not.
CLASSES_PER_STRIP = LANES


@njit(inline="always")
def _round(indptr, indices, data, alpha, source, old, new, change):
    """new = alpha * P @ old + source for one strip of flat arrays; returns the largest change."""
    shrink = splat(alpha)
    largest = 0.0
    for i in range(indptr.shape[0] - 1):
        # Four sums that are joined at the end: one alone would have to wait for each addition before the next.
        a = splat(0.0)
        b = splat(0.0)
        c = splat(0.0)
        d = splat(0.0)
        e = indptr[i]
        stop = indptr[i + 1]
        while e + 4 <= stop:
            a = a + splat(data[e]) * load(old, indices[e] * LANES)
            b = b + splat(data[e + 1]) * load(old, indices[e + 1] * LANES)
            c = c + splat(data[e + 2]) * load(old, indices[e + 2] * LANES)
            d = d + splat(data[e + 3]) * load(old, indices[e + 3] * LANES)
            e += 4
        while e < stop:
            a = a + splat(data[e]) * load(old, indices[e] * LANES)
            e += 1
        fresh = shrink * ((a + b) + (c + d)) + load(source, i * LANES)
        store(change, 0, fresh - load(old, i * LANES))
        store(new, i * LANES, fresh)
        for lane in range(LANES):
            largest = max(largest, abs(change[lane]))
    return largest


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
    strips = len(source)
    flat = source.reshape(strips, -1)  # lanes live in flat arrays
    out = np.empty_like(flat)
    rounds = np.zeros(strips, np.int64)
    change = np.full(strips, np.inf)
    share_out(_propagate, strips, indptr, indices, data, alpha, flat, max_rounds, tol, out, rounds, change, least=1)
    return out.reshape(source.shape), rounds, change
