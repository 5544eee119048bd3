"""Label propagation on a CSR graph, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out

# Classes are worked on in strips of this many. Eight doubles fill one cache line, so reading the scores of a neighbour
# costs one line; and one strip of all nodes stays in the cache, where the scores of all classes would not.
CLASSES_PER_STRIP = 8


@njit(inline="always")
def _round(indptr, indices, data, alpha, source, old, new):
    """new = alpha * P @ old + source for one strip; returns the largest change."""
    largest = 0.0
    for i in range(old.shape[0]):
        row = new[i]
        for c in range(CLASSES_PER_STRIP):
            row[c] = 0.0
        e = indptr[i]
        stop = indptr[i + 1]
        # Four neighbours at a time, so that the sum is written to memory and read back a quarter as often.
        while e + 4 <= stop:
            f0, f1, f2, f3 = old[indices[e]], old[indices[e + 1]], old[indices[e + 2]], old[indices[e + 3]]
            w0, w1, w2, w3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            for c in range(CLASSES_PER_STRIP):
                row[c] += w0 * f0[c] + w1 * f1[c] + w2 * f2[c] + w3 * f3[c]
            e += 4
        while e < stop:
            f0, w0 = old[indices[e]], data[e]
            for c in range(CLASSES_PER_STRIP):
                row[c] += w0 * f0[c]
            e += 1
        for c in range(CLASSES_PER_STRIP):
            row[c] = alpha * row[c] + source[i, c]
            largest = max(largest, abs(row[c] - old[i, c]))
    return largest


@njit(cache=True, nogil=True)
def _propagate(first, last, indptr, indices, data, alpha, source, max_rounds, tol, out, rounds, change):
    for s in range(first, last):
        old = source[s].copy()
        new = np.empty_like(old)
        while rounds[s] < max_rounds and not change[s] < tol:
            change[s] = _round(indptr, indices, data, alpha, source[s], old, new)
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
    out = np.empty_like(source)
    rounds = np.zeros(strips, np.int64)
    change = np.full(strips, np.inf)
    share_out(_propagate, strips, indptr, indices, data, alpha, source, max_rounds, tol, out, rounds, change, least=1)
    return out, rounds, change
