"""Squared distances: between given pairs of rows, and among the neighbours of each node."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from asbc.kernels.lanes import LANES, fetch, lane_sum, load, splat

# Nodes that one parallel task works on: enough to be worth its workspace, few enough to keep a hundred cores busy.
NODES_PER_TASK = 64
CACHE_LINE_BYTES = 64
PADDING = 1e300  # squared distance in place of a pair that does not exist: at any bandwidth its kernel value is 0


@njit(cache=True, inline="always")
def padded(length):
    """The length of a flat array that holds `length` numbers in whole groups of lanes."""
    return (length + LANES - 1) // LANES * LANES


@njit(cache=True)
def pair_count(k):
    """Entries per node in the arrays of :func:`neighborhood_distances`: the pairs of k neighbours, and padding."""
    return padded(k * (k - 1) // 2)


@njit(cache=True, error_model="numpy")
def _squared_distance(x, y, d):
    """Squared distance between two flat arrays whose length d is a multiple of LANES."""
    total = splat(0.0)
    for t in range(0, d, LANES):
        difference = load(x, t) - load(y, t)
        total = total + difference * difference
    return lane_sum(total)


@njit(cache=True, error_model="numpy")
def _squared_distances_2x2(buffer, width, r, c, out):
    """Four distances at once, rows r, r+1 against c, c+1: each number loaded serves two of them."""
    a = splat(0.0)
    b = splat(0.0)
    e = splat(0.0)
    f = splat(0.0)
    for t in range(0, width, LANES):
        first = load(buffer, r * width + t)
        second = load(buffer, (r + 1) * width + t)
        left = load(buffer, c * width + t)
        right = load(buffer, (c + 1) * width + t)
        difference = first - left
        a = a + difference * difference
        difference = first - right
        b = b + difference * difference
        difference = second - left
        e = e + difference * difference
        difference = second - right
        f = f + difference * difference
    out[0] = lane_sum(a)
    out[1] = lane_sum(b)
    out[2] = lane_sum(e)
    out[3] = lane_sum(f)


@njit(cache=True, parallel=True, error_model="numpy")
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
    d = X.shape[1]
    width = padded(d)
    pairs = k * (k - 1) // 2
    line = CACHE_LINE_BYTES // X.itemsize  # numbers per cache line
    out = np.empty((m, pair_count(k)))
    for chunk in prange((m + NODES_PER_TASK - 1) // NODES_PER_TASK):
        # One row more than k, so that rows can be taken two at a time also where k is odd. What is worked out for
        # that extra row of zeros is not kept.
        buffer = np.zeros((k + 1) * width)
        four = np.empty(4)
        last = min(m, (chunk + 1) * NODES_PER_TASK)
        for i in range(chunk * NODES_PER_TASK, last):
            for r in range(k):
                source = X[indices[i, r]]
                for t in range(d):
                    buffer[r * width + t] = source[t]
            row = out[i]
            for r in range(0, k, 2):
                # The neighbours' rows lie scattered in memory. Asking for those of the next node now lets them
                # arrive while this node is worked on.
                if i + 1 < last:
                    for ahead in range(r, min(r + 2, k)):
                        for t in range(0, d, line):
                            fetch(X, indices[i + 1, ahead], t)
                for c in range(0, r + 1, 2):
                    _squared_distances_2x2(buffer, width, r, c, four)
                    if c < r:
                        row[r * (r - 1) // 2 + c] = four[0]
                        row[r * (r - 1) // 2 + c + 1] = four[1]
                    if r + 1 < k:
                        row[(r + 1) * r // 2 + c] = four[2]
                        if c < r:
                            row[(r + 1) * r // 2 + c + 1] = four[3]
            row[pairs:] = PADDING
    return out


@njit(cache=True, parallel=True, error_model="numpy")
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
    m, c = candidates.shape
    d = X.shape[1]
    width = padded(d)
    out = np.empty((m, c))
    for chunk in prange((m + NODES_PER_TASK - 1) // NODES_PER_TASK):
        x = np.zeros(width)
        y = np.zeros(width)
        for i in range(chunk * NODES_PER_TASK, min(m, (chunk + 1) * NODES_PER_TASK)):
            for t in range(d):
                x[t] = Q[i, t]
            for j in range(c):
                if candidates[i, j] < 0:
                    out[i, j] = np.inf
                    continue
                source = X[candidates[i, j]]
                for t in range(d):
                    y[t] = source[t]
                out[i, j] = _squared_distance(x, y, width)
    return out


@njit(cache=True, parallel=True, error_model="numpy")
def all_distances(X, q):
    """Squared distances (n,) from one query ``q`` (d,) to every row of ``X`` (n, d).

    The additions are done in the order of :func:`listed_distances`, so both give the same distance to the last bit.
    """
    n, d = X.shape
    width = padded(d)
    out = np.empty(n)
    for chunk in prange((n + NODES_PER_TASK - 1) // NODES_PER_TASK):
        x = np.zeros(width)
        y = np.zeros(width)
        for t in range(d):
            x[t] = q[t]
        for i in range(chunk * NODES_PER_TASK, min(n, (chunk + 1) * NODES_PER_TASK)):
            for t in range(d):
                y[t] = X[i, t]
            out[i] = _squared_distance(x, y, width)
    return out
