"""Candidates for the nearest rows, from matrix products of tiles, on several threads.

Each thread multiplies a tile and looks at it while it is in the cache. Where the queries are the rows themselves, the
product of two blocks of rows serves both of them, which halves the arithmetic.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from asbc.kernels.lanes import ABREAST
from asbc.kernels.topk import keep_nearest
from asbc.validation import Floats

TILE = 512  # rows, and columns, of a tile at most: one megabyte of products, which stays in the cache of a core


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looking for them takes milliseconds


def on_threads(work: Iterable[Any], do: Callable[[Any], None]) -> None:
    """Call ``do(task)`` for every task, on as many threads as numba takes, with matrix products on one thread each."""
    tasks = list(work)
    with _libraries().limit(limits=1, user_api="blas"):
        threads = min(get_num_threads(), len(tasks))
        if threads <= 1:
            for task in tasks:
                do(task)
            return
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(do, tasks):
                pass


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
    def of(cls, X: Floats, center: NDArray[Any], scale: float, dtype: Any, padding: bool = False) -> Shifted:
        n, d = X.shape
        more = -n % ABREAST if padding else 0
        vectors = np.empty((n + more, d), dtype)
        half = np.full(n + more, np.inf, dtype)
        vectors[n:] = 0
        for start in range(0, n, TILE):
            part = X[start : min(start + TILE, n)] - center
            part *= part.dtype.type(scale)
            vectors[start : start + len(part)] = part
            half[start : start + len(part)] = 0.5 * squared_lengths(vectors[start : start + len(part)])
        return cls(vectors, half)


def squared_lengths(vectors: NDArray[Any]) -> NDArray[Any]:
    """Squared lengths (n,) of vectors (n, d), in their own precision; see :func:`rounding_error`."""
    out = np.empty(len(vectors), vectors.dtype)
    for start in range(0, len(vectors), TILE):
        np.square(vectors[start : start + TILE]).sum(axis=1, out=out[start : start + TILE])
    return out


def rounding_error(d: int, reach: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """How far a squared distance that comes from products may be off, at most.

    With lengths a and b, `reach` is ``a + b`` or more. A product of d terms has at most d roundings, each of a part of
    ``a b``; it counts twice, and ``2 a b`` is at most half of ``(a + b)^2``. NumPy sums squares along rows in pairs,
    from blocks of 128 in eight columns, so that squared lengths have few roundings; the rest is for the shift and sums.
    """
    roundings = d / 2 + min(d, 40) + 10
    return roundings * float(np.finfo(dtype).eps) / 2 * reach**2


def nearest_candidates(rows: Shifted, queries: Shifted | None, kept: int) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """The `kept` rows nearest to each query, by products in the precision of the rows.

    Parameters
    ----------
    rows : Shifted, n of them, padded
    queries : Shifted, m of them, or None
        None takes the rows themselves (m = n, without padding), each of which is then its own candidate too.
    kept : int

    Returns
    -------
    values : (m, kept)
        Squared distances as max-heaps: ``values[:, 0]`` are the largest.
    ids : (m, kept) int32
    """
    n = len(rows.half)
    m = int(np.isfinite(rows.half).sum()) if queries is None else len(queries.half)
    values = np.full((m, kept), np.inf, rows.half.dtype)
    ids = np.full((m, kept), -1, np.int32)
    scratch = threading.local()

    def multiply(left, first_row, first_column):
        if not hasattr(scratch, "tile"):
            scratch.tile, scratch.limits = np.empty(height * size, values.dtype), np.empty(size, values.dtype)
        own = left.vectors[first_row : min(first_row + height, m)]
        other = rows.vectors[first_column : first_column + size]
        tile = scratch.tile[: len(own) * len(other)].reshape(len(own), len(other))
        return np.matmul(own, other.T, out=tile)

    def look(tile, left, first_row, first_column, both):
        numbers = np.arange(first_row, first_row + len(tile))
        half = rows.half[first_column : first_column + tile.shape[1]]
        own_half = left.half[first_row : first_row + len(tile)]
        keep_nearest(tile, numbers, first_column, half, own_half, both, values, ids, scratch.limits)

    threads = get_num_threads()
    if queries is None:
        height = size = min(TILE, max(64, -(-n // (4 * threads * ABREAST)) * ABREAST))
        blocks = -(-n // size)
        locks = [threading.Lock() for _ in range(blocks)]

        def pair(task):
            i, j = task
            tile = multiply(rows, i * size, j * size)
            with locks[i], locks[j] if i != j else threading.Lock():  # always the lower number first
                look(tile, rows, i * size, j * size, i != j)

        # Blocks meet themselves first, so that the limits are near the truth early where near rows lie together.
        on_threads([(i, i + apart) for apart in range(blocks) for i in range(blocks - apart)], pair)
    else:
        size = TILE
        height = min(TILE, max(64, -(-m // threads)))  # few queries too are shared among all threads

        def strip(first_row):
            for first_column in range(0, n, size):
                look(multiply(queries, first_row, first_column), queries, first_row, first_column, False)

        on_threads(range(0, m, height), strip)
    return values, ids
