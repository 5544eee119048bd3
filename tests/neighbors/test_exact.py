"""Exact search: the same answer as the slow twin, whatever the numbers, blocks and tiles."""

import numpy as np
import pytest

import asbc
from asbc.neighbors import exact as exact_module
from asbc.neighbors import products
from tests import twins

SHAPES = {
    "gaussian": lambda rng: rng.normal(size=(300, 16)),
    "float32": lambda rng: rng.normal(size=(300, 16)).astype(np.float32),
    "float16": lambda rng: rng.normal(size=(200, 5)).astype(np.float16),
    "integers with many ties": lambda rng: rng.integers(0, 3, (250, 3)),
    "far from the origin": lambda rng: rng.normal(size=(200, 4)) + 1e4,
    "one outlier": lambda rng: np.r_[rng.normal(size=(150, 5)), [[1e6] * 5]],
    "collinear": lambda rng: np.linspace(0, 1, 120)[:, None] * np.ones(3),
    "n = k + 1": lambda rng: rng.normal(size=(31, 4)),
    "all the same": lambda rng: np.ones((60, 4)),
    "forty duplicates": lambda rng: np.r_[np.zeros((40, 4)), rng.normal(size=(100, 4))],
    "fortran order": lambda rng: np.asfortranarray(rng.normal(size=(100, 7))),
    "tiny scale": lambda rng: rng.normal(size=(100, 7)) * 1e-12,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_search_is_exact(shape):
    X = SHAPES[shape](np.random.default_rng(0))
    found = asbc.search_neighbors(X, 30)
    indices, distances = twins.neighbors(X, 30)
    assert np.array_equal(found.indices, indices)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-12)
    assert found.distances.dtype == np.float64


def test_float32_search_is_decided_in_double_precision():
    rng = np.random.default_rng(0)
    # Thousands of nearly equal distances: single precision alone would shuffle them.
    X = (rng.normal(size=(400, 64)) * 1e-4 + 1.0).astype(np.float32)
    indices, _ = twins.neighbors(X, 10)
    assert np.array_equal(asbc.search_neighbors(X, 10).indices, indices)


@pytest.mark.parametrize("tile, threads", [(64, 1), (64, 2), (208, 2), (512, 1)])
def test_tiles_and_threads_of_any_number_give_the_same_bits(monkeypatch, tile, threads):
    X = np.random.default_rng(0).normal(size=(1500, 20)).astype(np.float32)
    expected = asbc.search_neighbors(X, 12)
    monkeypatch.setattr(products, "TILE", tile)
    monkeypatch.setattr(products, "get_num_threads", lambda: threads)
    monkeypatch.setattr(exact_module, "SETTLED_ROWS", tile)
    found = asbc.search_neighbors(X, 12)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.distances, expected.distances)


def test_exact_search_in_tiles_has_the_same_bits(X, exact, monkeypatch):
    monkeypatch.setattr(exact_module, "TILE_ROWS", 101)
    rows = np.arange(len(X))
    ids, distances = exact_module.exact_distances(X, X, 12, rows)
    assert (ids == exact.indices).all() and (distances == exact.distances).all()
