"""Squared distances: between given pairs of rows, and among the neighbours of each node."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, lane_sum, load, load_row, splat, store
from asbc.kernels.threads import run_ranges

PADDING = 1e300  # squared distance of padding; its kernel value is 0 at any bandwidth


def padded(length: int) -> int:
    """Round `length` up to whole groups of lanes."""
    return (length + LANES - 1) // LANES * LANES


def pair_count(k: int) -> int:
    """Return the number of entries per node of :func:`neighborhood_distances`: pairs of k neighbours, and padding."""
    return padded(k * (k - 1) // 2)


@njit(inline="always")
def _four_distances(near, r, c, out):
    """Write the squared distances of rows r and r + 1 of `near` from rows c and c + 1 to `out` (2, 2).

    Each number loaded is used twice, and four independent sums keep the processor busy.
    """
    sum00 = splat(0.0)
    sum01 = splat(0.0)
    sum10 = splat(0.0)
    sum11 = splat(0.0)
    for t in range(0, near.shape[1], LANES):
        x0 = load_row(near, r, t)
        x1 = load_row(near, r + 1, t)
        y0 = load_row(near, c, t)
        y1 = load_row(near, c + 1, t)
        sum00 = sum00 + (x0 - y0) * (x0 - y0)
        sum01 = sum01 + (x0 - y1) * (x0 - y1)
        sum10 = sum10 + (x1 - y0) * (x1 - y0)
        sum11 = sum11 + (x1 - y1) * (x1 - y1)
    out[0, 0] = lane_sum(sum00)
    out[0, 1] = lane_sum(sum01)
    out[1, 0] = lane_sum(sum10)
    out[1, 1] = lane_sum(sum11)


@kernel
def _neighborhoods(first, last, X, indices, near_shape, out):
    k = indices.shape[1]
    d = X.shape[1]
    whole = d // LANES * LANES  # numbers in whole groups of lanes
    near = np.zeros(near_shape)  # the neighbours' rows in double precision, padded with zeros
    four = np.empty((2, 2))
    for i in range(first, last):
        out[i] = PADDING
        for r in range(k):
            for t in range(0, whole, LANES):
                store(near[r], t, load_row(X, indices[i, r], t))
            for t in range(whole, d):
                near[r, t] = X[indices[i, r], t]
        for r in range(0, k, 2):
            for c in range(0, r + 1, 2):
                _four_distances(near, r, c, four)
                for a in range(r, min(r + 2, k)):
                    for b in range(c, min(c + 2, a)):
                        out[i, a * (a - 1) // 2 + b] = four[a - r, b - c]


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
    run_ranges(_neighborhoods, m, X, indices, (k + k % 2, padded(X.shape[1])), out)
    return out


@kernel
def _listed(first, last, X, Q, candidates, order, out):
    d = X.shape[1]
    whole = d // LANES * LANES
    x = np.empty(d)
    for turn in range(first, last):
        i = order[turn]
        for t in range(d):
            x[t] = Q[i, t]
        for j in range(candidates.shape[1]):
            row = candidates[i, j]
            out[i, j] = np.inf
            if row < 0:
                continue
            sums = splat(0.0)
            for t in range(0, whole, LANES):
                difference = load(x, t) - load_row(X, row, t)
                sums = sums + difference * difference
            total = lane_sum(sums)
            for t in range(whole, d):
                total += (x[t] - X[row, t]) ** 2
            out[i, j] = total


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
