"""Where does each node go on the map?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from asbc.export import umap_layout
from asbc.validation import seed_number


def strengths(graph: sparse.csr_array) -> sparse.csr_array:
    """A symmetric graph whose weights are scaled so that every node's strongest edge is 1, as UMAP expects them.

    Rows of a graph sum to about 1, so that a node with many neighbours would hardly be pulled anywhere. An edge takes
    the larger of the strengths that it has for its two nodes.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        Symmetric, weights of at least 0.

    Returns
    -------
    (n, n) scipy.sparse.csr_array

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.explore.layout import strengths
    >>> strengths(sparse.csr_array([[0.0, 0.5, 0.1], [0.5, 0.0, 0.0], [0.1, 0.0, 0.0]])).toarray()
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    edges = sparse.coo_array(graph)
    strongest = np.zeros(graph.shape[0])
    np.maximum.at(strongest, edges.row, edges.data)
    scaled = edges.data / np.minimum(strongest[edges.row], strongest[edges.col])
    return sparse.csr_array((scaled, (edges.row, edges.col)), shape=graph.shape)


def place_nodes(graph: sparse.csr_array, vectors: Any = None, *, seed: int = 0, progress: bool = False) -> NDArray:
    """The place of every node in the plane: UMAP's layout of this graph, from a spectral start.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        A directed one is made symmetric by the larger of both weights.
    vectors : (n, d) array or None, default=None
        By them, pieces of the graph that nothing connects are placed; without them, at random.
    seed : int, default=0
        The same seed gives the same layout.
    progress : bool, default=False
        Whether to show a bar.

    Returns
    -------
    (n, 2) float32
    """
    graph = sparse.csr_array(graph)
    graph = sparse.csr_array(graph.maximum(graph.T))
    graph.eliminate_zeros()
    if vectors is None:
        _, piece = connected_components(graph, directed=False)
        vectors = np.random.default_rng(seed_number(seed)).normal(size=(piece.max() + 1, 2))[piece]
    return umap_layout(strengths(graph), vectors, seed=seed, progress=progress)
