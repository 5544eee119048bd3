"""Squared distances: between given pairs of rows, and among the neighbours of each node."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.lanes import LANES, fetch, lane_sum, load, load_row, splat
from asbc.kernels.threads import share_out

CACHE_LINE_BYTES = 64
PADDING = 1e300  # squared distance in place of a pair that does not exist: at any bandwidth its kernel value is 0


def padded(length: int) -> int:
    """The length of a flat array that holds `length` numbers in whole groups of lanes."""
    return (length + LANES - 1) // LANES * LANES


def pair_count(k: int) -> int:
    """Entries per node in the arrays of :func:`neighborhood_distances`: the pairs of k neighbours, and padding."""
    return padded(k * (k - 1) // 2)


@njit(inline="always")
def _squared_distance(x, y, width):
    """Squared distance between two flat arrays whose length `width` is a multiple of LANES."""
    total = splat(0.0)
    for t in range(0, width, LANES):
        difference = load(x, t) - load(y, t)
        total = total + difference * difference
    return lane_sum(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _neighborhoods(first, last, X, indices, width, out):
    k = indices.shape[1]
    d = X.shape[1]
    line = CACHE_LINE_BYTES // X.itemsize  # numbers per cache line
    # One row more than k, so that rows can be taken two at a time also where k is odd. What is worked out for that
    # extra row, of zeros, is not kept.
    buffer = np.zeros((k + 1) * width)
    for i in range(first, last):
        for r in range(k):
            source = indices[i, r]
            for t in range(d):
                buffer[r * width + t] = X[source, t]
        for r in range(0, k, 2):
            # The neighbours' rows lie scattered in memory. Asking for those of the next node now lets them arrive
            # while this node is worked on.
            if i + 1 < last:
                for ahead in range(r, min(r + 2, k)):
                    for t in range(0, d, line):
                        fetch(X, indices[i + 1, ahead], t)
            for c in range(0, r + 1, 2):
                # Four distances at once, rows r, r+1 against c, c+1: each number loaded serves two of them.
                a = splat(0.0)
                b = splat(0.0)
                e = splat(0.0)
                f = splat(0.0)
                for t in range(0, width, LANES):
                    upper = load(buffer, r * width + t)
                    lower = load(buffer, (r + 1) * width + t)
                    left = load(buffer, c * width + t)
                    right = load(buffer, (c + 1) * width + t)
                    difference = upper - left
                    a = a + difference * difference
                    difference = upper - right
                    b = b + difference * difference
                    difference = lower - left
                    e = e + difference * difference
                    difference = lower - right
                    f = f + difference * difference
                if c < r:
                    out[i, r * (r - 1) // 2 + c] = lane_sum(a)
                    out[i, r * (r - 1) // 2 + c + 1] = lane_sum(b)
                if r + 1 < k:
                    out[i, (r + 1) * r // 2 + c] = lane_sum(e)
                    if c < r:
                        out[i, (r + 1) * r // 2 + c + 1] = lane_sum(f)
        for t in range(k * (k - 1) // 2, out.shape[1]):
            out[i, t] = PADDING


def neighborhood_distances(X, indices):
    """Squared distances among the neighbours of each node.

    Parameters
    ----------
    X : (n, d) float32 or float64
    indices : (m, k) integers, rows of X

    Returns
    -------
    (m, pair_count(k)) float64. Entry ``r (r - 1) / 2 + c`` of a row belongs to neighbours r > c; the entries at the
    end that belong to no pair are `PADDING`.
    """
    m, k = indices.shape
    out = np.empty((m, pair_count(k)))
    share_out(_neighborhoods, m, X, indices, padded(X.shape[1]), out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _listed(first, last, X, Q, candidates, out):
    d = X.shape[1]
    whole = d // LANES * LANES  # numbers in whole groups of lanes; those that are left go through a buffer
    x = np.zeros(whole + LANES)
    rest = np.zeros(4 * LANES)
    source = np.empty(4, np.int64)
    for i in range(first, last):
        for t in range(d):
            x[t] = Q[i, t]
        for start in range(0, candidates.shape[1], 4):
            # Four at a time, so that one does not wait for the sum of another.
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


def listed_distances(X, Q, candidates):
    """Squared distances from each query to its listed rows of X.

    Parameters
    ----------
    X : (n, d), Q : (m, d) float32 or float64
    candidates : (m, c) integers; a negative one gives infinity

    Returns
    -------
    (m, c) float64
    """
    out = np.empty(candidates.shape)
    share_out(_listed, len(candidates), X, Q, candidates, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _all(first, last, X, q, width, out):
    d = X.shape[1]
    x = np.zeros(width)
    y = np.zeros(width)
    for t in range(d):
        x[t] = q[t]
    for i in range(first, last):
        for t in range(d):
            y[t] = X[i, t]
        out[i] = _squared_distance(x, y, width)


def all_distances(X, q):
    """Squared distances (n,) from one query ``q`` (d,) to every row of ``X`` (n, d).

    The additions are done in the order of :func:`listed_distances`, so both give the same distance to the last bit.
    """
    out = np.empty(len(X))
    share_out(_all, len(X), X, q, padded(X.shape[1]), out)
    return out
