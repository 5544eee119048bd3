"""Exact nearest neighbours: matrix products in single precision propose candidates, precise distances decide.

Each thread multiplies a tile of rows and scans it while it is in the cache. If the queries are the rows themselves, the
product of two blocks serves both, which halves the arithmetic.

Many products are not even computed in full. Measured from their mean, most embeddings lie mostly along a few
directions. The outline of a row is its coordinates along m of them, and the length of the remainder. The product of two
outlines is an upper bound of the product of the rows, and takes m + 1 multiplications instead of d. Only for the few
pairs that may be near according to this bound are the rows themselves multiplied.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray

from asbc.kernels.distances import listed_distances
from asbc.kernels.nearest import COMPARED, keep_nearest, shift_rows, sort_candidates
from asbc.kernels.threads import one_blas_thread, run_products, run_ranges
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, check_k, whole_number

Ids = NDArray[np.int64]

# Extra candidates per row, so that rounding seldom leaves in doubt which rows are the nearest; rows where it does are
# searched again with many. Rounding errors grow with the longest row, so few suffice if it is at most EVEN times the
# mean length.
FEW_SPARE, SOME_SPARE, MANY_SPARE = 8, 18, 200
SPARE = 8  # extra candidates per row of approximate search
EVEN = 4.0
CENTERED_ROWS = 4096  # rows, about, whose mean is the origin
SORTED_ROWS = 8192  # rows whose candidates are compared in double precision together
MIN_SINGLE, MAX_SINGLE = 1e-37, 1e37  # rows that spread within these limits are shifted and scaled in single precision
MAX_COMPARED = 2**22  # distances of rows that are compared with all rows together: 32 MB
TILE = 512  # the largest number of rows and columns of a tile: one megabyte of products, which stays in a core's cache
TILE_ROWS = 65536  # rows of X that are searched together if X, on disk, does not fit into memory
GROUPED_ROWS = 2048  # sort rows by cluster first if there are at least this many

OUTLINE_LENGTHS = (16, 32, 48, 64, 96, 128)  # numbers of directions to try
SUBSPACE_ROUNDS = 3  # of the power iteration
MIN_PRODUCTS = 2e10  # multiplications of the full products, below which outlines are not tried
DIRECTION_ROWS = 2048  # rows that the directions are computed from
TRIED_ROWS = 64  # rows whose near ones are counted with outlines of every length
# The cost of the product of a single pair of rows, if a product of the same length in a matrix product costs 1: about
# 6, times the pairs that are near only to the nearest rows so far, or only to one of the two rows.
PAIR_COST = 16.0
OUTLINE_COST = 0.8  # outlines are used if they cost at most this share of full products
OUTLINED_ROWS = 512  # rows whose outlines are computed together
FULL_TURNS = 3  # pairs per block that are multiplied in full first, because at first nearly every row is near


def search_exactly(X: Floats, k: int, queries: Floats | None = None) -> Neighbors:
    """Return the k nearest rows of X to each row of X, or to each query, by euclidean distance.

    A bound on the rounding error certifies that no other row is nearer than the candidates. Rows that it cannot certify
    are searched again in double precision. The result depends neither on block sizes nor on threads. X (n, d) and
    `queries` (m, d) must be checked vectors. Rows of X exclude themselves from their neighbours.
    """
    if queries is None:
        Q = X
        k = check_k(k, X.shape[0])
        wanted = k + 1  # the node itself is among the nearest, and is removed by its id
    else:
        Q = queries
        wanted = k = whole_number(k, "k", 1, X.shape[0], "the rows of X")
    Q = Q.astype(X.dtype, copy=False) if Q.dtype.itemsize < X.dtype.itemsize else Q

    indices = np.empty((len(Q), k), np.int64)
    distances = np.empty((len(Q), k))
    open_rows = np.arange(len(Q))
    for dtype, many in ((np.float32, False), (np.float32, True), (np.float64, False)):
        open_rows = _search_filtered(X, Q, open_rows, wanted, queries is None, dtype, many, indices, distances)
    step = max(1, MAX_COMPARED // len(X))
    for start in range(0, len(open_rows), step):  # ties exceed the candidates: compare with all rows
        rows = open_rows[start : start + step]
        squared = listed_distances(X, np.ascontiguousarray(Q[rows]), np.tile(np.arange(len(X)), (len(rows), 1)))
        if queries is None:
            squared[np.arange(len(rows)), rows] = np.inf
        indices[rows] = np.argsort(squared, axis=1, kind="stable")[:, :k]
        distances[rows] = np.sqrt(np.take_along_axis(squared, indices[rows], axis=1))
    return Neighbors(indices, distances, first=0 if queries is None else None)


def _search_filtered(X, Q, rows, wanted, drop_self, dtype, many, indices, distances):
    """Write the neighbours of those `rows` that products of this precision certify; return the other rows.

    `drop_self` says that Q is X, so that a row's own id is removed. `many` takes many extra candidates.
    """
    n, d = X.shape
    if not len(rows):
        return rows
    center, scale = _center_and_scale(X, Q)
    few, some = (MANY_SPARE if many else min(spare, wanted // 2 + 4) for spare in (FEW_SPARE, SOME_SPARE))
    if drop_self and len(rows) == n:
        order = _group_rows(X, center, scale)
        vectors, half = _shifted(X, center, scale, dtype, order)
        lengths = np.sqrt(2.0 * half[:n].astype(np.float64))
        largest = lengths.max()
        kept = min(wanted + (few if largest <= EVEN * lengths.mean() else some), n)
        values, ids = _nearest_among(n, vectors, half, kept)
        if order is not None:
            back = np.argsort(order)
            values, ids, lengths = values[back], order.astype(np.int32)[ids[back]], lengths[back]
    else:
        kept = min(wanted + some, n)
        values, ids, half, longest = nearest_to(X, Q, rows, center, scale, dtype, kept)
        lengths, largest = np.sqrt(2.0 * half.astype(np.float64)), np.sqrt(2.0 * longest)
    # The largest value kept is a lower bound for all rows that are not candidates.
    error = rounding_error(d, lengths + largest, dtype)
    bound = (values[:, 0] - error) / scale**2 if kept < n else np.full(len(rows), np.inf)
    doubtful = []
    for start in range(0, len(rows), SORTED_ROWS):
        part = slice(start, start + SORTED_ROWS)
        block = rows[part]
        queries = Q[part] if len(rows) == len(Q) else np.ascontiguousarray(Q[block])
        candidates = ids[part].astype(np.int64)
        squared = listed_distances(X, queries, candidates)
        own = block if drop_self else np.full(len(block), -1)
        found = sort_candidates(squared, candidates, own, bound[part], wanted, indices.shape[1])
        certain = found[2]
        indices[block[certain]] = found[0][certain]
        distances[block[certain]] = found[1][certain]
        doubtful.append(block[~certain])
    return np.concatenate(doubtful)


def _center_and_scale(X, Q):
    """Return the point (d,) that rows are measured from, and a power of two to multiply them by.

    Scaling by a power of two is exact and keeps single precision from overflow and underflow.
    """
    center = X[:: max(1, len(X) // CENTERED_ROWS)].mean(axis=0, dtype=np.float64)  # any point near the rows will do
    spread = max(largest_offset(X, center), largest_offset(Q, center) if Q is not X else 0.0)
    if spread > 1e140 or 0 < spread < 1e-140:
        raise ValueError(
            f"X must spread between 1e-140 and 1e140, so that squared distances are finite; got {spread:.3g}. Scale X."
        )
    if spread == 0 or MIN_SINGLE < spread < MAX_SINGLE:
        center = center.astype(X.dtype)  # single precision is faster
    return center, 2.0 ** -np.ceil(np.log2(spread)) if spread > 0 else 1.0


def largest_offset(X, center):
    """Return the largest difference, over rows and columns, between X (n, d) and `center` (d,)."""
    starts = range(0, len(X), TILE)
    highest, lowest = np.empty((2, len(starts), X.shape[1]), X.dtype)

    def reduce_tile(number):
        part = X[starts[number] : starts[number] + TILE]
        part.max(axis=0, out=highest[number])
        part.min(axis=0, out=lowest[number])

    run_products(range(len(starts)), reduce_tile)
    above = highest.max(axis=0).astype(np.float64) - center
    below = center - lowest.min(axis=0).astype(np.float64)
    return float(max(above.max(), below.max()))


def exact_distances(X: Floats, vectors: Floats, k: int, own: Ids | None) -> tuple[Ids, NDArray[np.float64]]:
    """Return indices and distances (m, k) with the bits of :func:`search_exactly`, reading X one tile at a time.

    Memory does not grow with n, and X may be a memory map. `own` (m,) are the rows of X that the vectors (m, d) are, so
    that none is its own neighbour; None if they are not rows of X.
    """
    wanted = k if own is None else k + 1
    ids = np.empty((len(vectors), 0), np.int64)
    distances = np.empty((len(vectors), 0))
    for start in range(0, len(X), TILE_ROWS):
        tile = X[start : start + TILE_ROWS]
        found = search_exactly(tile, min(wanted, len(tile)), vectors)
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


def _group_rows(X: Floats, center: NDArray[Any], scale: float) -> NDArray[np.int64] | None:
    """Return an order of the rows of X in which near rows are roughly adjacent; None for few rows.

    Each row goes to the nearest of some random rows, about one per tile. The order only affects the speed.
    """
    n = len(X)
    if n < GROUPED_ROWS:
        return None
    drawn = np.sort(np.random.default_rng(0).choice(n, n // TILE + 1, replace=False))
    seeds = ((X[drawn] - center) * scale).astype(np.float32)
    half = 0.5 * _squared_lengths(seeds)
    nearest = np.empty(n, np.int16 if len(seeds) < 2**15 else np.int64)  # NumPy sorts int16 much faster

    def assign(start):
        here = slice(start, start + TILE)
        nearest[here] = np.argmax(((X[here] - center) * scale).astype(np.float32) @ seeds.T - half, axis=1)

    run_products(range(0, n, TILE), assign)
    return np.argsort(nearest, kind="stable")


def _shifted(X: Floats, center: NDArray[Any], scale: float, dtype: Any, order: Ids | None) -> tuple[NDArray[Any], ...]:
    """Return the rows of X (n, d) in the given `order`, shifted and scaled, and half their squared lengths.

    Rows of zeros, whose length counts as infinite, make the number of rows a multiple of COMPARED.
    """
    n, d = X.shape
    vectors = np.zeros((n + -n % COMPARED, d), dtype)
    half = np.full(len(vectors), np.inf, dtype)
    rows = np.arange(n) if order is None else order
    run_ranges(shift_rows, n, X, rows, center, np.result_type(X, center).type(scale), vectors, half)
    return vectors, half


def _squared_lengths(vectors: NDArray[Any]) -> NDArray[Any]:
    """Return the squared lengths (n,) of vectors (n, d), in their own precision."""
    out = np.empty(len(vectors), vectors.dtype)
    for start in range(0, len(vectors), TILE):
        np.square(vectors[start : start + TILE]).sum(axis=1, out=out[start : start + TILE])
    return out


def rounding_error(d: int, reach: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """Return an upper bound of the error of a squared distance computed from products.

    With lengths a and b, `reach` is at least ``a + b``. A product of d terms has at most d roundings, each of a part of
    ``a b``; it counts twice, and ``2 a b`` is at most half of ``(a + b)^2``. Squared lengths are summed in double
    precision: they have d roundings if that is the precision of the products too, and one otherwise. Ten more cover
    the shift and sums.
    """
    in_lengths = 1 if dtype == np.float32 else d
    roundings = d / 2 + in_lengths + 10
    return roundings * float(np.finfo(dtype).eps) / 2 * reach**2


def _nearest_among(n: int, vectors: NDArray[Any], half: NDArray[Any], kept: int) -> tuple[NDArray[Any], ...]:
    """Return the `kept` rows nearest to each of n rows, itself included, by products in the precision of the rows.

    `vectors` and `half` are as from :func:`_shifted`. Returns squared distances (n, kept) as max-heaps, with the
    largest in column 0, and ids (n, kept) int32.
    """
    padded = len(half)
    values = np.full((n, kept), np.inf, half.dtype)
    ids = np.full((n, kept), -1, np.int32)
    threads = get_num_threads()
    size = min(TILE, max(64, -(-padded // (4 * threads * COMPARED)) * COMPARED))
    scratch = threading.local()

    def compare(first_row, first_column, both, outlines):
        """Multiply two blocks, or their outlines, and keep near rows."""
        if not hasattr(scratch, "tile"):
            scratch.tile, scratch.limits = np.empty(size * size, values.dtype), np.empty(size, values.dtype)
        here, there = slice(first_row, min(first_row + size, n)), slice(first_column, first_column + size)
        own, other = vectors[here], vectors[there]
        factors = (own, other) if outlines is None else (outlines[here], outlines[there])
        tile = scratch.tile[: len(own) * len(other)].reshape(len(own), len(other))
        np.matmul(factors[0], factors[1].T, out=tile)
        numbers, halves = np.arange(here.start, here.stop), (half[there], half[here])
        bounded = outlines is not None
        keep_nearest(tile, numbers, first_column, *halves, both, own, other, bounded, values, ids, scratch.limits)

    full_turns = FULL_TURNS * -(-padded // size)
    directions = find_directions(vectors[:n], half[:n], kept)
    outlines = None if directions is None else outline_rows(vectors, directions)
    pairs = BlockPairs(_nearest_first(vectors, size))

    def work(_):
        while (taken := pairs.take()) is not None:
            turn, i, j = taken
            try:
                compare(i * size, j * size, i != j, outlines if turn >= full_turns else None)
            finally:
                pairs.give_back(i, j)

    run_products(range(threads), work)
    return values, ids


def nearest_to(
    X: Floats, Q: Floats, rows: Ids, center: NDArray[Any], scale: float, dtype: Any, kept: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any], float]:
    """Return the `kept` rows of X (n, d) nearest to the given `rows` (m,) of Q, by products in a given precision.

    Each thread shifts a tile of X just before it is multiplied, so X is not copied. Returns values and ids as
    :func:`_nearest_among`, half the squared lengths (m,) of the queries, and the largest such number of rows of X.
    """
    m, (n, d) = len(rows), X.shape
    values, ids, half = np.full((m, kept), np.inf, dtype), np.full((m, kept), -1, np.int32), np.empty(m, dtype)
    numbers, factor = np.arange(max(m, n)), np.result_type(X, center).type(scale)
    height = min(TILE, max(64, -(-m // get_num_threads())))  # few queries are shared among all threads, too
    longest = np.zeros(-(-m // height))
    scratch = threading.local()

    def compare(strip):
        """Compare one strip of queries with all rows."""
        if not hasattr(scratch, "tile"):
            # The last row of a tile is read up to a multiple of COMPARED; what lies there is ignored.
            scratch.tile = np.zeros(height * TILE + COMPARED, dtype)
            scratch.own, scratch.other = np.empty((height, d), dtype), np.empty((TILE, d), dtype)
            scratch.limits, scratch.half = np.empty((2, TILE), dtype)
        here = numbers[strip * height : min((strip + 1) * height, m)]
        own, own_half = scratch.own[: len(here)], half[here[0] : here[-1] + 1]
        shift_rows(0, len(here), Q, rows[here[0] : here[-1] + 1], center, factor, own, own_half)
        for start in range(0, n, TILE):
            there = numbers[start : min(start + TILE, n)]
            other, other_half = scratch.other[: len(there)], scratch.half[: -(-len(there) // COMPARED) * COMPARED]
            other_half[:] = np.inf
            shift_rows(0, len(there), X, there, center, factor, other, other_half)
            longest[strip] = max(longest[strip], other_half[: len(there)].max())
            tile = scratch.tile[: len(here) * len(there)].reshape(len(here), len(there))
            np.matmul(own, other.T, out=tile)
            halves = other_half, own_half
            keep_nearest(tile, here, start, *halves, False, own, other, False, values, ids, scratch.limits)

    run_products(range(len(longest)), compare)
    return values, ids, half, float(longest.max())


class BlockPairs:
    """Pairs of blocks to process in a given order, where no two pairs in progress share a block.

    Each block's heaps have room for one writer. A thread takes the first pair that is free, so it seldom waits.
    """

    def __init__(self, pairs: list[tuple[int, int]]):
        self._waiting = [(turn, *pair) for turn, pair in enumerate(pairs)]
        self._busy: set[int] = set()
        self._changed = threading.Condition()

    def take(self) -> tuple[int, int, int] | None:
        """Return the number of a pair in the order, and its two blocks; None if all are taken."""
        with self._changed:
            while self._waiting:
                for place, (_, i, j) in enumerate(self._waiting):
                    if i not in self._busy and j not in self._busy:
                        self._busy |= {i, j}
                        return self._waiting.pop(place)
                self._changed.wait()
            return None

    def give_back(self, i: int, j: int) -> None:
        """Mark the blocks of a pair as free."""
        with self._changed:
            self._busy -= {i, j}
            self._changed.notify_all()


def _nearest_first(vectors: NDArray[Any], size: int) -> list[tuple[int, int]]:
    """Return all pairs of blocks of `size` vectors: each block with itself first, then by distance of their means."""
    middles = np.array([vectors[start : start + size].mean(axis=0) for start in range(0, len(vectors), size)])
    half = 0.5 * _squared_lengths(middles)
    with one_blas_thread():
        apart = half[:, None] + half - middles @ middles.T
    np.fill_diagonal(apart, -np.inf)
    first, second = np.triu_indices(len(middles))
    turn = np.argsort(apart[first, second], kind="stable")
    return list(zip(first[turn].tolist(), second[turn].tolist(), strict=True))


def find_directions(rows: NDArray[Any], half: NDArray[Any], kept: int) -> NDArray[np.float64] | None:
    """Return directions (d, m) whose outlines make the search fastest; None if full products are faster.

    The choice is made on samples and only affects the speed. `rows` (n, d) are measured from their mean, `half` (n,) is
    half their squared lengths, and `kept` is the number of nearest rows to find.
    """
    n, d = rows.shape
    lengths = [m for m in OUTLINE_LENGTHS if m <= d // 2]
    if rows.dtype != np.float32 or float(n) * n * d < MIN_PRODUCTS or kept >= n or not lengths:
        return None
    rng = np.random.default_rng(0)
    seen, tried = (np.sort(rng.choice(n, min(n, count), replace=False)) for count in (DIRECTION_ROWS, TRIED_ROWS))
    with one_blas_thread():
        distances = half[tried, None] + half - rows[tried] @ rows.T
        directions = _main_directions(rows[seen], lengths[-1], rng)
    limits = np.partition(distances, kept - 1, axis=1)[:, kept - 1, None]
    own, other = outline_rows(rows[tried], directions), outline_rows(rows[seen], directions)
    costs = []
    for m in lengths:
        remainders = (np.sqrt(np.square(outlines[:, m:]).sum(axis=1)) for outlines in (own, other))
        with one_blas_thread():
            products = own[:, :m] @ other[:, :m].T + np.outer(*remainders)
        possible = half[tried, None] + half[seen] - products < limits
        costs.append((m + 1) / d + PAIR_COST * float(possible.mean()))
    best = int(np.argmin(costs))
    return np.ascontiguousarray(directions[:, : lengths[best]]) if costs[best] < OUTLINE_COST else None


def _main_directions(rows: NDArray[Any], m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return about the first m principal directions (d, m) of the rows (n, d), the main one first."""
    gram = (rows.T @ rows).astype(np.float64)
    basis = rng.normal(size=(len(gram), m))
    for _ in range(SUBSPACE_ROUNDS):
        basis = np.linalg.qr(gram @ basis)[0]
    _, within = np.linalg.eigh(basis.T @ gram @ basis)
    return np.linalg.qr(basis @ within[:, ::-1])[0]


def outline_rows(vectors: NDArray[Any], directions: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the outlines (n, m + 1) of vectors (n, d), computed in double precision and rounded to single."""
    out = np.empty((len(vectors), directions.shape[1] + 1), np.float32)

    def compute(start):
        some = slice(start, start + OUTLINED_ROWS)
        part = vectors[some].astype(np.float64)
        along = part @ directions
        remainder = np.einsum("ij,ij->i", part, part) - np.einsum("ij,ij->i", along, along)
        out[some, :-1] = along
        out[some, -1] = np.sqrt(np.maximum(remainder, 0.0))

    run_products(range(0, len(vectors), OUTLINED_ROWS), compute)
    return out
