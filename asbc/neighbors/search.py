"""One function for all kinds of nearest-neighbour search.

In approximate search, an index proposes candidates and distances in double precision decide among them. It may miss
neighbours, but its distances are exact. Rows with fewer than k candidates are searched exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.distances import listed_distances
from asbc.kernels.nearest import sort_candidates
from asbc.neighbors.exact import Ids, search_exactly
from asbc.neighbors.external import HNSW, CandidateTable, hnsw_content, nn_descent_candidates
from asbc.neighbors.lists import (
    InvertedLists,
    Keep,
    keep_in_memory,
    one_block,
    train_centroids,
    tune_probes,
    tuning_nodes,
)
from asbc.neighbors.recall import measure_recall, recall_of, warn_of_recall
from asbc.neighbors.types import Neighbors
from asbc.validation import METRICS, Floats, as_vectors, check_k, normalize, one_of, seed_number, whole_number

# Every option with its default; None depends on the number of rows, or on the recall.
OPTIONS: dict[str, dict[str, int | None]] = {
    "exact": {},
    "ivf": {"n_lists": None, "n_probe": None},
    "hnsw": {"links": 32, "ef_construction": 100, "ef_search": None},
    "nn_descent": {"n_trees": None},
}
SEARCHES = ("auto", *OPTIONS)
MIN_LINKS = 2  # with a single link per node, faiss reads beyond its arrays
RECALL = 0.98  # the default target: share of the neighbours that approximate search finds
MAX_EXACT_ROWS = 20_000  # "auto" is exact up to this many rows or queries, which takes seconds
# Inverted lists are replaced by exact search if they would scan more than this share of all rows. Exact search of all
# rows then takes about the same time, because each of its products serves two rows.
MAX_SCANNED_SHARE = 0.15
HNSW_BREADTHS = (64, 128, 256, 512, 1024, 2048)  # values of ef_search that are tried in turn
BLOCK_ROWS = 65536  # rows that are searched together; more rows make larger products with each list


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

    Exact search is fast: matrix products in single precision propose candidates, distances in double precision decide,
    and a bound on the rounding error certifies that no other row is nearer. Rows that it cannot certify are searched
    again in double precision. The result depends neither on block sizes nor on threads.

    Parameters
    ----------
    X : (n, d) array of any real dtype
        The vectors.
    k : int, default=30
        Neighbours per node.
    metric : {"euclidean", "cosine"}, default="euclidean"
        ``"cosine"`` scales rows to unit length first, which sorts neighbours by angle. The distances are then euclidean
        distances between unit vectors, ``sqrt(2 - 2 cos)``: pass ``asbc.normalize(X)`` to the steps that follow.
    queries : (m, d) array or None, default=None
        Vectors whose neighbours among the rows of X are searched. None takes the rows of X, excluding the row itself.
    search : {"exact", "auto", "ivf", "hnsw", "nn_descent"}, default="exact"
        The kind of search. ``"ivf"`` (inverted lists), ``"hnsw"`` (a small-world graph by faiss) and ``"nn_descent"``
        (by pynndescent) are approximate; the last two need ``asbc[scale]``. They may miss neighbours, but their
        distances are exact. They measure their recall on a sample, and issue a :class:`LowRecallWarning` if it is below
        the target. ``"auto"`` is ``"exact"`` up to 20,000 rows or queries, and ``"ivf"`` above.
    recall : float, default=0.98
        The share of the neighbours that approximate search should find. The exact neighbours of a sample of nodes
        determine how many lists (``"ivf"``) or candidates (``"hnsw"``) that takes. If the lists of a node would hold
        more than 15% of all rows, exact search replaces ``"ivf"``.
    **options : int
        Options of approximate search. All kinds: ``seed`` (0), which draws samples; and ``sample``, the number of nodes
        that recall is measured on (n / 200, from 500 to 1,000). ``"ivf"``: ``n_lists``, the number of lists (about
        2 sqrt(n)); and ``n_probe``, the number of lists that each node scans. ``"hnsw"``: ``links`` (32) per node;
        ``ef_construction`` (100) and ``ef_search``, the candidates kept while building and while searching.
        ``"nn_descent"``: ``n_trees``, the number of initial trees. `recall` has no effect if ``n_probe`` or
        ``ef_search`` is given.

    Returns
    -------
    Neighbors
        Of the n rows or m queries, nearest first, ties in order of index.

    See Also
    --------
    GraphBuilder : searches for neighbours and builds the graph.
    normalize : scales rows to unit length, as ``metric="cosine"`` does.

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
    one_of(metric, "metric", METRICS)
    prepare = normalize if metric == "cosine" else as_vectors
    X = prepare(X)
    Q = None if queries is None else prepare(queries, "queries")
    if Q is not None and Q.shape[1] != X.shape[1]:
        raise ValueError(f"queries must have the {X.shape[1]} columns of X; got {Q.shape[1]}.")
    if search == "exact":
        if options:
            raise ValueError(f"search='exact' has no options; got {', '.join(options)}.")
        return search_exactly(X, k, Q)
    seed, sample = seed_number(options.pop("seed", 0)), options.pop("sample", None)
    if sample is not None:
        whole_number(sample, "sample", 1)
    check_search(search, len(X), options)
    check_recall(recall)
    k = check_k(k, len(X) if Q is None else len(X) + 1)
    if Q is not None and search == "nn_descent":
        raise ValueError(
            "search='nn_descent' finds the neighbours of the rows of X only; use 'ivf' or 'hnsw' for queries."
        )
    source = X if Q is None else Q
    if search == "auto" and len(source) <= MAX_EXACT_ROWS:
        return search_exactly(X, k, Q)
    index, decision = build_index(X, k, search, options, recall, seed)
    if index is None:
        return search_exactly(X, k, Q)
    indices = np.empty((len(source), k), np.int64)
    distances = np.empty((len(source), k))
    for start in range(0, len(source), BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, len(source)))
        own = np.arange(block.start, block.stop) if Q is None else None
        indices[block], distances[block] = find_nearest(X, source[block], own, index, k)
    reached = measure_recall(
        X, source, k, lambda nodes: distances[nodes], among_rows=Q is None, seed=seed, sample=sample
    )
    warn_of_recall(reached, decision.search, decision.options, decision.target)
    return Neighbors(indices, distances, first=0 if Q is None else None, recall=reached.value)


def check_recall(recall: Any) -> float:
    """Return `recall` as a float within (0, 1]."""
    if not isinstance(recall, Real) or isinstance(recall, bool) or not 0 < float(recall) <= 1:
        raise ValueError(f"recall must be a number above 0 and at most 1; got {recall!r}.")
    return float(recall)


def check_search(search: str, n: int, options: Mapping[str, Any]) -> dict[str, int]:
    """Return the options of a search of n rows with defaults; options that recall determines are left out.

    The options of ``"auto"`` are those of ``"ivf"``.
    """
    one_of(search, "search", SEARCHES)
    if not isinstance(options, Mapping):
        raise TypeError(f"search_options must be a mapping such as {{'n_probe': 16}}; got {options!r}.")
    kind = "ivf" if search == "auto" else search
    known = OPTIONS[kind]
    for name, value in options.items():
        if name not in known:
            valid = ", ".join(known) or "none"
            raise ValueError(f"search={search!r} has no option {name!r}; its options are: {valid}.")
        if value is not None:
            whole_number(value, name, MIN_LINKS if name == "links" else 1, 2**31 - 1)
    filled = {**known, **{name: value for name, value in options.items() if value is not None}}
    if kind == "ivf":
        if filled["n_lists"] is None:
            # With 2 sqrt(n) lists, scanning lists and choosing them cost about the same.
            filled["n_lists"] = max(1, min(n // 32, 2 ** round(np.log2(2 * np.sqrt(n)))))
        if filled["n_lists"] > n:
            raise ValueError(f"n_lists must be at most the number of rows, {n}; got {filled['n_lists']}.")
        if filled["n_probe"] is not None:
            filled["n_probe"] = min(int(filled["n_probe"]), int(filled["n_lists"]))
    if kind == "nn_descent" and filled["n_trees"] is None:
        filled["n_trees"] = min(32, 5 + round(n**0.25))
    return {name: int(value) for name, value in filled.items() if value is not None}


@dataclass(frozen=True)
class Decision:
    """How to search.

    Attributes
    ----------
    search : {"exact", "ivf", "hnsw", "nn_descent"}
    options : mapping
        All options of that search.
    target : float or None
        The recall that they were chosen for; None if the search is exact, or if they were given.
    """

    search: str
    options: Mapping[str, int] = field(default_factory=dict)
    target: float | None = None


def decide_search(
    X: Floats, k: int, search: str, settings: Mapping[str, int], recall: float, seed: int, keep: Keep
) -> Decision:
    """Decide which search reaches the recall, and with which options.

    "auto" is exact for up to MAX_EXACT_ROWS rows. Otherwise lists are used, unless the number of lists that reaches the
    recall holds more than MAX_SCANNED_SHARE of the rows. `settings` come from :func:`check_search`; an ``n_probe`` or
    ``ef_search`` among them is used as given. `keep` keeps the arrays of the index that this computes already.
    """
    if search == "nn_descent":
        return Decision(search, settings, recall)
    if search == "hnsw":
        if "ef_search" in settings:
            return Decision(search, settings)
        return Decision(search, {**settings, "ef_search": _tune_breadth(X, k, settings, recall, seed, keep)}, recall)
    if "n_probe" in settings:
        return Decision("ivf", settings)
    if search == "exact" or (search == "auto" and len(X) <= MAX_EXACT_ROWS):
        return Decision("exact")
    n_probe, scanned_share = tune_probes(X, _centroids(X, settings, seed, keep), k, recall, seed)
    if scanned_share > MAX_SCANNED_SHARE:
        return Decision("exact")
    return Decision("ivf", {**settings, "n_probe": n_probe}, recall)


def _tune_breadth(X: Floats, k: int, settings: Mapping[str, int], recall: float, seed: int, keep: Keep) -> int:
    """Return how many candidates a small-world graph must keep to reach the recall, on a sample of nodes."""
    nodes, _ = tuning_nodes(len(X), seed)
    exact = search_exactly(X, k, np.ascontiguousarray(X[nodes]), nodes).distances
    index = _small_world(X, settings, keep)
    for index.breadth in HNSW_BREADTHS:
        if recall_of(find_rows(X, nodes, index, k)[1], exact).value >= recall:
            break
    return index.breadth


def _centroids(X: Floats, settings: Mapping[str, int], seed: int, keep: Keep) -> NDArray[np.float32]:
    return keep("centroids", lambda: one_block(train_centroids(X, settings["n_lists"], seed)))


def _small_world(X: Floats, settings: Mapping[str, int], keep: Keep) -> HNSW:
    content = keep("hnsw", lambda: one_block(hnsw_content(X, settings["links"], settings["ef_construction"])))
    return HNSW(content, settings.get("ef_search", 0))


def open_index(X: Floats, k: int, decision: Decision, seed: int, keep: Keep) -> Any:
    """Return the index of a decision, with its arrays computed and kept if they are not yet; None for exact search.

    An index has a method ``candidates(X, vectors, rows, wanted)``. It proposes about `wanted` candidates for each of
    the `vectors` (m, d), which are the `rows` (m,) of X, or other vectors if `rows` is None. It returns their ids
    (m, c), -1 for none, and their squared distances (m, c), or None if it does not know them.
    """
    options = decision.options
    if decision.search == "ivf":
        return InvertedLists.build(X, _centroids(X, options, seed, keep), options["n_probe"], keep)
    if decision.search == "hnsw":
        return _small_world(X, options, keep)
    if decision.search == "nn_descent":
        table = keep("candidates", lambda: one_block(nn_descent_candidates(X, k, options["n_trees"], seed)))
        return CandidateTable(table)
    return None


def build_index(
    X: Floats, k: int, search: str, options: Mapping[str, Any], recall: float = RECALL, seed: int = 0
) -> tuple[Any, Decision]:
    """Decide how to search, and return the index in memory and the decision."""
    keep = keep_in_memory()
    decision = decide_search(X, k, search, check_search(search, len(X), options), recall, seed, keep)
    return open_index(X, k, decision, seed, keep), decision


def find_rows(X: Floats, rows: Ids, index: Any, k: int) -> tuple[Ids, NDArray[np.float64]]:
    """Return what :func:`find_nearest` finds for some rows (m,) of X, whichever rows are searched together."""
    consecutive = len(rows) > 0 and (np.diff(rows) == 1).all()
    vectors = X[rows[0] : rows[-1] + 1] if consecutive else np.ascontiguousarray(X[rows])
    return find_nearest(X, vectors, rows, index, k)


def find_nearest(X: Floats, vectors: Floats, own: Ids | None, index: Any, k: int) -> tuple[Ids, NDArray[np.float64]]:
    """Return indices and distances (m, k) of the nearest among the candidates that the index proposes.

    Vectors with too few candidates are searched exactly, and so are all vectors without an index (None). `own` (m,) are
    the rows of X that the vectors (m, d) are, or None if they are not rows of X.
    """
    if index is None:
        found = search_exactly(X, k, vectors, own)
        return found.indices, found.distances
    ids, squared = index.candidates(X, vectors, own, k if own is None else k + 1)
    if squared is None:
        ids = np.sort(np.asarray(ids, np.int64), axis=1)
        if ids.size and (ids[:, 0].min() < -1 or ids[:, -1].max() >= len(X)):
            raise ValueError(f"the index does not belong to X: it refers to rows beyond the {len(X)} rows of X.")
        ids[:, 1:][ids[:, 1:] == ids[:, :-1]] = -1
        squared = listed_distances(X, np.ascontiguousarray(vectors), ids)
    no_rows = np.full(len(ids), -1)
    ids, distances, _ = sort_candidates(squared, ids, no_rows if own is None else own, np.full(len(ids), np.inf), 1, k)
    short = np.flatnonzero(ids[:, -1] < 0)
    if len(short):
        found = search_exactly(X, k, np.ascontiguousarray(vectors[short]), None if own is None else own[short])
        ids[short], distances[short] = found.indices, found.distances
    return ids, distances
