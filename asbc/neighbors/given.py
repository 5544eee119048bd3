"""Precomputed neighbours: arrays of another library, or a sparse matrix of distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.kernels.distances import listed_distances
from asbc.kernels.nearest import sort_candidates
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, plain_array

CLOSE_SHARE = 0.99  # share of the distances that must agree with those between the rows of X
# Two distances agree if they differ by at most this share of the distance plus this share of the median distance.
CLOSE_RATIO, CLOSE_SCALE = 0.01, 0.001
# A distance may lie below 0 by this share of the largest one: in single precision, 1 - cos of equal vectors may.
ROUNDING = 1e-6


def given_neighbors(X: Floats, given: Any, k: int, metric: str = "euclidean") -> Neighbors:
    """Return the k nearest of the given neighbours.

    The node itself and repeated ids are dropped. Rows are sorted by distance and then id. Distances are computed again
    in double precision. The given ones may be in single precision or squared, but must agree with them: otherwise the
    neighbours belong to other vectors.

    Parameters
    ----------
    X : (n, d) array
        Scaled to unit length if the metric is cosine.
    given : Neighbors, (indices, distances), or sparse matrix
        Arrays (n, m) as of faiss, pynndescent and UMAP's ``precomputed_knn``; or a sparse (n, n) matrix of distances
        with explicit zeros, as of scikit-learn's ``KNeighborsTransformer(mode="distance")``.
    k : int
        Neighbours per node.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ``"cosine"`` accepts distances ``1 - cos``, too.
    """
    if isinstance(given, Neighbors) and (given.first != 0 or len(given.indices) != len(X)):
        raise ValueError(f"neighbors must be those of all {len(X)} rows of X; got those of {len(given.indices)} nodes.")
    indices, distances = _from_matrix(given, len(X)) if sparse.issparse(given) else _from_arrays(given, len(X))
    squared = listed_distances(X, X, indices)
    _check_distances(np.sqrt(squared), indices, distances, metric)
    found = _nearest(indices, squared, k)
    same = np.array_equal(indices[:, :k], found.indices) and np.array_equal(distances[:, :k], found.distances)
    if same and isinstance(given, Neighbors):
        return given if indices.shape[1] == k else given.head(k)  # keeps its recall and pairs
    return found


def _from_arrays(given: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    pair = (given.indices, given.distances) if isinstance(given, Neighbors) else given
    try:
        first, second = pair
        indices, distances = np.asarray(first), np.asarray(second, float)
    except (TypeError, ValueError):
        raise TypeError(
            "neighbors must be asbc.Neighbors, a pair (indices, distances) or a sparse matrix of distances; "
            f"got {type(given).__name__}{f' of shape {given.shape}' if isinstance(given, np.ndarray) else ''}."
        ) from None
    for part in pair:
        plain_array(part, "neighbors")  # refuses masked entries
    if indices.ndim != 2 or indices.shape != distances.shape or len(indices) != n:
        raise ValueError(
            f"neighbors must have indices and distances of one shape ({n}, m), a row for each row of X; "
            f"got {indices.shape} and {distances.shape}."
        )
    if indices.dtype.kind not in "iu":
        raise TypeError(f"neighbors must have whole numbers as indices; got dtype {indices.dtype}.")
    return _checked(indices.astype(np.int64), distances, n)


def _from_matrix(given: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if given.shape != (n, n):
        raise ValueError(f"neighbors must be a matrix of shape ({n}, {n}), as X has {n} rows; got {given.shape}.")
    matrix = sparse.csr_array(given)
    counts = np.diff(matrix.indptr)
    indices = np.full((n, int(counts.max(initial=1))), -1, np.int64)
    distances = np.full(indices.shape, np.inf)
    filled = np.arange(indices.shape[1]) < counts[:, None]
    indices[filled], distances[filled] = matrix.indices, matrix.data
    return _checked(indices, distances, n)


def _checked(indices, distances, n) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    present = indices >= 0  # -1 marks missing neighbours
    if indices.size and (indices.min() < -1 or indices.max() >= n):
        row = int(np.argmax(((indices < -1) | (indices >= n)).any(axis=1)))
        raise ValueError(f"neighbors must refer to the {n} rows of X; row {row} refers to {indices[row].max()}.")
    finite = np.isfinite(distances)
    least = -ROUNDING * np.max(distances, where=present & finite, initial=0.0)
    wrong = present & ~(finite & (distances >= least))
    if wrong.any():
        row = int(np.argmax(wrong.any(axis=1)))
        value = distances[row][wrong[row]][0]
        raise ValueError(f"neighbors must have distances that are finite and at least 0; row {row} has {value}.")
    own = indices == np.arange(n)[:, None]
    return np.ascontiguousarray(np.where(own, -1, indices)), distances


def _check_distances(measured, indices, given, metric: str) -> None:
    """Refuse distances that match neither those between the rows of X, nor their squares, nor 1 - cos."""
    present = indices >= 0
    found, reported = measured[present], given[present]
    if not len(found):
        return
    forms = [found, found**2] + ([found**2 / 2] if metric == "cosine" else [])
    for form in forms:
        allowed = CLOSE_RATIO * form + CLOSE_SCALE * np.median(form) + np.finfo(np.float32).tiny
        if (np.abs(reported - form) <= allowed).mean() >= CLOSE_SHARE:
            return
    other = "euclidean" if metric == "cosine" else "cosine"
    raise ValueError(
        f"neighbors does not match X: its distances are not those between the rows of X by metric={metric!r}, nor "
        f"their squares. Use metric={other!r} if the neighbours were found by it."
    )


def _nearest(indices, squared, k: int) -> Neighbors:
    """Return the k nearest of each row by exact distance and then id, each id once."""
    order = np.argsort(indices, axis=1, kind="stable")
    ids, squared = np.take_along_axis(indices, order, axis=1), np.take_along_axis(squared, order, axis=1)
    repeated = ids[:, 1:] == ids[:, :-1]
    ids[:, 1:][repeated], squared[:, 1:][repeated] = -1, np.inf
    found = (ids >= 0).sum(axis=1)
    if found.min() < k:
        row = int(np.argmin(found))
        raise ValueError(
            f"neighbors must have at least k_cand={k} for every node; row {row} has {found[row]}, excluding the node "
            "itself and repeated ids. Search for more, or lower k_cand."
        )
    none, infinite = np.full(len(ids), -1), np.full(len(ids), np.inf)
    return Neighbors(*sort_candidates(squared, ids, none, infinite, 1, k)[:2])
