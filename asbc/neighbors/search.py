"""Who is near whom: one function for every kind of search.

Approximate search has an index that proposes candidates, and distances in double precision decide among them. So it
may miss neighbours, but never gives a wrong distance. Rows with fewer than k candidates are searched exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import listed_distances
from asbc.kernels.topk import settle
from asbc.neighbors.exact import Ids, exact_distances, search_exactly
from asbc.neighbors.external import HNSW, Listed, nn_descent_candidates
from asbc.neighbors.lists import InvertedLists, train_centroids
from asbc.neighbors.options import RECALL, check_recall, check_search
from asbc.neighbors.recall import measure_recall, warn_of_recall
from asbc.neighbors.tuning import Decision, decide_breadth, decide_lists
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, as_vectors, check_k, normalize, one_of, seed_number, whole_number

BLOCK_ROWS = 65536  # rows whose neighbours are looked for together: the more, the larger the products with a list


def search_neighbors(
    X: ArrayLike,
    k: int = 30,
    *,
    metric: str = "euclidean",
    queries: ArrayLike | None = None,
    search: str = "exact",
    recall: float = RECALL,
    **options: int,
) -> Neighbors:
    """Find the k nearest neighbours of every row of X, or of every query, among the rows of X.

    The exact search is quick: matrix products in single precision propose candidates, distances in double precision
    decide, and a bound on the rounding error certifies that no other row can be nearer. Rows that it cannot certify are
    searched again in double precision. The answer depends neither on block sizes nor on threads.

    Parameters
    ----------
    X : (n, d) array of any real dtype
        The vectors.
    k : int, default=30
        Neighbours per node.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ``"cosine"`` scales rows to unit length first, which orders neighbours by angle. The distances are then
        euclidean ones between unit vectors, ``sqrt(2 - 2 cos)``: pass ``asbc.normalize(X)`` to the steps that follow.
    queries : (m, d) array or None, default=None
        Vectors whose neighbours among the rows of X are wanted. None takes the rows of X themselves, none of which is
        its own neighbour.
    search : {"exact", "auto", "ivf", "hnsw", "nn_descent"}, default="exact"
        The kind of search. ``"auto"`` is exact up to 20,000 rows, and by inverted lists above where they cost less.
        The last three are approximate: inverted lists, a small-world graph (faiss), and nearest-neighbour descent
        (pynndescent); the last two need ``asbc[scale]``. They may miss neighbours, but never give a wrong distance, and
        measure their recall on a sample. Where it is not reached there is a :class:`LowRecallWarning`.
    recall : float, default=0.98
        The share of the neighbours that approximate search is to find. The exact neighbours of a sample of nodes tell
        how many lists (``"ivf"``) or candidates (``"hnsw"``) that takes; where exact search would cost less than so
        many lists, it takes their place.
    **options : int
        Options of approximate search. All kinds: ``seed`` (0), which draws samples; and ``sample``, the nodes that
        recall is measured on (one of 200, from 500 to 1,000). ``"ivf"``: ``n_lists``, the inverted lists (about
        2 sqrt(n)); and ``n_probe``, the lists that each node looks at. ``"hnsw"``: ``links`` (32) per node;
        ``ef_construction`` (100) and ``ef_search``, the candidates kept while building and while searching.
        ``"nn_descent"``: ``n_trees``, the trees that it starts
        from. Given ``n_probe`` or ``ef_search``, `recall` decides nothing.

    Returns
    -------
    Neighbors
        Of the n rows or m queries, nearest first, equal distances in order of index.

    See Also
    --------
    GraphBuilder : searches, and does all the rest.
    normalize : what ``metric="cosine"`` does to the rows.

    Examples
    --------
    >>> import asbc
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> neighbors.indices
    array([[1, 2],
           [0, 2],
           [1, 0]])
    >>> neighbors.distances
    array([[1., 3.],
           [1., 2.],
           [2., 3.]])
    >>> asbc.search_neighbors([[0.0], [1.0], [3.0]], k=1, queries=[[2.6]]).indices
    array([[2]])
    """
    one_of(metric, "metric", ("euclidean", "cosine"))
    prepare = normalize if metric == "cosine" else as_vectors
    X = prepare(X)
    Q = None if queries is None else _prepared_queries(queries, X, prepare)
    if search == "exact" and options:
        raise ValueError(f"search='exact' has no options; got {', '.join(options)}.")
    if search != "exact":
        return search_approximately(X, k, search, recall=recall, queries=Q, **options)
    return search_exactly(X, k, Q)


def _prepared_queries(queries, X, prepare):
    """The queries, checked and, for cosine, normalised, with as many columns as X."""
    Q = prepare(queries, "queries")
    if Q.shape[1] != X.shape[1]:
        raise ValueError(f"queries must have the {X.shape[1]} columns of X; got {Q.shape[1]}.")
    return Q


def search_approximately(
    X: Floats,
    k: int,
    search: str,
    *,
    recall: float = RECALL,
    queries: Floats | None = None,
    seed: int = 0,
    sample: int | None = None,
    **options: int,
) -> Neighbors:
    """The approximate kinds of :func:`search_neighbors`, once X and the queries are checked.

    `seed`, `sample` and the `options`, which are those of :data:`OPTIONS`, are explained there.
    """
    n = len(X)
    check_search(search, n, options)
    check_recall(recall)
    seed_number(seed)
    if sample is not None:
        whole_number(sample, "sample", 1)
    if queries is None:
        k = check_k(k, n)
    else:
        k = check_k(k, n + 1)
        if search == "nn_descent":
            raise ValueError(
                "search='nn_descent' finds the neighbours of the rows of X only; use 'ivf' or 'hnsw' for queries."
            )
    asked = None if queries is None else len(queries)
    index, decision = build_index(X, k, search, options, recall, seed, asked)
    if index is None:
        return search_exactly(X, k, queries, decision.outlining)
    source = X if queries is None else queries
    indices = np.empty((len(source), k), np.int64)
    distances = np.empty((len(source), k))
    for start in range(0, len(source), BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, len(source)))
        if queries is None:
            found = find_rows(X, np.arange(block.start, block.stop), index, k)
        else:
            ids, squared = index.candidates(X, queries[block], None, k)
            found = _decide(X, queries[block], ids, squared, k, None)
        indices[block], distances[block] = found[:2]
    reached = measure_recall(
        X, source, k, lambda nodes: distances[nodes], among_rows=queries is None, seed=seed, sample=sample
    )
    warn_of_recall(reached, decision.search, decision.options, decision.target)
    return Neighbors(indices, distances, first=0 if queries is None else None, recall=reached.value)


def build_index(
    X: Floats,
    k: int,
    search: str,
    options: Mapping[str, Any],
    recall: float = RECALL,
    seed: int = 0,
    asked: int | None = None,
):
    """An index in memory, which has the method ``candidates(X, vectors, rows, wanted)``, and the decision for it.

    Of the `vectors` (m, d), which are the `rows` (m,) of X or queries if that is None, it proposes about `wanted`
    candidates each: ids (m, c), -1 for none, and their squared distances (m, c), or None if it does not know them. The
    index is None where exact search costs less: of all rows together, or of so many queries (`asked`).
    """
    settings = check_search(search, len(X), options)
    if search in ("auto", "ivf"):
        lists = functools.cache(lambda: train_centroids(X, settings["n_lists"], seed))
        decision = decide_lists(X, k, search, settings, recall, seed, lists, asked)
        if decision.search == "exact":
            return None, decision
        return InvertedLists.build(X, lists(), decision.options["n_probe"]), decision
    if search == "hnsw":
        index = HNSW.build(X, settings)
        decision = decide_breadth(X, k, settings, recall, seed, index)
        index.breadth = decision.options["ef_search"]
        return index, decision
    if search == "nn_descent":
        return Listed(nn_descent_candidates(X, k, settings["n_trees"], seed)), Decision(search, settings, recall)
    return None, Decision("exact", {})


def find_rows(X: Floats, rows: Ids, index, k: int) -> tuple[Ids, NDArray[np.float64], int]:
    """Neighbours of some rows (m,) of X: indices and distances (m, k), and how many rows had to be searched exactly.

    Without an index (None) all rows are searched exactly, and none is counted. A row's answer does not depend on which
    other rows are asked for together with it.
    """
    vectors = _take(X, rows)
    if index is None:
        return *exact_distances(X, vectors, k, rows), 0
    ids, squared = index.candidates(X, vectors, rows, k + 1)
    return _decide(X, vectors, ids, squared, k, rows)


def _take(X: Floats, rows: Ids) -> Floats:
    """The given rows of X, as a contiguous array."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return X[rows[0] : rows[-1] + 1]  # a view: consecutive rows need no copy
    return np.ascontiguousarray(X[rows])


def _decide(X, vectors, ids, squared, k, own) -> tuple[Ids, NDArray[np.float64], int]:
    """The k nearest of the candidates by distance and then id, and how many vectors had too few candidates.

    Those are searched exactly. `squared` are the candidates' squared distances, the same to the last bit as
    `listed_distances` gives, or None if the index does not know them. `own` (m,) are the rows of X that the vectors
    are, or None if they are queries.
    """
    if squared is None:
        ids = np.sort(np.asarray(ids, np.int64), axis=1)
        if ids.size and (ids[:, 0].min() < -1 or ids[:, -1].max() >= len(X)):
            raise ValueError(f"the index does not belong to X: it refers to rows beyond the {len(X)} there are.")
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        squared = listed_distances(X, np.ascontiguousarray(vectors), ids)
    nobody = np.full(len(ids), -1)
    ids, distances, _ = settle(squared, ids, nobody if own is None else own, np.full(len(ids), np.inf), 1, k)
    short = np.flatnonzero(ids[:, -1] < 0)
    if len(short):
        found = exact_distances(X, np.ascontiguousarray(vectors[short]), k, None if own is None else own[short])
        if len(short) == len(ids):
            return *found, len(short)
        ids[short], distances[short] = found
    return ids, distances, len(short)
