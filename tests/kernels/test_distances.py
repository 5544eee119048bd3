import numpy as np
import pytest

from asbc.kernels.distances import listed_distances, neighborhood_distances, pair_count
from tests import twins


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k,d", [(2, 1), (8, 3), (9, 16), (30, 37)])
def test_distances_among_neighbours(dtype, k, d):
    rng = np.random.default_rng(k)
    X = rng.normal(size=(100, d)).astype(dtype)
    indices = rng.integers(0, 100, (70, k))
    out = neighborhood_distances(X, indices)
    pairs = k * (k - 1) // 2
    assert out.shape == (70, pair_count(k))
    r, c = np.tril_indices(k, -1)
    for i in (0, 33, 69):
        twin = twins.squared_distances(X[indices[i]], X[indices[i]])[r, c]
        np.testing.assert_allclose(out[i, :pairs], twin, rtol=1e-13)
    assert (out[:, pairs:] == 1e300).all()


def test_duplicates_are_at_distance_zero():
    X = np.random.default_rng(0).normal(size=(10, 33)).astype(np.float32)
    X[5] = X[2]
    out = neighborhood_distances(X, np.array([[1, 2, 3, 4, 5, 6, 7, 8]]))
    assert out[0, 4 * 3 // 2 + 1] == 0


def test_listed_distances_have_the_same_bits_in_any_selection_and_order():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 21)).astype(np.float32)
    Q = rng.normal(size=(5, 21)).astype(np.float32)
    everything = listed_distances(X, Q, np.tile(np.arange(len(X)), (len(Q), 1)))
    np.testing.assert_allclose(everything, twins.squared_distances(Q, X), rtol=1e-13)
    listed = rng.integers(0, 200, (5, 7))
    assert np.array_equal(listed_distances(X, Q, listed), np.take_along_axis(everything, listed, axis=1))
    assert np.array_equal(listed_distances(X, Q, listed, np.array([3, 0, 4, 1, 2])), listed_distances(X, Q, listed))
    assert np.isinf(listed_distances(X, Q, np.full((5, 1), -1))).all()
