"""Pairs of blocks that threads take: each once, and never two that share a block. Rows nearest to queries."""

import threading

import numpy as np
import pytest

from asbc.neighbors.products import TILE, Pairs, nearest_to

BLOCKS = 6


def test_threads_never_work_on_one_block_at_a_time():
    order = [(i, j) for i in range(BLOCKS) for j in range(i, BLOCKS)]
    pairs = Pairs(order)
    busy, seen, shared, guard = set(), [], [], threading.Lock()

    def work():
        while (taken := pairs.take()) is not None:
            turn, i, j = taken
            with guard:
                shared.extend(busy & {i, j})
                busy.update({i, j})
                seen.append((turn, i, j))
            with guard:
                busy.difference_update({i, j})
            pairs.give_back(i, j)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not shared
    assert sorted(seen) == [(turn, i, j) for turn, (i, j) in enumerate(order)]


def test_the_first_pair_that_is_free_is_taken():
    pairs = Pairs([(0, 0), (0, 1), (1, 2), (3, 3)])
    assert pairs.take() == (0, 0, 0)
    assert pairs.take() == (2, 1, 2)
    assert pairs.take() == (3, 3, 3)
    pairs.give_back(1, 2)
    pairs.give_back(0, 0)
    assert pairs.take() == (1, 0, 1)
    assert pairs.take() is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [20, TILE, 2 * TILE + 37])
def test_rows_nearest_to_some_of_the_queries(n, dtype):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(n, 5)).astype(dtype), rng.normal(size=(700, 5)).astype(dtype)
    center, asked = X.mean(axis=0), rng.permutation(700)[:610]
    values, ids, half, longest = nearest_to(X, Q, asked, center, 0.5, dtype, 7)
    squared = 0.25 * np.square(Q[asked, None].astype(float) - X.astype(float)).sum(axis=2)
    assert np.array_equal(np.sort(ids), np.sort(np.argsort(squared, axis=1)[:, :7]))
    np.testing.assert_allclose(values, np.take_along_axis(squared, ids, axis=1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(half, 0.125 * np.square(Q[asked] - center).sum(axis=1), rtol=1e-5)
    assert longest == pytest.approx(0.125 * np.square(X - center).sum(axis=1).max(), rel=1e-5)
