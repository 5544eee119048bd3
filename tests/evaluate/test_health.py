import numpy as np
import pytest
import scipy.sparse as sp

from asbc.evaluate.health import graph_health, kernel_condition


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
    indices = np.argsort(((X[:, None] - X) ** 2).sum(-1), axis=1)[:, 1:9]
    sigma = rng.uniform(0.1, 0.4, 50)
    expected = []
    for i in range(50):
        P = X[indices[i]]
        K = np.exp(-((P[:, None] - P) ** 2).sum(-1) / (2 * sigma[i] ** 2))
        expected.append(np.linalg.cond(K))
    np.testing.assert_allclose(kernel_condition(X, indices, sigma, block=7), expected, rtol=1e-6)


def test_condition_is_finite_for_duplicates_and_refuses_bad_sigma():
    X = np.zeros((10, 2))
    indices = np.array([[j for j in range(10) if j != i] for i in range(10)])
    assert (kernel_condition(X, indices, 1.0) == 1 / np.finfo(float).eps).all()
    with pytest.raises(ValueError, match="above 0"):
        kernel_condition(X, indices, 0.0)
