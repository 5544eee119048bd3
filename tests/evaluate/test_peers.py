import numpy as np
import pytest

import asbc
from asbc.evaluate.peers import cosine_weights, graph_learning_weights, umap_weights


@pytest.fixture
def neighbors():
    X = asbc.normalize(np.random.default_rng(0).normal(size=(200, 10)))
    return asbc.search_neighbors(X, 15)


def test_umap_rows_sum_to_their_target_and_the_nearest_counts_fully(neighbors):
    weights = umap_weights(neighbors)
    np.testing.assert_allclose(weights.sum(axis=1), np.log2(16), rtol=1e-6)
    np.testing.assert_array_equal(weights[:, 0], 1.0)
    assert (np.diff(weights, axis=1) <= 0).all()


@pytest.mark.slow
def test_umap_weights_equal_those_of_umap(neighbors):
    umap_ = pytest.importorskip("umap.umap_")
    n, k = neighbors.distances.shape
    distances = np.hstack([np.zeros((n, 1)), neighbors.distances]).astype(np.float32)
    indices = np.hstack([np.arange(n)[:, None], neighbors.indices]).astype(np.int32)
    sigmas, rhos = umap_.smooth_knn_dist(distances, float(k + 1))
    *_, values = umap_.compute_membership_strengths(indices, distances, sigmas, rhos)[:3]
    np.testing.assert_allclose(umap_weights(neighbors), values.reshape(n, k + 1)[:, 1:], atol=1e-4)


def test_cosine_weights_are_the_exponential_of_the_cosine(neighbors):
    X = asbc.normalize(np.random.default_rng(0).normal(size=(200, 10)))
    cosine = np.einsum("id,ijd->ij", X, X[neighbors.indices])
    plain = np.exp(cosine / 0.2)
    ours = cosine_weights(neighbors, temperature=0.2)
    np.testing.assert_allclose(ours / ours.sum(1, keepdims=True), plain / plain.sum(1, keepdims=True), rtol=1e-6)
    with pytest.raises(ValueError, match="temperature"):
        cosine_weights(neighbors, temperature=0.0)


def test_graph_learning_weights(neighbors):
    weights = graph_learning_weights(neighbors)
    i, j = 3, 4
    expected = np.exp(-4 * neighbors.distances[i, j] ** 2 / neighbors.distances[i, -1] ** 2)
    assert weights[i, j] == pytest.approx(expected)
    np.testing.assert_allclose(weights[:, -1], np.exp(-4))


@pytest.mark.parametrize("weights", [umap_weights, cosine_weights, graph_learning_weights])
def test_duplicates_give_finite_weights(weights):
    X = asbc.normalize(np.vstack([np.ones((20, 3)), np.random.default_rng(0).normal(size=(30, 3))]))
    rows = weights(asbc.search_neighbors(X, 15))
    assert np.isfinite(rows).all() and (rows >= 0).all() and (rows.sum(axis=1) > 0).all()
