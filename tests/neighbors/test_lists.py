"""Inverted lists: exact among the rows of the lists looked at."""

import numpy as np
import pytest

import asbc
from asbc.neighbors import lists as lists_module
from asbc.neighbors import search_neighbors
from asbc.neighbors.search import find_rows


def test_looking_at_every_list_is_exact_search(X, exact):
    found = search_neighbors(X, 12, search="ivf", n_lists=20, n_probe=20)
    assert (found.indices == exact.indices).all() and (found.distances == exact.distances).all()
    assert found.recall == 1.0


def test_lists_give_the_exact_answer_among_the_rows_of_those_looked_at(X):
    index = lists_module.InvertedLists.build(X, lists_module.train_centroids(X, 40, 0), 3)
    ids = find_rows(X, np.arange(len(X)), index, 12)[0]
    lists = search_neighbors(index.centroids, 3, queries=X).indices
    for row in range(0, len(X), 50):
        members = np.concatenate([index.members[index.starts[c] : index.starts[c + 1]] for c in lists[row]])
        members = members[members != row]
        true = np.linalg.norm(X[members].astype(float) - X[row].astype(float), axis=1)
        order = np.lexsort((members, true))[:12]
        if len(members) >= 12:
            assert (ids[row] == members[order]).all()


def test_rows_asked_for_together_do_not_change_the_answer(X):
    """Also with many equal distances, where single precision cannot tell which candidates are the nearest."""
    grid = np.round(X[:, :3] * 1.5).astype(np.float32)
    index = lists_module.InvertedLists.build(grid, lists_module.train_centroids(grid, 12, 0), 3)
    whole = find_rows(grid, np.arange(len(grid)), index, 10)[0]
    pieces = [find_rows(grid, np.arange(a, min(a + 37, len(grid))), index, 10)[0] for a in range(0, 1500, 37)]
    assert (whole == np.concatenate(pieces)).all()
    scattered = np.arange(0, len(grid), 7)
    assert (whole[scattered] == find_rows(grid, scattered, index, 10)[0]).all()


def test_threads_do_not_change_the_answer(X):
    import numba

    before = numba.get_num_threads()
    grid = np.round(X[:, :3] * 1.5).astype(np.float32)
    index = lists_module.InvertedLists.build(grid, lists_module.train_centroids(grid, 12, 0), 3)
    whole = find_rows(grid, np.arange(len(grid)), index, 10)
    numba.set_num_threads(1)
    try:
        again = lists_module.InvertedLists.build(grid, lists_module.train_centroids(grid, 12, 0), 3)
        alone = find_rows(grid, np.arange(len(grid)), again, 10)
    finally:
        numba.set_num_threads(before)
    assert (again.centroids == index.centroids).all()
    assert (whole[0] == alone[0]).all() and (whole[1] == alone[1]).all()


def test_far_from_the_origin(X):
    moved = X.astype(np.float64) + 1e5
    index = lists_module.InvertedLists.build(moved, lists_module.train_centroids(moved, 20, 0), 20)
    ids = find_rows(moved, np.arange(len(X)), index, 12)[0]
    assert (ids == search_neighbors(moved, 12).indices).all()


def test_duplicates_in_tiles_have_the_same_answer(monkeypatch):
    rng = np.random.default_rng(2)
    X = np.concatenate([np.repeat(rng.normal(size=(3, 8)), 60, axis=0), rng.normal(size=(200, 8))]).astype(np.float32)
    options = {"search": "ivf", "n_lists": 6, "n_probe": 6}
    whole = search_neighbors(X, 10, **options)
    monkeypatch.setattr(lists_module, "TILE", 32)
    pieces = search_neighbors(X, 10, **options)
    exact = search_neighbors(X, 10)
    for found in (whole, pieces):
        assert (found.indices == exact.indices).all()
        assert (found.distances == exact.distances).all()


def test_cosine_and_float16(X):
    found = search_neighbors(X.astype(np.float16), 12, metric="cosine", search="ivf", n_lists=8, n_probe=8)
    wanted = search_neighbors(X.astype(np.float16), 12, metric="cosine")
    assert (found.indices == wanted.indices).all()


def test_one_pass_or_two_have_the_same_answer(X, monkeypatch):
    found = []
    for many in (0, 10**9):
        monkeypatch.setattr(lists_module, "TWO_PASS_QUERIES", many)
        found.append(search_neighbors(X, 12, search="ivf", n_lists=20, n_probe=4))
    assert (found[0].indices == found[1].indices).all() and (found[0].distances == found[1].distances).all()


@pytest.mark.usefixtures("lists_always")
@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e60])
def test_lists_refuse_numbers_whose_squares_single_precision_cannot_hold(X, scale):
    with pytest.raises(ValueError, match=r"X must spread between 1e-15 and 1e15 for search='ivf'.*Scale X"):
        asbc.search_neighbors(X.astype(float) * scale, 10, search="ivf")


def test_tasks_are_split_by_their_work():
    tasks = np.arange(10)
    for work, parts in (
        (np.ones(10, int), 3),
        (np.r_[np.ones(9, int), 9], 2),
        (np.zeros(10, int), 4),
        (tasks[::-1], 5),
    ):
        split = lists_module.split_evenly(tasks, work, parts)
        assert len(split) == parts and np.array_equal(np.concatenate(split), tasks)
        assert max(work[part].sum() for part in split) <= work.sum() / parts + work.max()
    assert [len(part) for part in lists_module.split_evenly(tasks[:0], tasks[:0], 2)] == [0, 0]


@pytest.mark.parametrize("columns", [slice(0, 1), slice(1, 3), slice(0, 3)])
def test_rows_are_filed_under_each_of_their_lists(columns):
    lists = np.array([np.random.default_rng(i).permutation(6)[:3] for i in range(20)], np.int32)[:, columns]
    members, starts = lists_module.file_under(lists, 6)
    assert len(members) == lists.size == starts[-1]
    for number in range(6):
        wanted = np.flatnonzero((lists == number).any(axis=1))
        assert members[starts[number] : starts[number + 1]].tolist() == wanted.tolist()
    assert lists_module.file_under(np.array([2, 0, 2]), 3)[0].tolist() == [1, 0, 2]
