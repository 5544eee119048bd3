"""Vectors with duplicates among them, in memory and in a file, and the files of a build that nothing interrupted."""

import numpy as np
import pytest

from asbc.outofcore.command import main
from tests.outofcore.small import ARGUMENTS, N, files_of


@pytest.fixture(scope="session")
def X():
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(8, 10)) * 3
    X = (centers[rng.integers(0, 8, N)] + rng.normal(size=(N, 10))).astype(np.float32)
    X[100:120] = X[100]  # more equal points than there are neighbours: bandwidths of their own do not exist
    X[300:303] = X[300]
    X.setflags(write=False)  # as the memory maps are that a build reads, which numba compiles its code for once more
    return X


@pytest.fixture(scope="session")
def path(X, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "x.npy"
    np.save(path, X)
    return path


@pytest.fixture(scope="session")
def reference(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "g"
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    return files_of(folder)
