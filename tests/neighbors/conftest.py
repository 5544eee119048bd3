"""Clouds of points, and their exact neighbours."""

import numpy as np
import pytest

from asbc.neighbors import search_neighbors, tuning


@pytest.fixture(scope="session")
def X():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(12, 16)) * 3
    X = (centers[rng.integers(0, 12, 1500)] + rng.normal(size=(1500, 16))).astype(np.float32)
    X.setflags(write=False)  # as memory maps are, which numba compiles its code for once more
    return X


@pytest.fixture(scope="session")
def exact(X):
    return search_neighbors(X, 12)


@pytest.fixture
def lists_cost_nothing(monkeypatch):
    """So that lists are searched, though exact search of so few rows takes less time."""
    monkeypatch.setattr(tuning, "cost_of_lists", lambda *_: 0.0)
