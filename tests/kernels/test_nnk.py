import itertools

import numpy as np
import pytest

from asbc.kernels.nnk import row_width, solve_by_dropping, solve_exactly, start_with_all
from tests import twins


def problems(seed, sigma, k=30, d=6, duplicates=False):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        points = rng.normal(size=(k + 1, d)) @ np.diag(rng.uniform(0.05, 1, d))
        if duplicates:
            points[5:12] = points[4]
            points[20] = points[0]
        squared = twins.squared_distances(points, points)
        order = 1 + np.argsort(squared[0, 1:], kind="stable")
        K = twins.kernel(squared, sigma)
        yield K[np.ix_(order, order)], K[0, order]


def started(K, b, w):
    k = len(b)
    width = row_width(k)
    start_with_all(K, b, np.square(K).sum(), np.zeros(k * width), np.empty(k, np.int64), np.empty(width), w)
    return w


def test_a_start_with_all_ends_where_one_with_none_does():
    warm = []
    for k, sigma in itertools.product([2, 3, 7, 8, 30, 61], [0.01, 0.1, 0.2, 0.3, 0.5, 1.0, 100.0]):
        w, cold = np.empty((2, k))
        for K, b in problems(3, sigma, k=k, d=20):
            started(K, b, w)
            support = w > 0
            warm.append(support.any())
            assert w.min() >= 0
            fit = K[np.ix_(support, support)] @ w[support]
            np.testing.assert_allclose(fit, b[support], rtol=1e-9, atol=1e-10 * b.max())
            solve_exactly(K, b, w)
            cold[:] = 0
            solve_exactly(K, b, cold)
            np.testing.assert_allclose(w, cold, rtol=1e-9, atol=1e-9 * b.max())
            assert twins.kkt_residual(K, b, w) < 1e-8
    assert 0.2 < np.mean(warm) < 0.8  # both kinds of start were seen


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("sigma", [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
def test_solution_is_optimal(sigma, duplicates):
    w = np.empty(30)
    for K, b in problems(0, sigma, duplicates=duplicates):
        w[:] = 0
        solve_exactly(K, b, w)
        assert twins.kkt_residual(K, b, w) < 1e-8
        twin = twins.nnk(K, b)
        assert twins.nnk_objective(K, b, w) <= twins.nnk_objective(K, b, twin) + 1e-8


def test_a_duplicate_of_the_node_explains_it_alone():
    w = np.empty(30)
    for K, b in problems(1, 0.5, duplicates=True):
        w[:] = 0
        solve_exactly(K, b, w)
        assert w[0] == pytest.approx(1, abs=1e-9)
        assert w[1:] == pytest.approx(0, abs=1e-9)


def test_dropping_is_feasible_but_not_always_optimal():
    w, exact = np.empty((2, 30))
    differs = 0
    for K, b in problems(2, 2.0):
        solve_by_dropping(K, b, w)
        exact[:] = 0
        solve_exactly(K, b, exact)
        assert w.min() >= 0
        support = w > 0
        np.testing.assert_allclose(K[np.ix_(support, support)] @ w[support], b[support], atol=1e-6)
        assert twins.nnk_objective(K, b, exact) <= twins.nnk_objective(K, b, w) + 1e-12
        differs += not np.array_equal(w > 0, exact > 0)
    assert differs > 0


def test_nothing_to_regress_on_leaves_the_row_empty():
    w = np.full(5, 7.0)
    started(np.eye(5), np.zeros(5), w)
    assert (w == 0).all()
    solve_exactly(np.eye(5), np.zeros(5), w)
    assert (w == 0).all()
