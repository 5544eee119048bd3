"""Inverted lists: rows are filed under centroids, and a query scans the lists of its nearest centroids.

A list holds the rows of X that are nearer to its centroid than to any other centroid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.kernels.distances import listed_distances
from asbc.kernels.nearest import scan_lists
from asbc.kernels.threads import run_products, thread_count
from asbc.neighbors.exact import SPARE, TILE, Ids, largest_offset, rounding_error, search_exactly
from asbc.validation import Floats, as_vectors

# Rows per list of the sample for k-means, and its rounds. With 32 rows and 5 rounds, lists need to scan just as many
# rows for the same recall.
TRAINING_ROWS_PER_LIST = 16
KMEANS_ROUNDS = 3
TWO_PASS_QUERIES = 256  # queries per list, on average, from which two passes are faster than one
BLOCK_ROWS = 16384  # rows whose lists are found, or whose residuals are written, together
RESIDUAL_ROWS = 1024  # rows whose residuals are computed together
MIN_TUNED, MAX_TUNED = 200, 1000  # nodes that the number of lists is tuned on: n / 200, within these limits
SIZED_ROWS_PER_LIST = 4  # rows per list that the sizes of lists are estimated from
# The sample's recall must exceed the target by this many standard errors, so that in 19 of 20 sets the recall over all
# nodes reaches the target.
CAUTION = 1.645


# An array as its dtype, its shape and its consecutive blocks of rows.
Blocks = tuple[Any, tuple[int, ...], Iterator[NDArray[Any]]]
# A function that returns the stored array of a name, or computes and stores it.
Keep = Callable[[str, Callable[[], Blocks]], NDArray[Any]]


def one_block(array: NDArray[Any]) -> Blocks:
    return array.dtype, array.shape, iter([array])


def keep_in_memory() -> Keep:
    """Return a function that keeps the arrays of an index in memory; a build keeps them in files."""
    arrays: dict[str, NDArray[Any]] = {}

    def keep(name: str, compute: Callable[[], Blocks]) -> NDArray[Any]:
        if name not in arrays:
            dtype, shape, blocks = compute()
            array, start = np.empty(shape, dtype), 0
            for block in blocks:
                array[start : start + len(block)] = block
                start += len(block)
            arrays[name] = array
        return arrays[name]

    return keep


def train_centroids(X: Floats, n_lists: int, seed: int) -> NDArray[np.float32]:
    """Return the centroids (n_lists, d) of inverted lists, by k-means on a sample of the rows.

    Rows are assigned by exact search and summed in a fixed order, so the result depends neither on threads nor on
    blocks: all machines of a cluster, and all restarts of a build, get the same lists.
    """
    rng = np.random.default_rng([seed, n_lists])
    rows = np.sort(rng.choice(len(X), min(len(X), TRAINING_ROWS_PER_LIST * n_lists), replace=False))
    sample = X[rows]
    spread = largest_offset(sample, sample.mean(axis=0, dtype=float))
    if spread > 1e15 or 0 < spread < 1e-15:
        raise ValueError(
            "X must spread between 1e-15 and 1e15 for search='ivf', which squares it in single precision; "
            f"got {spread:.3g}. Scale X, or use search='exact'."
        )
    sample = np.ascontiguousarray(sample, np.float32)
    centroids = sample[np.sort(rng.choice(len(sample), n_lists, replace=False))]
    for _ in range(KMEANS_ROUNDS):
        nearest = search_exactly(centroids, 1, sample)
        members, starts = file_under(nearest.indices[:, 0], n_lists)
        counts = np.diff(starts)
        sums = sparse.csr_array((np.ones(len(members)), members, starts), shape=(n_lists, len(sample))) @ sample
        present, empty = np.flatnonzero(counts), np.flatnonzero(counts == 0)
        centroids[present] = sums[present] / counts[present, None]
        if len(empty):  # an empty list restarts from one of the rows that are farthest from their centroids
            farthest = np.lexsort((np.arange(len(sample)), -nearest.distances[:, 0]))
            centroids[empty] = sample[farthest[: len(empty)]]
    return centroids


def tuning_nodes(n: int, seed: int) -> tuple[Ids, np.random.Generator]:
    """Return the nodes (m,) that a search is tuned on, and the generator that drew them."""
    rng = np.random.default_rng([seed, n, 1])
    count = max(MIN_TUNED, min(MAX_TUNED, n // 200))
    return np.sort(rng.choice(n, min(n, count), replace=False)), rng


def tune_probes(X: Floats, centroids: NDArray[np.float32], k: int, recall: float, seed: int) -> tuple[int, float]:
    """Return the fewest lists per query that reach a recall, and the share of all rows that they hold.

    A search in lists finds a neighbour if it scans the list that holds it. So the rank of that list, by distance from
    the node, gives the recall for every number of lists at once. It is computed from the exact neighbours of a sample
    of nodes, which is not the sample that recall is measured on later.
    """
    n, n_lists = len(X), len(centroids)
    nodes, rng = tuning_nodes(n, seed)
    vectors = np.ascontiguousarray(X[nodes])
    neighbors = search_exactly(X, k, vectors, nodes).indices
    near, place = np.unique(neighbors, return_inverse=True)
    holder = nearest_lists(centroids, np.ascontiguousarray(X[near]), 1)[:, 0][place].reshape(len(nodes), k)
    order = nearest_lists(centroids, vectors, n_lists)
    needed = np.take_along_axis(np.argsort(order, axis=1), holder, axis=1)  # the rank of the list of each neighbour
    counts = np.zeros((len(nodes), n_lists))
    np.add.at(counts, (np.arange(len(nodes))[:, None], needed), 1 / k)
    found = np.cumsum(counts, axis=1)  # share of its neighbours that a node finds in its nearest lists
    lower = found.mean(axis=0) - CAUTION * found.std(axis=0, ddof=1) / np.sqrt(len(nodes))
    n_probe = min(int(np.argmax(np.append(lower, np.inf) >= recall - 1e-12)) + 1, n_lists)
    rows = np.sort(rng.choice(n, min(n, SIZED_ROWS_PER_LIST * n_lists), replace=False))
    labels = nearest_lists(centroids, np.ascontiguousarray(X[rows]), 1)[:, 0]
    shares = np.bincount(labels, minlength=n_lists) / len(rows)
    return n_probe, float(shares[order[:, :n_probe]].sum(axis=1).mean())


class InvertedLists:
    """Rows filed under their nearest centroid; a query is compared with the rows of its nearest lists.

    All queries that scan a list are compared with it by one matrix product. Among the rows scanned, the result is
    exact: as in exact search, products in single precision propose candidates, distances in double precision decide,
    and doubtful queries are compared with every row of their lists.

    Parameters
    ----------
    centroids : (L, d) float32
        The centroid of each list.
    starts : (L + 1,) int64
        List l holds positions ``starts[l]`` to ``starts[l + 1]``.
    members : (n,) int64
        The row of X at each position: list after list, and each list in order of id.
    residuals : (n, d) float32
        By position, the rows minus the centroid of their list. It may be a memory map.
    probes : (n, n_probe) int32
        The lists that each row of X scans when it is the query, nearest first.
    """

    def __init__(self, centroids, starts, members, residuals, probes):
        self.centroids = centroids
        self.starts = starts
        self.members = members
        self.residuals = residuals
        self.probes = probes

    @classmethod
    def build(cls, X: Floats, centroids: NDArray[np.float32], n_probe: int, keep: Keep | None = None) -> InvertedLists:
        """Build lists of the rows of X (n, d), of which a query scans `n_probe`, and keep their arrays."""
        keep = keep_in_memory() if keep is None else keep
        n, n_lists = len(X), len(centroids)
        blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
        nearest = (nearest_lists(centroids, X[rows], n_probe) for rows in blocks)
        probes = keep("probes", lambda: (np.int32, (n, n_probe), nearest))
        labels = probes[:, 0]
        members = keep("members", lambda: one_block(file_under(labels, n_lists)[0]))
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_lists))])
        offsets = (residuals(X, centroids, members[rows], labels) for rows in blocks)
        stored = keep("residuals", lambda: (np.float32, X.shape, offsets))
        return cls(centroids, starts, members, stored, probes)

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, NDArray[np.float64]]:
        """Return the ``wanted + SPARE`` nearest rows of each vector in the lists that it scans, unsorted.

        The vectors (m, d) are the `rows` (m,) of X, or other vectors if `rows` is None. Returns ids, -1 where the lists
        hold fewer rows, and squared distances, infinity for none.
        """
        kept = wanted + SPARE
        n_probe = self.probes.shape[1]
        lists = nearest_lists(self.centroids, vectors, n_probe) if rows is None else self.probes[rows]
        values = np.full((len(vectors), kept), np.inf, np.float32)
        positions = np.full((len(vectors), kept), -1, np.int32)
        reach = np.zeros(len(vectors))
        # Queries of one list scan similar lists. So each thread takes the queries of some lists, and its products stay
        # large. No two threads share a query, so memory does not grow with the number of threads.
        together = file_under(lists[:, 0], len(self.centroids))[0]
        sizes = np.diff(self.starts)[lists].sum(axis=1)
        shares = split_evenly(together, sizes[together], thread_count())
        half = self._half_squares
        run_products(shares, lambda some: self._scan(vectors, lists, some, half, values, positions, reach))
        found = np.where(positions >= 0, self.members[positions], -1)
        squared = listed_distances(X, vectors, found, together)
        # Up to rounding, a scanned row that was not kept is no nearer than the farthest that was.
        bound = values[:, 0] - rounding_error(X.shape[1], reach, np.float32)
        certain = np.isinf(bound) | ((squared < bound[:, None]).sum(axis=1) >= wanted)
        for query in np.flatnonzero(~certain):  # compare with every row of its lists, of which there are more than kept
            members = [self.members[self.starts[number] : self.starts[number + 1]] for number in lists[query]]
            rows_seen = np.sort(np.concatenate(members))
            distances = listed_distances(X, vectors[query : query + 1], rows_seen[None])[0]
            nearest = np.argsort(distances, kind="stable")[:kept]  # stable: equal distances stay in id order
            found[query], squared[query] = rows_seen[nearest], distances[nearest]
        return found, squared

    @cached_property
    def _half_squares(self) -> NDArray[np.float32]:
        """Half the squared lengths (n,) of the residuals."""
        squares = np.einsum("ij,ij->i", self.residuals, self.residuals, dtype=np.float64)
        return (0.5 * squares).astype(np.float32)

    def _scan(self, vectors, lists, some, half, values, positions, reach) -> None:
        """Compare some (s,) of the vectors with the lists that they scan, on the calling thread."""
        n_probe, n_lists = lists.shape[1], len(self.centroids)
        # With many queries per list, the nearest list comes first: after it, few rows of other lists are near enough to
        # be kept. With few queries, one pass keeps products larger.
        two_passes = n_probe > 1 and len(some) * n_probe >= TWO_PASS_QUERIES * n_lists
        for columns in [(0, 1), (1, n_probe)] if two_passes else [(0, n_probe)]:
            queries, ends = file_under(lists[some, slice(*columns)], n_lists)
            rows = self.centroids, self.starts, self.residuals, half
            scan_lists(vectors, some[queries], ends, *rows, TILE, values, positions, reach)


def nearest_lists(centroids: NDArray[np.float32], vectors: Floats, n_probe: int) -> NDArray[np.int32]:
    """Return the lists (m, n_probe) whose centroids are nearest to each vector, nearest first."""
    return search_exactly(centroids, n_probe, as_vectors(vectors)).indices.astype(np.int32)


def split_evenly(tasks: Ids, work: NDArray[Any], parts: int) -> list[Ids]:
    """Split tasks (m,) into consecutive parts of about the same `work` (m,)."""
    return np.split(tasks, np.searchsorted(np.cumsum(work), work.sum() * np.arange(1, parts) / parts))


def file_under(lists: NDArray[np.integer], n_lists: int) -> tuple[Ids, Ids]:
    """Return rows sorted by list and then id, and the start of each list (n_lists + 1,).

    `lists` are the list (n,) of each row, or several of them (n, p).
    """
    n, p = len(lists), 1 if lists.ndim == 1 else lists.shape[1]
    parts = np.ones(n * p, bool), lists.ravel(), np.arange(0, n * p + 1, p)
    filed = sparse.csr_array(parts, shape=(n, n_lists)).tocsc()
    return filed.indices.astype(np.int64), filed.indptr.astype(np.int64)


def residuals(
    X: Floats, centroids: NDArray[np.float32], members: Ids, labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """Return the rows `members` (m,) of X minus the centroids of their lists; `labels` (n,) are all rows' lists."""
    out = np.empty((len(members), X.shape[1]), np.float32)

    def subtract(start):
        rows = members[start : start + RESIDUAL_ROWS]
        out[start : start + RESIDUAL_ROWS] = X[rows] - centroids[labels[rows]]

    run_products(range(0, len(members), RESIDUAL_ROWS), subtract)
    return out
