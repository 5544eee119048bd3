"""Rules that look at the slope of the whole kernel sum."""

import numpy as np
import pytest

import asbc


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
