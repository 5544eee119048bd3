import numpy as np
import pytest

from asbc.kernels.perplexity import effective_neighbors, match_neighbors
from tests import twins


def test_effective_neighbours_equal_the_twin_and_rise():
    distances = np.sort(np.random.default_rng(0).uniform(0.5, 2, 30))
    sigmas = np.geomspace(0.05, 50, 30)
    values = [effective_neighbors(distances**2, s) for s in sigmas]
    np.testing.assert_allclose(values, [twins.effective_neighbors(distances, s) for s in sigmas], rtol=1e-9)
    assert (np.diff(values) >= 0).all()


def test_bisection_hits_the_target():
    rng = np.random.default_rng(1)
    distances = np.sort(rng.uniform(0.5, 2, (40, 30)), axis=1)
    target = rng.uniform(2, 27, 40)
    sigma = match_neighbors(distances**2, target, np.full(40, 0.01), np.full(40, 100.0))
    found = [twins.effective_neighbors(d, s) for d, s in zip(distances, sigma, strict=True)]
    assert found == pytest.approx(target, rel=1e-9)
