import warnings

import numpy as np
import pytest
from sklearn.base import clone

import asbc
from asbc.kernels import criterion
from asbc.neighbors import types as neighbors_module
from tests import twins

RULES = [
    asbc.SpectralBandwidth(),
    asbc.SpectralBandwidth(refine=True),
    asbc.Perplexity(),
    asbc.SelfTuning(),
    asbc.LogLog(),
    asbc.DimensionMatching(),
    asbc.DimensionMatching(rule="max_min"),
    asbc.Fixed(),
    asbc.Fixed(0.7),
    asbc.Fixed("median_spectral"),
    asbc.DensityNormalized(),
    asbc.DensityNormalized(asbc.SpectralBandwidth(), alpha=0.5),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_every_rule_reports_what_its_kernels_look_like(rule, geometry):
    X, neighbors, dimension = geometry
    choice = clone(rule).select(X, neighbors, dimension)
    for name in ("sigma", "effective_rank", "slope", "objective"):
        values = getattr(choice, name)
        assert values.shape == (240,) and np.isfinite(values).all(), name
    assert choice.at_edge.shape == (240,) and choice.at_edge.dtype == bool
    assert (choice.sigma > 0).all()
    assert (choice.effective_rank >= 1 - 1e-12).all() and (choice.effective_rank <= 30 + 1e-12).all()
    for i in (0, 100, 239):
        squared = twins.squared_distances(X[neighbors.indices[i]], X[neighbors.indices[i]])
        K = twins.kernel(squared, choice.sigma[i])
        assert choice.effective_rank[i] == pytest.approx(twins.effective_rank(K), rel=1e-9)
        assert choice.slope[i] == pytest.approx(twins.slope(squared, choice.sigma[i]), rel=1e-9)
        grid = np.geomspace(0.05 * neighbors.distances[i, 9], 3 * neighbors.distances[i, -1], 12)
        steepest = max(twins.slope(squared, s) for s in grid)
        flatness = max(steepest - choice.slope[i], 0) / steepest
        J = abs(choice.effective_rank[i] - dimension[i]) / dimension[i] + flatness
        assert choice.objective[i] == pytest.approx(J, rel=1e-9)


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


def test_perplexity_matches_its_target(geometry):
    X, neighbors, dimension = geometry
    choice = asbc.Perplexity(beta=2.0).select(X, neighbors, dimension)
    found = [twins.effective_neighbors(d, s) for d, s in zip(neighbors.distances, choice.sigma, strict=True)]
    assert found == pytest.approx(np.clip(2 * dimension, 1, 27), rel=1e-6)


def test_self_tuning_and_fixed_follow_their_rules(geometry):
    X, neighbors, dimension = geometry
    assert asbc.SelfTuning().select(X, neighbors).sigma == pytest.approx(neighbors.distances[:, 6] / np.sqrt(2))
    assert asbc.SelfTuning().select(X, neighbors).mutual
    assert asbc.Fixed().select(X, neighbors).sigma == pytest.approx(neighbors.distances[:, 9].mean())
    assert asbc.Fixed(0.3).select(X, neighbors).sigma == pytest.approx(0.3)
    spectral = asbc.SpectralBandwidth(gamma=0.7)
    median = np.median(spectral.select(X, neighbors, dimension).sigma)
    fixed = asbc.Fixed("median_spectral", spectral=spectral)
    assert fixed.select(X, neighbors, dimension).sigma == pytest.approx(median)


def _log_sum(neighbors, sigma):
    return np.log(neighbors.n + np.exp(-(neighbors.distances**2) / (2 * sigma**2)).sum())


def test_log_log_is_steepest(geometry):
    X, neighbors, _ = geometry
    sigma = asbc.LogLog().select(X, neighbors).sigma[0]
    grid = sigma * np.geomspace(0.2, 5, 41)
    step = 1e-4
    slopes = [(_log_sum(neighbors, s * (1 + step)) - _log_sum(neighbors, s * (1 - step))) / (2 * step) for s in grid]
    assert np.argmax(slopes) == 20


def test_dimension_matching_has_the_wanted_slope(geometry):
    X, neighbors, _ = geometry
    wanted = np.full(240, 1.5)
    sigma = asbc.DimensionMatching().select(X, neighbors, wanted).sigma[0]
    step = 1e-4
    slope = (_log_sum(neighbors, sigma * (1 + step)) - _log_sum(neighbors, sigma * (1 - step))) / (2 * step)
    assert slope == pytest.approx(1.5, rel=1e-4)
    out_of_reach = asbc.DimensionMatching().select(X, neighbors, np.full(240, 50.0))
    assert out_of_reach.at_edge.all()
    assert out_of_reach.sigma[0] == pytest.approx(asbc.LogLog().select(X, neighbors).sigma[0], rel=1e-6)
    widest = asbc.DimensionMatching(rule="max_min").select(X, neighbors).sigma
    assert widest == pytest.approx(neighbors.distances[:, 0].max())


def test_density_normalisation_divides_by_the_kernel_sum(geometry):
    X, neighbors, dimension = geometry
    choice = asbc.DensityNormalized(alpha=0.5).select(X, neighbors, dimension)
    q = 1 + np.exp(-(neighbors.distances**2) / (2 * choice.sigma[0] ** 2)).sum(axis=1)
    assert choice.reweight == pytest.approx(q**-0.5)


def test_objective_without_dimension_is_unknown(geometry):
    X, neighbors, _ = geometry
    assert np.isnan(asbc.Fixed(1.0).select(X, neighbors).objective).all()


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


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_constant_neighbourhoods_have_a_bandwidth(rule):
    X = np.r_[np.ones((40, 3)), np.random.default_rng(0).normal(size=(60, 3)) + 5]
    neighbors = asbc.search_neighbors(X, 30)
    dimension = asbc.dim_mst(X, neighbors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", asbc.ConstantNeighborhoodWarning)
        choice = rule.select(X, neighbors, dimension)
    for name in ("sigma", "effective_rank", "slope", "objective"):
        assert np.isfinite(getattr(choice, name)).all(), name
    assert (choice.sigma > 0).all()
    assert choice.effective_rank[:40] == pytest.approx(1)


@pytest.mark.parametrize("rule", [r for r in RULES if r.get_params().get("value") != 0.7], ids=repr)
def test_constant_data_warns_once(rule):
    X = np.ones((50, 3))
    neighbors = asbc.search_neighbors(X, 30)
    with pytest.warns(asbc.ConstantNeighborhoodWarning):
        choice = rule.select(X, neighbors, asbc.dim_mst(X, neighbors))
    assert (choice.sigma == choice.sigma[0]).all() and choice.sigma[0] > 0


def test_duplicates_up_to_k_mle_start_the_grid_at_the_first_positive_distance():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 4)), 12, axis=0)  # eleven neighbours at distance zero
    neighbors = asbc.search_neighbors(X, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
    assert np.isfinite(choice.objective).all()


@pytest.mark.parametrize(
    "rule, message",
    [
        (asbc.SpectralBandwidth(gamma=0), "gamma must be a positive number; got 0"),
        (asbc.SpectralBandwidth(gamma=-1.0), "gamma must be a positive number; got -1.0"),
        (asbc.SpectralBandwidth(gamma=float("nan")), "gamma must be a positive number; got nan"),
        (asbc.SpectralBandwidth(n_grid=None), "n_grid must be a whole number of at least 2; got None"),
        (asbc.SpectralBandwidth(gamma="a"), "gamma must be a positive number; got 'a'"),
        (asbc.DensityNormalized(alpha="a"), "alpha must be a number of at least 0; got 'a'"),
        (asbc.SpectralBandwidth(n_grid=1), "n_grid must be a whole number of at least 2; got 1"),
        (asbc.SpectralBandwidth(k_mle=31), "k_mle must be a whole number from 1 to 30"),
        (asbc.SpectralBandwidth(low=0), "low must be a positive number"),
        (asbc.SpectralBandwidth(low=3, high=2), "low must be below high"),
        (asbc.Perplexity(beta=0), "beta must be a positive number"),
        (asbc.SelfTuning(k=31), "k must be a whole number from 1 to 30"),
        (asbc.Fixed(0), "value must be a positive number; got 0"),
        (asbc.Fixed(-2.0), "value must be a positive number"),
        (asbc.Fixed("best"), "value must be a positive number, 'mean_knn' or 'median_spectral'; got 'best'"),
        (asbc.Fixed(k_mle=40), "k_mle must be a whole number"),
        (asbc.LogLog(n_grid=2), "n_grid must be a whole number of at least 3"),
        (asbc.DimensionMatching(rule="best"), "rule must be 'slope' or 'max_min'; got 'best'"),
        (asbc.DensityNormalized(alpha=-1), "alpha must be a number of at least 0"),
    ],
)
def test_bad_parameters(rule, message, geometry):
    with pytest.raises(ValueError, match=message):
        rule.select(*geometry)


def test_bad_dimension(geometry):
    X, neighbors, dimension = geometry
    rule = asbc.SpectralBandwidth()
    with pytest.raises(ValueError, match="dimension is needed by this rule"):
        rule.select(X, neighbors)
    with pytest.raises(ValueError, match=r"dimension must have shape \(240,\).*got \(239,\)"):
        rule.select(X, neighbors, dimension[1:])
    with pytest.raises(ValueError, match=r"dimension must be positive and finite; node 0 has 0.0"):
        rule.select(X, neighbors, np.zeros(240))


def test_fixed_bandwidth_of_duplicates_has_the_scale_of_the_data():
    X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)) * 1e-3, 12, axis=0)
    sigma = asbc.Fixed("mean_knn").select(X, asbc.search_neighbors(X, 30)).sigma
    assert 1e-5 < sigma[0] < 1e-2


def test_the_criterion_is_never_negative(geometry):
    X, neighbors, dimension = geometry
    for rule in (asbc.SpectralBandwidth(gamma=3, refine=True), asbc.Perplexity()):
        assert (rule.select(X, neighbors, dimension).objective >= 0).all()
