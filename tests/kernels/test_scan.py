"""Inverted lists, scanned by compiled loops, against plain NumPy."""

import numpy as np
import pytest

from asbc.kernels.scan import count_nearer, half_squares, names_at, scan_lists, sum_lists, who_asks
from asbc.kernels.threads import products_alone

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


def test_who_asks_for_which_list():
    rng = np.random.default_rng(0)
    lists = np.array([rng.permutation(6)[:3] for _ in range(20)], np.int32)
    some = np.array([7, 3, 19, 0, 4])
    for first, last in ((0, 1), (1, 3), (0, 3), (3, 3)):
        asking, ends = who_asks(lists, some, first, last, 6)
        assert len(asking) == len(some) * (last - first) == ends[-1]
        for number in range(6):
            wanted = [query for query in some if number in lists[query, first:last]]
            assert asking[ends[number] : ends[number + 1]].tolist() == wanted


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
    half = half_squares(stored)
    cut = 6  # lists are in two parts, as on disk
    with products_alone():
        for first, last in ((0, cut), (cut, len(centroids))):
            part = slice(starts[first], starts[last])
            asked = who_asks(lists, some, 0, 4, len(centroids))
            state = values, positions, reach
            scan_lists(
                first, last, queries, *asked, centroids, starts, stored[part].copy(), half[part].copy(), size, *state
            )
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


def test_half_the_squares_are_summed_in_double_precision():
    X = np.random.default_rng(0).normal(size=(300, 1000)).astype(np.float32)
    np.testing.assert_allclose(half_squares(X), 0.5 * np.square(X.astype(float)).sum(axis=1), rtol=1e-7)


def test_names_of_positions():
    members = np.array([5, 2, 9, 0])
    positions = np.array([[3, -1], [0, 2]], np.int32)
    assert names_at(positions, members).tolist() == [[0, -1], [5, 9]]


def test_how_many_are_nearer():
    squared = np.array([[1.0, 2.0, 3.0], [3.0, np.inf, 1.0], [2.0, 2.0, 2.0]])
    assert count_nearer(squared, np.array([2.5, np.inf, 2.0])).tolist() == [2, 2, 0]


@pytest.mark.parametrize("together", [1, 64, 1000])
def test_sums_of_lists_have_the_bits_of_sums_in_a_fixed_order(together):
    """Tile by tile, each added up by itself first."""
    X, _, members, starts, _ = filed()
    wanted = np.zeros((len(starts) - 1, X.shape[1]))
    for first in range(0, len(X), together):
        for number in range(len(wanted)):
            partial = np.zeros(X.shape[1])
            for row in members[starts[number] : starts[number + 1]]:
                if first <= row < first + together:
                    partial += X[row].astype(float)
            wanted[number] += partial
    assert np.array_equal(sum_lists(X, members, starts, together), wanted)
