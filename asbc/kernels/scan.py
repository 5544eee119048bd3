"""Inverted lists, scanned: queries against the rows of the lists that they look at, in one compiled loop per thread.

A list holds some dozens or hundreds of rows, so that its products take a fraction of a millisecond. Between them no
thread returns to the interpreter, whose lock the others would have to wait for.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.near import ABREAST
from asbc.kernels.threads import share_out
from asbc.kernels.topk import keep_nearest, measure_from

LISTS_PER_TASK = 16  # lists whose vectors one task adds up, at least


@njit(cache=True, nogil=True, error_model="numpy")
def who_asks(lists, some, first, last, n_lists):
    """For each list, which queries look at it.

    Parameters
    ----------
    lists : (m, p) integers
        The lists that each query looks at, the nearest first.
    some : (s,) int64
        The queries that count.
    first, last : int
        Which columns of `lists` count.
    n_lists : int

    Returns
    -------
    asking : (s * (last - first),) int64
        Queries, list after list, in the order of `some`.
    ends : (n_lists + 1,) int64
        Those of list l are ``asking[ends[l]:ends[l + 1]]``.
    """
    ends = np.zeros(n_lists + 1, np.int64)
    for i in some:
        for j in range(first, last):
            ends[lists[i, j] + 1] += 1
    ends = np.cumsum(ends)
    place = ends.copy()
    asking = np.empty(len(some) * (last - first), np.int64)
    for i in some:
        for j in range(first, last):
            asking[place[lists[i, j]]] = i
            place[lists[i, j]] += 1
    return asking, ends


@njit(cache=True, nogil=True, error_model="numpy")
def scan_lists(first, last, vectors, asking, ends, centroids, starts, stored, half, size, values, positions, reach):
    """Compare queries with the rows of lists `first` to `last`, on the calling thread.

    Parameters
    ----------
    first, last : int
    vectors : (m, d) float32 or float64
        All queries.
    asking, ends
        Which of them look at a list, as :func:`who_asks` gives them.
    centroids : (L, d) float32
    starts : (L + 1,) int64
        List l holds positions ``starts[l]`` to ``starts[l + 1]``.
    stored : (r, d) float32, half : (r,) float32
        The rows at positions ``starts[first]`` and on, as seen from the centroid of their list, and half their squared
        lengths.
    size : int
        Rows, and columns, of a tile of products at most: a list may be of any length.
    values : (m, kept) float32, positions : (m, kept) int32
        Squared distances of the candidates so far and where they are, as :func:`asbc.kernels.topk.keep_nearest` has
        them; changed for the queries that ask.
    reach : (m,) float64
        Likewise: the largest sum of a query's own length and that of a list's longest row, both measured from the
        list's centroid. The rounding error of a squared distance is at most a multiple of its square.
    """
    d = vectors.shape[1]
    seen, seen_half = np.empty((size, d), np.float32), np.empty(size, np.float32)
    # The last row of a tile may be read up to a multiple of ABREAST; what lies there is not looked at.
    tile = np.zeros(size * size + ABREAST, np.float32)
    limits, padded = np.empty(size + ABREAST, np.float32), np.empty(size + ABREAST, np.float32)
    offset = starts[first]
    for number in range(first, last):
        begin, end = starts[number], starts[number + 1]
        if begin == end:
            continue
        for from_query in range(ends[number], ends[number + 1], size):
            here = asking[from_query : min(from_query + size, ends[number + 1])]
            # Measured from the centroid, numbers are small, and so are the rounding errors of single precision.
            query, own_half = seen[: len(here)], seen_half[: len(here)]
            measure_from(0, len(here), vectors, here, centroids[number], np.float32(1), query, own_half)
            longest = np.float32(0)
            for start in range(begin, end, size):
                part = stored[start - offset : min(start + size, end) - offset]
                width = len(part)
                part_half = padded[: (width + ABREAST - 1) // ABREAST * ABREAST]
                part_half[:] = np.inf
                for j in range(width):
                    part_half[j] = half[start - offset + j]
                    longest = max(longest, part_half[j])
                products = tile[: len(here) * width].reshape(len(here), width)
                np.dot(query, part.T, products)
                keep_nearest(
                    products, here, start, part_half, own_half, False, query, part, False, values, positions, limits
                )
            for i in range(len(here)):
                both = np.sqrt(2.0 * np.float64(own_half[i])) + np.sqrt(2.0 * np.float64(longest))
                reach[here[i]] = max(reach[here[i]], both)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _halves(first, last, vectors, out):
    for i in range(first, last):
        total = 0.0
        for t in range(vectors.shape[1]):
            total += np.float64(vectors[i, t]) * np.float64(vectors[i, t])
        out[i] = 0.5 * total


def half_squares(vectors):
    """Half the squared lengths (n,) of vectors (n, d), summed in double precision and rounded to single."""
    out = np.empty(len(vectors), np.float32)
    share_out(_halves, len(vectors), vectors, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _names(first, last, positions, members, out):
    for i in range(first, last):
        for j in range(positions.shape[1]):
            out[i, j] = members[positions[i, j]] if positions[i, j] >= 0 else -1


def names_at(positions, members):
    """The rows (m, c) int64 at some positions (m, c) in `members` (n,); -1 stays -1."""
    out = np.empty(positions.shape, np.int64)
    share_out(_names, len(positions), positions, members, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _nearer(first, last, squared, bound, out):
    for i in range(first, last):
        count = 0
        for j in range(squared.shape[1]):
            count += squared[i, j] < bound[i]
        out[i] = count


def count_nearer(squared, bound):
    """How many entries of each row of `squared` (m, c) are below its `bound` (m,)."""
    out = np.empty(len(squared), np.int64)
    share_out(_nearer, len(squared), squared, bound, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _sums(first, last, vectors, members, starts, together, out):
    partial = np.empty(vectors.shape[1])
    for number in range(first, last):
        partial[:] = 0.0
        block = -1
        for position in range(starts[number], starts[number + 1]):
            row = members[position]
            if row // together != block:
                block = row // together
                out[number] += partial
                partial[:] = 0.0
            for t in range(len(partial)):
                partial[t] += vectors[row, t]
        out[number] += partial


def sum_lists(vectors, members, starts, together):
    """The sum (L, d) of the vectors of each list, in double precision.

    Parameters
    ----------
    vectors : (n, d) float32
    members : (n,) int64, starts : (L + 1,) int64
        List l holds the vectors ``members[starts[l]:starts[l + 1]]``, in ascending order.
    together : int
        So many consecutive vectors are first added up for themselves: the order of additions is part of the result.
    """
    out = np.zeros((len(starts) - 1, vectors.shape[1]))
    share_out(_sums, len(out), vectors, members, starts, together, out, least=LISTS_PER_TASK)
    return out
