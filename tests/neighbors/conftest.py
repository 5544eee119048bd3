"""Clouds of points, and their exact neighbours."""

import numpy as np
import pytest

from asbc.neighbors import search, search_neighbors


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
def lists_always(monkeypatch):
    """Search by lists, however many rows they scan."""
    monkeypatch.setattr(search, "MAX_SCANNED_SHARE", 1.0)
