"""Find the nearest rows from tiles of matrix products: by exact search, and by scanning inverted lists.

The squared distance of rows x and y is ``|x|^2 + |y|^2 - 2 x.y``. A tile of products is scanned while it is in the
cache. Nearly always none of sixteen entries is near enough, and a single comparison skips all of them.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import broadcast, row_address
from asbc.kernels.threads import run_ranges

COMPARED = 16  # entries of a tile per comparison: float32 numbers in one AVX-512 register
HALVINGS = 16  # the most steps of the bisection for a first limit


def _load_entries(builder, address):
    """Load COMPARED numbers from an address on."""
    vector = ir.VectorType(address.type.pointee, COMPARED)
    return builder.load(builder.bitcast(address, vector.as_pointer()), align=4)


@intrinsic
def near_bits(typingctx, tile, row, column, half, limits, limit, own_half):
    """Return which of COMPARED entries ``p = tile[row, column + t]`` are large enough for their row or column.

    Bit t of the result is set where ``p - half[column + t] > limit`` or ``p - own_half > limits[column + t]``.
    """
    number = tile.dtype

    def codegen(context, builder, signature, args):
        tile_type, _, _, half_type, limits_type, _, _ = signature.args
        product = _load_entries(builder, row_address(context, builder, tile_type, *args[:3]))
        halves, bounds = (
            _load_entries(builder, builder.gep(context.make_array(kind)(context, builder, array).data, [args[2]]))
            for kind, array in ((half_type, args[3]), (limits_type, args[4]))
        )

        limit, own_half = (broadcast(builder, product.type, value) for value in args[5:])
        by_row = builder.fcmp_ordered(">", builder.fsub(product, halves), limit)
        by_column = builder.fcmp_ordered(">", builder.fsub(product, own_half), bounds)
        bits = builder.bitcast(builder.or_(by_row, by_column), ir.IntType(COMPARED))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(tile, types.intp, types.intp, half, limits, number, number), codegen


@intrinsic
def lowest_bit(typingctx, bits):
    """Return the place of the lowest bit that is set; `bits` must not be 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), codegen


@njit(error_model="numpy", fastmath={"reassoc", "contract"})
def _product(x, y):
    total = x.dtype.type(0)
    for t in range(len(x)):
        total += x[t] * y[t]
    return total


@njit(error_model="numpy")
def _first_limit(tile, i, half, size, scores):
    """Return a number that ``tile[i] - half`` exceeds in at least `size` columns and few more; -inf if too few exist.

    `scores` is scratch space of the length of `half`.
    """
    low = np.inf
    high = -np.inf
    for j in range(len(half)):
        score = tile[i, j] - half[j]
        scores[j] = score
        if score > high:
            high = score
        if score < low and score > -np.inf:
            low = score
    limit = scores.dtype.type(-np.inf)
    for _ in range(HALVINGS):
        middle = scores.dtype.type(0.5 * (low + high))
        count = 0
        for j in range(len(scores)):
            count += scores[j] > middle
        if count < size:
            high = middle
        else:
            low = limit = middle
            if count < 2 * size:
                break
    return limit


@njit(inline="always")
def _replace_largest(values, ids, value, name):
    """Replace the largest entry of a max-heap: others move up until there is a place for the new one."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= len(values):
            break
        if child + 1 < len(values) and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[hole] = values[child]
        ids[hole] = ids[child]
        hole = child
    values[hole] = value
    ids[hole] = name


@kernel
def keep_nearest(tile, rows, first_column, half, own_half, both, left, right, bounded, values, ids):
    """Merge a tile of products into the heaps of nearest rows.

    Parameters
    ----------
    tile : (m, w) float32 or float64
        Products of m queries with the rows from id `first_column` on. If w is not a multiple of COMPARED, the memory
        must extend COMPARED numbers beyond the tile.
    rows : (m,) int64
        The heap of each query.
    half : (c,), own_half : (m,)
        Half the squared lengths of the columns and of the queries. c is a multiple of COMPARED; columns from w on are
        padding, where `half` is infinite.
    both : bool
        Whether the columns are queries too, with heaps numbered like the columns.
    left : (m, d), right : (w, d)
        The queries and the rows.
    bounded : bool
        Whether the tile holds upper bounds of the products. Products of pairs that may be near are then computed here.
    values : (l, s), ids : (l, s) int32
        The s smallest squared distances so far in each heap and their rows, changed in place. ``values[i, 0]`` is the
        largest. Start with infinity and -1.
    """
    c = len(half)
    limits, scores = np.full(c, np.inf, tile.dtype), np.empty(c, tile.dtype)
    if both:
        for j in range(min(c, len(values) - first_column)):
            limits[j] = half[j] - 0.5 * values[first_column + j, 0]
    for i in range(len(tile)):
        mine = rows[i]
        limit = own_half[i] - 0.5 * values[mine, 0]
        # Without a first limit, nearly every column would enter an empty heap, and most would leave it again.
        first_limit = limit
        if values[mine, 0] == np.inf and not bounded:
            first_limit = _first_limit(tile, i, half, values.shape[1], scores)
            limit = first_limit
        for start in range(0, c, COMPARED):
            bits = near_bits(tile, i, start, half, limits, limit, own_half[i])
            while bits != 0:
                j = start + lowest_bit(bits)
                bits &= bits - 1
                product = tile[i, j]
                if bounded:
                    product = _product(left[i], right[j])
                value = 2.0 * (own_half[i] + half[j] - product)
                if value < values[mine, 0]:
                    _replace_largest(values[mine], ids[mine], value, first_column + j)
                    limit = max(first_limit, own_half[i] - 0.5 * values[mine, 0])
                if both and value < values[first_column + j, 0]:
                    _replace_largest(values[first_column + j], ids[first_column + j], value, mine)
                    limits[j] = half[j] - 0.5 * values[first_column + j, 0]


# Sums run in double precision, so their order may change.
@kernel(fastmath={"reassoc", "contract"})
def shift_rows(X, rows, center, scale, out, half):
    """Write ``(X[rows] - center) * scale`` to `out` (m, d), and half the squared lengths to `half` (m,)."""
    for i in range(len(rows)):
        source = X[rows[i]]
        target = out[i]
        for t in range(len(center)):
            target[t] = (source[t] - center[t]) * scale
        total = 0.0
        for t in range(len(center)):
            total += np.float64(target[t]) * np.float64(target[t])
        half[i] = 0.5 * total


@kernel
def _sort_candidates(first, last, squared, ids, own, bound, wanted, indices, distances, certain):
    for i in range(first, last):
        for a in range(1, ids.shape[1]):
            value = squared[i, a]
            name = ids[i, a]
            b = a - 1
            while b >= 0 and (squared[i, b] > value or (squared[i, b] == value and ids[i, b] > name)):
                squared[i, b + 1] = squared[i, b]
                ids[i, b + 1] = ids[i, b]
                b -= 1
            squared[i, b + 1] = value
            ids[i, b + 1] = name
        place = 0
        seen = own[i] < 0
        for j in range(ids.shape[1]):
            if ids[i, j] == own[i]:
                seen = True
            elif place < indices.shape[1]:
                indices[i, place] = ids[i, j]
                distances[i, place] = math.sqrt(squared[i, j])
                place += 1
        # With many duplicates, a node may be missing from its own candidates; its row is then not certain.
        certain[i] = seen and squared[i, wanted - 1] < bound[i]


def sort_candidates(squared, ids, own, bound, wanted, k):
    """Return the k nearest candidates of each row, by distance and then id, and whether they are certain.

    Parameters
    ----------
    squared : (m, s) float64, ids : (m, s) int64
        The candidates' squared distances and rows; both are sorted in place.
    own : (m,) int64
        The candidate that is the row itself and does not count; -1 for none.
    bound : (m,) float64
        A lower bound of the squared distances of all rows that are not candidates.
    wanted : int
        Candidates that must be nearer than the bound: k, plus one if the row itself is among them.
    k : int

    Returns
    -------
    indices : (m, k) int64, distances : (m, k) float64, certain : (m,) bool
        -1 and infinity where there are fewer than k candidates.
    """
    m = len(ids)
    indices, distances, certain = np.full((m, k), -1, np.int64), np.full((m, k), np.inf), np.empty(m, np.bool_)
    run_ranges(_sort_candidates, m, squared, ids, own, bound, wanted, indices, distances, certain)
    return indices, distances, certain


@kernel
def scan_lists(vectors, queries, ends, centroids, starts, stored, half, size, values, positions, reach):
    """Compare queries with the rows of the lists that they scan, on the calling thread.

    A list holds some hundred rows, so its products take a fraction of a millisecond. One compiled loop over lists
    avoids waiting for the interpreter lock between them.

    Parameters
    ----------
    vectors : (m, d) float32 or float64
        All queries.
    queries, ends : int64
        Those of list l are ``queries[ends[l]:ends[l + 1]]``.
    centroids : (L, d) float32
    starts : (L + 1,) int64
        List l holds positions ``starts[l]`` to ``starts[l + 1]``.
    stored : (n, d) float32, half : (n,) float32
        The row at each position minus the centroid of its list, and half its squared length.
    size : int
        The largest number of rows and columns of a tile of products.
    values : (m, kept) float32, positions : (m, kept) int32
        Heaps of squared distances and positions, as in :func:`keep_nearest`.
    reach : (m,) float64
        The largest sum of the lengths of a query and of a list's longest row, both measured from the list's centroid.
        The rounding error of a squared distance is at most a multiple of its square. Changed in place.
    """
    d = vectors.shape[1]
    seen, seen_half = np.empty((size, d), np.float32), np.empty(size, np.float32)
    # The last row of a tile is read up to a multiple of COMPARED; what lies there is ignored.
    tile = np.zeros(size * size + COMPARED, np.float32)
    padded = np.empty(size + COMPARED, np.float32)
    for number in range(len(centroids)):
        begin, end = starts[number], starts[number + 1]
        if begin == end:
            continue
        for from_query in range(ends[number], ends[number + 1], size):
            here = queries[from_query : min(from_query + size, ends[number + 1])]
            # Measured from the centroid, numbers are small, and so are the rounding errors of single precision.
            query, own_half = seen[: len(here)], seen_half[: len(here)]
            shift_rows(vectors, here, centroids[number], np.float32(1), query, own_half)
            longest = np.float32(0)
            for start in range(begin, end, size):
                part = stored[start : min(start + size, end)]
                width = len(part)
                part_half = padded[: (width + COMPARED - 1) // COMPARED * COMPARED]
                part_half[:] = np.inf
                for j in range(width):
                    part_half[j] = half[start + j]
                    longest = max(longest, part_half[j])
                products = tile[: len(here) * width].reshape(len(here), width)
                np.dot(query, part.T, products)
                keep_nearest(products, here, start, part_half, own_half, False, query, part, False, values, positions)
            for i in range(len(here)):
                both = np.sqrt(2.0 * np.float64(own_half[i])) + np.sqrt(2.0 * np.float64(longest))
                reach[here[i]] = max(reach[here[i]], both)
