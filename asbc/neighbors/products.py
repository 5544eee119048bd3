"""Candidates for the nearest rows, from matrix products of tiles, on several threads.

Each thread multiplies a tile and looks at it while it is in the cache. Where the queries are the rows themselves, the
product of two blocks of rows serves both of them, which halves the arithmetic.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from asbc.kernels.near import ABREAST
from asbc.kernels.threads import on_threads, products_alone, share_out
from asbc.kernels.topk import keep_nearest, measure_from
from asbc.neighbors.outline import Outlining, find_directions, outlines
from asbc.validation import Floats

TILE = 512  # rows, and columns, of a tile at most: one megabyte of products, which stays in the cache of a core
SORTED_ROWS = 2048  # from so many rows on, near ones are first put side by side
# Pairs of blocks, for each block, that are multiplied as they are before outlines are used: at first nearly every row
# is among the nearest so far.
WHOLE_TURNS = 3


def near_together(X: Floats, center: NDArray[Any], scale: float) -> NDArray[np.int64] | None:
    """An order of the rows of X (n, d) in which near ones lie together, roughly; None where that is not worth it.

    About as many rows as there will be tiles are drawn, and each row goes to the nearest of them. The order decides how
    long a search takes, and nothing else. `center` (d,) and `scale` are as for :class:`Shifted`.
    """
    n = len(X)
    if n < SORTED_ROWS:
        return None
    drawn = np.sort(np.random.default_rng(0).choice(n, n // TILE + 1, replace=False))
    seeds = ((X[drawn] - center) * scale).astype(np.float32)
    half = 0.5 * squared_lengths(seeds)
    nearest = np.empty(n, np.int16 if len(seeds) < 2**15 else np.int64)  # NumPy sorts short numbers much faster

    def assign(start):
        here = slice(start, start + TILE)
        nearest[here] = np.argmax(((X[here] - center) * scale).astype(np.float32) @ seeds.T - half, axis=1)

    on_threads(range(0, n, TILE), assign)
    return np.argsort(nearest, kind="stable")


@dataclass(frozen=True)
class Shifted:
    """Rows measured from a common point and scaled.

    Attributes
    ----------
    vectors : (n, d) float32 or float64
    half : (n,) of the same type
        Half of their squared lengths; infinite for rows that are there only to make n a multiple of ABREAST.
    """

    vectors: NDArray[Any]
    half: NDArray[Any]

    @classmethod
    def of(
        cls,
        X: Floats,
        center: NDArray[Any],
        scale: float,
        dtype: Any,
        order: NDArray[np.int64] | None = None,
    ) -> Shifted:
        """Of the rows of X (n, d), in the `order` (n,) that is given, if any."""
        n, d = X.shape
        more = -n % ABREAST
        vectors = np.empty((n + more, d), dtype)
        half = np.full(n + more, np.inf, dtype)
        vectors[n:] = 0
        rows = np.arange(n) if order is None else order
        factor = np.result_type(X, center).type(scale)
        share_out(measure_from, n, X, rows, center, factor, vectors, half)
        return cls(vectors, half)


def squared_lengths(vectors: NDArray[Any]) -> NDArray[Any]:
    """Squared lengths (n,) of vectors (n, d), in their own precision."""
    out = np.empty(len(vectors), vectors.dtype)
    for start in range(0, len(vectors), TILE):
        np.square(vectors[start : start + TILE]).sum(axis=1, out=out[start : start + TILE])
    return out


def rounding_error(d: int, reach: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """How far a squared distance that comes from products may be off, at most.

    With lengths a and b, `reach` is ``a + b`` or more. A product of d terms has at most d roundings, each of a part of
    ``a b``; it counts twice, and ``2 a b`` is at most half of ``(a + b)^2``. Squared lengths are summed in double
    precision: they have d roundings if that is the precision of the products too, and one otherwise. The rest is for
    the shift and sums.
    """
    in_lengths = 1 if dtype == np.float32 else d
    roundings = d / 2 + in_lengths + 10
    return roundings * float(np.finfo(dtype).eps) / 2 * reach**2


def nearest_among(
    rows: Shifted, kept: int, outlining: Outlining | None = None
) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The `kept` rows nearest to each row, of which it is one itself, by products in the precision of the rows.

    Parameters
    ----------
    rows : Shifted, n of them and padding
    kept : int
    outlining : Outlining or None, default=None
        The best one for all rows, if it is known.

    Returns
    -------
    values : (n, kept)
        Squared distances as max-heaps: ``values[:, 0]`` are the largest.
    ids : (n, kept) int32
    """
    padded = len(rows.half)
    n = int(np.isfinite(rows.half).sum())
    values = np.full((n, kept), np.inf, rows.half.dtype)
    ids = np.full((n, kept), -1, np.int32)
    threads = get_num_threads()
    size = min(TILE, max(64, -(-padded // (4 * threads * ABREAST)) * ABREAST))
    scratch = threading.local()

    def look(first_row, first_column, both, outlined_rows):
        """Multiply two blocks, or their outlines, and keep what is near."""
        if not hasattr(scratch, "tile"):
            scratch.tile, scratch.limits = np.empty(size * size, values.dtype), np.empty(size, values.dtype)
        here, there = slice(first_row, min(first_row + size, n)), slice(first_column, first_column + size)
        own, other = rows.vectors[here], rows.vectors[there]
        factors = (own, other) if outlined_rows is None else (outlined_rows[here], outlined_rows[there])
        tile = scratch.tile[: len(own) * len(other)].reshape(len(own), len(other))
        np.matmul(factors[0], factors[1].T, out=tile)
        numbers, halves = np.arange(here.start, here.stop), (rows.half[there], rows.half[here])
        outlined = outlined_rows is not None
        keep_nearest(tile, numbers, first_column, *halves, both, own, other, outlined, values, ids, scratch.limits)

    whole = WHOLE_TURNS * -(-padded // size)
    outlined_rows = _outlines(rows, n, kept, outlining)
    pairs = Pairs(_nearest_first(rows.vectors, size))

    def work(_):
        while (taken := pairs.take()) is not None:
            turn, i, j = taken
            try:
                look(i * size, j * size, i != j, outlined_rows if turn >= whole else None)
            finally:
                pairs.give_back(i, j)

    on_threads(range(threads), work)
    return values, ids


def nearest_to(
    X: Floats, Q: Floats, asked: NDArray[np.int64], center: NDArray[Any], scale: float, dtype: Any, kept: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any], float]:
    """The `kept` rows of X (n, d) nearest to some of the queries Q, by products in a given precision.

    Each thread measures a tile of rows from the center just before it is multiplied, while it is in the cache: no copy
    of X is made.

    Parameters
    ----------
    X, Q : arrays of d columns
    asked : (m,) int64
        Which of the queries.
    center : (d,), scale : float
        The point that rows are measured from, and what they are multiplied by.
    dtype : float32 or float64
    kept : int

    Returns
    -------
    values : (m, kept), ids : (m, kept) int32
        As of :func:`nearest_among`.
    half : (m,)
        Half the squared lengths of the queries, as measured from the center.
    longest : float
        The largest half of a squared length among the rows.
    """
    m, (n, d) = len(asked), X.shape
    values, ids, half = np.full((m, kept), np.inf, dtype), np.full((m, kept), -1, np.int32), np.empty(m, dtype)
    everyone, factor = np.arange(max(m, n)), np.result_type(X, center).type(scale)
    height = min(TILE, max(64, -(-m // get_num_threads())))  # few queries too are shared among all threads
    longest = np.zeros(-(-m // height))
    scratch = threading.local()

    def compare(strip):
        """Compare one strip of queries with all rows."""
        if not hasattr(scratch, "tile"):
            # The last row of a tile may be read up to a multiple of ABREAST; what lies there is not looked at.
            scratch.tile = np.zeros(height * TILE + ABREAST, dtype)
            scratch.own, scratch.other = np.empty((height, d), dtype), np.empty((TILE, d), dtype)
            scratch.limits, scratch.half = np.empty((2, TILE), dtype)
        here = everyone[strip * height : min((strip + 1) * height, m)]
        own, own_half = scratch.own[: len(here)], half[here[0] : here[-1] + 1]
        measure_from(0, len(here), Q, asked[here[0] : here[-1] + 1], center, factor, own, own_half)
        for start in range(0, n, TILE):
            there = everyone[start : min(start + TILE, n)]
            other, other_half = scratch.other[: len(there)], scratch.half[: -(-len(there) // ABREAST) * ABREAST]
            other_half[:] = np.inf
            measure_from(0, len(there), X, there, center, factor, other, other_half)
            longest[strip] = max(longest[strip], other_half[: len(there)].max())
            tile = scratch.tile[: len(here) * len(there)].reshape(len(here), len(there))
            np.matmul(own, other.T, out=tile)
            halves = other_half, own_half
            keep_nearest(tile, here, start, *halves, False, own, other, False, values, ids, scratch.limits)

    on_threads(range(len(longest)), compare)
    return values, ids, half, float(longest.max())


class Pairs:
    """Pairs of blocks that wait to be worked on, of which no two that threads have taken share a block.

    A block's lists of nearest rows have room for one writer. Threads that wait for each other, however shortly, are
    slow to wake up, so each takes the first pair that is free, rather than the first.

    Parameters
    ----------
    pairs : list of (int, int)
        In the order that they are to be taken in, as far as they are free.
    """

    def __init__(self, pairs: list[tuple[int, int]]):
        self._waiting = [(turn, *pair) for turn, pair in enumerate(pairs)]
        self._busy: set[int] = set()
        self._changed = threading.Condition()

    def take(self) -> tuple[int, int, int] | None:
        """The number of a pair in the order, and its two blocks; None when all are taken."""
        with self._changed:
            while self._waiting:
                for place, (_, i, j) in enumerate(self._waiting):
                    if i not in self._busy and j not in self._busy:
                        self._busy |= {i, j}
                        return self._waiting.pop(place)
                self._changed.wait()
            return None

    def give_back(self, i: int, j: int) -> None:
        """Say that the work on a pair of blocks is done."""
        with self._changed:
            self._busy -= {i, j}
            self._changed.notify_all()


def _nearest_first(vectors: NDArray[Any], size: int) -> list[tuple[int, int]]:
    """All pairs of blocks of `size` vectors, those of a block with itself first, then by how near their middles are."""
    middles = np.array([vectors[start : start + size].mean(axis=0) for start in range(0, len(vectors), size)])
    half = 0.5 * squared_lengths(middles)
    with products_alone():
        apart = half[:, None] + half - middles @ middles.T
    np.fill_diagonal(apart, -np.inf)
    first, second = np.triu_indices(len(middles))
    turn = np.argsort(apart[first, second], kind="stable")
    return list(zip(first[turn].tolist(), second[turn].tolist(), strict=True))


def _outlines(rows: Shifted, n: int, kept: int, known: Outlining | None) -> NDArray[np.float32] | None:
    """Outlines of the rows, of which the last ones beyond n are padding; None where they would not save time."""
    if rows.half.dtype != np.float32:
        return None
    directions = find_directions(rows.vectors[:n], rows.half[:n], kept, known)
    if directions is None:
        return None
    return outlines(rows.vectors, directions)
