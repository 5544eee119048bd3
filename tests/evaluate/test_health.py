import numpy as np
import pytest
import scipy.sparse as sp

import asbc
from asbc.evaluate.health import graph_health, kernel_condition
from asbc.neighbors.types import with_pairs


def test_counts_on_a_graph_known_by_hand():
    # 0 -> 1 -> 2, 3 -> 4, 5 alone; one stored zero that is no edge.
    W = sp.csr_array(([1.0, 2.0, 3.0, 0.0], ([0, 1, 3, 5], [1, 2, 4, 0])), shape=(6, 6))
    health = graph_health(W)
    assert (health.components, health.isolated, health.edges) == (3, 1, 3)
    assert health.largest == 0.5
    assert (health.degree_min, health.degree_median, health.degree_max) == (0, 0.5, 1)
    assert W.nnz == 4  # the caller's graph is left as it was
    with pytest.raises(ValueError, match="square"):
        graph_health(W[:2])


def test_condition_equals_the_slow_twin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    neighbors = asbc.search_neighbors(X, 8)
    sigma = rng.uniform(0.1, 3.0, 50)
    expected = []
    for i in range(50):
        P = X[neighbors.indices[i]]
        K = np.exp(-((P[:, None] - P) ** 2).sum(-1) / (2 * sigma[i] ** 2))
        expected.append(np.linalg.cond(K))
    expected = np.array(expected)
    found = kernel_condition(X, neighbors, sigma)
    # Rounding moves the least eigenvalue by some eps times the largest, whoever works it out.
    assert (np.abs(found / expected - 1) <= 1e-14 * expected).all() and expected.max() > 1e4
    np.testing.assert_array_equal(kernel_condition(X, with_pairs(X, neighbors), sigma), found)


def test_condition_is_finite_for_duplicates_and_refuses_bad_sigma():
    X = np.zeros((10, 2))
    neighbors = asbc.search_neighbors(X, 9)
    assert (kernel_condition(X, neighbors, 1.0) == 1 / np.finfo(float).eps).all()
    with pytest.raises(ValueError, match="positive and finite"):
        kernel_condition(X, neighbors, 0.0)
