"""What neighbours are: the type that all of the library passes on, its checks, and distances within neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import NODES_PER_TASK, listed_distances, neighborhood_distances
from asbc.validation import Floats, as_vectors, whole_number

# Nodes are worked on in blocks that give every thread this many tasks of NODES_PER_TASK nodes, so that threads finish
# at about the same time.
TASKS_PER_THREAD = 16
MOST_PAIRS = 2**24  # distances among neighbours per block, at most; 8 bytes each make 128 MB


@dataclass(frozen=True)
class Neighbors:
    """The nearest neighbours of n nodes.

    Attributes
    ----------
    indices : (n, k) int64
        The rows of X that are each node's neighbours, nearest first; equal distances in order of index.
    distances : (n, k) float64
        The euclidean distances to them. For ``metric="cosine"`` they lie between unit vectors.
    first : int or None, default=0
        The row of X that is the first node; the other nodes are the rows after it. None if the nodes are queries.
    pairs : (n, p) float64 or None, default=None
        Squared distances among each node's neighbours, where they have been worked out once to be used several times.
    recall : float or None, default=None
        After approximate search, the share of the exact neighbours that it found, measured on a sample of nodes.

    See Also
    --------
    search_neighbors : finds them.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> neighbors.n, neighbors.k
    (3, 2)

    Neighbours that another library has found can be passed on too:

    >>> neighbors = asbc.Neighbors(np.array([[1], [0], [1]]), np.array([[1.0], [1.0], [2.0]]))
    """

    indices: NDArray[np.int64]
    distances: NDArray[np.float64]
    first: int | None = 0
    pairs: NDArray[np.float64] | None = None
    recall: float | None = None

    @property
    def n(self) -> int:
        """The number of nodes."""
        return self.indices.shape[0]

    @property
    def k(self) -> int:
        """Neighbours per node."""
        return self.indices.shape[1]

    def head(self, k: int) -> Neighbors:
        """The nearest few of these neighbours.

        Parameters
        ----------
        k : int
            How many per node, at most as many as there are.

        Returns
        -------
        Neighbors
            Of the same n nodes.

        See Also
        --------
        Neighbors.rows : all neighbours of some nodes.

        Examples
        --------
        >>> import asbc
        >>> asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2).head(1).indices
        array([[1],
               [0],
               [1]])
        """
        k = whole_number(k, "k", 1, self.k, "the neighbours there are")
        nearest = np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k])
        return Neighbors(*nearest, self.first)

    def rows(self, start: int, stop: int) -> Neighbors:
        """The neighbours of some nodes that follow each other.

        Parameters
        ----------
        start : int
            The first node.
        stop : int
            The node after the last.

        Returns
        -------
        Neighbors
            Of ``stop - start`` nodes; its arrays are views.

        See Also
        --------
        Neighbors.head : the nearest neighbours of all nodes.

        Examples
        --------
        >>> import asbc
        >>> part = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2).rows(1, 3)
        >>> part.indices, part.first
        (array([[0, 2],
               [1, 0]]), 1)
        """
        return Neighbors(
            self.indices[start:stop],
            self.distances[start:stop],
            None if self.first is None else self.first + start,
            None if self.pairs is None else self.pairs[start:stop],
        )


def check_type(neighbors: Neighbors) -> None:
    """Refuse anything but :class:`Neighbors`."""
    if not isinstance(neighbors, Neighbors):
        raise TypeError(f"neighbors must be asbc.Neighbors, as search_neighbors gives; got {type(neighbors).__name__}.")


def check_neighbors(X: Floats, neighbors: Neighbors) -> None:
    """Refuse neighbours that do not belong to `X`: the distances of sixteen nodes are measured again and compared."""
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
    """`X`, checked and compared with its neighbours; None may stay None where they carry the distances among them."""
    if X is None and isinstance(neighbors, Neighbors) and neighbors.pairs is not None:
        return None
    vectors = as_vectors(X)
    check_neighbors(vectors, neighbors)
    return vectors


def with_pairs(X: Floats, neighbors: Neighbors) -> Neighbors:
    """The same neighbours, with the distances among them worked out once for all later steps."""
    if neighbors.pairs is not None:
        return neighbors
    return replace(neighbors, pairs=neighborhood_distances(X, neighbors.indices))


def neighborhoods(X: Floats | None, neighbors: Neighbors) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Blocks of nodes, each with the squared distances among its nodes' neighbours.

    Memory does not grow with n: a block is as large as it must be to keep every thread busy, which is 7 MB with two
    threads and k = 30.
    """
    step = max(1, min(TASKS_PER_THREAD * NODES_PER_TASK * numba.get_num_threads(), 2 * MOST_PAIRS // neighbors.k**2))
    for start in range(0, neighbors.n, step):
        rows = slice(start, min(start + step, neighbors.n))
        if neighbors.pairs is not None:
            yield rows, neighbors.pairs[rows]
        else:
            yield rows, neighborhood_distances(X, neighbors.indices[rows])


def kth_distance(neighbors: Neighbors, k: int) -> NDArray[np.float64]:
    """Distance (n,) to the k-th neighbour; where duplicates make it zero, the least distance above zero, if any."""
    distances = neighbors.distances
    positive = np.where(distances > 0, distances, np.inf).min(axis=1)
    at_k = distances[:, k - 1]
    return np.where(at_k > 0, at_k, np.where(np.isfinite(positive), positive, 0.0))
