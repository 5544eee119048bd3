"""The perplexity rule."""

import numpy as np
import pytest

import asbc
from tests import twins


def test_perplexity_matches_its_target(geometry):
    X, neighbors, dimension = geometry
    choice = asbc.Perplexity(beta=2.0).select(X, neighbors, dimension)
    found = [twins.effective_neighbors(d, s) for d, s in zip(neighbors.distances, choice.sigma, strict=True)]
    assert found == pytest.approx(np.clip(2 * dimension, 1, 27), rel=1e-6)
