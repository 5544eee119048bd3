"""Graph health: is the graph in one piece, and were the kernels it came from well behaved?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from asbc.kernels.criterion import evaluate_all_at
from asbc.neighbors.types import Neighbors, neighborhoods, vectors_for
from asbc.validation import sigma_per_node, square_graph


@dataclass(frozen=True)
class GraphShape:
    """The pieces, edges and degrees of a graph; :func:`graph_health` gives it.

    Attributes
    ----------
    components : int
        Connected pieces; the direction of an edge does not matter.
    largest : float
        Share of the nodes in the largest piece.
    isolated : int
        Nodes without any edge, to or from them.
    edges : int
        Entries above 0, so that an edge with both directions counts twice.
    degree_min, degree_median, degree_max : float
        Out-neighbours per node.
    """

    components: int
    largest: float
    isolated: int
    edges: int
    degree_min: float
    degree_median: float
    degree_max: float


def graph_health(graph: Any) -> GraphShape:
    """Count pieces, edges and degrees of a graph.

    Parameters
    ----------
    graph : (n, n) sparse array, entries 0 or more

    Returns
    -------
    GraphShape

    See Also
    --------
    asbc.evaluate.Health : the task that does this for the graph of every method.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.health import graph_health
    >>> shape = graph_health(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    >>> shape.components, shape.isolated, shape.edges
    (2, 1, 2)
    """
    W = square_graph(graph).copy()
    W.eliminate_zeros()
    degree = np.diff(W.indptr)
    reached = np.bincount(W.indices, minlength=W.shape[0])
    count, member = connected_components(W, directed=True, connection="weak")
    return GraphShape(
        components=int(count),
        largest=float(np.bincount(member).max() / W.shape[0]),
        isolated=int(((degree == 0) & (reached == 0)).sum()),
        edges=int(W.nnz),
        degree_min=float(degree.min()),
        degree_median=float(np.median(degree)),
        degree_max=float(degree.max()),
    )


def kernel_condition(X: NDArray[Any], neighbors: Neighbors, sigma: ArrayLike) -> NDArray[np.float64]:
    """Condition number of each node's local kernel `exp(-|x_j - x_k|^2 / (2 sigma_i^2))`.

    Parameters
    ----------
    X : (n, d) array
    neighbors : Neighbors
        Neighbours of each node; the distances among them are taken from it, where it has them.
    sigma : (n,) array or float

    Returns
    -------
    condition : (n,) float64
        Largest eigenvalue over smallest. Values stop at 1/eps (4.5e15), since beyond it the smallest eigenvalue is
        nothing but rounding error. A condition of c is known to about c eps, so that one of 1e12 has four digits.

    Examples
    --------
    >>> import numpy as np, asbc
    >>> from asbc.evaluate.health import kernel_condition
    >>> X = np.array([[0.0], [0.0], [100.0]])
    >>> condition = kernel_condition(X, asbc.search_neighbors(X, k=2), 1.0)
    >>> [f"{value:.1e}" for value in condition]  # the neighbours of the last node coincide
    ['1.0e+00', '1.0e+00', '4.5e+15']
    """
    vectors = vectors_for(X, neighbors)
    width = sigma_per_node(sigma, neighbors.n)
    out = np.empty(neighbors.n)
    for rows, pairs in neighborhoods(vectors, neighbors):
        out[rows] = evaluate_all_at(pairs, width[rows], neighbors.k)[2]
    return out
