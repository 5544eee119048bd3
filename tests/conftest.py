import os

if "PYTEST_XDIST_WORKER" in os.environ:  # several workers share the cores: one thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

import asbc


def pytest_addoption(parser):
    parser.addoption("--campaign", metavar="PAGE", help="run all of tests/faults; the table of counts goes to PAGE")


def curved_clouds(n=240, d=12, classes=6, seed=0):
    """Return points and labels of `classes` noisy curved pieces of two to five dimensions."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for c in range(classes):
        latent = rng.uniform(-1, 1, (n // classes, 2 + c % 4))
        bend = np.concatenate([latent, np.sin(2 * latent), latent**2], axis=1)
        X.append(bend @ rng.normal(size=(bend.shape[1], d)) + rng.normal(size=d) * 2)
        y += [c] * (n // classes)
    X = np.concatenate(X)
    return X + 0.05 * rng.normal(size=X.shape), np.array(y)


@pytest.fixture(scope="session")
def clouds():
    return curved_clouds()


@pytest.fixture(scope="session")
def geometry(clouds):
    """(X, neighbors, dimension) at k = 30."""
    X = clouds[0]
    neighbors = asbc.search_neighbors(X, 30)
    return X, neighbors, asbc.dim_mst(X, neighbors)
