"""Who is near whom, exactly: quick products propose candidates, and precise distances decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.distances import all_distances, listed_distances
from asbc.kernels.topk import keep_smallest
from asbc.neighbors.types import Neighbors
from asbc.validation import STRIP_BYTES, Floats, check_k, whole_number

Ids = NDArray[np.int64]

# Candidates per row that are kept beyond those wanted, at most. With some to spare, rounding in the quick products
# seldom leaves it in doubt which rows are the nearest.
MOST_SPARE = 18
TILE_ROWS = 65536  # rows of X that are searched together where X, on disk, does not fit into memory


def search_exactly(X: Floats, k: int, queries: Floats | None = None) -> Neighbors:
    """The k nearest rows of X to each row of X itself, or to each query, by euclidean distance.

    Matrix products in single precision propose candidates, distances in double precision decide, and a bound on
    the rounding error certifies that no other row can be nearer; rows that it cannot certify are searched again in
    double precision. The answer depends neither on block sizes nor on threads.

    Parameters
    ----------
    X : (n, d) array of float32 or float64
        Checked vectors.
    k : int
        Neighbours per node or query.
    queries : (m, d) array or None, default=None
        None searches for the neighbours of the rows of X, none of which is its own neighbour.

    Returns
    -------
    Neighbors
        Of n nodes or m queries.
    """
    if queries is None:
        Q = X
        k = check_k(k, X.shape[0])
        wanted = k + 1  # the node itself is among the nearest, and is dropped at the end by its id
    else:
        Q = queries
        wanted = k = whole_number(k, "k", 1, X.shape[0], "the rows of X")
    Q = Q.astype(X.dtype, copy=False) if Q.dtype.itemsize < X.dtype.itemsize else Q

    indices = np.empty((len(Q), k), np.int64)
    distances = np.empty((len(Q), k))
    open_rows = np.arange(len(Q))
    for dtype in (np.float32, np.float64):
        open_rows = _search_filtered(X, Q, open_rows, wanted, queries is None, dtype, indices, distances)
    for row in open_rows:  # so many rows are equally far that the candidates do not hold all: compare with every row
        squared = all_distances(X, Q[row])
        if queries is None:
            squared[row] = np.inf
        chosen = np.lexsort((np.arange(len(X)), squared))[:k]
        indices[row] = chosen
        distances[row] = np.sqrt(squared[chosen])
    return Neighbors(indices, distances, first=0 if queries is None else None)


def _search_filtered(X, Q, rows, wanted, drop_self, dtype, indices, distances):
    """Fill in the answers for those of `rows` that products of this precision settle; return the other rows.

    Of each row of Q the `wanted` nearest and a few spare candidates are found by matrix products; `drop_self` says
    that Q is X, so that a row's own id is taken out. `indices` and `distances` are written to.
    """
    n, d = X.shape
    if not len(rows):
        return rows
    spare = min(wanted + min(MOST_SPARE, wanted + 3), n)
    center = X.mean(axis=0, dtype=np.float64)
    # A power of two, so that scaling is exact and single precision neither overflows nor underflows.
    spread = max(largest_offset(X, center), largest_offset(Q, center))
    if spread > 1e140 or 0 < spread < 1e-140:
        raise ValueError(
            f"X must spread between 1e-140 and 1e140, where squared distances are numbers; got {spread:.3g}. Scale it."
        )
    scale = 2.0 ** -np.ceil(np.log2(spread)) if spread > 0 else 1.0
    columns = _augmented(X, center, scale, dtype, as_query=False)
    largest = np.sqrt(columns[:, -1].max(), dtype=np.float64)
    unit = np.finfo(dtype).eps / 2
    width = min(n, max(1024, min(8192, STRIP_BYTES // (1024 * np.dtype(dtype).itemsize))))
    height = max(64, STRIP_BYTES // (width * np.dtype(dtype).itemsize))
    doubtful = []
    for start in range(0, len(rows), height):
        block = rows[start : start + height]
        query_rows = Q[block] if len(rows) < len(Q) else Q[start : start + height]
        query = _augmented(query_rows, center, scale, dtype, as_query=True)
        values = np.full((len(block), spare), np.inf, dtype)
        ids = np.full((len(block), spare), -1, np.int64)
        for first in range(0, n, width):
            keep_smallest(query @ columns[first : first + width].T, first, values, ids)
        squared = listed_distances(X, query_rows, ids)
        order = np.lexsort((ids, squared))
        ids = np.take_along_axis(ids, order, axis=1)
        squared = np.take_along_axis(squared, order, axis=1)
        certain = np.ones(len(block), bool)
        if spare < n:
            # values[:, 0] is the largest product kept, so every row that is not a candidate has at least that one,
            # and a product is off by at most `error`. Where the last one wanted is nearer than that, no other row
            # can be among the nearest.
            length = np.sqrt(np.einsum("ij,ij->i", query[:, :-1], query[:, :-1], dtype=np.float64)) / 2
            error = (d + 16) * unit * (length + largest) ** 2
            certain = squared[:, wanted - 1] * scale**2 < values[:, 0] + length**2 - error
        if drop_self:
            own = ids == block[:, None]
            # With many duplicates the node itself may not be among the candidates; its row is then not settled.
            certain &= own.any(axis=1)
            keep = np.argsort(own, axis=1, kind="stable")[:, : wanted - 1]
            ids = np.take_along_axis(ids, keep, axis=1)
            squared = np.take_along_axis(squared, keep, axis=1)
        k = indices.shape[1]
        done = block[certain]
        indices[done] = ids[certain, :k]
        distances[done] = np.sqrt(squared[certain, :k])
        doubtful.append(block[~certain])
    return np.concatenate(doubtful)


def _steps(X):
    """Slices of rows that take at most STRIP_BYTES in double precision."""
    step = max(1, STRIP_BYTES // (8 * X.shape[1]))
    return (slice(start, start + step) for start in range(0, len(X), step))


def largest_offset(X, center):
    """The largest difference, over rows and columns, between X (n, d) and `center` (d,)."""
    return max(float(np.abs(X[rows] - center).max()) for rows in _steps(X))


def _augmented(X, center, scale, dtype, as_query):
    """Centred and scaled rows with one more column, such that query @ column = |column|^2 - 2 query.column."""
    out = np.empty((X.shape[0], X.shape[1] + 1), dtype)
    for rows in _steps(X):
        centered = (X[rows] - center) * scale
        part = out[rows]
        part[:, :-1] = centered if not as_query else -2.0 * centered
        part[:, -1] = 1.0 if as_query else np.einsum("ij,ij->i", centered, centered)
    return out


def exact_distances(X: Floats, vectors: Floats, k: int, own: Ids | None) -> tuple[Ids, NDArray[np.float64]]:
    """Exact search that looks at X one tile of rows at a time, so that memory does not grow with n.

    Parameters
    ----------
    X : (n, d) array of float32 or float64
        May be a memory map.
    vectors : (m, d) array
        The vectors whose neighbours are wanted.
    k : int
        Neighbours per vector.
    own : (m,) int64 or None
        The rows of X that the vectors are, so that none is its own neighbour; None if they are queries.

    Returns
    -------
    indices, distances : (m, k)
        The same to the last bit as :func:`asbc.search_neighbors` gives.
    """
    wanted = k if own is None else k + 1
    ids = np.empty((len(vectors), 0), np.int64)
    distances = np.empty((len(vectors), 0))
    for start in range(0, len(X), TILE_ROWS):
        tile = X[start : start + TILE_ROWS]
        found = search_exactly(tile, min(wanted, len(tile)), vectors)
        indices = found.indices + start
        beyond = found.distances
        if own is not None:
            beyond = np.where(indices == own[:, None], np.inf, beyond)
        ids = np.concatenate([ids, indices], axis=1)
        distances = np.concatenate([distances, beyond], axis=1)
        order = np.lexsort((ids, distances))[:, :wanted]
        ids = np.take_along_axis(ids, order, axis=1)
        distances = np.take_along_axis(distances, order, axis=1)
    return np.ascontiguousarray(ids[:, :k]), np.ascontiguousarray(distances[:, :k])
