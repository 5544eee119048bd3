"""Exact search: the same answer as the slow twin, whatever the numbers, blocks and tiles."""

import threading
import time

import numba
import numpy as np
import pytest

import asbc
from asbc.kernels.threads import run_tasks
from asbc.neighbors import exact as exact_module
from asbc.neighbors.exact import TILE, free_pairs, nearest_to
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
    monkeypatch.setattr(exact_module, "TILE", tile)
    monkeypatch.setattr(exact_module, "thread_count", lambda: threads)
    monkeypatch.setattr(exact_module, "SORTED_ROWS", tile)
    found = asbc.search_neighbors(X, 12)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("copies", [1, 40])
def test_some_rows_have_the_bits_that_all_of_them_have(X, copies):
    X = np.repeat(X[: len(X) // copies], copies, axis=0)
    wanted = exact_module.search_exactly(X, 12)
    rows = np.arange(3, len(X), 7)
    found = exact_module.search_exactly(X, 12, X[rows], rows)
    assert (found.indices == wanted.indices[rows]).all() and (found.distances == wanted.distances[rows]).all()


BLOCKS = 6


def test_threads_never_work_on_one_block_at_a_time():
    order = [(i, j) for i in range(BLOCKS) for j in range(i, BLOCKS)]
    busy, changed, working, seen, shared = set(), threading.Condition(), set(), [], []

    def work(task):
        with changed:
            shared.extend(working & set(task[1:]))
            working.update(task[1:])
            seen.append(task)
        with changed:
            working.difference_update(task[1:])
            busy.difference_update(task[1:])
            changed.notify_all()

    run_tasks(free_pairs(order, busy, changed), work, 4)
    assert not shared and not busy
    assert sorted(seen) == [(turn, i, j) for turn, (i, j) in enumerate(order)]


def test_the_first_pair_that_is_free_is_taken():
    busy = set()
    pairs = free_pairs([(0, 0), (0, 1), (1, 2), (3, 3)], busy, threading.Condition())
    assert next(pairs) == (0, 0, 0)
    assert next(pairs) == (2, 1, 2)
    assert next(pairs) == (3, 3, 3)
    busy.clear()
    assert list(pairs) == [(1, 0, 1)]


def test_an_error_in_a_product_does_not_block_the_threads_that_wait_for_its_blocks(monkeypatch):
    class Outlines:
        def __getitem__(self, rows):
            if rows.start == 0:  # meanwhile other threads do all pairs without the first block
                time.sleep(0.3)
                raise MemoryError("no room for the products")
            return np.ones((1, 1))

    monkeypatch.setattr(exact_module, "FULL_TURNS", 0)
    monkeypatch.setattr(exact_module, "find_directions", lambda *rows: True)
    monkeypatch.setattr(exact_module, "outline_rows", lambda *rows: Outlines())
    monkeypatch.setattr(exact_module, "keep_nearest", lambda *tile: None)
    errors = []

    def search():
        numba.set_num_threads(2)
        try:
            asbc.search_neighbors(np.random.default_rng(0).normal(size=(300, 4)), 3)
        except MemoryError as error:
            errors.append(error)

    searching = threading.Thread(target=search, daemon=True)
    searching.start()
    searching.join(30)
    assert len(errors) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [20, TILE, 2 * TILE + 37])
def test_rows_nearest_to_some_of_the_queries(n, dtype):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(n, 5)).astype(dtype), rng.normal(size=(700, 5)).astype(dtype)
    center, chosen = X.mean(axis=0), rng.permutation(700)[:610]
    values, ids, half, longest = nearest_to(X, Q, chosen, center, 0.5, dtype, 7)
    squared = 0.25 * np.square(Q[chosen, None].astype(float) - X.astype(float)).sum(axis=2)
    assert np.array_equal(np.sort(ids), np.sort(np.argsort(squared, axis=1)[:, :7]))
    np.testing.assert_allclose(values, np.take_along_axis(squared, ids, axis=1), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(half, 0.125 * np.square(Q[chosen] - center).sum(axis=1), rtol=1e-5)
    assert longest == pytest.approx(0.125 * np.square(X - center).sum(axis=1).max(), rel=1e-5)


@pytest.fixture
def always(monkeypatch):
    """Outlines for any number of rows, however little they save."""
    monkeypatch.setattr(exact_module, "MIN_PRODUCTS", 0)
    monkeypatch.setattr(exact_module, "OUTLINE_COST", np.inf)
    monkeypatch.setattr(exact_module, "FULL_TURNS", 0)
    monkeypatch.setattr(exact_module, "GROUPED_ROWS", 0)


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
    find = exact_module.find_directions
    monkeypatch.setattr(exact_module, "find_directions", lambda *rest: used.append(find(*rest)) or used[-1])
    found = asbc.search_neighbors(X, 20)
    assert any(directions is not None for directions in used)
    monkeypatch.setattr(exact_module, "find_directions", lambda *rest: None)
    monkeypatch.setattr(exact_module, "_group_rows", lambda X, *rest: np.arange(len(X)))
    plain = asbc.search_neighbors(X, 20)
    assert np.array_equal(found.indices, plain.indices)
    assert np.array_equal(found.distances, plain.distances)


def test_products_of_outlines_are_no_less_than_those_of_rows():
    X = decaying(200, 30)
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(30, 7)))[0]
    made = exact_module.outline_rows(X, directions)
    assert made.shape == (200, 8)
    np.testing.assert_allclose(np.square(made.astype(float)).sum(axis=1), np.square(X).sum(axis=1), rtol=1e-6)
    assert (made.astype(float) @ made.T.astype(float) >= X @ X.T - 1e-5).all()
    assert (made[:, :-1].astype(float) @ made[:, :-1].T.astype(float) < X @ X.T - 1e-3).any()  # the last one is needed


def test_directions_are_found_where_they_save_work_and_only_there(monkeypatch):
    monkeypatch.setattr(exact_module, "MIN_PRODUCTS", 0)

    def directions(X):
        X = (X - X.mean(axis=0)).astype(np.float32)
        half = 0.5 * np.square(X).sum(axis=1)
        return exact_module.find_directions(X, half, 20)

    assert directions(np.random.default_rng(0).normal(size=(3000, 128))) is None
    assert directions(decaying(3000, 8)) is None  # too few columns to leave any out
    found = directions(decaying(3000, 128))
    assert found.shape[0] == 128 and found.shape[1] <= 64
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-10)


def test_few_products_are_not_worth_looking_for_directions():
    X = decaying(3000, 128).astype(np.float32)
    half = 0.5 * np.square(X).sum(axis=1)
    assert exact_module.find_directions(X, half, 20) is None
