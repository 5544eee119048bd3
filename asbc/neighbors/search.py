"""Who is near whom: one function for every kind of search.

Approximate search has an index that proposes candidates, and distances in double precision decide among them. So it
may miss neighbours, but never gives a wrong distance. Rows with fewer than k candidates are searched exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import listed_distances
from asbc.neighbors.exact import Ids, exact_distances, search_exactly
from asbc.neighbors.external import HNSW, Listed, nn_descent_candidates
from asbc.neighbors.lists import InvertedLists
from asbc.neighbors.recall import SAMPLE_NODES, measure_recall, warn_of_recall
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, as_vectors, check_k, normalize, one_of

# The options of each kind of search with their defaults; None is worked out from the number of rows.
OPTIONS: dict[str, dict[str, int | None]] = {
    "exact": {},
    "ivf": {"n_lists": None, "n_probe": 8},
    "hnsw": {"links": 32, "ef_construction": 100, "ef_search": 128},
    "nn_descent": {"n_trees": None},
}
BLOCK_ROWS = 16384  # rows whose neighbours an approximate search looks for together


def search_neighbors(
    X: ArrayLike,
    k: int = 30,
    *,
    metric: str = "euclidean",
    queries: ArrayLike | None = None,
    search: str = "exact",
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
    search : {"exact", "ivf", "hnsw", "nn_descent"}, default="exact"
        The kind of search. Those beside ``"exact"`` are approximate: inverted lists, a small-world graph (faiss), and
        nearest-neighbour descent (pynndescent); the last two need ``asbc[scale]``. They may miss neighbours, but never
        give a wrong distance, and measure their recall on a sample. Where it is below 0.9 there is a
        :class:`LowRecallWarning`.
    **options : int
        Options of approximate search. All kinds: ``seed`` (0), which draws samples; and ``sample`` (1000), the nodes
        that recall is measured on. ``"ivf"``: ``n_lists``, the inverted lists (about 2 sqrt(n)); and ``n_probe`` (8),
        the lists that each node looks at. ``"hnsw"``: ``links`` (32) per node; ``ef_construction`` (100) and
        ``ef_search`` (128), the candidates kept while building and while searching. ``"nn_descent"``: ``n_trees``, the
        trees that it starts from.

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
    if search != "exact" or options:
        return search_approximately(X, k, search, queries=Q, **options)
    return search_exactly(X, k, Q)


def _prepared_queries(queries, X, prepare):
    """The queries, checked and, for cosine, normalised, with as many columns as X."""
    Q = prepare(queries, "queries")
    if Q.shape[1] != X.shape[1]:
        raise ValueError(f"queries must have the {X.shape[1]} columns of X; got {Q.shape[1]}.")
    return Q


def check_search(search: str, n: int, options: Mapping[str, Any]) -> dict[str, int]:
    """All options of a kind of search on n rows: those given, checked, and the defaults of the others."""
    if search not in OPTIONS:
        raise ValueError(f"search must be one of {', '.join(map(repr, OPTIONS))}; got {search!r}.")
    known = OPTIONS[search]
    for name, value in options.items():
        if name not in known:
            valid = ", ".join(known) or "none"
            raise ValueError(f"search={search!r} has no option {name!r}; its options are: {valid}.")
        if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
    filled = {**known, **{name: value for name, value in options.items() if value is not None}}
    if search == "ivf":
        if filled["n_lists"] is None:
            # With about 2 sqrt(n) lists, a query spends as long on choosing its lists as on looking at their rows.
            filled["n_lists"] = max(1, min(n // 32, 2 ** round(np.log2(2 * np.sqrt(n)))))
        if filled["n_lists"] > n:
            raise ValueError(f"n_lists must be at most the number of rows, {n}; got {filled['n_lists']}.")
        filled["n_probe"] = min(int(filled["n_probe"] or 1), int(filled["n_lists"] or 1))
    if search == "nn_descent" and filled["n_trees"] is None:
        filled["n_trees"] = min(32, 5 + round(n**0.25))
    return {name: int(value) for name, value in filled.items() if value is not None}


def search_approximately(
    X: Floats,
    k: int,
    search: str,
    *,
    queries: Floats | None = None,
    seed: int = 0,
    sample: int = SAMPLE_NODES,
    **options: int,
) -> Neighbors:
    """The approximate kinds of :func:`search_neighbors`, once X and the queries are checked.

    `seed`, `sample` and the `options`, which are those of :data:`OPTIONS`, are explained there.
    """
    n = len(X)
    settings = check_search(search, n, options)
    if search == "exact":
        raise ValueError("search='exact' has no options; 'seed' and 'sample' are those of approximate search.")
    if queries is None:
        check_k(k, n)
        rows = np.arange(n)
    else:
        check_k(k, n + 1)
        if search == "nn_descent":
            raise ValueError(
                "search='nn_descent' finds the neighbours of the rows of X only; use 'ivf' or 'hnsw' for queries."
            )
    index = build_index(X, k, search, settings, seed)
    source = X if queries is None else queries
    indices = np.empty((len(source), k), np.int64)
    distances = np.empty((len(source), k))
    for start in range(0, len(source), BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, len(source)))
        if queries is None:
            found = find_rows(X, rows[block], index, k)
        else:
            ids, squared = index.candidates(X, queries[block], None, k)
            found = _decide(X, queries[block], ids, squared, k, None)
        indices[block], distances[block] = found[:2]
    recall = measure_recall(
        X, source, k, lambda nodes: distances[nodes], among_rows=queries is None, seed=seed, sample=sample
    )
    warn_of_recall(recall, search, settings)
    return Neighbors(indices, distances, first=0 if queries is None else None, recall=recall.value)


def build_index(X: Floats, k: int, search: str, settings: Mapping[str, int], seed: int = 0):
    """An index in memory, which has the method ``candidates(X, vectors, rows, wanted)``.

    Of the `vectors` (m, d), which are the `rows` (m,) of X or queries if that is None, it proposes about `wanted`
    candidates each: ids (m, c), -1 for none, and their squared distances (m, c), or None if it does not know them.
    """
    if search == "ivf":
        return InvertedLists.build(X, settings["n_lists"], settings["n_probe"], seed)
    if search == "hnsw":
        return HNSW.build(X, settings)
    return Listed(nn_descent_candidates(X, k, settings["n_trees"], seed))


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
