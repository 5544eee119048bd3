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
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.distances import listed_distances
from asbc.kernels.nearest import COMPARED, keep_nearest, shift_rows, sort_candidates
from asbc.kernels.threads import one_blas_thread, run_products, thread_count
from asbc.neighbors.types import Neighbors
from asbc.validation import Floats, check_k, whole_number

Ids = NDArray[np.int64]

# Extra candidates per row, so that rounding seldom leaves in doubt which rows are the nearest. Rows where it does are
# searched again in double precision with many more, which also resolves ties.
SPARE, MANY_SPARE = 8, 200
CENTERED_ROWS = 4096  # rows, about, whose mean is the origin
SORTED_ROWS = 8192  # rows whose candidates are compared in double precision together
MAX_COMPARED = 2**22  # distances of rows that are compared with all rows together: 32 MB
TILE = 512  # the largest number of rows and columns of a tile: one megabyte of products, which stays in a core's cache
GROUPED_ROWS = 2048  # sort rows by cluster first if there are at least this many

OUTLINE_LENGTHS = (16, 32, 48, 64, 96, 128)  # numbers of directions to try
SUBSPACE_ROUNDS = 3  # of the power iteration
MIN_PRODUCTS = 2e10  # multiplications of the full products, below which outlines are not tried
DIRECTION_ROWS = 2048  # rows that the directions are computed from
TRIED_ROWS = 64  # rows whose near ones are counted with outlines of every length
# Cost of the product of a single pair of rows, relative to one in a matrix product. The product alone costs about 6;
# the rest is for pairs that later turn out not to be needed.
PAIR_COST = 16.0
OUTLINE_COST = 0.8  # outlines are used if they cost at most this share of full products
FULL_TURNS = 3  # pairs per block that are multiplied in full first, because at first nearly every row is near


def search_exactly(X: Floats, k: int, queries: Floats | None = None, own: Ids | None = None) -> Neighbors:
    """Return the k nearest rows of X to each row of X, or to each query, by euclidean distance.

    A bound on the rounding error certifies that no other row is nearer than the candidates. Rows that it cannot certify
    are searched again in double precision. The result depends neither on block sizes nor on threads. X (n, d) and
    `queries` (m, d) must be checked vectors; they are read in tiles, so they may be memory maps. `own` (m,) are the
    rows of X that the queries are, so that none is its own neighbour; None if they are not rows of X.
    """
    if queries is None:
        Q, own, k = X, np.arange(len(X)), check_k(k, len(X))
    else:
        Q, k = queries, whole_number(k, "k", 1, len(X), "the rows of X")
    wanted = k if own is None else k + 1  # the node itself is among the nearest, and is removed by its id
    Q = Q.astype(X.dtype, copy=False) if Q.dtype.itemsize < X.dtype.itemsize else Q
    own = np.full(len(Q), -1) if own is None else own

    indices = np.empty((len(Q), k), np.int64)
    distances = np.empty((len(Q), k))
    open_rows = np.arange(len(Q))
    for dtype, spare in ((np.float32, SPARE), (np.float64, MANY_SPARE)):
        if len(open_rows):
            kept = min(wanted + spare, len(X))
            open_rows = _search_filtered(X, Q, open_rows, own, wanted, kept, dtype, indices, distances)
    step = max(1, MAX_COMPARED // len(X))
    for start in range(0, len(open_rows), step):  # ties exceed the candidates: compare with all rows
        rows = open_rows[start : start + step]
        squared = listed_distances(X, np.ascontiguousarray(Q[rows]), np.tile(np.arange(len(X)), (len(rows), 1)))
        squared[np.arange(len(X)) == own[rows, None]] = np.inf
        indices[rows] = np.argsort(squared, axis=1, kind="stable")[:, :k]
        distances[rows] = np.sqrt(np.take_along_axis(squared, indices[rows], axis=1))
    return Neighbors(indices, distances, first=0 if queries is None else None)


def _search_filtered(X, Q, rows, own, wanted, kept, dtype, indices, distances):
    """Write the neighbours of those `rows` of Q that products of this precision certify; return the other rows.

    `kept` is the number of candidates per row. `own` are the rows of X that the rows of Q are, -1 for none.
    """
    n, d = X.shape
    center, scale = _center_and_scale(X, Q)
    if Q is X and len(rows) == n:
        values, ids, half = _nearest_among(X, center, scale, dtype, kept)
        longest = half.max()
    else:
        values, ids, half, longest = nearest_to(X, Q, rows, center, scale, dtype, kept)
    lengths, largest = np.sqrt(2.0 * half.astype(np.float64)), np.sqrt(2.0 * float(longest))
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
        found = sort_candidates(squared, candidates, own[block], bound[part], wanted, indices.shape[1])
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
    return center, 2.0 ** -np.ceil(np.log2(spread)) if spread > 0 else 1.0


def largest_offset(X, center):
    """Return the largest difference, over rows and columns, between X (n, d) and `center` (d,)."""
    return float(max((X.max(axis=0) - center).max(), (center - X.min(axis=0)).max()))


def _group_rows(X: Floats, center: NDArray[Any], scale: float) -> Ids:
    """Return an order of the rows of X in which near rows are roughly adjacent; it only affects the speed.

    Each row goes to the nearest of some random rows, about one per tile.
    """
    n = len(X)
    if n < GROUPED_ROWS:
        return np.arange(n)
    seeds, half = shifted(X, np.random.default_rng(0).choice(n, n // TILE + 1, replace=False), center, scale)
    nearest = np.empty(n, np.int64)

    def assign(start):
        rows = np.arange(start, min(start + TILE, n))
        nearest[rows] = np.argmax((shifted(X, rows, center, scale)[0] @ seeds.T - half)[: len(rows)], axis=1)

    run_products(range(0, n, TILE), assign)
    return np.argsort(nearest, kind="stable")


def shifted(
    X: Floats, rows: Ids, center: NDArray[Any], scale: float, dtype: Any = np.float32
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return some rows (m,) of X (n, d), shifted and scaled, and half their squared lengths.

    Rows of zeros, whose length counts as infinite, make the number of rows a multiple of COMPARED.
    """
    m = len(rows)
    vectors = np.zeros((m + -m % COMPARED, X.shape[1]), dtype)
    half = np.full(len(vectors), np.inf, dtype)
    shift_rows(X, rows, center, scale, vectors, half)
    return vectors, half


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


def _nearest_among(
    X: Floats, center: NDArray[Any], scale: float, dtype: Any, kept: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any]]:
    """Return the `kept` rows of X (n, d) nearest to each row, itself included, by products in a given precision.

    Returns squared distances (n, kept) as max-heaps, with the largest in column 0, ids (n, kept), and half the squared
    lengths (n,) of the rows.
    """
    n = len(X)
    order = _group_rows(X, center, scale)
    vectors, half = shifted(X, order, center, scale, dtype)
    values = np.full((n, kept), np.inf, dtype)
    ids = np.full((n, kept), -1, np.int32)
    size = min(TILE, max(64, -(-len(half) // (4 * thread_count() * COMPARED)) * COMPARED))
    full_turns = FULL_TURNS * -(-len(half) // size)
    directions = find_directions(vectors[:n], half[:n], kept)
    outlines = None if directions is None else outline_rows(vectors, directions)
    busy: set[int] = set()
    changed = threading.Condition()

    def compare(task):
        """Multiply two blocks, or their outlines, and keep near rows."""
        turn, i, j = task
        try:  # after an error or interrupt anywhere, another thread may wait for these blocks
            here, there = slice(i * size, min((i + 1) * size, n)), slice(j * size, (j + 1) * size)
            bounded = outlines is not None and turn >= full_turns
            factors: Any = outlines if bounded else vectors
            tile, both = factors[here] @ factors[there].T, (vectors[here], vectors[there])
            numbers = np.arange(here.start, here.stop)
            keep_nearest(tile, numbers, there.start, half[there], half[here], i != j, *both, bounded, values, ids)
        finally:
            with changed:
                busy.difference_update({i, j})
                changed.notify_all()

    run_products(free_pairs(_nearest_first(vectors, size), busy, changed), compare)
    back = np.argsort(order)
    return values[back], order.astype(np.int32)[ids[back]], half[:n][back]


def nearest_to(
    X: Floats, Q: Floats, rows: Ids, center: NDArray[Any], scale: float, dtype: Any, kept: int
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[Any], float]:
    """Return the `kept` rows of X (n, d) nearest to the given `rows` (m,) of Q, by products in a given precision.

    Each thread shifts a tile of X just before it is multiplied, so X is not copied. Returns values, ids and halves of
    the queries as :func:`_nearest_among`, and the largest half of rows of X.
    """
    m, n = len(rows), len(X)
    values, ids, half = np.full((m, kept), np.inf, dtype), np.full((m, kept), -1, np.int32), np.empty(m, dtype)
    height = min(TILE, max(64, -(-m // thread_count())))  # few queries are shared among all threads, too
    longest = []

    def compare(start):
        """Compare one strip of queries with all rows."""
        here = np.arange(start, min(start + height, m))
        own, own_half = (part[: len(here)] for part in shifted(Q, rows[here], center, scale, dtype))
        half[here] = own_half
        for first in range(0, n, TILE):
            there = np.arange(first, min(first + TILE, n))
            other, other_half = shifted(X, there, center, scale, dtype)
            longest.append(float(other_half[: len(there)].max()))
            keep_nearest(own @ other.T, here, first, other_half, own_half, False, own, other, False, values, ids)

    run_products(range(0, m, height), compare)
    return values, ids, half, max(longest)


def free_pairs(
    pairs: list[tuple[int, int]], busy: set[int], changed: threading.Condition
) -> Iterator[tuple[int, int, int]]:
    """Yield (number, i, j) as soon as both blocks of a pair are free, and mark them as busy.

    Each block's heaps have room for one writer. The first pair that is free comes first, so threads seldom wait.
    """
    waiting = [(turn, *pair) for turn, pair in enumerate(pairs)]
    while waiting:
        with changed:
            while (free := next((task for task in waiting if busy.isdisjoint(task[1:])), None)) is None:
                changed.wait()
            busy.update(free[1:])
        waiting.remove(free)
        yield free


def _nearest_first(vectors: NDArray[Any], size: int) -> list[tuple[int, int]]:
    """Return all pairs of blocks of `size` vectors: each block with itself first, then by distance of their means."""
    middles = np.array([vectors[start : start + size].mean(axis=0) for start in range(0, len(vectors), size)])
    half = 0.5 * np.einsum("ij,ij->i", middles, middles)
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
        some = slice(start, start + TILE)
        part = vectors[some].astype(np.float64)
        along = part @ directions
        remainder = np.einsum("ij,ij->i", part, part) - np.einsum("ij,ij->i", along, along)
        out[some, :-1] = along
        out[some, -1] = np.sqrt(np.maximum(remainder, 0.0))

    run_products(range(0, len(vectors), TILE), compute)
    return out
