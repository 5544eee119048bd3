"""Label propagation on a CSR graph, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

# Classes are worked on in strips this wide. Eight doubles are one cache line, so a neighbour costs one line,
# and one strip of all nodes stays in cache, where whole rows of scores would have to come from memory.
STRIP = 8


@njit(cache=True)
def _round(indptr, indices, data, alpha, source, old, new):
    """new = alpha * P @ old + source for one strip; returns the largest change."""
    largest = 0.0
    for i in range(old.shape[0]):
        row = new[i]
        for c in range(STRIP):
            row[c] = 0.0
        e = indptr[i]
        stop = indptr[i + 1]
        # Four neighbours at a time: the sum is then written and read back a quarter as often.
        while e + 4 <= stop:
            f0, f1, f2, f3 = old[indices[e]], old[indices[e + 1]], old[indices[e + 2]], old[indices[e + 3]]
            w0, w1, w2, w3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            for c in range(STRIP):
                row[c] += w0 * f0[c] + w1 * f1[c] + w2 * f2[c] + w3 * f3[c]
            e += 4
        while e < stop:
            f0, w0 = old[indices[e]], data[e]
            for c in range(STRIP):
                row[c] += w0 * f0[c]
            e += 1
        for c in range(STRIP):
            row[c] = alpha * row[c] + source[i, c]
            largest = max(largest, abs(row[c] - old[i, c]))
    return largest


@njit(parallel=True, cache=True)
def propagate_strips(indptr, indices, data, alpha, source, max_rounds, tol):
    """Iterate F <- alpha * P @ F + source in every strip until its largest change is below tol.

    Classes do not mix, so a strip runs all its rounds without waiting for the others.

    indptr, indices, data : CSR of P, n rows; source : (strips, n, STRIP) float64
    returns F (strips, n, STRIP), rounds (strips,), last change (strips,)
    """
    strips = source.shape[0]
    out = np.empty_like(source)
    rounds = np.zeros(strips, np.int64)
    change = np.full(strips, np.inf)
    for s in prange(strips):
        old = source[s].copy()
        new = np.empty_like(old)
        while rounds[s] < max_rounds and not change[s] < tol:
            change[s] = _round(indptr, indices, data, alpha, source[s], old, new)
            old, new = new, old
            rounds[s] += 1
        out[s] = old
    return out, rounds, change
