"""Bounds on rank and slope: they hold, and they are reached."""

import numpy as np
import pytest

from asbc.bandwidth.rule import geometric_grid
from asbc.kernels.bounds import bound_slopes, rank_bounds
from asbc.kernels.distances import neighborhood_distances
from tests import twins


def test_rank_bounds_hold_and_are_reached():
    rng = np.random.default_rng(0)
    for _ in range(300):
        k = int(rng.integers(2, 40))
        p = rng.dirichlet(np.full(k, rng.choice([0.05, 0.5, 5.0])))
        rank = np.exp(-(p[p > 0] * np.log(p[p > 0])).sum())
        low, high = rank_bounds((p**2).sum(), k)
        assert low <= rank <= high
    # m equal shares reach the lower bound, one share above equal ones the upper one.
    assert rank_bounds(1 / 7, 30)[0] == pytest.approx(7, rel=1e-6)
    p = np.r_[0.5, np.full(29, 0.5 / 29)]
    assert rank_bounds((p**2).sum(), 30)[1] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-6)


def test_slope_bounds_hold_and_are_reached(geometry):
    X, neighbors, _ = geometry
    pairs = neighborhood_distances(X, neighbors.indices)
    grid = geometric_grid(neighbors, 12, 10, 1e-4, 100.0)
    bounds = np.empty(12)
    for i in range(0, neighbors.n, 5):
        bound_slopes(pairs[i], 30, grid[i], bounds)
        squared = twins.squared_distances(X[neighbors.indices[i]], X[neighbors.indices[i]])
        slopes = np.array([twins.slope(squared, sigma) for sigma in grid[i]])
        assert (slopes <= bounds).all()
        assert bounds[-1] == pytest.approx(slopes[-1], rel=0.01)  # at so wide a kernel the plain mean is the mean
        assert bounds[0] < 1e-6 * slopes.max()  # so narrow that no pair counts
    bound_slopes(np.zeros(8), 4, np.ones(12), bounds)
    assert (bounds == 0).all()
    bound_slopes(np.full(8, 1e280), 4, np.full(12, 1e-160), bounds)
    assert (bounds >= 0).all()
