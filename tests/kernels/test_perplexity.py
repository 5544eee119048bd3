import numpy as np
import pytest

from asbc.kernels.perplexity import match_neighbors
from tests import twins


def test_bisection_hits_the_target():
    rng = np.random.default_rng(1)
    distances = np.sort(rng.uniform(0.5, 2, (40, 30)), axis=1)
    target = rng.uniform(2, 27, 40)
    sigma = match_neighbors(distances**2, target, np.full(40, 0.01), np.full(40, 100.0))
    found = [twins.effective_neighbors(d, s) for d, s in zip(distances, sigma, strict=True)]
    assert found == pytest.approx(target, rel=1e-9)
