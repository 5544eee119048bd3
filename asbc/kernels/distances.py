"""Squared distances: between given pairs of rows, and among the neighbours of each node."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import (
    HALF,
    LANES,
    lane_sum,
    load,
    load_half,
    load_row,
    prefetch,
    splat,
    splat_half,
    store_apart,
)
from asbc.kernels.threads import run_ranges

CACHE_LINE_BYTES = 64
PADDING = 1e300  # squared distance of padding; its kernel value is 0 at any bandwidth


def padded(length: int) -> int:
    """Round `length` up to whole groups of lanes."""
    return (length + LANES - 1) // LANES * LANES


def pair_count(k: int) -> int:
    """Return the number of entries per node of :func:`neighborhood_distances`: pairs of k neighbours, and padding."""
    return padded(k * (k - 1) // 2)


@njit(inline="always")
def _six_distances(buffer, upper, left, width, sums):
    """Add the squared distances of three rows and two others, each `width` numbers long, to `sums` (3, 2).

    Each loaded number is used for two or three sums. Six sums of four lanes and their terms fit into the 16 registers
    of AVX2.
    """
    a = splat_half(0.0)
    b = splat_half(0.0)
    c = splat_half(0.0)
    d = splat_half(0.0)
    e = splat_half(0.0)
    f = splat_half(0.0)
    for t in range(0, width, HALF):
        first = load_half(buffer, upper + t)
        second = load_half(buffer, upper + width + t)
        third = load_half(buffer, upper + 2 * width + t)
        other = load_half(buffer, left + t)
        difference = first - other
        a = a + difference * difference
        difference = second - other
        b = b + difference * difference
        difference = third - other
        c = c + difference * difference
        other = load_half(buffer, left + width + t)
        difference = first - other
        d = d + difference * difference
        difference = second - other
        e = e + difference * difference
        difference = third - other
        f = f + difference * difference
    sums[0, 0] += lane_sum(a)
    sums[1, 0] += lane_sum(b)
    sums[2, 0] += lane_sum(c)
    sums[0, 1] += lane_sum(d)
    sums[1, 1] += lane_sum(e)
    sums[2, 1] += lane_sum(f)


@kernel
def _neighborhoods(first, last, X, indices, width, out):
    k = indices.shape[1]
    d = X.shape[1]
    line = CACHE_LINE_BYTES // X.itemsize  # numbers per cache line
    whole = d // LANES * LANES  # numbers in whole groups of lanes
    # Rows are taken three at a time, so there are up to two extra rows of zeros. The lower four lanes of all rows are
    # stored first, then the upper four: half of the data fits better into the first-level cache. The sum over eight
    # lanes is the sum over the lower four plus the sum over the upper four.
    rows = (k + 2) // 3 * 3
    half = width // 2
    upper = rows * half
    buffer = np.zeros(2 * upper)
    sums = np.empty((3, 2))
    for i in range(first, last):
        for r in range(k):
            source = indices[i, r]
            for t in range(0, whole, LANES):
                place = r * half + t // 2
                store_apart(buffer, place, upper + place, load_row(X, source, t))
            for t in range(whole, d):
                lane = t - whole
                buffer[lane // HALF * upper + r * half + whole // 2 + lane % HALF] = X[source, t]
        for r in range(0, k, 3):
            # The neighbours' rows are scattered in memory, so prefetch those of the next node.
            if i + 1 < last:
                for ahead in range(r, min(r + 3, k)):
                    for t in range(0, d, line):
                        prefetch(X, indices[i + 1, ahead], t)
            for c in range(0, r + 2, 2):
                sums[:] = 0.0
                _six_distances(buffer, r * half, c * half, half, sums)
                _six_distances(buffer, upper + r * half, upper + c * half, half, sums)
                for a in range(r, min(r + 3, k)):
                    for b in range(c, min(c + 2, a)):
                        out[i, a * (a - 1) // 2 + b] = sums[a - r, b - c]
        for t in range(k * (k - 1) // 2, out.shape[1]):
            out[i, t] = PADDING


def neighborhood_distances(X, indices):
    """Return the squared distances among the neighbours of each node.

    Parameters
    ----------
    X : (n, d) float32 or float64
    indices : (m, k) integers, rows of X

    Returns
    -------
    (m, pair_count(k)) float64. Entry ``r (r - 1) / 2 + c`` of a row belongs to neighbours r > c. Later entries
    are `PADDING`.
    """
    m, k = indices.shape
    out = np.empty((m, pair_count(k)))
    run_ranges(_neighborhoods, m, X, indices, padded(X.shape[1]), out)
    return out


@kernel
def _listed(first, last, X, Q, candidates, order, out):
    d = X.shape[1]
    whole = d // LANES * LANES  # numbers in whole groups of lanes; those that are left go through a buffer
    x = np.zeros(whole + LANES)
    rest = np.zeros(4 * LANES)
    source = np.empty(4, np.int64)
    for turn in range(first, last):
        i = order[turn]
        for t in range(d):
            x[t] = Q[i, t]
        for start in range(0, candidates.shape[1], 4):
            # Four independent sums at a time, so that an addition does not wait for the previous one.
            for j in range(4):
                source[j] = max(0, candidates[i, min(start + j, candidates.shape[1] - 1)])
                for t in range(whole, d):
                    rest[j * LANES + t - whole] = X[source[j], t]
            a = splat(0.0)
            b = splat(0.0)
            e = splat(0.0)
            f = splat(0.0)
            for t in range(0, whole, LANES):
                query = load(x, t)
                difference = query - load_row(X, source[0], t)
                a = a + difference * difference
                difference = query - load_row(X, source[1], t)
                b = b + difference * difference
                difference = query - load_row(X, source[2], t)
                e = e + difference * difference
                difference = query - load_row(X, source[3], t)
                f = f + difference * difference
            query = load(x, whole)
            difference = query - load(rest, 0)
            a = a + difference * difference
            difference = query - load(rest, LANES)
            b = b + difference * difference
            difference = query - load(rest, 2 * LANES)
            e = e + difference * difference
            difference = query - load(rest, 3 * LANES)
            f = f + difference * difference
            for j in range(min(4, candidates.shape[1] - start)):
                total = lane_sum(a)
                if j == 1:
                    total = lane_sum(b)
                if j == 2:
                    total = lane_sum(e)
                if j == 3:
                    total = lane_sum(f)
                out[i, start + j] = total if candidates[i, start + j] >= 0 else np.inf


def listed_distances(X, Q, candidates, order=None):
    """Return the squared distances (m, c) from each query to its listed rows of X.

    Parameters
    ----------
    X : (n, d), Q : (m, d) float32 or float64
    candidates : (m, c) integers; a negative one gives infinity
    order : (m,) int64 or None, default=None
        The order in which queries are processed. Candidates shared by consecutive queries stay in the cache.
    """
    out = np.empty(candidates.shape)
    order = np.arange(len(candidates)) if order is None else order
    run_ranges(_listed, len(candidates), X, Q, candidates, order, out)
    return out
