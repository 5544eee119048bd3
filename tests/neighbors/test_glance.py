"""What a few rows tell of the cost of a search is about what the search of all rows costs."""

import numba
import numpy as np
import pytest

from asbc.neighbors.exact import exact_distances
from asbc.neighbors.glance import draw_some, share_looked_at, try_outlines
from asbc.neighbors.lists import nearest_lists, train_centroids
from asbc.neighbors.outline import best_outlining
from asbc.neighbors.products import squared_lengths


def clusters(spread, n=12_000, d=24):
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(60, d))
    return (centers[rng.integers(0, 60, n)] + spread * rng.normal(size=(n, d))).astype(np.float32)


def slow_share(X, k, n_lists, recall):
    """The share of rows in a node's lists, from the exact neighbours of 300 nodes and lists of all rows."""
    centroids = train_centroids(X, n_lists, 0)
    nodes = np.arange(0, len(X), len(X) // 300)
    label = nearest_lists(centroids, X, 1)[:, 0]
    order = nearest_lists(centroids, X[nodes], n_lists)
    holder = label[exact_distances(X, X[nodes], k, nodes)[0]]
    place = np.argmax(order[:, None, :] == holder[:, :, None], axis=2)
    lists = int(np.ceil(np.quantile(place, recall))) + 1
    return np.bincount(label, minlength=n_lists)[order[:, :lists]].sum(axis=1).mean() / len(X)


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0, 5.0])
@pytest.mark.parametrize("recall", [0.9, 0.98])
def test_a_few_rows_tell_what_lists_look_at(spread, recall):
    X = clusters(spread)
    some, near = draw_some(X, 20, 0)
    told, true = share_looked_at(some, near, 128, recall, 0), slow_share(X, 20, 128, recall)
    assert true / 1.6 < told < 1.6 * true


@pytest.mark.parametrize(("n", "k"), [(12_000, 3), (12_000, 20), (500_000, 30), (500_000, 3), (100, 20), (3, 2)])
def test_the_rows_drawn_hold_as_large_a_share_of_the_neighbors(n, k):
    some, near = draw_some(np.random.default_rng(0).normal(size=(n, 2)), k, 0)
    assert 1 <= near <= k and some.dtype == np.float32
    assert len(some) == n or 2048 <= len(some) < 2 * 65536
    assert abs(near - k * len(some) / n) < 1
    assert 0 < share_looked_at(some, near, min(n, 20), 0.9, 0) <= 1


def test_all_lists_hold_all_rows():
    some, near = draw_some(np.random.default_rng(0).uniform(size=(4000, 40)), 20, 0)
    assert share_looked_at(some, near, 1, 0.5, 0) == 1
    assert share_looked_at(some, near, 50, 1.0, 0) > 0.9


def test_more_recall_takes_more_rows():
    some, near = draw_some(clusters(0.7), 20, 0)
    shares = [share_looked_at(some, near, 128, recall, 0) for recall in (0.5, 0.8, 0.9, 0.99, 1)]
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_outlines_spare_products_where_rows_lie_along_few_directions():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(3000, 10)) @ rng.normal(size=(10, 100)) + 0.01 * rng.normal(size=(3000, 100))
    round_, short = rng.normal(size=(3000, 100)), flat[:, :20]
    for X, least, most in ((flat, 0.1, 0.5), (round_, 1.0, np.inf), (short, 1.0, 1.0)):
        assert least <= try_outlines(*draw_some(X, 30, 0)).cost <= most


@pytest.mark.parametrize("n", [20_000, 70_000])
def test_a_sample_of_rows_tells_what_outlines_of_all_spare(n):
    X = (np.random.default_rng(0).normal(size=(n, 96)) * np.arange(1, 97) ** -1.0).astype(np.float32)
    X -= X.mean(axis=0)
    true = best_outlining(X, 0.5 * squared_lengths(X), 30).cost
    assert true / 1.3 < try_outlines(*draw_some(X, 30, 0)).cost < 1.3 * true < 1


def test_threads_do_not_change_what_is_told():
    some, near = draw_some(clusters(0.7), 20, 0)
    told = share_looked_at(some, near, 128, 0.95, 0), try_outlines(some, near).cost
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert (share_looked_at(some, near, 128, 0.95, 0), try_outlines(some, near).cost) == told
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("scale", [1e-30, 1e20])
def test_numbers_whose_squares_single_precision_cannot_hold_are_refused(scale):
    with pytest.raises(ValueError, match="X must spread between 1e-15 and 1e15 for search='ivf'"):
        draw_some(clusters(1.0).astype(float) * scale, 20, 0)
