"""Who is near whom: the one function for every kind of search.

Approximate search is an index that proposes candidates; distances in double precision decide among them. So it may
miss neighbours, and never gives a wrong distance. Rows with too few candidates are searched exactly.
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

# Every option with its default; None is worked out from the number of rows.
OPTIONS: dict[str, dict[str, int | None]] = {
    "exact": {},
    "ivf": {"n_lists": None, "n_probe": 8},
    "hnsw": {"links": 32, "ef_construction": 100, "ef_search": 128},
    "nn_descent": {"n_trees": None},
}
BLOCK_ROWS = 16384  # rows whose neighbours are looked for together


def search_neighbors(
    X: ArrayLike,
    k: int = 30,
    *,
    metric: str = "euclidean",
    queries: ArrayLike | None = None,
    search: str = "exact",
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
    search : {"exact", "ivf", "hnsw", "nn_descent"}
        The others are approximate: inverted lists, a small-world graph (faiss), and nearest-neighbour descent
        (pynndescent); the last two need ``asbc[scale]``. They may miss neighbours, never give a wrong distance, and
        measure their recall on a sample; below 0.9 there is a :class:`asbc.LowRecallWarning`.
    **options
        Of approximate search: ``seed``; ``sample``, the nodes that recall is measured on (1000); ``n_lists`` and
        ``n_probe`` of ``"ivf"``; ``links``, ``ef_construction`` and ``ef_search`` of ``"hnsw"``; ``n_trees`` of
        ``"nn_descent"``.

    Returns
    -------
    Neighbors with n (or m) rows
    """
    one_of(metric, "metric", ("euclidean", "cosine"))
    prepare = normalize if metric == "cosine" else as_vectors
    X = prepare(X)
    Q = None if queries is None else _prepared_queries(queries, X, prepare)
    if search != "exact" or options:
        return search_approximately(X, k, search, queries=Q, **options)
    return search_exactly(X, k, Q)


def _prepared_queries(queries, X, prepare):
    Q = prepare(queries, "queries")
    if Q.shape[1] != X.shape[1]:
        raise ValueError(f"queries must have the {X.shape[1]} columns of X; got {Q.shape[1]}.")
    return Q


def check_search(search: str, n: int, options: Mapping[str, Any]) -> dict[str, int]:
    """All options of a kind of search, the defaults filled in, or a clear error."""
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
            # Scanning lists and choosing them cost about the same at 2 sqrt(n) lists.
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
    """What ``search_neighbors(search=...)`` does once X is checked; `options` are those of :data:`OPTIONS`."""
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
    """An index in memory, with ``candidates(X, vectors, rows, wanted)``."""
    if search == "ivf":
        return InvertedLists.build(X, settings["n_lists"], settings["n_probe"], seed)
    if search == "hnsw":
        return HNSW.build(X, settings)
    return Listed(nn_descent_candidates(X, k, settings["n_trees"], seed))


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
