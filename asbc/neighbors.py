"""Who is near whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from asbc.kernels.distances import CHUNK, all_distances, listed_distances, neighborhood_distances
from asbc.kernels.topk import keep_smallest

Floats = NDArray[np.floating]

_STRIP_BYTES = 32 * 2**20  # of the largest temporary that the search holds
_SPARE = 18  # candidates beyond k at most, so that rounding in the filter seldom leaves the k nearest in doubt
_TASKS = 16  # a thread, in one block of neighbourhoods
_PAIRS = 2**24  # distances held at once, at most: 128 MB


@dataclass(frozen=True)
class Neighbors:
    """The nearest neighbours of n nodes.

    Attributes
    ----------
    indices : (n, k) int64
        Nearest first; equal distances in order of index.
    distances : (n, k) float64
        Euclidean. For ``metric="cosine"`` they lie between unit vectors.
    first : int or None
        The row of X that is the first node; the others follow it. None if the nodes are queries, not rows of X.
    pairs : (n, p) float64 or None
        Squared distances among each node's neighbours, if :func:`with_pairs` has put them here to be shared.
    recall : float or None
        After approximate search, the share of the exact neighbours that it found, measured on a sample of nodes.
    """

    indices: NDArray[np.int64]
    distances: NDArray[np.float64]
    first: int | None = 0
    pairs: NDArray[np.float64] | None = None
    recall: float | None = None

    @property
    def n(self) -> int:
        return self.indices.shape[0]

    @property
    def k(self) -> int:
        return self.indices.shape[1]

    def head(self, k: int) -> Neighbors:
        """The nearest `k` of these neighbours."""
        k = whole_number(k, "k", 1, self.k, "the neighbours there are")
        nearest = np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k])
        return Neighbors(*nearest, self.first)

    def rows(self, start: int, stop: int) -> Neighbors:
        """The neighbours of nodes `start` to `stop`."""
        return Neighbors(
            self.indices[start:stop],
            self.distances[start:stop],
            None if self.first is None else self.first + start,
            None if self.pairs is None else self.pairs[start:stop],
        )


def as_vectors(X: ArrayLike, name: str = "X") -> Floats:
    """`X` as a C-ordered (n, d) array of float32 or float64, or a clear error.

    float16 becomes float32 and integers float64, both without loss. Memory maps are not copied unless they must be.
    """
    if X is None or sparse.issparse(X):
        raise TypeError(f"{name} must be a dense array; got {'None' if X is None else 'a sparse matrix'}.")
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.dtype == object:
        raise TypeError(f"{name} must be a numeric array; got dtype object. Convert it with {name}.astype(float).")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}.")
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be 2-dimensional, one row a node; got shape {array.shape}. Reshape your data "
            f"with {name}.reshape(-1, 1) if it has a single feature."
        )
    if array.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column; got shape {array.shape}.")
    if array.dtype.kind == "f" and array.dtype.itemsize <= 4:
        array = np.ascontiguousarray(array, np.float32)
    else:
        array = np.ascontiguousarray(array, np.float64)
    step = max(1, _STRIP_BYTES // (array.itemsize * array.shape[1]))
    for start in range(0, array.shape[0], step):
        finite = np.isfinite(array[start : start + step]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite))
            raise ValueError(f"{name} must be finite; row {row} holds NaN or infinity.")
    return array


def normalize(X: ArrayLike, name: str = "X") -> Floats:
    """Rows of `X` scaled to unit length, in the precision of `X`. A zero row is an error: it has no direction."""
    array = as_vectors(X, name)
    # Brought near 1 by powers of two, which rounds nothing, so that squares neither overflow nor vanish.
    largest = np.abs(array).max(axis=1, initial=0)
    if not largest.all():
        row = int(np.argmin(largest))
        raise ValueError(f"{name} cannot be normalised: row {row} is all zeros. Drop such rows first.")
    array = np.ldexp(array, -np.frexp(largest)[1][:, None])
    norms = np.sqrt(np.einsum("ij,ij->i", array, array, dtype=np.float64))
    return (array / norms[:, None]).astype(array.dtype, copy=False)


def whole_number(value: Any, name: str, low: int, high: int | None = None, what: str = "") -> int:
    """`value` as an int between `low` and `high`; `what` says in words what the upper limit is."""
    whole = isinstance(value, Real) and not isinstance(value, bool) and float(value).is_integer()
    if not whole or value < low or (high is not None and value > high):
        limits = f"of at least {low}" if high is None else f"from {low} to {high}{what and ', ' + what}"
        raise ValueError(f"{name} must be a whole number {limits}; got {value!r}.")
    return int(value)


def check_k(k: int, n: int, name: str = "k") -> int:
    """`k` as an int, after a check that n nodes have that many others."""
    k = whole_number(k, name, 1)
    if n <= k:
        raise ValueError(f"{name}={k} neighbours need more than {k} nodes; got n_samples = {n}.")
    return k


def search_neighbors(
    X: ArrayLike,
    k: int = 30,
    *,
    metric: str = "euclidean",
    queries: ArrayLike | None = None,
    search: str = "exact",
    **options: int,
) -> Neighbors:
    """Nearest neighbours, exact unless another kind of search is asked for.

    Matrix products in single precision propose candidates, distances in double precision decide, and a bound on
    the rounding error certifies that no other row can be nearer; rows that it cannot certify are searched again in
    double precision. The answer depends neither on block sizes nor on threads.

    Parameters
    ----------
    X : (n, d) array of any real dtype
    k : int
    metric : {"euclidean", "cosine"}
        ``"cosine"`` scales rows to unit length first, which orders neighbours by angle. The distances are then
        euclidean ones between unit vectors, ``sqrt(2 - 2 cos)``: pass ``asbc.normalize(X)`` to what comes next.
    queries : (m, d) array, optional
        Search the neighbours of these among the rows of X. By default the nodes are the rows of X themselves, and
        none is its own neighbour.
    search : {"exact", "ivf", "hnsw", "nn_descent"}
        The others are approximate: inverted lists, a small-world graph (faiss), and nearest-neighbour descent
        (pynndescent); the last two need ``asbc[scale]``. They may miss neighbours, never give a wrong distance, and
        measure their recall on a sample; below 0.9 there is a :class:`asbc.LowRecallWarning`.
    **options
        Of approximate search: ``seed``; ``sample``, the nodes that recall is measured on (1000); ``n_lists`` and
        ``n_probe`` of ``"ivf"``; ``links``, ``ef_construction`` and ``ef_search`` of ``"hnsw"``; ``n_trees`` of
        ``"nn_descent"``.

    Returns
    -------
    Neighbors with n (or m) rows
    """
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f"metric must be 'euclidean' or 'cosine'; got {metric!r}.")
    prepare = normalize if metric == "cosine" else as_vectors
    X = prepare(X)
    if search != "exact" or options:
        from asbc.approximate import search_approximately  # which leans on exact search, so it comes after it

        Q = None if queries is None else _prepared_queries(queries, X, prepare)
        return search_approximately(X, k, search, queries=Q, **options)
    if queries is None:
        Q = X
        k = check_k(k, X.shape[0])
        wanted = k + 1  # the node itself is among the nearest, and is dropped at the end by its id
    else:
        Q = _prepared_queries(queries, X, prepare)
        wanted = k = whole_number(k, "k", 1, X.shape[0], "the rows of X")
    Q = Q.astype(X.dtype, copy=False) if Q.dtype.itemsize < X.dtype.itemsize else Q

    indices = np.empty((len(Q), k), np.int64)
    distances = np.empty((len(Q), k))
    open_rows = np.arange(len(Q))
    for dtype in (np.float32, np.float64):
        open_rows = _search_filtered(X, Q, open_rows, wanted, queries is None, dtype, indices, distances)
    for row in open_rows:  # more equal distances than there are candidates: look at every one
        squared = all_distances(X, Q[row])
        if queries is None:
            squared[row] = np.inf
        chosen = np.lexsort((np.arange(len(X)), squared))[:k]
        indices[row] = chosen
        distances[row] = np.sqrt(squared[chosen])
    return Neighbors(indices, distances, first=0 if queries is None else None)


def _prepared_queries(queries, X, prepare):
    Q = prepare(queries, "queries")
    if Q.shape[1] != X.shape[1]:
        raise ValueError(f"queries must have the {X.shape[1]} columns of X; got {Q.shape[1]}.")
    return Q


def _search_filtered(X, Q, rows, wanted, drop_self, dtype, indices, distances):
    """Fill in the `rows` that a filter of this precision can certify; return the others."""
    n, d = X.shape
    if not len(rows):
        return rows
    spare = min(wanted + min(_SPARE, wanted + 3), n)
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
    width = min(n, max(1024, min(8192, _STRIP_BYTES // (1024 * np.dtype(dtype).itemsize))))
    height = max(64, _STRIP_BYTES // (width * np.dtype(dtype).itemsize))
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
            # Rows not listed are at least values[:, 0] in the filter, which is off by at most `error`.
            length = np.sqrt(np.einsum("ij,ij->i", query[:, :-1], query[:, :-1], dtype=np.float64)) / 2
            error = (d + 16) * unit * (length + largest) ** 2
            certain = squared[:, wanted - 1] * scale**2 < values[:, 0] + length**2 - error
        if drop_self:
            own = ids == block[:, None]
            # With many duplicates the node itself may not be listed: the row is then not certain either.
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
    """Slices of rows small enough to be copied to double precision."""
    step = max(1, _STRIP_BYTES // (8 * X.shape[1]))
    return (slice(start, start + step) for start in range(0, len(X), step))


def largest_offset(X, center):
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


def check_type(neighbors: Neighbors) -> None:
    if not isinstance(neighbors, Neighbors):
        raise TypeError(f"neighbors must be asbc.Neighbors, as search_neighbors gives; got {type(neighbors).__name__}.")


def check_neighbors(X: Floats, neighbors: Neighbors) -> None:
    """Refuse neighbours that do not belong to `X`; a few nodes are measured again to tell."""
    check_type(neighbors)
    if neighbors.indices.shape != neighbors.distances.shape or neighbors.indices.ndim != 2:
        raise ValueError(
            "neighbors must have indices and distances of one 2-dimensional shape; "
            f"got {neighbors.indices.shape} and {neighbors.distances.shape}."
        )
    if neighbors.n and (neighbors.indices.min() < 0 or neighbors.indices.max() >= len(X)):
        raise ValueError(
            f"neighbors does not match X: it refers to rows {neighbors.indices.min()} to {neighbors.indices.max()}, "
            f"and X has {len(X)} rows."
        )
    if neighbors.first is None:
        return
    if neighbors.first + neighbors.n > len(X):
        last = neighbors.first + neighbors.n - 1
        raise ValueError(f"neighbors does not match X: it goes up to node {last}, and X has {len(X)} rows.")
    rows = np.unique(np.linspace(0, neighbors.n - 1, 16).astype(int))
    nodes = np.ascontiguousarray(X[neighbors.first + rows])
    measured = np.sqrt(listed_distances(X, nodes, neighbors.indices[rows]))
    given = neighbors.distances[rows]
    if not np.allclose(measured, given, rtol=1e-3, atol=1e-5 * given.max()):
        raise ValueError(
            "neighbors does not match X: its distances are not those between the rows of X. Neighbours found with "
            "metric='cosine' go with asbc.normalize(X)."
        )


def vectors_for(X: ArrayLike | None, neighbors: Neighbors) -> Floats | None:
    """`X` checked against its neighbours. None is enough where they carry the distances among them."""
    if X is None and isinstance(neighbors, Neighbors) and neighbors.pairs is not None:
        return None
    vectors = as_vectors(X)  # type: ignore[arg-type]
    check_neighbors(vectors, neighbors)
    return vectors


def with_pairs(X: Floats, neighbors: Neighbors) -> Neighbors:
    """The same neighbours, with the distances among them worked out once for all later steps."""
    if neighbors.pairs is not None:
        return neighbors
    return replace(neighbors, pairs=neighborhood_distances(X, neighbors.indices))


def neighborhoods(X: Floats | None, neighbors: Neighbors) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Blocks of nodes with the squared distances among their neighbours, so that memory does not grow with n.

    A block keeps every thread busy and is no larger than that: 7 MB with two threads and k = 30.
    """
    step = max(1, min(_TASKS * CHUNK * numba.get_num_threads(), 2 * _PAIRS // neighbors.k**2))
    for start in range(0, neighbors.n, step):
        rows = slice(start, min(start + step, neighbors.n))
        if neighbors.pairs is not None:
            yield rows, neighbors.pairs[rows]
        else:
            yield rows, neighborhood_distances(X, neighbors.indices[rows])
