"""Classes of nodes from the labels around them: the vote of neighbours, and label propagation."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from asbc.kernels.propagate import CLASSES_PER_STRIP, conjugate_strips, propagate_strips
from asbc.kernels.threads import thread_count
from asbc.learn.source import GraphRows, row_blocks
from asbc.validation import MOST_CLASSES, class_codes, real_array, square_graph, weight_rows, whole_number

SCORE_BYTES = 256 * 2**20  # scores that are iterated together, unless one strip per thread needs more
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
    >>> from asbc.learn.predict import loo_predict
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


def ballots(codes: NDArray[np.int64], count: int) -> sp.csr_array:
    """Return the matrix (n, count) with a 1 for the class of each labelled node."""
    voters = np.flatnonzero(codes >= 0)
    return sp.csr_array((np.ones(len(voters)), (voters, codes[voters])), shape=(len(codes), count))


def graph_vote(graph: sp.csr_array, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class code (n,) that each node's neighbours in a graph vote for; its own label is never used.

    Unlike :func:`loo_predict` it uses the symmetrised graph, in which nodes also vote for those that have them as
    neighbours. A node without voters gets -1; a tie goes to the smaller code.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.learn.predict import graph_vote
    >>> graph_vote(sparse.csr_array([[0.0, 1.0, 0.5], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), np.array([0, 1, 2]))
    array([1, 0, 0])
    """
    graph = square_graph(graph)
    n = graph.shape[0]
    codes = class_codes(codes, n, least=-1)
    member = ballots(codes, int(codes.max()) + 1)
    out = np.empty(n, dtype=np.int64)
    for start in range(0, n, NODES_AT_ONCE):
        votes = sp.csr_array(graph[start : start + NODES_AT_ONCE] @ member).toarray()
        most = votes.max(axis=1, keepdims=True)
        out[start : start + NODES_AT_ONCE] = np.where(most[:, 0] > 0, (votes >= most * (1.0 - TIE)).argmax(axis=1), -1)
    return out


@dataclass(frozen=True)
class Propagation:
    """The result of :func:`propagate`.

    Attributes
    ----------
    scores : (n, c) float64
        Score of each class at each node.
    predicted : (n,) int64
        Code of the class with the best score; -1 where no label arrived. Ties go to the smaller code.
    rounds : int
    converged : bool
        Whether the tolerance was reached.
    """

    scores: NDArray[np.float64]
    predicted: NDArray[np.int64]
    rounds: int
    converged: bool


def transition(graph: Any, shown: NDArray[np.bool_]) -> sp.csr_array:
    """Return ``P = D^-1 W`` for the graph W: rows sum to 1, and those of the nodes in `shown` are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.learn.predict import transition
    >>> chain = sparse.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> transition(chain, np.array([True, False, False])).toarray()
    array([[0. , 0. , 0. ],
           [0.5, 0. , 0.5],
           [0. , 1. , 0. ]])
    """
    W = square_graph(graph).astype(np.float64)
    shown = real_array(shown, "shown", (W.shape[0],)).astype(bool)
    degree = np.asarray(W.sum(axis=1)).reshape(-1)
    scale = np.where((degree > 0) & ~shown, 1.0 / np.where(degree > 0, degree, 1.0), 0.0)
    P = sp.csr_array(sp.diags_array(scale) @ W)
    P.eliminate_zeros()
    return P


def propagate(
    graph: Any,
    codes: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    n_classes: int | None = None,
    alpha: float = 0.85,
    max_rounds: int = 200,
    tol: float = 1e-6,
) -> Propagation:
    """Propagate labels over the graph.

    Iterates ``F <- alpha P F + (1 - alpha) Y``, where F are the scores (n, c), P is the matrix of :func:`transition`,
    and Y (n, c) has a 1 for the class of each labelled node. On a symmetric graph, conjugate gradients approach the
    limit in about a third of the rounds first, unless some scores are as small as the tolerance.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        Not negative.
    codes : (n,) int
        Class code of each node, from 0. Only those of labelled nodes are read.
    shown : (n,) bool
        The labelled nodes.
    n_classes : int or None, default=None
        Columns of the scores; None is the largest code plus 1.
    alpha : float, default=0.85
        Share of a node's score that comes from its neighbours, between 0 and 1.
    max_rounds : int, default=200
        Largest number of rounds.
    tol : float, default=1e-06
        Stop when no score is farther than this from its limit; 0 runs every round. Each round shrinks the distance to
        the limit by alpha, so after a largest change of c it is at most ``c alpha / (1 - alpha)``.

    Returns
    -------
    Propagation
        Scores, best class of each node, and whether the rounds converged.

    See Also
    --------
    asbc.learn.labels.reveal : chooses labelled nodes.

    Examples
    --------
    Two pairs of nodes that are joined by a weak edge, one label in each pair:

    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.learn.predict import propagate
    >>> W = sparse.csr_array([[0, 1, 0, 0], [1, 0, 0.1, 0], [0, 0.1, 0, 1], [0, 0, 1, 0]])
    >>> propagate(W, np.array([0, 0, 1, 1]), np.array([True, False, False, True])).predicted
    array([0, 0, 1, 1])
    """
    graph = square_graph(graph)
    shape = (int(graph.shape[0]),)
    shown = real_array(shown, "shown", shape).astype(bool)
    codes = real_array(codes, "codes", shape, whole=True)
    if not shown.any():
        raise ValueError("shown must name at least one labelled node; got none")
    if not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
        raise ValueError(f"alpha must lie between 0 and 1; got {alpha!r}")
    if not isinstance(tol, Real) or not 0 <= float(tol) < np.inf:
        raise ValueError(f"tol must be a number of at least 0; got {tol!r}")
    max_rounds = whole_number(max_rounds, "max_rounds", 1, 2**31 - 1)
    c = whole_number(codes.max() + 1 if n_classes is None else n_classes, "n_classes", 1, MOST_CLASSES)
    real_array(codes[shown], "codes", low=0, high=c - 1, whole=True)
    P = transition(graph, shown)
    change = tol / max(1.0, alpha / (1.0 - alpha))  # per round, below which no score is farther than tol from its limit
    if tol > 0 and _symmetric(graph):
        found = _iterate(P, codes, shown, c, alpha, max_rounds, change, np.asarray(graph.sum(axis=1), np.float64))
        if found.converged and not _too_small(graph, shown, found.scores, tol):
            return found
    return _iterate(P, codes, shown, c, alpha, max_rounds, change)


def _symmetric(graph: sp.csr_array) -> bool:
    other = graph.T.tocsr()
    return all(np.array_equal(getattr(graph, name), getattr(other, name)) for name in ("indptr", "indices", "data"))


def _too_small(graph: sp.csr_array, shown: NDArray[np.bool_], scores: NDArray[np.float64], tol: float) -> bool:
    """Return whether a node that a label reaches has scores as small as the error."""
    weak = scores.max(axis=1) < 100 * tol
    if not weak.any():
        return False
    member = connected_components(graph, directed=False)[1]
    return bool(np.isin(member[weak], member[shown]).any())


def _iterate(P, codes, shown, c, alpha, max_rounds, wanted, degree=None) -> Propagation:
    """Run rounds until no score changes by more than `wanted`; given the `degree`, accelerated ones."""
    n = P.shape[0]
    seen = np.flatnonzero(shown)
    scores = np.zeros((n, c))
    most, converged = 0, True
    strips = np.arange(-(-c // CLASSES_PER_STRIP))
    # Classes are independent, so only some strips of them are in memory at a time.
    together = max(thread_count(), SCORE_BYTES // (n * CLASSES_PER_STRIP * 8))
    for low in range(0, len(strips), together):
        turn = strips[low : low + together]
        source = np.zeros((len(turn), n, CLASSES_PER_STRIP))
        mine = seen[np.isin(codes[seen] // CLASSES_PER_STRIP, turn)]
        place = np.searchsorted(turn, codes[mine] // CLASSES_PER_STRIP)
        source[place, mine, codes[mine] % CLASSES_PER_STRIP] = 1.0 - alpha
        matrix = P.indptr, P.indices, P.data, alpha
        begin, before = None, 0
        if degree is not None:
            # A little further than needed, so that the first round of the formula confirms it.
            begin, before = conjugate_strips(*matrix, degree, source, max_rounds - 1, 0.85 * wanted)
        limits, rounds, change = propagate_strips(*matrix, source, max_rounds - before, wanted, begin)
        for number, strip in zip(turn, limits, strict=True):
            first = number * CLASSES_PER_STRIP
            scores[:, first : first + CLASSES_PER_STRIP] = strip[:, : c - first]
        most, converged = max(most, before + int(rounds.max())), converged and bool((change < wanted).all())
    predicted = np.where(scores.max(axis=1) > 0, scores.argmax(axis=1), -1)
    return Propagation(scores, predicted, most, converged)
