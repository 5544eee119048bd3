"""Who is near whom, exactly: quick products propose candidates, and precise distances decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.distances import all_distances, listed_distances
from asbc.kernels.threads import on_threads
from asbc.kernels.topk import settle
from asbc.neighbors.outline import Outlining
from asbc.neighbors.products import (
    TILE,
    Shifted,
    near_together,
    nearest_among,
    nearest_to,
    rounding_error,
)
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, check_k, whole_number

Ids = NDArray[np.int64]

# Candidates per row that are kept beyond those wanted. With some to spare, rounding in the quick products seldom leaves
# it in doubt which rows are the nearest; rows where it does are tried once more with many. Rounding errors grow with
# the longest row: where that is at most EVEN times as long as rows are on average, few are enough.
FEW_SPARE, SOME_SPARE, MANY_SPARE = 8, 18, 200
EVEN = 4.0
CENTERED_ROWS = 4096  # rows, about, whose mean the others are measured from
SETTLED_ROWS = 8192  # rows whose candidates are compared in double precision together
MOST_SINGLE = 1e37  # differences up to that do not overflow in single precision
TILE_ROWS = 65536  # rows of X that are searched together where X, on disk, does not fit into memory


def search_exactly(X: Floats, k: int, queries: Floats | None = None, outlining: Outlining | None = None) -> Neighbors:
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
    outlining : Outlining or None, default=None
        What is known of outlines of X, so that it need not be found again. The answer does not depend on it.

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
    for dtype, many in ((np.float32, False), (np.float32, True), (np.float64, False)):
        open_rows = _search_filtered(
            X, Q, open_rows, wanted, queries is None, dtype, many, indices, distances, outlining
        )
    for row in open_rows:  # so many rows are equally far that the candidates do not hold all: compare with every row
        squared = all_distances(X, Q[row])
        if queries is None:
            squared[row] = np.inf
        chosen = np.lexsort((np.arange(len(X)), squared))[:k]
        indices[row] = chosen
        distances[row] = np.sqrt(squared[chosen])
    return Neighbors(indices, distances, first=0 if queries is None else None)


def _search_filtered(X, Q, rows, wanted, drop_self, dtype, many, indices, distances, outlining):
    """Fill in the answers for those of `rows` that products of this precision settle; return the other rows.

    Of each row of Q the `wanted` nearest and some more candidates, or `many` more, are found by matrix products;
    `drop_self` says that Q is X, so that a row's own id is taken out. `indices` and `distances` are written to.
    """
    n, d = X.shape
    if not len(rows):
        return rows
    center, scale = _frame(X, Q)
    few, some = (MANY_SPARE if many else min(spare, wanted // 2 + 4) for spare in (FEW_SPARE, SOME_SPARE))
    if drop_self and len(rows) == n:
        order = near_together(X, center, scale)
        columns = Shifted.of(X, center, scale, dtype, order)
        lengths = np.sqrt(2.0 * columns.half[:n].astype(np.float64))
        largest = lengths.max()
        kept = min(wanted + (few if largest <= EVEN * lengths.mean() else some), n)
        values, ids = nearest_among(columns, kept, outlining)
        if order is not None:
            back = np.argsort(order)
            values, ids, lengths = values[back], order.astype(np.int32)[ids[back]], lengths[back]
    else:
        kept = min(wanted + some, n)
        values, ids, half, longest = nearest_to(X, Q, rows, center, scale, dtype, kept)
        lengths, largest = np.sqrt(2.0 * half.astype(np.float64)), np.sqrt(2.0 * longest)
    # The largest value kept is at most that of any row that is not a candidate.
    error = rounding_error(d, lengths + largest, dtype)
    bound = (values[:, 0] - error) / scale**2 if kept < n else np.full(len(rows), np.inf)
    doubtful = []
    for start in range(0, len(rows), SETTLED_ROWS):
        part = slice(start, start + SETTLED_ROWS)
        block = rows[part]
        vectors = Q[part] if len(rows) == len(Q) else np.ascontiguousarray(Q[block])
        candidates = ids[part].astype(np.int64)
        squared = listed_distances(X, vectors, candidates)
        own = block if drop_self else np.full(len(block), -1)
        found = settle(squared, candidates, own, bound[part], wanted, indices.shape[1])
        certain = found[2]
        indices[block[certain]] = found[0][certain]
        distances[block[certain]] = found[1][certain]
        doubtful.append(block[~certain])
    return np.concatenate(doubtful)


def _frame(X, Q):
    """The point (d,) that rows are measured from, and a power of two to multiply them by.

    Scaling by a power of two is exact, and with it single precision neither overflows nor underflows.
    """
    center = X[:: max(1, len(X) // CENTERED_ROWS)].mean(axis=0, dtype=np.float64)  # any point near the rows will do
    spread = max(largest_offset(X, center), largest_offset(Q, center) if Q is not X else 0.0)
    if spread > 1e140 or 0 < spread < 1e-140:
        raise ValueError(
            f"X must spread between 1e-140 and 1e140, where squared distances are numbers; got {spread:.3g}. Scale it."
        )
    if spread < MOST_SINGLE:
        center = center.astype(X.dtype)  # so that rows in single precision are shifted in it, which is quicker
    return center, 2.0 ** -np.ceil(np.log2(spread)) if spread > 0 else 1.0


def largest_offset(X, center):
    """The largest difference, over rows and columns, between X (n, d) and `center` (d,)."""
    starts = range(0, len(X), TILE)
    highest, lowest = np.empty((2, len(starts), X.shape[1]), X.dtype)

    def look(number):
        part = X[starts[number] : starts[number] + TILE]
        part.max(axis=0, out=highest[number])
        part.min(axis=0, out=lowest[number])

    on_threads(range(len(starts)), look)
    above = highest.max(axis=0).astype(np.float64) - center
    below = center - lowest.min(axis=0).astype(np.float64)
    return float(max(above.max(), below.max()))


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
