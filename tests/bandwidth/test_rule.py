"""What every rule promises."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from sklearn.base import clone

import asbc
from asbc.bandwidth.rule import named_rules
from asbc.configs import conf_dir
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


def test_objective_without_dimension_is_unknown(geometry):
    X, neighbors, _ = geometry
    assert np.isnan(asbc.Fixed(1.0).select(X, neighbors).objective).all()


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


@pytest.mark.parametrize(
    "rule, message",
    [
        (asbc.SpectralBandwidth(gamma=0), "gamma must be a positive number; got 0"),
        (asbc.SpectralBandwidth(gamma=-1.0), "gamma must be a positive number; got -1.0"),
        (asbc.SpectralBandwidth(gamma=float("nan")), "gamma must be a positive number; got nan"),
        (asbc.SpectralBandwidth(n_grid=None), "n_grid must be a whole number from 2 to 100000; got None"),
        (asbc.SpectralBandwidth(gamma="a"), "gamma must be a positive number; got 'a'"),
        (asbc.DensityNormalized(alpha="a"), "alpha must be a number of at least 0; got 'a'"),
        (asbc.SpectralBandwidth(n_grid=1), "n_grid must be a whole number from 2 to 100000; got 1"),
        (asbc.SpectralBandwidth(k_mle=31), "k_mle must be a whole number from 1 to 30"),
        (asbc.SpectralBandwidth(low=0), "low must be a positive number"),
        (asbc.SpectralBandwidth(low=3, high=2), "low must be below high"),
        (asbc.Perplexity(beta=0), "beta must be a positive number"),
        (asbc.SelfTuning(k=31), "k must be a whole number from 1 to 30"),
        (asbc.Fixed(0), "value must be a positive number; got 0"),
        (asbc.Fixed(-2.0), "value must be a positive number"),
        (asbc.Fixed("best"), "value must be a positive number, 'mean_knn' or 'median_spectral'; got 'best'"),
        (asbc.Fixed(k_mle=40), "k_mle must be a whole number"),
        (asbc.LogLog(n_grid=2), "n_grid must be a whole number from 3 to 100000"),
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
    with pytest.raises(ValueError, match=r"dimension must be from 1e-150 to 1e\+150; node 0 has 0.0"):
        rule.select(X, neighbors, np.zeros(240))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (asbc.SpectralBandwidth(gamma="x"), "gamma must be a positive number; got 'x'"),
        (asbc.SpectralBandwidth(n_grid=1), "n_grid must be a whole number from 2"),
        (asbc.SpectralBandwidth(low=3, high=2), r"low must be below high; got low=3\.0 and high=2\.0"),
        (asbc.Fixed("mean"), "value must be a positive number, 'mean_knn' or 'median_spectral'; got 'mean'"),
        (asbc.Fixed([1.0]), r"value must be a positive number; got \[1\.0\]"),
        (asbc.Fixed("median_spectral", spectral=asbc.SpectralBandwidth(gamma=-1)), "gamma must be a positive number"),
        (asbc.Perplexity(beta=None), "beta must be a positive number; got None"),
        (asbc.SelfTuning(k=13), "k must be a whole number from 1 to 12, the candidates of a node; got 13"),
        (asbc.LogLog(n_grid=2), "n_grid must be a whole number from 3"),
        (asbc.DimensionMatching("slopes"), "rule must be 'slope' or 'max_min'; got 'slopes'"),
        (asbc.DimensionMatching(k_mle=0), "k_mle must be a whole number from 1 to 12"),
        (asbc.DensityNormalized(asbc.Fixed(0)), "value must be a positive number; got 0"),
        (asbc.DensityNormalized(alpha="1"), "alpha must be a number of at least 0; got '1'"),
    ],
    ids=repr,
)
def test_parameters_are_refused_before_the_search_and_as_they_are_by_the_rule_itself(rule, message, monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 3))
    neighbors = asbc.search_neighbors(X, 12)
    with pytest.raises(ValueError, match=message):
        rule.select(X, neighbors, np.full(40, 3.0))
    monkeypatch.setattr("asbc.builder.search_neighbors", None)
    with pytest.raises(ValueError, match=message):
        asbc.GraphBuilder(bandwidth=rule, k_cand=12).fit(X)


@pytest.mark.parametrize("rule", [asbc.Perplexity(), asbc.SelfTuning(), asbc.DensityNormalized()], ids=repr)
def test_kernels_are_computed_when_they_are_first_read(rule, geometry):
    X, neighbors, dimension = geometry
    builder = asbc.GraphBuilder("gaussian", rule, metric="euclidean").fit(X)
    choice = pickle.loads(pickle.dumps(builder.bandwidth_))
    assert "_computed" not in vars(choice)
    assert choice.kernels.args[1].pairs is None  # they would take more memory than everything else
    wanted = rule.select(X, neighbors, dimension)
    for name in ("effective_rank", "slope", "objective"):
        np.testing.assert_array_equal(getattr(choice, name), getattr(wanted, name))
    with pytest.raises(ValueError, match="does not know its neighbours"):
        asbc.BandwidthChoice(choice.sigma).slope  # noqa: B018


def test_a_rule_of_your_own_is_checked(geometry):
    X, neighbors, _ = geometry

    class Given(asbc.Bandwidth):
        local = True

        def __init__(self, sigma):
            self.sigma = sigma

        def choose(self, X, neighbors, dimension):
            return asbc.BandwidthChoice(self.sigma)

    with pytest.raises(
        ValueError, match=r"sigma must be from 1e-150 to 1e\+150; node 0 has 0\.0"
    ):  # and is no duplicate
        Given(np.zeros(240)).select(X, neighbors)
    with pytest.raises(ValueError, match=r"sigma must have shape \(240,\)"):
        Given(np.ones(3)).select(X, neighbors)
    np.testing.assert_array_equal(Given(np.full(240, 0.3)).select(X, neighbors).sigma, 0.3)


NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "conf" / "bandwidth").glob("*.yaml"))


def test_names_are_those_of_the_configs():
    assert (
        sorted(name for name, (kind, _) in named_rules(asbc.Bandwidth).items() if "asbc." in kind.__module__) == NAMES
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_short_for_a_rule(name):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        configured = instantiate(compose("config", [f"bandwidth={name}"]).bandwidth)
    X = np.random.default_rng(0).normal(size=(60, 4))
    short = asbc.GraphBuilder(bandwidth=name, k_cand=15).fit(X)
    written_out = asbc.GraphBuilder(bandwidth=configured, k_cand=15).fit(X)
    np.testing.assert_array_equal(short.bandwidth_.sigma, written_out.bandwidth_.sigma)
    asbc.GraphBuilder(bandwidth=name, k_cand=8).fit(X)  # fewer candidates than k_mle


def test_a_wrong_name_gets_the_closest_one():
    with pytest.raises(ValueError, match=r"got 'perplexty'\. Did you mean 'perplexity'\?"):
        asbc.GraphBuilder(bandwidth="perplexty").fit(np.eye(40))
