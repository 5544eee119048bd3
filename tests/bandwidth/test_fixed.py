"""One bandwidth for all nodes."""

import numpy as np
import pytest

import asbc


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
