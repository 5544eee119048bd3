"""Who is near whom, by inverted lists: rows are filed under centroids, and a query looks at its nearest few lists.

A list holds the rows of X that are nearer to its centroid than to any other centroid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from asbc.kernels.distances import listed_distances
from asbc.kernels.scan import count_nearer, half_squares, names_at, scan_lists, sum_lists, who_asks
from asbc.kernels.threads import on_threads
from asbc.neighbors.exact import Ids, largest_offset, search_exactly
from asbc.neighbors.options import SPARE
from asbc.neighbors.products import TILE, rounding_error
from asbc.validation import Floats, as_vectors

SUMMED_ROWS = 4096  # rows that are added up together in k-means; the last bits of centroids depend on it
DOUBTFUL_DISTANCES = 2**20  # distances, 8 bytes each, worked out together for rows that are in doubt
# Rows of the sample that k-means sees, per list that it is to find, and its rounds. More of either cost time, and the
# lists that a recall takes hold as many rows with 32 rows and 5 rounds.
TRAINING_ROWS_PER_LIST = 16
KMEANS_ROUNDS = 3
MANY_ASKING = 256  # queries that look at a list, on average: from so many on, two passes take less time than one
RESIDUAL_ROWS = 1024  # rows whose residuals are worked out together


def train_centroids(X: Floats, n_lists: int, seed: int) -> NDArray[np.float32]:
    """The centroids (n_lists, d) of inverted lists, by k-means on a sample of the rows.

    Rows are assigned by exact search and sums run in a fixed order, so that neither threads nor batches change the
    result: two machines of a cluster, or two starts of a build, must agree on the lists.
    """
    rng = np.random.default_rng([seed, n_lists])
    rows = np.sort(rng.choice(len(X), min(len(X), TRAINING_ROWS_PER_LIST * n_lists), replace=False))
    sample = X[rows]
    check_spread(sample)
    sample = np.ascontiguousarray(sample, np.float32)
    centroids = sample[np.sort(rng.choice(len(sample), n_lists, replace=False))]
    for _ in range(KMEANS_ROUNDS):
        nearest = search_exactly(centroids, 1, sample)
        labels = nearest.indices[:, 0]
        members, starts = file_under(labels, n_lists)
        counts = np.diff(starts)
        sums = sum_lists(sample, members, starts, SUMMED_ROWS)
        present, empty = np.flatnonzero(counts), np.flatnonzero(counts == 0)
        centroids[present] = sums[present] / counts[present, None]
        if len(empty):  # a list without rows starts again from one of the rows farthest from their centroids
            farthest = np.lexsort((np.arange(len(sample)), -nearest.distances[:, 0]))
            centroids[empty] = sample[farthest[: len(empty)]]
    return centroids


def check_spread(sample: Floats) -> None:
    """Refuse rows (m, d) whose squares single precision cannot hold."""
    spread = largest_offset(sample, sample.mean(axis=0, dtype=float))
    if spread > 1e15 or 0 < spread < 1e-15:
        raise ValueError(
            "X must spread between 1e-15 and 1e15 for search='ivf', which squares its numbers in single precision; "
            f"got {spread:.3g}. Scale it, or use search='exact'."
        )


class InvertedLists:
    """Rows filed under their nearest centroid; a query is compared with the rows of its nearest few lists.

    All queries that look at the same list are compared with it by one matrix product. Among the rows of the lists
    looked at, the answer is exact: as in exact search, products in single precision propose candidates, distances in
    double precision decide, and queries that rounding leaves in doubt are compared with every row of their lists.

    Parameters
    ----------
    centroids : (L, d) float32
        The centroid of each list.
    starts : (L + 1,) int64
        List l holds positions ``starts[l]`` to ``starts[l + 1]``.
    members : (n,) int64
        The row of X at each position: list after list, and each list in order of id.
    first_lists : (p + 1,) int64
        Part q of the residuals holds lists ``first_lists[q]`` to ``first_lists[q + 1]``.
    parts : p arrays (m, d) float32
        The residuals, which are rows minus the centroid of their list, by position. They may be memory maps.
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
        self._half: list[NDArray[np.float32]] = []

    @classmethod
    def build(cls, X: Floats, centroids: NDArray[np.float32], n_probe: int) -> InvertedLists:
        """Lists of the rows of X, in memory; `n_probe` is the lists that a query looks at."""
        n_lists = len(centroids)
        probes = nearest_lists(centroids, X, n_probe)
        labels = probes[:, 0]
        members, starts = file_under(labels, n_lists)
        parts = [residuals(X, centroids, members, labels)]
        return cls(centroids, starts, members, np.array([0, n_lists]), parts, probes)

    def _members(self, number: int) -> Ids:
        """The rows of X (m,) in one list."""
        return self.members[self.starts[number] : self.starts[number + 1]]

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, NDArray[np.float64]]:
        """The `wanted` nearest rows of each vector in the lists that it looks at, and SPARE more, in no order.

        Parameters
        ----------
        X : (n, d) array
            All rows.
        vectors : (m, d) array
            The queries.
        rows : (m,) int64 or None
            The rows of X that the queries are; None if they are not rows of X.
        wanted : int
            Candidates per query.

        Returns
        -------
        ids : (m, wanted + SPARE) int64
            Rows of X; -1 where the lists hold fewer.
        squared : (m, wanted + SPARE) float64
            Their squared distances; infinity where there is none.
        """
        kept = wanted + SPARE
        n_probe = self.probes.shape[1]
        lists = nearest_lists(self.centroids, vectors, n_probe) if rows is None else self.probes[rows]
        values = np.full((len(vectors), kept), np.inf, np.float32)
        positions = np.full((len(vectors), kept), -1, np.int32)
        reach = np.zeros(len(vectors))
        # Queries of one list look at much the same lists. So each thread takes those of some lists, and its products
        # stay large; and since no two threads have a query in common, memory does not grow with their number.
        together = file_under(lists[:, 0], len(self.centroids))[0]
        sizes = np.diff(self.starts)[lists].sum(axis=1)
        shares = split_evenly(together, sizes[together], get_num_threads())
        self._know_lengths()
        on_threads(shares, lambda some: self._scan(vectors, lists, some, values, positions, reach))
        found = names_at(positions, self.members)
        # These have many candidates in common with the next.
        squared = listed_distances(X, vectors, found, together)
        # A row that was seen and not kept is no nearer than the farthest that was, but for rounding.
        bound = values[:, 0] - rounding_error(X.shape[1], reach, np.float32)
        certain = np.isinf(bound) | (count_nearer(squared, bound) >= wanted)
        doubtful = np.flatnonzero(~certain)
        while len(doubtful):
            # As many queries at once as need no more than DOUBTFUL_DISTANCES distances together, and at least one.
            widest = np.maximum.accumulate(sizes[doubtful])
            taken = max(1, int(np.sum(widest * np.arange(1, len(doubtful) + 1) <= DOUBTFUL_DISTANCES)))
            rows_now, doubtful = doubtful[:taken], doubtful[taken:]
            every = np.full((taken, max(kept, widest[taken - 1])), -1, np.int64)
            for line, row in zip(every, rows_now, strict=True):
                line[: sizes[row]] = np.concatenate([self._members(number) for number in lists[row]])
            every.sort(axis=1, kind="stable")
            distances = listed_distances(X, np.ascontiguousarray(vectors[rows_now]), every)
            # A stable sort leaves equal distances in order of id. Rows get here mostly because many distances are
            # equal, where this sort is also the quickest.
            nearest = np.argsort(distances, axis=1, kind="stable")[:, :kept]
            found[rows_now] = np.take_along_axis(every, nearest, axis=1)
            squared[rows_now] = np.take_along_axis(distances, nearest, axis=1)
        return found, squared

    def _scan(self, vectors, lists, some, values, positions, reach) -> None:
        """Compare some (s,) of the vectors with the lists that they look at, on the calling thread.

        The other parameters are those of :func:`asbc.kernels.scan.scan_lists`.
        """
        n_probe, n_lists = lists.shape[1], len(self.centroids)
        # Where many ask for each list, their nearest one comes first: once they know its rows, few others are near
        # enough to be kept. Where few ask, products are small already, and those few are better kept together.
        passes = [(0, 1), (1, n_probe)] if len(some) * n_probe >= MANY_ASKING * n_lists else [(0, n_probe)]
        for columns in passes:
            asked = who_asks(lists, some, *columns, n_lists)
            for part, stored in enumerate(self.parts):
                first, last = self.first_lists[part : part + 2]
                here = vectors, *asked, self.centroids, self.starts, stored, self._half[part]
                scan_lists(first, last, *here, TILE, values, positions, reach)

    def _know_lengths(self) -> None:
        """Work out half the squared lengths of the residuals, once."""
        if not self._half:
            self._half = [half_squares(stored) for stored in self.parts]


def nearest_lists(centroids: NDArray[np.float32], vectors: Floats, n_probe: int) -> NDArray[np.int32]:
    """The lists (m, n_probe) whose centroids are nearest to each vector; the first is the one that it belongs to."""
    return search_exactly(centroids, n_probe, as_vectors(vectors)).indices.astype(np.int32)


def split_evenly(tasks: Ids, work: NDArray[Any], parts: int) -> list[Ids]:
    """Consecutive tasks (m,) in so many parts that have about the same work, which is (m,)."""
    return np.split(tasks, np.searchsorted(np.cumsum(work), work.sum() * np.arange(1, parts) / parts))


def file_under(labels: NDArray[np.integer], n_lists: int) -> tuple[Ids, Ids]:
    """Rows (n,) sorted by list and then id, and where each list starts (n_lists + 1,); `labels` (n,) are the lists."""
    if n_lists < 2**15:
        labels = labels.astype(np.int16)  # which NumPy sorts many times faster
    members = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_lists))])
    return members, starts


def residuals(
    X: Floats, centroids: NDArray[np.float32], members: Ids, labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """The rows `members` (m,) of X minus the centroids of their lists, (m, d); `labels` (n,) are all rows' lists."""
    out = np.empty((len(members), X.shape[1]), np.float32)

    def work_out(start):
        rows = members[start : start + RESIDUAL_ROWS]
        out[start : start + RESIDUAL_ROWS] = X[rows] - centroids[labels[rows]]

    on_threads(range(0, len(members), RESIDUAL_ROWS), work_out)
    return out
