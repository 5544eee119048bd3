"""Neighbours as the rest of the library passes them on, and what is worked out on them again and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import NODES_PER_TASK, listed_distances, neighborhood_distances
from asbc.validation import Floats, as_vectors, whole_number

# A block of neighbourhoods gives every thread this many tasks of NODES_PER_TASK nodes: enough to balance the threads.
TASKS_PER_THREAD = 16
MOST_PAIRS = 2**24  # distances among neighbours that a block holds at most, 8 bytes each: 128 MB


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
    step = max(1, min(TASKS_PER_THREAD * NODES_PER_TASK * numba.get_num_threads(), 2 * MOST_PAIRS // neighbors.k**2))
    for start in range(0, neighbors.n, step):
        rows = slice(start, min(start + step, neighbors.n))
        if neighbors.pairs is not None:
            yield rows, neighbors.pairs[rows]
        else:
            yield rows, neighborhood_distances(X, neighbors.indices[rows])


def kth_distance(neighbors: Neighbors, k: int) -> NDArray[np.float64]:
    """Distance to the k-th neighbour; where duplicates make that zero, the smallest above zero, if there is one."""
    distances = neighbors.distances
    positive = np.where(distances > 0, distances, np.inf).min(axis=1)
    at_k = distances[:, k - 1]
    return np.where(at_k > 0, at_k, np.where(np.isfinite(positive), positive, 0.0))
