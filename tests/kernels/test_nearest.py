"""Kernels of the search, compared with plain NumPy."""

import numpy as np
import pytest

from asbc.kernels.nearest import (
    COMPARED,
    keep_nearest,
    scan_lists,
    shift_rows,
    sort_candidates,
)
from asbc.kernels.threads import one_blas_thread
from asbc.neighbors.lists import file_under

KEPT = 13


def lists(count, dtype):
    return np.full((count, KEPT), np.inf, dtype), np.full((count, KEPT), -1, np.int32)


def halves(X, length):
    """Half the squared lengths, and infinity where there is only padding."""
    return np.r_[0.5 * (X**2).sum(axis=1), np.full(length - len(X), np.inf)].astype(X.dtype)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [16, 64, 500])
def test_nearest_rows_of_queries(dtype, width, bounded):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(500, 6)).astype(dtype), rng.normal(size=(20, 6)).astype(dtype)
    squared = ((Q[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    values, ids = lists(30, dtype)
    numbers = rng.permutation(30)[:20]  # the list that each query has
    for first in range(0, 500, width):
        part = X[first : first + width]
        length = -(-len(part) // COMPARED) * COMPARED
        tile = np.full((20, length), np.nan, dtype)
        tile[:, : len(part)] = Q @ part.T
        if bounded:  # a tile of bounds of the products
            tile[:, : len(part)] += rng.exponential(size=(20, len(part)))
        keep_nearest(
            tile,
            numbers,
            first,
            halves(part, length),
            halves(Q, 20),
            False,
            Q,
            part,
            bounded,
            values,
            ids,
        )
    assert np.array_equal(np.sort(ids[numbers]), np.sort(np.argsort(squared, axis=1)[:, :KEPT]))
    np.testing.assert_allclose(values[numbers], np.take_along_axis(squared, ids[numbers], axis=1), rtol=1e-4)
    assert (values[:, 0] == values.max(axis=1)).all()
    assert (np.delete(ids, numbers, axis=0) == -1).all()


@pytest.mark.parametrize("bounded", [False, True])
def test_one_product_serves_both_sides(bounded):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(48, 4))
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    values, ids = lists(48, float)
    half = halves(X, 48)
    first, second = slice(0, 16), slice(16, 48)
    for rows, columns in ((first, first), (second, second), (first, second)):
        keep_nearest(
            X[rows] @ X[columns].T + bounded * rng.exponential(size=(len(X[rows]), len(X[columns]))),
            np.arange(48)[rows],
            columns.start,
            half[columns],
            half[rows],
            rows != columns,
            X[rows],
            X[columns],
            bounded,
            values,
            ids,
        )
    assert np.array_equal(np.sort(ids), np.sort(np.argsort(squared, axis=1)[:, :KEPT]))


def test_fewer_columns_than_places():
    values, ids = lists(2, float)
    half = halves(np.ones((2, 1)), COMPARED)
    X = np.zeros((2, 1))
    tile = np.zeros((2, COMPARED))
    keep_nearest(tile, np.arange(2), 10, half, half[:2], False, X, X, False, values, ids)
    assert set(ids[0]) == {-1, 10, 11}
    assert np.isinf(values[:, 0]).all()


def test_candidates_are_settled_by_distance_and_then_id():
    squared = np.array([[4.0, 1.0, 4.0, 0.0], [9.0, 1.0, 0.0, 4.0], [1.0, 4.0, 9.0, 16.0]])
    ids = np.array([[7, 3, 2, 0], [5, 4, 1, 2], [8, 6, 5, 4]])
    # The second row cannot be certain of its third, and the third row itself is not among its candidates.
    found, distances, certain = sort_candidates(squared, ids, np.array([0, 1, 2]), np.array([5.0, 4.0, 20.0]), 3, 2)
    assert found.tolist() == [[3, 2], [4, 2], [8, 6]]
    assert distances.tolist() == [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    assert certain.tolist() == [True, False, False]
    found, _, certain = sort_candidates(squared, ids, np.full(3, -1), np.full(3, np.inf), 2, 2)
    assert found.tolist() == [[0, 3], [1, 4], [8, 6]] and certain.all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_measured_from_a_point(dtype):
    rng = np.random.default_rng(2)
    X, center = rng.normal(size=(20, 13)).astype(dtype), rng.normal(size=13).astype(np.float32)
    rows = np.array([7, 0, 7, 19])
    out, half = np.empty((4, 13), np.float32), np.empty(4, np.float32)
    shift_rows(X, rows, center, np.float32(0.25), out, half)
    wanted = ((X[rows] - center) * np.float32(0.25)).astype(np.float32)
    assert np.array_equal(out, wanted)
    np.testing.assert_allclose(half, 0.5 * (wanted.astype(float) ** 2).sum(axis=1), rtol=1e-7)


def test_rows_with_too_few_candidates_end_in_none():
    squared, ids = np.array([[np.inf, 1.0, 0.0], [np.inf, np.inf, 4.0]]), np.array([[-1, 6, 0], [-1, -1, 3]])
    found, distances, _ = sort_candidates(squared, ids, np.array([0, -1]), np.full(2, np.inf), 1, 2)
    assert found.tolist() == [[6, -1], [3, -1]] and distances.tolist() == [[1.0, np.inf], [2.0, np.inf]]


@pytest.mark.parametrize("copies", [1, 5, 400])
def test_nearest_rows_among_copies(copies):
    """However many columns are equally near, the list is full, and nothing nearer is left out."""
    rng = np.random.default_rng(3)
    X = np.repeat(rng.normal(size=(400 // copies, 3)), copies, axis=0)
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    values, ids = lists(400, float)
    half = halves(X, 400)
    keep_nearest(X @ X.T, np.arange(400), 0, half, half, False, X, X, False, values, ids)
    np.testing.assert_allclose(np.sort(values), np.sort(squared)[:, :KEPT], atol=1e-12)
    assert (ids >= 0).all()


KEPT = 9


def filed(n=400, d=7, n_lists=11, seed=0, dtype=np.float32):
    """Rows in lists, one of which is empty and one of which is long; which rows, where lists start, and residuals."""
    rng = np.random.default_rng(seed)
    X, centroids = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(n_lists, d)).astype(np.float32)
    labels = rng.choice(np.delete(np.arange(n_lists), 4), n, p=[0.4] + [0.6 / (n_lists - 2)] * (n_lists - 2))
    members = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_lists))])
    stored = (X[members] - centroids[labels[members]]).astype(np.float32)
    return X, centroids, members, starts, stored


@pytest.mark.parametrize("size", [3, 32, 512], ids=lambda size: f"tiles of {size}")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_nearest_rows_of_the_lists_looked_at(size, dtype):
    X, centroids, members, starts, stored = filed(dtype=dtype)
    rng = np.random.default_rng(1)
    queries = rng.normal(size=(50, X.shape[1])).astype(dtype)
    lists = np.array([rng.permutation(len(centroids))[:4] for _ in range(50)], np.int32)
    some = np.arange(3, 47)
    values, positions = np.full((50, KEPT), np.inf, np.float32), np.full((50, KEPT), -1, np.int32)
    reach = np.zeros(50)
    half = (0.5 * np.square(stored).sum(axis=1)).astype(np.float32)
    asked, ends = file_under(lists[some], len(centroids))
    with one_blas_thread():
        scan_lists(queries, some[asked], ends, centroids, starts, stored, half, size, values, positions, reach)
    for query in some:
        seen = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in lists[query]])
        true = np.square(X[members[seen]].astype(float) - queries[query].astype(float)).sum(axis=1)
        order = np.argsort(true)[:KEPT]
        count = len(order)
        place = np.argsort(values[query])[:count]
        assert set(positions[query][place]) == set(seen[order])
        np.testing.assert_allclose(values[query][place], true[order], rtol=1e-4, atol=1e-5)
        assert (positions[query] >= 0).sum() == count
        lengths = [
            np.linalg.norm(queries[query] - centroids[number])
            + np.linalg.norm(stored[starts[number] : starts[number + 1]], axis=1).max()
            for number in lists[query]
            if starts[number] < starts[number + 1]
        ]
        assert reach[query] == pytest.approx(max(lengths), rel=1e-5)
    others = np.delete(np.arange(50), some)
    assert (positions[others] == -1).all() and not reach[others].any()
