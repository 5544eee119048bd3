from pathlib import Path

import numpy as np
import pytest

import asbc

HERE = Path(__file__).parent
# Folders whose tests start processes, run experiments or import torch: not for the one-minute check.
SLOW = ("embeddings", "experiments", "explore", "faults", "outofcore", "report", "runs", "train")
# Folders whose tests share something that takes long to make: with several workers, one of them has it.
TOGETHER = ("embeddings", "explore", "report")
# Where the long tests are. They begin first, and the short ones fill up what is left of the time.
LONG = (
    "embeddings",
    "nn_descent",
    "outofcore/test_engine.py",
    "report",
    "runs",
    "test_notebooks.py",
    "outofcore",
    "faults",
)


def pytest_addoption(parser):
    parser.addoption("--campaign", metavar="PAGE", help="run all of tests/faults; the table of counts goes to PAGE")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what is slow and, for several workers (pytest-xdist, ``--dist loadgroup``), what belongs together."""
    parallel = config.pluginmanager.hasplugin("xdist")
    ranks = {}
    for item in items:
        place = item.path.relative_to(HERE)
        if place.parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)
        group = place.parts[0] if place.parts[0] in TOGETHER else place.as_posix()
        if item.get_closest_marker("nn_descent"):
            group = "nn_descent"
        if parallel:
            item.add_marker(pytest.mark.xdist_group(group))
        ranks[item] = next((rank for rank, name in enumerate(LONG) if group.startswith(name)), len(LONG))
    if config.getoption("dist", "no") != "no":
        items.sort(key=ranks.__getitem__)


def curved_clouds(n=240, d=12, classes=6, seed=0):
    """Points on bent two- to five-dimensional pieces with noise, one piece per class: small, but not round."""
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
