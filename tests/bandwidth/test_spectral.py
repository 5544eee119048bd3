"""The spectral rule: equal to its slow twin, on the grid and between its points."""

import warnings

import numpy as np
import pytest

import asbc
from asbc.kernels import criterion
from asbc.neighbors import types as neighbors_module
from tests import twins


@pytest.mark.parametrize("n_grid, gamma", [(12, 1.0), (12, 0.5), (48, 1.0), (7, 2.0)])
def test_spectral_equals_the_twin(geometry, n_grid, gamma):
    X, neighbors, dimension = geometry
    choice = asbc.SpectralBandwidth(gamma=gamma, n_grid=n_grid).select(X, neighbors, dimension)
    some = slice(100, 130)
    twin = twins.spectral(
        X, neighbors.indices[some], neighbors.distances[some], dimension[some], gamma=gamma, n_grid=n_grid
    )
    found = [choice.sigma, choice.effective_rank, choice.slope, choice.objective]
    np.testing.assert_allclose([v[some] for v in found], twin, rtol=1e-9)
    assert choice.solved.mean() < n_grid / 2


def test_refining_never_makes_it_worse_and_aligns_rank_with_dimension(geometry):
    X, neighbors, dimension = geometry
    coarse = asbc.SpectralBandwidth().select(X, neighbors, dimension)
    fine = asbc.SpectralBandwidth(refine=True).select(X, neighbors, dimension)
    assert (fine.objective <= coarse.objective).all()
    assert np.abs(fine.effective_rank - dimension).mean() < np.abs(coarse.effective_rank - dimension).mean()


def test_grid_edges_are_reported(geometry):
    X, neighbors, dimension = geometry
    pairs = neighbors_module.with_pairs(X, neighbors).pairs
    top = 3.0 * neighbors.distances[:, -1]
    least_rank = criterion.evaluate_at(pairs, top, 30)[0]
    # Targets below the least rank push to the top, where slopes are low; allow the slope's pull by a wide margin.
    choice = asbc.SpectralBandwidth(gamma=1e-3).select(X, neighbors, dimension)
    assert choice.effective_rank[choice.at_edge] == pytest.approx(least_rank[choice.at_edge])
    assert choice.at_edge.any()
    assert not asbc.SpectralBandwidth().select(X, neighbors, dimension).at_edge.any()


def test_duplicates_up_to_k_mle_start_the_grid_at_the_first_positive_distance():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 4)), 12, axis=0)  # eleven neighbours at distance zero
    neighbors = asbc.search_neighbors(X, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
    assert np.isfinite(choice.objective).all()


def test_the_criterion_is_never_negative(geometry):
    X, neighbors, dimension = geometry
    for rule in (asbc.SpectralBandwidth(gamma=3, refine=True), asbc.Perplexity()):
        assert (rule.select(X, neighbors, dimension).objective >= 0).all()


def test_effective_rank():
    assert asbc.effective_rank(np.eye(7)) == pytest.approx(7)
    assert asbc.effective_rank(np.ones((7, 7))) == pytest.approx(1)
    assert asbc.effective_rank(5 * np.eye(3)) == pytest.approx(3)
    for bad, message in [
        (np.zeros((2, 3)), r"square matrix; got shape \(2, 3\)"),
        (np.full((2, 2), np.nan), "finite"),
        (np.zeros((2, 2)), "positive trace"),
    ]:
        with pytest.raises(ValueError, match=message):
            asbc.effective_rank(bad)
