import numba
import numpy as np
import pytest

import asbc
from asbc import dimension as module
from asbc.dimension import subset_sizes
from asbc.neighbors import types as neighbors_module
from tests import twins


def test_equal_to_the_twin(geometry):
    X, neighbors, dimension = geometry
    twin = twins.dim_mst(X, neighbors.indices[:25], subset_sizes(30))
    np.testing.assert_allclose(dimension[:25], twin, rtol=1e-9)


@pytest.mark.parametrize("d, expected", [(2, 2.0), (5, 4.4), (10, 7.3), (20, 12.2), (50, 21.0)])
def test_known_values_on_uniform_data(d, expected):
    X = np.random.default_rng(d).uniform(size=(3000, d))
    estimate = asbc.dim_mst(X, asbc.search_neighbors(X, 30)).mean()
    assert estimate == pytest.approx(expected, rel=0.1)


def test_the_two_other_estimators_know_the_plane():
    X = np.random.default_rng(0).uniform(size=(3000, 2))
    neighbors = asbc.search_neighbors(X, 30)
    assert np.median(asbc.levina_bickel(neighbors)) == pytest.approx(2, rel=0.1)
    assert np.median(asbc.two_nn(neighbors)) == pytest.approx(2, rel=0.1)


def test_levina_bickel_and_two_nn_follow_their_formulas(geometry):
    _, neighbors, _ = geometry
    T = neighbors.distances[3]
    assert asbc.levina_bickel(neighbors, k=10)[3] == pytest.approx(9 / np.log(T[9] / T[:9]).sum())
    mu = np.log(neighbors.distances[:, 1] / neighbors.distances[:, 0])
    members = np.r_[3, neighbors.indices[3]]
    assert asbc.two_nn(neighbors)[3] == pytest.approx(31 / mu[members].sum())


def test_blocks_threads_and_shared_pairs_change_nothing(monkeypatch, geometry):
    X, neighbors, dimension = geometry
    assert np.array_equal(asbc.dim_mst(X, neighbors_module.with_pairs(X, neighbors)), dimension)
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 17 * 30**2 // 2)  # 17 nodes at a time
    assert np.array_equal(asbc.dim_mst(X, neighbors), dimension)
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        assert np.array_equal(asbc.dim_mst(X, neighbors), dimension)
    finally:
        numba.set_num_threads(threads)


def test_the_seed_matters(geometry):
    X, neighbors, dimension = geometry
    assert not np.array_equal(asbc.dim_mst(X, neighbors, seed=1), dimension)
    more = asbc.dim_mst(X, neighbors, n_rep=200, seed=1)
    other = asbc.dim_mst(X, neighbors, n_rep=200, seed=2)
    assert np.corrcoef(more, other)[0, 1] > 0.95


def test_ladder():
    assert list(subset_sizes(30)) == [8, 10, 14, 18, 23, 30]
    for k in range(8, 100):
        sizes = subset_sizes(k)
        assert len(sizes) >= 4 and sizes[0] == min(8, k // 2) and sizes[-1] == k


def test_duplicates():
    X = np.r_[np.zeros((40, 3)), np.random.default_rng(0).normal(size=(60, 3))]
    neighbors = asbc.search_neighbors(X, 30)
    for estimate in (asbc.dim_mst(X, neighbors), asbc.levina_bickel(neighbors), asbc.two_nn(neighbors)):
        assert np.isfinite(estimate).all()
        assert (estimate >= 1).all() and (estimate <= 200).all()
        assert (estimate[:40] == 1).all()


def test_a_line_has_dimension_one():
    X = np.linspace(0, 1, 200)[:, None] * np.ones(4)
    assert np.median(asbc.dim_mst(X, asbc.search_neighbors(X, 30))) == pytest.approx(1, abs=0.25)


def test_equal_distances_read_as_the_upper_clip():
    X = np.eye(12)  # all distances equal: the tree's mean edge does not shrink at all
    neighbors = asbc.search_neighbors(X, 11)
    assert (asbc.dim_mst(X, neighbors) == module.LARGEST).all()
    assert (asbc.levina_bickel(neighbors, k=5) == module.LARGEST).all()


def test_bad_arguments(geometry):
    X, neighbors, _ = geometry
    with pytest.raises(ValueError, match="k of at least 8 for a spanning-tree dimension; got 7"):
        asbc.dim_mst(X, neighbors.head(7))
    with pytest.raises(ValueError, match="n_rep must be a whole number from 1 to 100000; got 0"):
        asbc.dim_mst(X, neighbors, n_rep=0)
    with pytest.raises(ValueError, match="seed must be a whole number from 0 to 9223372036854775807; got -1"):
        asbc.dim_mst(X, neighbors, seed=-1)
    with pytest.raises(ValueError, match="k must be a whole number from 2 to 30"):
        asbc.levina_bickel(neighbors, k=31)
    with pytest.raises(ValueError, match="neighbors must be those of all the rows"):
        asbc.two_nn(neighbors.rows(0, 20))
