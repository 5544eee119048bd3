"""The nearest few of many rows, from products of tiles of them: which are worth keeping, and which are the nearest.

The squared distance of rows x and y is ``|x|^2 + |y|^2 - 2 x.y``. A tile of products is looked at while it is in the
cache; nearly always none of sixteen entries is near enough, and one comparison passes over all of them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.near import ABREAST, lowest_bit, near
from asbc.kernels.threads import share_out

HALVINGS = 16  # steps at most in the search for a first limit


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def _product(x, y):
    total = x.dtype.type(0)
    for t in range(len(x)):
        total += x[t] * y[t]
    return total


@njit(error_model="numpy")
def _first_limit(tile, i, half, size, scores):
    """A number that ``tile[i] - half`` exceeds in at least `size` columns, and in few more; -inf if there are too few.

    `scores` is scratch space, of the length of `half`.
    """
    low = np.inf
    high = -np.inf
    for j in range(len(half)):
        score = tile[i, j] - half[j]
        scores[j] = score
        if score > high:
            high = score
        if score < low and score > -np.inf:
            low = score
    limit = scores.dtype.type(-np.inf)
    for _ in range(HALVINGS):
        middle = scores.dtype.type(0.5 * (low + high))
        count = 0
        for j in range(len(scores)):
            count += scores[j] > middle
        if count < size:
            high = middle
        else:
            low = limit = middle
            if count < 2 * size:
                break
    return limit


@njit(cache=True, nogil=True, error_model="numpy")
def keep_nearest(tile, rows, first_column, half, own_half, both, left, right, outlined, values, ids, limits):
    """Merge a tile of products into the lists of nearest rows.

    Parameters
    ----------
    tile : (m, w) float32 or float64
        Products of m queries with rows `first_column` and on, or what these do not exceed. Memory goes on for up to
        ABREAST numbers after it.
    rows : (m,) int64
        The list that each query has.
    first_column : int
        The first row, by which it and those after it are named.
    half : (c,), own_half : (m,)
        Half the squared lengths of the columns and of the queries. Of the c columns, which are a multiple of ABREAST,
        those from w on are only padding, where it is infinite.
    both : bool
        Whether the columns are queries too, with lists of their own that are numbered as the columns are.
    left : (m, d), right : (w, d)
        The queries and the rows themselves.
    outlined : bool
        Whether the tile has only bounds of the products, so that those of pairs that may be near are worked out here.
    values : (l, s), ids : (l, s) int32
        The s smallest squared distances so far in each list and whose they are, changed in place, as max-heaps:
        ``values[i, 0]`` is the largest. Start with infinity and -1.
    limits : (c,), scratch space
    """
    m, c = len(tile), len(half)
    size = values.shape[1]
    scores = np.empty(c, tile.dtype)
    for j in range(c):
        limits[j] = np.inf
        if both and first_column + j < values.shape[0]:
            limits[j] = half[j] - 0.5 * values[first_column + j, 0]
    for i in range(m):
        mine = rows[i]
        limit = own_half[i] - 0.5 * values[mine, 0]
        # Into an empty list nearly every column would go, and most of them out again.
        first_limit = limit
        if values[mine, 0] == np.inf and not outlined:
            first_limit = _first_limit(tile, i, half, size, scores)
            limit = first_limit
        for start in range(0, c, ABREAST):
            bits = near(tile, i, start, half, limits, limit, own_half[i])
            while bits != 0:
                j = start + lowest_bit(bits)
                bits &= bits - 1
                product = tile[i, j]
                if outlined:
                    product = _product(left[i], right[j])
                value = 2.0 * (own_half[i] + half[j] - product)
                heap = mine
                name = first_column + j
                for side in range(2):
                    if value < values[heap, 0]:
                        # The largest entry goes, and the others move up until there is a place for the new one.
                        hole = 0
                        while True:
                            child = 2 * hole + 1
                            if child >= size:
                                break
                            if child + 1 < size and values[heap, child + 1] > values[heap, child]:
                                child += 1
                            if values[heap, child] <= value:
                                break
                            values[heap, hole] = values[heap, child]
                            ids[heap, hole] = ids[heap, child]
                            hole = child
                        values[heap, hole] = value
                        ids[heap, hole] = name
                        if side == 0:
                            limit = max(first_limit, own_half[i] - 0.5 * values[heap, 0])
                        else:
                            limits[j] = half[j] - 0.5 * values[heap, 0]
                    if not both:
                        break
                    heap = first_column + j
                    name = mine


# Sums may be taken in any order here: they run in double precision.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def measure_from(first, last, X, rows, center, scale, out, half):
    """Some rows of X as they are seen from a point, scaled, and half their squared lengths.

    Parameters
    ----------
    first, last : int
        Which of `rows`.
    X : (n, d) float32 or float64
    rows : (m,) int64
    center : (d,) float32 or float64, scale : of the same type
    out : (m, d), half : (m,) float32 or float64
        Written to.
    """
    for i in range(first, last):
        source = X[rows[i]]
        target = out[i]
        for t in range(len(center)):
            target[t] = (source[t] - center[t]) * scale
        total = 0.0
        for t in range(len(center)):
            total += np.float64(target[t]) * np.float64(target[t])
        half[i] = 0.5 * total


@njit(cache=True, nogil=True, error_model="numpy")
def _settle(first, last, squared, ids, own, bound, wanted, indices, distances, certain):
    for i in range(first, last):
        for a in range(1, ids.shape[1]):
            value = squared[i, a]
            name = ids[i, a]
            b = a - 1
            while b >= 0 and (squared[i, b] > value or (squared[i, b] == value and ids[i, b] > name)):
                squared[i, b + 1] = squared[i, b]
                ids[i, b + 1] = ids[i, b]
                b -= 1
            squared[i, b + 1] = value
            ids[i, b + 1] = name
        place = 0
        seen = own[i] < 0
        for j in range(ids.shape[1]):
            if ids[i, j] == own[i]:
                seen = True
            elif place < indices.shape[1]:
                indices[i, place] = ids[i, j]
                distances[i, place] = math.sqrt(squared[i, j])
                place += 1
        # With many duplicates a node itself may not be among its candidates; its row is then not settled.
        certain[i] = seen and squared[i, wanted - 1] < bound[i]


def settle(squared, ids, own, bound, wanted, k):
    """The k nearest candidates of each row, by distance and then id, and whether they are certain.

    Parameters
    ----------
    squared : (m, s) float64, ids : (m, s) int64
        The candidates' squared distances and which rows they are; both are sorted in place.
    own : (m,) int64
        The candidate that is the row itself and does not count; -1 for none.
    bound : (m,) float64
        No row that is not a candidate is nearer than that, squared.
    wanted : int
        Candidates that must be nearer than the bound: k, and one more where the row itself is among them.
    k : int

    Returns
    -------
    indices : (m, k) int64, distances : (m, k) float64, certain : (m,) bool
        -1 and infinity where there are fewer than k candidates.
    """
    m = len(ids)
    indices, distances, certain = np.full((m, k), -1, np.int64), np.full((m, k), np.inf), np.empty(m, np.bool_)
    share_out(_settle, m, squared, ids, own, bound, wanted, indices, distances, certain)
    return indices, distances, certain
