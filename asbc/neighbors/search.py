"""Who is near whom: the one function for every kind of search.

Approximate search is an index that proposes candidates; distances in double precision decide among them. So it may
miss neighbours, and never gives a wrong distance. Rows with too few candidates are searched exactly.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import listed_distances
from asbc.neighbors.exact import Ids, exact_distances, search_exactly
from asbc.neighbors.external import HNSW, Listed, nn_descent_candidates
from asbc.neighbors.lists import KMEANS_ROUNDS, InvertedLists, train_centroids
from asbc.neighbors.options import RECALL, check_recall, check_search
from asbc.neighbors.recall import SAMPLE_NODES, measure_recall, warn_of_recall
from asbc.neighbors.tuning import Decision, decide_breadth, decide_lists
from asbc.neighbors.types import Neighbors
from asbc.validation import LARGEST_SEED, Floats, as_vectors, check_k, normalize, one_of, whole_number

BLOCK_ROWS = 16384  # rows whose neighbours are looked for together


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
    """Nearest neighbours, exact unless another kind of search is asked for.

    Matrix products in single precision propose candidates, distances in double precision decide, and a bound on
    the rounding error certifies that no other row can be nearer; rows that it cannot certify are searched again in
    double precision. The answer depends neither on block sizes nor on threads.

    Parameters
    ----------
    X : (n, d) array of any real dtype
    k : int
    metric : {"euclidean", "cosine"}
        ``"cosine"`` scales rows to unit length first, which orders neighbours by angle. The distances are then
        euclidean ones between unit vectors, ``sqrt(2 - 2 cos)``: pass ``asbc.normalize(X)`` to what comes next.
    queries : (m, d) array, optional
        Search the neighbours of these among the rows of X. By default the nodes are the rows of X themselves, and
        none is its own neighbour.
    search : {"exact", "auto", "ivf", "hnsw", "nn_descent"}, default="exact"
        ``"auto"`` is exact up to 20,000 rows, and by inverted lists above where they cost less. The others are
        approximate: inverted lists, a small-world graph (faiss), and nearest-neighbour descent (pynndescent); the
        last two need ``asbc[scale]``. They may miss neighbours, never give a wrong distance, and measure their recall
        on a sample; where it is not reached there is a :class:`asbc.LowRecallWarning`.
    recall : float, default=0.98
        The share of the neighbours that approximate search is to find. The exact neighbours of a sample of nodes tell
        how many lists (``"ivf"``) or candidates (``"hnsw"``) that takes; where exact search would cost less than so
        many lists, it takes their place.
    **options
        Of approximate search: ``seed``; ``sample``, the nodes that recall is measured on (1000); ``n_lists`` and
        ``n_probe`` of ``"ivf"``; ``links``, ``ef_construction`` and ``ef_search`` of ``"hnsw"``; ``n_trees`` of
        ``"nn_descent"``. Given ``n_probe`` or ``ef_search``, `recall` decides nothing.

    Returns
    -------
    Neighbors with n (or m) rows
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
    sample: int = SAMPLE_NODES,
    **options: int,
) -> Neighbors:
    """What ``search_neighbors(search=...)`` does once X is checked; `options` are those of :data:`OPTIONS`."""
    n = len(X)
    check_search(search, n, options)
    check_recall(recall)
    whole_number(seed, "seed", 0, LARGEST_SEED)
    whole_number(sample, "sample", 1)
    if queries is None:
        k = check_k(k, n)
    else:
        k = check_k(k, n + 1)
        if search == "nn_descent":
            raise ValueError(
                "search='nn_descent' finds the neighbours of the rows of X only; use 'ivf' or 'hnsw' for queries."
            )
    index, decision = build_index(X, k, search, options, recall, seed)
    if index is None:
        return search_exactly(X, k, queries)
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


def build_index(X: Floats, k: int, search: str, options: Mapping[str, Any], recall: float = RECALL, seed: int = 0):
    """An index in memory, with ``candidates(X, vectors, rows, wanted)``, and the decision that led to it.

    The index is None where exact search costs less.
    """
    settings = check_search(search, len(X), options)
    if search in ("auto", "ivf"):
        lists = functools.cache(lambda rounds: train_centroids(X, settings["n_lists"], seed, rounds))
        decision = decide_lists(X, k, search, settings, recall, seed, lists)
        if decision.search == "exact":
            return None, decision
        return InvertedLists.build(X, lists(KMEANS_ROUNDS), decision.options["n_probe"]), decision
    if search == "hnsw":
        index = HNSW.build(X, settings)
        decision = decide_breadth(X, k, settings, recall, seed, index)
        index.breadth = decision.options["ef_search"]
        return index, decision
    if search == "nn_descent":
        return Listed(nn_descent_candidates(X, k, settings["n_trees"], seed)), Decision(search, settings, recall)
    return None, Decision("exact", {})


def find_rows(X: Floats, rows: Ids, index, k: int) -> tuple[Ids, NDArray[np.float64], int]:
    """Neighbours of some rows of X: indices and distances (m, k), and how many rows had to be searched exactly.

    A row's answer does not depend on which other rows are asked for together with it.
    """
    vectors = _take(X, rows)
    if index is None:
        return *exact_distances(X, vectors, k, rows), 0
    ids, squared = index.candidates(X, vectors, rows, k + 1)
    return _decide(X, vectors, ids, squared, k, rows)


def _take(X: Floats, rows: Ids) -> Floats:
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return X[rows[0] : rows[-1] + 1]  # a view: consecutive rows need no copy
    return np.ascontiguousarray(X[rows])


def _decide(X, vectors, ids, squared, k, own) -> tuple[Ids, NDArray[np.float64], int]:
    """The k nearest of the candidates by exact distance and then id; short rows are searched exactly.

    `squared` are the candidates' distances if the index has them, in the bits of `listed_distances`; `own` are the
    ids that the vectors have themselves in X, if they are rows of it.
    """
    if squared is None:
        ids = np.sort(np.asarray(ids, np.int64), axis=1)
        if ids.size and (ids[:, 0].min() < -1 or ids[:, -1].max() >= len(X)):
            raise ValueError(f"the index does not belong to X: it refers to rows beyond the {len(X)} there are.")
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        squared = listed_distances(X, np.ascontiguousarray(vectors), ids)
    if own is not None:
        taken = ids == own[:, None]
        ids, squared = np.where(taken, -1, ids), np.where(taken, np.inf, squared)
    order = np.lexsort((ids, squared))[:, :k]
    ids = np.take_along_axis(ids, order, axis=1)
    squared = np.take_along_axis(squared, order, axis=1)
    short = np.arange(len(ids)) if ids.shape[1] < k else np.flatnonzero(ids.min(axis=1) < 0)
    distances = np.sqrt(squared)
    if len(short):
        found = exact_distances(X, np.ascontiguousarray(vectors[short]), k, None if own is None else own[short])
        if len(short) == len(ids):
            return *found, len(short)
        ids[short], distances[short] = found
    return ids, distances, len(short)
