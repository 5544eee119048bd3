"""Clouds of points, and their exact neighbours."""

import numpy as np
import pytest

from asbc.neighbors import search_neighbors


@pytest.fixture(scope="session")
def X():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 16)) * 3
    X = (centres[rng.integers(0, 12, 1500)] + rng.normal(size=(1500, 16))).astype(np.float32)
    X.setflags(write=False)  # as memory maps are, which numba compiles its code for once more
    return X


@pytest.fixture(scope="session")
def exact(X):
    return search_neighbors(X, 12)
