"""Who is near whom, nearly: an index proposes candidates, exact distances decide.

Inverted lists are our own; faiss gives the small-world graph and pynndescent the descent. Those libraries return -1
where they ran out of candidates, the same id twice, the node itself anywhere in the row or nowhere, and distances in
single precision. So only their ids are taken. Distances are worked out again in double precision, rows are ordered as
exact search orders them, and a row with too few candidates is searched exactly.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from asbc.kernels.distances import listed_distances
from asbc.kernels.topk import keep_smallest_of
from asbc.neighbors import Floats, Neighbors, check_k, largest_offset, search_neighbors

Ids = NDArray[np.int64]

# Every option with its default; None is worked out from the number of rows.
OPTIONS: dict[str, dict[str, int | None]] = {
    "exact": {},
    "ivf": {"n_lists": None, "n_probe": 8},
    "hnsw": {"links": 32, "ef_construction": 100, "ef_search": 128},
    "nn_descent": {"n_trees": None},
}
_SPARE = 8  # candidates beyond those wanted: single precision may misplace the last few
_TILE = 65536  # rows of X that exact search looks at together
_SIDE = 4096  # rows and columns of one product of an inverted list
_DISTANCES = 2**20  # that are worked out together for rows in doubt
TRAINING_ROWS = 32  # a list
_LEAST_RECALL = 0.9
_ROUNDS = 8  # of k-means; the lists need to be balanced, not optimal


class LowRecallWarning(UserWarning):
    """Approximate search has missed more than a tenth of the neighbours."""


@dataclass(frozen=True)
class Recall:
    """Share of the exact neighbours that were found, measured on a sample of nodes.

    Attributes
    ----------
    value : float
    standard_error : float
        Over the nodes of the sample.
    sample : int
        Nodes measured.
    """

    value: float
    standard_error: float
    sample: int


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


def import_faiss():
    try:
        import faiss
    except ImportError as error:
        raise ImportError("search='hnsw' needs faiss: pip install 'asbc[scale]'.") from error
    return faiss


def _import_pynndescent():
    try:
        import pynndescent
    except ImportError as error:
        raise ImportError("search='nn_descent' needs pynndescent: pip install 'asbc[scale]'.") from error
    return pynndescent


def search_approximately(
    X: Floats, k: int, search: str, *, queries: Floats | None = None, seed: int = 0, sample: int = 1000, **options: int
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
    for start in range(0, len(source), 16384):
        block = slice(start, min(start + 16384, len(source)))
        if queries is None:
            found = find_rows(X, rows[block], index, k)
        else:
            ids, squared = index.candidates(X, queries[block], None, k)
            found = _decide(X, queries[block], ids, squared, k, None)
        indices[block], distances[block] = found[:2]
    rng = np.random.default_rng([seed, len(source)])
    checked = np.sort(rng.choice(len(source), min(sample, len(source)), replace=False))
    exact = exact_distances(X, np.ascontiguousarray(source[checked]), k, None if queries is not None else checked)[1]
    recall = recall_of(distances[checked], exact)
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


def exact_distances(X: Floats, vectors: Floats, k: int, own: Ids | None) -> tuple[Ids, NDArray[np.float64]]:
    """Exact search with X seen one tile of rows at a time, so that memory does not grow with n.

    Returns indices and distances (m, k), the bits of :func:`asbc.search_neighbors`.
    """
    wanted = k if own is None else k + 1
    ids = np.empty((len(vectors), 0), np.int64)
    distances = np.empty((len(vectors), 0))
    for start in range(0, len(X), _TILE):
        tile = X[start : start + _TILE]
        found = search_neighbors(tile, min(wanted, len(tile)), queries=vectors)
        indices = found.indices + start
        beyond = found.distances
        if own is not None:
            beyond = np.where(indices == own[:, None], np.inf, beyond)
        ids = np.concatenate([ids, indices], axis=1)
        distances = np.concatenate([distances, beyond], axis=1)
        order = np.lexsort((ids, distances))[:, :wanted]
        ids = np.take_along_axis(ids, order, axis=1)
        distances = np.take_along_axis(distances, order, axis=1)
    return np.ascontiguousarray(ids[:, :k]), np.ascontiguousarray(distances[:, :k])


def recall_of(found: NDArray[np.float64], exact: NDArray[np.float64]) -> Recall:
    """Recall from distances (m, k): a neighbour no farther than the exact k-th counts, whichever of equals it is."""
    hits = (found <= exact[:, -1:]).mean(axis=1)
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return Recall(float(hits.mean()), error, len(hits))


def warn_of_recall(recall: Recall, search: str, settings: Mapping[str, int]) -> None:
    if recall.value < _LEAST_RECALL:
        warnings.warn(
            f"recall is {recall.value:.3f}, measured on {recall.sample} nodes: neighbours are missing from the graph. "
            f"Look at more, by the options of search={search!r}: {dict(settings)}.",
            LowRecallWarning,
            stacklevel=4,
        )


def train_centroids(X: Floats, n_lists: int, seed: int) -> NDArray[np.float32]:
    """Centres of inverted lists by k-means on a sample: (n_lists, d).

    Rows are assigned by exact search and sums run in a fixed order, so that neither threads nor batches change the
    result: two machines of a cluster, or a build that was interrupted, must agree on the lists.
    """
    rng = np.random.default_rng([seed, n_lists])
    rows = np.sort(rng.choice(len(X), min(len(X), TRAINING_ROWS * n_lists), replace=False))
    sample = X[rows]
    spread = largest_offset(sample, sample.mean(axis=0, dtype=float))
    if spread > 1e15 or 0 < spread < 1e-15:
        raise ValueError(
            "X must spread between 1e-15 and 1e15 for search='ivf', which squares its numbers in single precision; "
            f"got {spread:.3g}. Scale it, or use search='exact'."
        )
    sample = np.ascontiguousarray(sample, np.float32)
    centroids = sample[np.sort(rng.choice(len(sample), n_lists, replace=False))]
    for _ in range(_ROUNDS):
        nearest = search_neighbors(centroids, 1, queries=sample)
        labels = nearest.indices[:, 0]
        counts = np.bincount(labels, minlength=n_lists)
        sums = np.zeros(centroids.shape)
        for start in range(0, len(sample), _SIDE):  # few enough rows to stay in the cache
            tile = sample[start : start + _SIDE]
            each = np.arange(len(tile))
            belongs = sparse.csr_array((np.ones(len(tile)), (labels[start + each], each)), shape=(n_lists, len(tile)))
            sums += belongs @ tile.astype(np.float64)
        present, empty = np.flatnonzero(counts), np.flatnonzero(counts == 0)
        centroids[present] = sums[present] / counts[present, None]
        if len(empty):  # start again from the rows that are served worst
            farthest = np.lexsort((np.arange(len(sample)), -nearest.distances[:, 0]))
            centroids[empty] = sample[farthest[: len(empty)]]
    return centroids


class InvertedLists:
    """Rows filed under their nearest centroid; a query is compared with the rows of its nearest few lists.

    All queries of a block that look at one list are compared with it by one matrix product, which pays where lists
    are long. The answer is the exact one among the rows of the lists looked
    at, in order of distance and then id: as in exact search, products in single precision propose, distances in
    double precision decide, and rows that the rounding error leaves in doubt are compared with every listed row.

    Parameters
    ----------
    centroids : (L, d) float32
    starts : (L + 1,) int64
        List l holds positions ``starts[l]`` to ``starts[l + 1]``.
    members : (n,) int64
        The rows of X by position, list after list, each list in order of id.
    first_lists : (p + 1,) int64
        Part q of the residuals holds lists ``first_lists[q]`` to ``first_lists[q + 1]``.
    parts : p arrays (m, d) float32
        Rows minus their centroid, by position. They may be memory maps.
    probes : (n, n_probe) int32
        The lists that each row of X looks at when it is the query, nearest first.
    """

    def __init__(self, centroids, starts, members, first_lists, parts, probes):
        self.centroids = centroids
        self.starts = starts
        self.members = members
        self.first_lists = first_lists
        self.parts = parts
        self.probes = probes

    @classmethod
    def build(cls, X: Floats, n_lists: int, n_probe: int, seed: int) -> InvertedLists:
        """In memory."""
        centroids = train_centroids(X, n_lists, seed)
        probes = nearest_lists(centroids, X, n_probe)
        labels = probes[:, 0]
        members, starts = file_under(labels, n_lists)
        parts = [residuals(X, centroids, members, labels)]
        return cls(centroids, starts, members, np.array([0, n_lists]), parts, probes)

    def _list(self, number: int):
        part = int(np.searchsorted(self.first_lists, number, side="right")) - 1
        offset = self.starts[self.first_lists[part]]
        return self.parts[part][self.starts[number] - offset : self.starts[number + 1] - offset]

    def _members(self, number: int) -> Ids:
        return self.members[self.starts[number] : self.starts[number + 1]]

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, NDArray[np.float64]]:
        """The `wanted` nearest in the lists looked at, and a few more, in no order.

        Returns rows of X (m, wanted + spare), -1 for none, and their squared distances, infinity for none.
        """
        kept = wanted + _SPARE
        n_probe = self.probes.shape[1]
        lists = nearest_lists(self.centroids, vectors, n_probe) if rows is None else self.probes[rows]
        threads = get_num_threads()
        # Threads take lists in turn, each with heaps of its own: they never wait for each other.
        with threadpool_limits(1, "blas"), ThreadPoolExecutor(threads) as pool:
            scans = pool.map(lambda turn: self._scan(vectors, lists, kept, turn, threads), range(threads))
            values, positions, reaches = zip(*scans, strict=True)
        # What a thread has not kept is no nearer than the farthest of what it has kept.
        bound = np.min([value[:, 0] for value in values], axis=0)
        value, position = np.concatenate(values, axis=1), np.concatenate(positions, axis=1)
        if threads > 1:
            nearest = np.argpartition(value, kept - 1, axis=1)[:, :kept]
            bound = np.minimum(bound, np.partition(value, kept, axis=1)[:, kept])
            position = np.take_along_axis(position, nearest, axis=1)
        found = np.where(position >= 0, self.members[position], -1)
        error = (X.shape[1] + 16) * np.finfo(np.float32).eps / 2 * np.max(reaches, axis=0) ** 2
        squared = listed_distances(X, np.ascontiguousarray(vectors), found)
        certain = np.isinf(bound) | (np.partition(squared, wanted - 1, axis=1)[:, wanted - 1] < bound - error)
        sizes = np.diff(self.starts)[lists].sum(axis=1)
        doubtful = np.flatnonzero(~certain)
        while len(doubtful):
            # As many rows at once as have a bounded number of distances between them; one at least.
            widest = np.maximum.accumulate(sizes[doubtful])
            taken = max(1, int(np.sum(widest * np.arange(1, len(doubtful) + 1) <= _DISTANCES)))
            rows_now, doubtful = doubtful[:taken], doubtful[taken:]
            every = np.full((taken, max(kept, widest[taken - 1])), -1, np.int64)
            for line, row in zip(every, rows_now, strict=True):
                line[: sizes[row]] = np.concatenate([self._members(number) for number in lists[row]])
            every.sort(axis=1, kind="stable")
            distances = listed_distances(X, np.ascontiguousarray(vectors[rows_now]), every)
            # Stable, and so by id among equals; where most are equal, also the quickest.
            nearest = np.argsort(distances, axis=1, kind="stable")[:, :kept]
            found[rows_now] = np.take_along_axis(every, nearest, axis=1)
            squared[rows_now] = np.take_along_axis(distances, nearest, axis=1)
        return found, squared

    def _scan(self, vectors, lists, kept: int, turn: int, turns: int):
        """Every so many-th list against the vectors that look at it: heaps of squared distances and positions.

        The third array is the longest sum of two residuals that met in a product, which limits what rounding can do.
        """
        order = np.argsort(lists.ravel(), kind="stable")
        ends = np.searchsorted(lists.ravel()[order], np.arange(len(self.starts)))
        values = np.full((len(vectors), kept), np.inf, np.float32)
        positions = np.full((len(vectors), kept), -1, np.int64)
        reach = np.zeros(len(vectors))
        for number in range(turn, len(self.centroids), turns):
            asking = order[ends[number] : ends[number + 1]] // lists.shape[1]
            stored = self._list(number)
            if not len(asking) or not len(stored):
                continue
            norms = np.einsum("ij,ij->i", stored, stored)
            longest = np.sqrt(float(norms.max()))
            # In tiles: duplicates may have filed any number of rows under one centroid.
            for first in range(0, len(asking), _SIDE):
                some = asking[first : first + _SIDE]
                # Relative to the centroid, numbers are small, and so is what single precision loses.
                query = (vectors[some] - self.centroids[number]).astype(np.float32)
                lengths = np.einsum("ij,ij->i", query, query)
                query *= -2.0
                for start in range(0, len(stored), _SIDE):
                    squared = query @ stored[start : start + _SIDE].T
                    squared += norms[start : start + _SIDE]
                    squared += lengths[:, None]
                    keep_smallest_of(squared, self.starts[number] + start, some, values, positions)
                reach[some] = np.maximum(reach[some], np.sqrt(lengths, dtype=float) + longest)
        return values, positions, reach


def nearest_lists(centroids: NDArray[np.float32], vectors: Floats, n_probe: int) -> NDArray[np.int32]:
    """The lists whose centroids are nearest to each vector: (m, n_probe). The first is the one it is filed under."""
    return search_neighbors(centroids, n_probe, queries=vectors).indices.astype(np.int32)


def file_under(labels: NDArray[np.integer], n_lists: int) -> tuple[Ids, Ids]:
    """Rows in order of list and then id (n,), and where each list starts (n_lists + 1,)."""
    members = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_lists))])
    return members, starts


def residuals(
    X: Floats, centroids: NDArray[np.float32], members: Ids, labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """The rows `members` of X minus the centroids of their lists; `labels` are those of all rows."""
    out = np.empty((len(members), X.shape[1]), np.float32)
    for start in range(0, len(members), 4096):
        rows = members[start : start + 4096]
        out[start : start + 4096] = X[rows] - centroids[labels[rows]]
    return out


class HNSW:
    """A navigable small-world graph. It holds all rows in memory."""

    def __init__(self, index, ef_search: int):
        self._index = index
        self._index.hnsw.efSearch = ef_search

    @classmethod
    def build(cls, X: Floats, settings: Mapping[str, int]) -> HNSW:
        faiss = import_faiss()
        index = faiss.IndexHNSWFlat(X.shape[1], settings["links"])
        index.hnsw.efConstruction = settings["ef_construction"]
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # with more, the graph depends on which of them comes first
        try:
            for start in range(0, len(X), _TILE):
                index.add(np.ascontiguousarray(X[start : start + _TILE], np.float32))
        finally:
            faiss.omp_set_num_threads(threads)
        return cls(index, settings["ef_search"])

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, None]:
        self._index.hnsw.efSearch = max(self._index.hnsw.efSearch, wanted + _SPARE)
        return self._index.search(np.ascontiguousarray(vectors, np.float32), wanted + _SPARE)[1], None

    def save(self, path: Path) -> None:
        try:
            import_faiss().write_index(self._index, os.fspath(path))
        except RuntimeError as error:
            path.unlink(missing_ok=True)
            for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # which faiss gives as text
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number), os.fspath(path)) from error
            raise

    @classmethod
    def open(cls, path: Path, ef_search: int) -> HNSW:
        return cls(import_faiss().read_index(os.fspath(path)), ef_search)


class Listed:
    """Candidates that were worked out for all rows beforehand: (n, c), possibly a memory map."""

    def __init__(self, ids: NDArray[np.integer]):
        self._ids = ids

    def candidates(self, X: Floats, vectors: Floats, rows: Ids, wanted: int) -> tuple[Ids, None]:
        return np.asarray(self._ids[rows], np.int64), None


def nn_descent_candidates(X: Floats, k: int, n_trees: int, seed: int) -> NDArray[np.int32]:
    """Candidates of all rows by nearest-neighbour descent: (n, k + 1 + spare). It holds all rows in memory."""
    pynndescent = _import_pynndescent()
    wanted = min(k + 1 + _SPARE, len(X))
    index = pynndescent.NNDescent(
        np.ascontiguousarray(X, np.float32),
        metric="euclidean",
        n_neighbors=wanted,
        n_trees=n_trees,
        random_state=seed,
        compressed=True,
    )
    return index.neighbor_graph[0]
