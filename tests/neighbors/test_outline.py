"""Outlines: their products are never less than those of the rows, and a search with them has the same bits."""

import numpy as np
import pytest

import asbc
from asbc.neighbors import outline, products
from asbc.neighbors.exact import search_exactly


@pytest.fixture
def always(monkeypatch):
    """Outlines for any number of rows, however little they save."""
    monkeypatch.setattr(outline, "FEWEST_PRODUCTS", 0)
    monkeypatch.setattr(outline, "OUTLINES_WORTH", np.inf)
    monkeypatch.setattr(products, "WHOLE_TURNS", 0)
    monkeypatch.setattr(products, "SORTED_ROWS", 0)


def decaying(n, d, seed=0):
    """Rows that lie mostly along a few directions, around ten topics."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, d + 1) ** -0.7
    return (rng.normal(size=(10, d))[rng.integers(0, 10, n)] + rng.normal(size=(n, d))) * scales


SETS = {
    "decaying": lambda: decaying(900, 48),
    "float32": lambda: decaying(900, 48).astype(np.float32),
    "the same in all directions": lambda: np.random.default_rng(0).normal(size=(700, 40)),
    "far from the origin": lambda: decaying(600, 40) + 1e4,
    "many ties": lambda: np.random.default_rng(0).integers(0, 2, (600, 34)),
    "duplicates": lambda: np.repeat(decaying(30, 40), 20, axis=0),
    "in a plane": lambda: decaying(600, 2) @ np.random.default_rng(1).normal(size=(2, 40)),
    "all the same": lambda: np.ones((300, 40)),
    "one outlier": lambda: np.r_[decaying(500, 40), [[1e6] * 40]],
}


@pytest.mark.parametrize("name", SETS)
def test_a_search_with_outlines_has_the_same_bits(name, always, monkeypatch):
    X = SETS[name]()
    used = []
    find = outline.find_directions
    monkeypatch.setattr("asbc.neighbors.products.find_directions", lambda *rest: used.append(find(*rest)) or used[-1])
    found = asbc.search_neighbors(X, 20)
    assert any(directions is not None for directions in used)
    monkeypatch.setattr("asbc.neighbors.products.find_directions", lambda *rest: None)
    monkeypatch.setattr("asbc.neighbors.exact.near_together", lambda *rest: None)
    plain = asbc.search_neighbors(X, 20)
    assert np.array_equal(found.indices, plain.indices)
    assert np.array_equal(found.distances, plain.distances)


@pytest.mark.parametrize("cost", [0.1, 2.0], ids=["worth it", "not worth it"])
def test_known_outlines_are_taken_and_change_no_bits(cost, monkeypatch):
    X = decaying(900, 48)
    plain = search_exactly(X, 20)
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(48, 16)))[0]
    made = []
    monkeypatch.setattr(products, "WHOLE_TURNS", 0)
    monkeypatch.setattr(products, "outlines", lambda *rest: made.append(rest[1]) or outline.outlines(*rest))
    found = search_exactly(X, 20, outlining=outline.Outlining(directions, cost))
    assert len(made) == (cost < 1) and all(used is directions for used in made)
    assert np.array_equal(found.indices, plain.indices)
    assert np.array_equal(found.distances, plain.distances)


def test_products_of_outlines_are_no_less_than_those_of_rows():
    X = decaying(200, 30)
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(30, 7)))[0]
    made = outline.outlines(X, directions)
    assert made.shape == (200, 8)
    np.testing.assert_allclose(np.square(made.astype(float)).sum(axis=1), np.square(X).sum(axis=1), rtol=1e-6)
    assert (made.astype(float) @ made.T.astype(float) >= X @ X.T - 1e-5).all()
    assert (made[:, :-1].astype(float) @ made[:, :-1].T.astype(float) < X @ X.T - 1e-3).any()  # the last one is needed


def test_directions_are_found_where_they_save_work_and_only_there(monkeypatch):
    monkeypatch.setattr(outline, "FEWEST_PRODUCTS", 0)

    def directions(X):
        X = (X - X.mean(axis=0)).astype(np.float32)
        half = 0.5 * np.square(X).sum(axis=1)
        return outline.find_directions(X, half, 20)

    assert directions(np.random.default_rng(0).normal(size=(3000, 128))) is None
    assert directions(decaying(3000, 8)) is None  # too few columns to leave any out
    found = directions(decaying(3000, 128))
    assert found.shape[0] == 128 and found.shape[1] <= 64
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-10)


def test_few_products_are_not_worth_looking_for_directions():
    X = decaying(3000, 128).astype(np.float32)
    half = 0.5 * np.square(X).sum(axis=1)
    assert outline.find_directions(X, half, 20) is None
