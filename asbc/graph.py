"""From rows of weights to a sparse graph: normalise, then symmetrise."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from asbc.neighbors.types import Neighbors, check_type
from asbc.validation import MOST_NODES, one_of, weight_rows, whole_number
from asbc.weights import Matrix, normalize_weights

SYMMETRIES = ("mean", "max", None)


def to_graph(
    neighbors: Neighbors, weights: Matrix, *, symmetrize: str | None = "mean", n_columns: int | None = None
) -> sparse.csr_array:
    """The sparse adjacency matrix of rows of weights: rows are normalised to sum 1, then symmetrised.

    Normalising comes first because rows of different bandwidths are not on one scale.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbours of n nodes, k per node.
    weights : (n, k) array
        The weight of each neighbour, 0 or more.
    symmetrize : {"mean", "max", None}, default="mean"
        How the weights of the two directions of an edge become one: their mean, the larger, or not at all.
    n_columns : int or None, default=None
        The number of rows of X, needed where the nodes are queries or some of the rows. None takes n.

    Returns
    -------
    (n, n_columns) scipy.sparse.csr_array
        float64, without explicit zeros, columns sorted.

    See Also
    --------
    GraphBuilder : goes all the way from vectors to a graph.
    normalize_weights : the first of the two steps alone.

    Examples
    --------
    >>> import asbc
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=1)
    >>> asbc.to_graph(neighbors, asbc.uniform_weights(neighbors)).toarray()
    array([[0. , 1. , 0. ],
           [1. , 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    check_type(neighbors)
    one_of(symmetrize, "symmetrize", SYMMETRIES)
    weights = weight_rows(weights, neighbors.indices.shape)
    n, k = weights.shape
    shape = (n, n if n_columns is None else whole_number(n_columns, "n_columns", 1, MOST_NODES))
    last = int(neighbors.indices.max(initial=-1))
    if last >= shape[1]:
        raise ValueError(
            f"n_columns must be the number of rows of X, and neighbors refers to row {last}; got {shape[1]}."
        )
    if symmetrize and (shape[1] != n or neighbors.first != 0):
        raise ValueError(
            f"symmetrize={symmetrize!r} needs the neighbours of all rows of X; these are {n} of {shape[1]} rows, or "
            "queries. Pass symmetrize=None."
        )
    rows = normalize_weights(weights)
    # 32-bit indices where they suffice: much of scikit-learn takes no others.
    integer = np.int32 if max(2 * n * k, *shape) < 2**31 else np.int64
    starts = np.arange(0, n * k + 1, k, dtype=integer)
    # A copy: the next two lines work in place, and the indices belong to the caller.
    columns = neighbors.indices.astype(integer, copy=True).ravel()
    graph = sparse.csr_array((rows.ravel(), columns, starts), shape=shape)
    graph.eliminate_zeros()
    graph.sort_indices()
    if symmetrize == "max":
        graph = graph.maximum(graph.T)
    elif symmetrize == "mean":
        graph = (graph + graph.T) / 2
    return sparse.csr_array(graph)
