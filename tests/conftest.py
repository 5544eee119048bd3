import logging
import os
import signal
import sys

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


@pytest.fixture(autouse=True)
def restored_process():
    """Commands that run in this process change its logging, signals, import path and environment: restore them."""
    root, handlers, level = logging.root, logging.root.handlers[:], logging.root.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    path, environment, folder = sys.path[:], dict(os.environ), os.getcwd()
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for number, action in signals.items():
        if action is not None:
            signal.signal(number, action)
    sys.path[:] = path
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


@pytest.fixture(scope="session")
def clouds():
    return curved_clouds()


@pytest.fixture(scope="session")
def geometry(clouds):
    """(X, neighbors, dimension) at k = 30."""
    X = clouds[0]
    neighbors = asbc.search_neighbors(X, 30)
    return X, neighbors, asbc.dim_mst(X, neighbors)
