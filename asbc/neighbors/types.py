"""The type of neighbours, its checks, and distances within neighbourhoods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from asbc.kernels.distances import listed_distances, neighborhood_distances, pair_count
from asbc.kernels.threads import NODES_PER_TASK, thread_count
from asbc.validation import MOST_NODES, Floats, as_vectors, plain_array, true_or_false, whole_number

BLOCK_TASKS_PER_THREAD = 16  # tasks of NODES_PER_TASK nodes per thread and block, so that threads finish together
MOST_PAIRS = 2**24  # the most distances among neighbours per block: 128 MB


@dataclass(frozen=True)
class Neighbors:
    """The nearest neighbours of n nodes.

    Attributes
    ----------
    indices : (n, k) int64
        Each node's neighbours, as rows of X, nearest first; ties in order of index.
    distances : (n, k) float64
        The euclidean distances to them; for ``metric="cosine"``, between unit vectors.
    first : int or None, default=0
        The first node, as a row of X; the other nodes are the rows after it. None if the nodes are queries.
    pairs : (n, p) float64 or None, default=None
        Squared distances among each node's neighbours, if they were computed for several uses.
    recall : float or None, default=None
        After approximate search, the estimated share of the exact neighbours that it found.

    See Also
    --------
    search_neighbors : finds neighbours.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> neighbors.n, neighbors.k
    (3, 2)

    Neighbours found by another library:

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
        """Return the k nearest of these neighbours.

        Parameters
        ----------
        k : int
            Neighbours per node, at most ``self.k``.

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
        check_type(self)
        k = whole_number(k, "k", 1, self.k, "the number of neighbours")
        nearest = np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k])
        return _inherit_check(self, Neighbors(*nearest, self.first))

    def rows(self, start: int, stop: int) -> Neighbors:
        """Return the neighbours of consecutive nodes.

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
        check_type(self)
        start = whole_number(start, "start", 0, self.n, "the number of nodes")
        stop = whole_number(stop, "stop", start, self.n, "the number of nodes")
        part = Neighbors(
            self.indices[start:stop],
            self.distances[start:stop],
            None if self.first is None else self.first + start,
            None if self.pairs is None else self.pairs[start:stop],
        )
        return _inherit_check(self, part)

    def to_distances(self, *, include_self: bool = False, n_columns: int | None = None) -> sparse.csr_array:
        """Return the distances as a sparse matrix, rows in ascending order, explicit zeros kept.

        Parameters
        ----------
        include_self : bool, default=False
            Whether each row starts with the node itself, at distance 0. scikit-learn's estimators with
            ``metric="precomputed"`` need True, cleanlab's ``knn_graph`` needs False, scanpy accepts both.
        n_columns : int or None, default=None
            The number of rows of X, if the nodes are queries. None takes the number of nodes.

        Returns
        -------
        (n, n_columns) scipy.sparse.csr_array
            Distances as float64.

        See Also
        --------
        NeighborsTransformer : the same matrix inside a scikit-learn pipeline.

        Examples
        --------
        >>> import asbc
        >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=1)
        >>> neighbors.to_distances().toarray()
        array([[0., 1., 0.],
               [1., 0., 0.],
               [0., 2., 0.]])
        """
        check_type(self)
        indices, distances = self.indices, self.distances
        if true_or_false(include_self, "include_self"):
            if self.first is None:
                raise ValueError("include_self=True needs nodes that are rows of X; these are queries.")
            own = np.arange(self.first, self.first + self.n)[:, None]
            indices = np.concatenate([own, indices], axis=1)
            distances = np.concatenate([np.zeros((self.n, 1)), distances], axis=1)
        columns = self.n if n_columns is None else whole_number(n_columns, "n_columns", 1, MOST_NODES)
        if indices.max() >= columns:
            raise ValueError(
                f"n_columns must be more than {indices.max()}, the last row of X referred to; got {columns}."
            )
        integer = np.int32 if max(indices.size, columns) < 2**31 else np.int64
        starts = np.arange(0, indices.size + 1, indices.shape[1], dtype=integer)
        parts = (np.array(distances).ravel(), indices.astype(integer).ravel(), starts)
        return sparse.csr_array(parts, shape=(self.n, columns))


def check_type(neighbors: Neighbors, name: str = "neighbors") -> None:
    """Refuse an invalid :class:`Neighbors`, because compiled code would read beyond its arrays.

    An object is checked once. Blocks cut out of it are then valid, too.
    """
    if not isinstance(neighbors, Neighbors):
        raise TypeError(f"{name} must be asbc.Neighbors, as from search_neighbors; got {type(neighbors).__name__}.")
    if neighbors.__dict__.get("_checked"):
        return
    indices, distances, pairs = neighbors.indices, neighbors.distances, neighbors.pairs
    kinds = [array.dtype.kind if isinstance(array, np.ndarray) else type(array) for array in (indices, distances)]
    if kinds[0] not in ("i", "u") or kinds[1] != "f":
        got = [getattr(array, "dtype", type(array).__name__) for array in (indices, distances)]
        raise TypeError(
            f"{name} must have whole numbers as indices and floats as distances, in arrays; got {got[0]} and {got[1]}."
        )
    if indices.ndim != 2 or not indices.size or indices.shape != distances.shape:
        raise ValueError(
            f"{name} must have indices and distances of one 2-dimensional shape; "
            f"got {indices.shape} and {distances.shape}."
        )
    for array in (indices, distances):
        plain_array(array, name)  # refuses masked entries
    descending = ~(distances[:, 1:] >= distances[:, :-1]).all(axis=1)
    own = np.full(neighbors.n, -1)  # the nodes as rows of X; queries are none
    if neighbors.first is not None:
        own = np.arange(neighbors.n) + whole_number(neighbors.first, f"{name}.first", 0, MOST_NODES)
    for wrong, wanted in (
        (indices.min(axis=1) < 0, "indices of at least 0"),
        (
            descending | ~(distances[:, -1] < np.inf) | ~(distances[:, 0] >= 0),
            "distances that are finite, at least 0 and in ascending order",
        ),
        (
            (indices == own[:, None]).any(axis=1),
            "no node among its own neighbours (GraphBuilder.fit(X, neighbors=...) removes it; set first=None for "
            "queries)",
        ),
    ):
        if wrong.any():
            raise ValueError(f"{name} must have {wanted}; row {int(np.argmax(wrong))} does not.")
    shape = (neighbors.n, int(pair_count(neighbors.k)))
    if pairs is not None and (not isinstance(pairs, np.ndarray) or pairs.shape != shape or pairs.dtype != np.float64):
        raise ValueError(f"{name} must have pairs of shape {shape} and dtype float64, as from with_pairs.")
    object.__setattr__(neighbors, "_checked", True)


def _inherit_check(checked: Neighbors, part: Neighbors) -> Neighbors:
    """Mark a non-empty part of checked neighbours as checked."""
    if checked.__dict__.get("_checked") and part.indices.size:
        object.__setattr__(part, "_checked", True)
    return part


def check_neighbors(X: Floats, neighbors: Neighbors) -> None:
    """Refuse neighbours that do not belong to `X`, by comparing the distances of sixteen nodes."""
    check_type(neighbors)
    last = max(int(neighbors.indices.max()), -1 if neighbors.first is None else neighbors.first + neighbors.n - 1)
    if last >= len(X):
        raise ValueError(f"neighbors does not match X: it refers to row {last}, and X has {len(X)} rows.")
    if neighbors.first is None:
        return
    rows = np.unique(np.linspace(0, neighbors.n - 1, 16).astype(int))
    nodes = np.ascontiguousarray(X[neighbors.first + rows])
    measured = np.sqrt(listed_distances(X, nodes, neighbors.indices[rows].astype(np.int64)))
    given = neighbors.distances[rows]
    if not np.allclose(measured, given, rtol=1e-3, atol=1e-5 * given.max()):
        raise ValueError(
            "neighbors does not match X: its distances are not those between the rows of X. Pass asbc.normalize(X) "
            "with neighbours found by metric='cosine'."
        )


def vectors_for(X: ArrayLike | None, neighbors: Neighbors) -> Floats | None:
    """Return `X`, checked and compared with its neighbours; None may stay None if they hold their pairs."""
    if X is None and isinstance(neighbors, Neighbors) and neighbors.pairs is not None:
        check_type(neighbors)
        return None
    vectors = as_vectors(X)
    check_neighbors(vectors, neighbors)
    return vectors


def with_pairs(X: Floats | None, neighbors: Neighbors) -> Neighbors:
    """Return the same neighbours with the distances among them, computed once for all later steps."""
    if neighbors.pairs is not None:
        return neighbors
    return _inherit_check(neighbors, replace(neighbors, pairs=neighborhood_distances(X, neighbors.indices)))


def blocks_with_pairs(X: Floats | None, neighbors: Neighbors) -> Iterator[tuple[slice, Neighbors]]:
    """Yield blocks of nodes that hold the distances among their neighbours.

    Memory does not grow with n: a block is as large as needed to keep every thread busy, 7 MB with two threads and
    k = 30.
    """
    wanted = BLOCK_TASKS_PER_THREAD * NODES_PER_TASK * thread_count()
    step = max(1, min(wanted, 2 * MOST_PAIRS // neighbors.k**2))
    for start in range(0, neighbors.n, step):
        rows = slice(start, min(start + step, neighbors.n))
        yield rows, with_pairs(X, neighbors.rows(rows.start, rows.stop))


def neighborhoods(X: Floats | None, neighbors: Neighbors) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the same blocks as nodes and the squared distances among each node's neighbours."""
    for rows, block in blocks_with_pairs(X, neighbors):
        assert block.pairs is not None
        yield rows, block.pairs


def kth_distance(neighbors: Neighbors, k: int) -> NDArray[np.float64]:
    """Return the distance (n,) to the k-th neighbour; if it is 0, the least positive distance, if any."""
    distances = neighbors.distances
    positive = np.where(distances > 0, distances, np.inf).min(axis=1)
    at_k = distances[:, k - 1]
    return np.where(at_k > 0, at_k, np.where(np.isfinite(positive), positive, 0.0))
