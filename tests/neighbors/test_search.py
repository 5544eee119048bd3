"""Approximate search: what it returns is always a legal answer, and its recall is what it says."""

import builtins

import numpy as np
import pytest

import asbc
from asbc.neighbors import exact as exact_module
from asbc.neighbors import lists as lists_module
from asbc.neighbors import search_neighbors
from asbc.neighbors.recall import recall_of
from asbc.neighbors.search import find_rows

KINDS = ("ivf", "hnsw", "nn_descent")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 16)) * 3
    return (centres[rng.integers(0, 12, 1500)] + rng.normal(size=(1500, 16))).astype(np.float32)


@pytest.fixture(scope="module")
def exact(X):
    return search_neighbors(X, 12)


def assert_legal(X, neighbors):
    """Rows hold different ids, never the node's own, with true distances in order of (distance, id)."""
    n, k = neighbors.indices.shape
    assert neighbors.indices.min() >= 0 and neighbors.indices.max() < len(X)
    assert (neighbors.indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in neighbors.indices)
    true = np.linalg.norm(X[neighbors.indices].astype(float) - X[:, None].astype(float), axis=2)
    np.testing.assert_allclose(neighbors.distances, true, rtol=1e-12)
    step = np.diff(neighbors.distances, axis=1)
    assert ((step > 0) | ((step == 0) & (np.diff(neighbors.indices, axis=1) > 0))).all()


@pytest.mark.parametrize("search", KINDS)
def test_answers_are_legal_and_recall_is_measured(X, exact, search):
    found = search_neighbors(X, 12, search=search, sample=len(X))
    assert_legal(X, found)
    share = np.mean([len(set(a) & set(b)) / 12 for a, b in zip(found.indices, exact.indices, strict=True)])
    assert found.recall == pytest.approx(share, abs=1e-12)
    assert found.recall > 0.9
    assert exact.recall is None


@pytest.mark.parametrize("search", KINDS)
def test_repeatable(X, search):
    first, second = (search_neighbors(X, 12, search=search) for _ in range(2))
    assert (first.indices == second.indices).all() and (first.distances == second.distances).all()


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


class Careless:
    """An index as bad as libraries are allowed to be: -1, repeats, the node itself, in no order."""

    def __init__(self, exact):
        self.exact = exact

    def candidates(self, X, vectors, rows, wanted):
        out = np.full((len(rows), wanted + 12), -1)
        near = self.exact.indices[rows]
        out[:, 3:9] = near[:, 5::-1]
        out[:, 9:15] = near[:, :6]
        out[:, 15] = rows
        out[::2, 16 : 16 + 6] = near[::2, 6:12]
        return out, None


def test_missing_repeated_and_own_candidates_are_repaired(X, exact):
    rows = np.arange(200)
    ids, distances, repaired = find_rows(X, rows, Careless(exact), 12)
    assert repaired == 100  # every second row has too few different candidates
    assert (ids == exact.indices[:200]).all() and (distances == exact.distances[:200]).all()


def test_rows_of_another_set_are_refused(X):
    class Wrong:
        def candidates(self, X, vectors, rows, wanted):
            return np.full((len(rows), wanted), len(X)), None

    with pytest.raises(ValueError, match="does not belong to X"):
        find_rows(X, np.arange(5), Wrong(), 12)


@pytest.mark.parametrize("search", KINDS)
def test_many_duplicates(search):
    X = np.repeat(np.random.default_rng(1).normal(size=(20, 8)), 30, axis=0).astype(np.float32)
    found = search_neighbors(X, 10, search=search)
    assert_legal(X, found)
    assert found.recall > 0.9


def test_duplicates_in_tiles_and_pieces_have_the_same_answer(monkeypatch):
    rng = np.random.default_rng(2)
    X = np.concatenate([np.repeat(rng.normal(size=(3, 8)), 60, axis=0), rng.normal(size=(200, 8))]).astype(np.float32)
    options = {"search": "ivf", "n_lists": 6, "n_probe": 6}
    whole = search_neighbors(X, 10, **options)
    monkeypatch.setattr(lists_module, "SIDE_ROWS", 17)
    monkeypatch.setattr(lists_module, "DOUBTFUL_DISTANCES", 1000)
    pieces = search_neighbors(X, 10, **options)
    exact = search_neighbors(X, 10)
    for found in (whole, pieces):
        assert (found.indices == exact.indices).all()
        assert (found.distances == exact.distances).all()


def test_exact_search_in_tiles_has_the_same_bits(X, exact, monkeypatch):
    monkeypatch.setattr(exact_module, "TILE_ROWS", 101)
    rows = np.arange(len(X))
    ids, distances = exact_module.exact_distances(X, X, 12, rows)
    assert (ids == exact.indices).all() and (distances == exact.distances).all()


@pytest.mark.parametrize("search", ["ivf", "hnsw"])
def test_queries(X, search):
    queries = X[:50] + 0.01
    found = search_neighbors(X, 12, queries=queries, search=search)
    wanted = search_neighbors(X, 12, queries=queries)
    assert found.first is None
    assert (found.indices == wanted.indices).mean() > 0.9
    assert found.recall > 0.9


def test_queries_are_not_for_nn_descent(X):
    with pytest.raises(ValueError, match="rows of X only"):
        search_neighbors(X, 12, queries=X[:5], search="nn_descent")


def test_cosine_and_float16(X):
    found = search_neighbors(X.astype(np.float16), 12, metric="cosine", search="ivf", n_lists=8, n_probe=8)
    wanted = search_neighbors(X.astype(np.float16), 12, metric="cosine")
    assert (found.indices == wanted.indices).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"search": "kdtree"}, "search must be 'auto', 'exact', 'ivf', 'hnsw' or 'nn_descent'; got 'kdtree'"),
        (
            {"search": "ivf", "ef_search": 5},
            "search='ivf' has no option 'ef_search'; its options are: n_lists, n_probe",
        ),
        ({"search": "ivf", "n_probe": 0}, "n_probe must be a whole number of at least 1; got 0"),
        ({"search": "ivf", "n_lists": 10**6}, "n_lists must be at most the number of rows"),
        ({"search": "exact", "seed": 1}, "search='exact' has no options"),
    ],
)
def test_bad_options(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        search_neighbors(X, 12, **arguments)


@pytest.mark.parametrize(("search", "library"), [("hnsw", "faiss"), ("nn_descent", "pynndescent")])
def test_a_missing_library_is_named(X, monkeypatch, search, library):
    real = builtins.__import__

    def without(name, *rest):
        if name == library:
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf'needs {library}: pip install "asbc\[scale\]"'):
        search_neighbors(X, 12, search=search)


@pytest.mark.parametrize("scale", [1e-30, 1e20, 1e60])
def test_lists_refuse_numbers_whose_squares_single_precision_cannot_hold(X, scale):
    with pytest.raises(ValueError, match=r"X must spread between 1e-15 and 1e15 for search='ivf'.*Scale it"):
        asbc.search_neighbors(X.astype(float) * scale, 10, search="ivf")


def test_recall_counts_equal_distances_as_found():
    found = np.array([[1.0, 2.0, 2.0], [1.0, 3.0, 4.0]])
    exact = np.array([[1.0, 2.0, 2.0], [1.0, 2.0, 3.0]])
    recall = recall_of(found, exact)
    assert recall.value == pytest.approx((1 + 2 / 3) / 2) and recall.sample == 2


def test_a_low_recall_is_told_with_the_options_that_raise_it():
    noise = np.random.default_rng(0).normal(size=(2000, 64))  # of high dimension, where lists are of little help
    with pytest.warns(asbc.LowRecallWarning, match=r"recall is 0\.\d+, measured on 1000 nodes.*'n_probe': 2"):
        found = asbc.search_neighbors(noise, 10, search="ivf", n_probe=2)
    assert found.recall < 0.9


def test_the_public_function_takes_precomputed_approximate_neighbours(X):
    neighbors = asbc.search_neighbors(X, 30, search="ivf")
    dimension = asbc.dim_mst(X, neighbors)
    assert np.isfinite(asbc.SpectralBandwidth().select(X, neighbors, dimension).sigma).all()
