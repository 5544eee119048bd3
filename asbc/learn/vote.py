"""Leave-one-out vote: predict each node from the weighted labels of its neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.learn.source import GraphRows, row_blocks
from asbc.validation import class_codes, real_array, square_graph, weight_rows

# Two classes whose votes differ by a smaller share than this are tied, so that rounding does not decide.
TIE = 1e-12
NODES_AT_ONCE = 4096  # whose votes for all classes are in memory together
PAIRS_AT_ONCE = 2**21  # pairs of a node's neighbours whose classes are compared together


def loo_predict(indices: NDArray[Any], weights: NDArray[Any], codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class code (n,) that the neighbours of each node vote for; its own label is never used.

    Parameters
    ----------
    indices : (n, k) int
        Neighbours of each node, nearest first, without the node itself.
    weights : (n, k) float
        Not negative; rows need not be normalised.
    codes : (n,) int
        Class codes from 0; -1 for an unlabelled node, which does not vote.

    Returns
    -------
    (n,) int64
        -1 where no neighbour votes. A tie goes to the class of the nearest voter.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.learn.vote import loo_predict
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [1.5], [9.0]], k=2)
    >>> weights = asbc.gaussian_weights(neighbors, sigma=1.0)
    >>> loo_predict(neighbors.indices, weights, np.array([0, 0, 1, 1]))
    array([0, 1, 0, 1])
    """
    codes = class_codes(codes, None, least=-1)
    indices = real_array(indices, "indices", ("n", "k"), low=0, high=len(codes) - 1, whole=True)
    weights = weight_rows(weights, indices.shape)
    winner = np.empty(len(indices), np.int64)
    step = max(1, PAIRS_AT_ONCE // indices.shape[1] ** 2)
    for start in range(0, len(indices), step):
        voted = codes[indices[start : start + step]]
        votes = np.where(voted >= 0, weights[start : start + step], 0.0)
        support = ((voted[:, :, None] == voted[:, None, :]) @ votes[:, :, None])[:, :, 0]  # of each neighbour's class
        support[votes == 0] = 0.0
        most = support.max(axis=1)
        nearest = np.argmax(support >= most[:, None] * (1.0 - TIE), axis=1)
        winner[start : start + step] = np.where(most > 0, voted[np.arange(len(voted)), nearest], -1)
    return winner


def vote_of_rows(rows: GraphRows, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the result of :func:`loo_predict` for all rows, which are read block by block."""
    winner = np.empty(rows.neighbors.n, dtype=np.int64)
    for block in row_blocks(rows):
        winner[block.nodes] = loo_predict(block.indices, block.weights, codes)
    return winner


def ballots(codes: NDArray[np.int64], count: int) -> sparse.csr_array:
    """Return the matrix (n, count) with a 1 for the class of each labelled node."""
    voters = np.flatnonzero(codes >= 0)
    return sparse.csr_array((np.ones(len(voters)), (voters, codes[voters])), shape=(len(codes), count))


def graph_vote(graph: sparse.csr_array, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class code (n,) that each node's neighbours in a graph vote for; its own label is never used.

    Unlike :func:`loo_predict` it uses the symmetrised graph, in which nodes also vote for those that have them as
    neighbours. A node without voters gets -1; a tie goes to the smaller code.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.learn.vote import graph_vote
    >>> graph_vote(sparse.csr_array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), np.array([0, 1, 2]))
    array([1, 0, 0])
    """
    graph = square_graph(graph)
    n = graph.shape[0]
    codes = class_codes(codes, n, least=-1)
    member = ballots(codes, int(codes.max()) + 1)
    out = np.empty(n, dtype=np.int64)
    for start in range(0, n, NODES_AT_ONCE):
        votes = sparse.csr_array(graph[start : start + NODES_AT_ONCE] @ member).toarray()
        most = votes.max(axis=1, keepdims=True)
        out[start : start + NODES_AT_ONCE] = np.where(most[:, 0] > 0, (votes >= most * (1.0 - TIE)).argmax(axis=1), -1)
    return out
