import numpy as np
import pytest

from asbc.kernels.nnk import solve_by_dropping, solve_exactly
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


@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("sigma", [0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0])
def test_solution_is_optimal(sigma, duplicates):
    w = np.empty(30)
    for K, b in problems(0, sigma, duplicates=duplicates):
        solve_exactly(K, b, w)
        assert twins.kkt_residual(K, b, w) < 1e-8
        twin = twins.nnk(K, b)
        assert twins.nnk_objective(K, b, w) <= twins.nnk_objective(K, b, twin) + 1e-8


def test_a_duplicate_of_the_node_explains_it_alone():
    w = np.empty(30)
    for K, b in problems(1, 0.5, duplicates=True):
        solve_exactly(K, b, w)
        assert w[0] == pytest.approx(1, abs=1e-9)
        assert w[1:] == pytest.approx(0, abs=1e-9)


def test_dropping_is_feasible_but_not_always_optimal():
    w, exact = np.empty((2, 30))
    differs = 0
    for K, b in problems(2, 2.0):
        solve_by_dropping(K, b, w)
        solve_exactly(K, b, exact)
        assert w.min() >= 0
        support = w > 0
        np.testing.assert_allclose(K[np.ix_(support, support)] @ w[support], b[support], atol=1e-6)
        assert twins.nnk_objective(K, b, exact) <= twins.nnk_objective(K, b, w) + 1e-12
        differs += not np.array_equal(w > 0, exact > 0)
    assert differs > 0


def test_nothing_to_regress_on_leaves_the_row_empty():
    w = np.full(5, 7.0)
    solve_exactly(np.eye(5), np.zeros(5), w)
    assert (w == 0).all()
