"""The generator of large data: seeded, the same by file and in memory, and a longer file begins with a shorter one."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import asbc

SCRIPT = Path(__file__).resolve().parents[2] / "experiments" / "make_mixture.py"


@pytest.fixture(scope="module")
def mixture():
    spec = importlib.util.spec_from_file_location("make_mixture", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_file_and_memory_agree(mixture, tmp_path):
    mixture.write_mixture(tmp_path / "m.npy", 9000, 20, n_pieces=5, seed=3)
    X, labels = mixture.make_mixture(9000, 20, n_pieces=5, seed=3)
    assert (np.load(tmp_path / "m.npy") == X).all() and (np.load(tmp_path / "m_labels.npy") == labels).all()
    assert X.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-6)
    shorter, _ = mixture.make_mixture(5000, 20, n_pieces=5, seed=3)
    assert (shorter == X[:5000]).all()
    assert not (mixture.make_mixture(5000, 20, n_pieces=5, seed=4)[0] == shorter).any(axis=1).all()


def test_pieces_are_low_dimensional_and_apart(mixture):
    X, labels = mixture.make_mixture(3000, 64, n_pieces=6, seed=0)
    neighbors = asbc.search_neighbors(X, 30)
    assert (labels[neighbors.indices] == labels[:, None]).mean() > 0.99
    assert np.median(asbc.dim_mst(X, neighbors)) < 12
