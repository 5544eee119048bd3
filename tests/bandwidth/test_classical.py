"""Self-tuning, fixed, log-log, dimension matching and density normalisation."""

import numpy as np
import pytest

import asbc


def test_density_normalisation_divides_by_the_kernel_sum(geometry):
    X, neighbors, dimension = geometry
    choice = asbc.DensityNormalized(alpha=0.5).select(X, neighbors, dimension)
    q = 1 + np.exp(-(neighbors.distances**2) / (2 * choice.sigma[0] ** 2)).sum(axis=1)
    assert choice.reweight == pytest.approx(q**-0.5)


def test_fixed_bandwidths_follow_their_rules(geometry):
    X, neighbors, dimension = geometry
    assert asbc.Fixed().select(X, neighbors).sigma == pytest.approx(neighbors.distances[:, 9].mean())
    assert asbc.Fixed(0.3).select(X, neighbors).sigma == pytest.approx(0.3)
    spectral = asbc.SpectralBandwidth(gamma=0.7)
    median = np.median(spectral.select(X, neighbors, dimension).sigma)
    fixed = asbc.Fixed("median_spectral", spectral=spectral)
    assert fixed.select(X, neighbors, dimension).sigma == pytest.approx(median)


def test_fixed_bandwidth_of_duplicates_has_the_scale_of_the_data():
    X = np.repeat(np.random.default_rng(0).normal(size=(40, 3)) * 1e-3, 12, axis=0)
    sigma = asbc.Fixed("mean_knn").select(X, asbc.search_neighbors(X, 30)).sigma
    assert 1e-5 < sigma[0] < 1e-2


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


def test_self_tuning_takes_the_distance_to_the_seventh_neighbour(geometry):
    X, neighbors, _ = geometry
    choice = asbc.SelfTuning().select(X, neighbors)
    assert choice.sigma == pytest.approx(neighbors.distances[:, 6] / np.sqrt(2))
    assert choice.mutual
