"""One round of label propagation on a CSR graph, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

# Classes are worked on in strips this wide. Eight doubles are one cache line, so a neighbour costs one line,
# and one strip of all nodes stays in cache, where whole rows of scores would have to come from memory.
STRIP = 8


@njit(parallel=True, cache=True)
def propagate_round(indptr, indices, data, alpha, source, old, new, n_parts):
    """new = alpha * P @ old + source, strip by strip; returns the largest change.

    indptr, indices, data : CSR of P, n rows; source, old, new : (strips, n, STRIP) float64;
    n_parts : pieces that the rows of a strip are cut into, so that every core has work
    """
    strips, n, _ = old.shape
    change = np.zeros(strips * n_parts)
    for task in prange(strips * n_parts):
        s = task // n_parts
        part = task % n_parts
        largest = 0.0
        acc = np.empty(STRIP)
        for i in range(part * n // n_parts, (part + 1) * n // n_parts):
            for c in range(STRIP):
                acc[c] = 0.0
            for e in range(indptr[i], indptr[i + 1]):
                j = indices[e]
                w = data[e]
                for c in range(STRIP):
                    acc[c] += w * old[s, j, c]
            for c in range(STRIP):
                value = alpha * acc[c] + source[s, i, c]
                largest = max(largest, abs(value - old[s, i, c]))
                new[s, i, c] = value
        change[task] = largest
    return change.max()
