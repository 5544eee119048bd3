"""The one function for every kind of search: what it returns is a legal answer, and what cannot be is refused."""

import numpy as np
import pytest
from scipy import sparse

import asbc
from asbc.neighbors import search_neighbors
from asbc.neighbors.search import find_rows
from tests import twins
from tests.neighbors.legal import assert_legal
from tests.searches import needs_library

# pynndescent compiles itself for half a minute, once per process.
KINDS = ("ivf", "hnsw", pytest.param("nn_descent", marks=pytest.mark.slow))


@pytest.mark.usefixtures("lists_always")
@pytest.mark.parametrize("search", KINDS)
def test_answers_are_legal_and_recall_is_measured(X, exact, search):
    needs_library(search)
    found = search_neighbors(X, 12, search=search, sample=len(X))
    assert_legal(X, found)
    share = np.mean([len(set(a) & set(b)) / 12 for a, b in zip(found.indices, exact.indices, strict=True)])
    assert found.recall == pytest.approx(share, abs=1e-12)
    assert found.recall > 0.9
    assert exact.recall is None


@pytest.mark.usefixtures("lists_always")
@pytest.mark.parametrize("search", KINDS)
def test_repeatable(X, search):
    needs_library(search)
    first, second = (search_neighbors(X, 12, search=search) for _ in range(2))
    assert (first.indices == second.indices).all() and (first.distances == second.distances).all()


@pytest.mark.usefixtures("lists_always")
@pytest.mark.parametrize("search", KINDS)
def test_many_duplicates(search):
    needs_library(search)
    X = np.repeat(np.random.default_rng(1).normal(size=(20, 8)), 30, axis=0).astype(np.float32)
    X.setflags(write=False)
    found = search_neighbors(X, 10, search=search)
    assert_legal(X, found)
    assert found.recall > 0.9


@pytest.mark.usefixtures("lists_always")
@pytest.mark.parametrize("search", ["ivf", "hnsw"])
def test_queries(X, search):
    needs_library(search)
    queries = X[:50] + 0.01
    found = search_neighbors(X, 12, queries=queries, search=search)
    wanted = search_neighbors(X, 12, queries=queries)
    assert found.first is None
    assert (found.indices == wanted.indices).mean() > 0.9
    assert found.recall > 0.9


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
    ids, distances = find_rows(X, rows, Careless(exact), 12)  # every second row has too few different candidates
    assert (ids == exact.indices[:200]).all() and (distances == exact.distances[:200]).all()


def test_rows_of_another_set_are_refused(X):
    class Wrong:
        def candidates(self, X, vectors, rows, wanted):
            return np.full((len(rows), wanted), len(X)), None

    with pytest.raises(ValueError, match="does not belong to X"):
        find_rows(X, np.arange(5), Wrong(), 12)


@pytest.mark.usefixtures("lists_always")
def test_the_public_function_takes_precomputed_approximate_neighbours(X):
    neighbors = asbc.search_neighbors(X, 30, search="ivf")
    dimension = asbc.dim_mst(X, neighbors)
    assert np.isfinite(asbc.SpectralBandwidth().select(X, neighbors, dimension).sigma).all()


def test_cosine_orders_by_angle(clouds):
    X = clouds[0]
    found = asbc.search_neighbors(X, 15, metric="cosine")
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.array_equal(found.indices, twins.neighbors(unit, 15)[0])
    cosine = np.einsum("ijk,ik->ij", unit[found.indices], unit)
    np.testing.assert_allclose(found.distances**2, 2 - 2 * cosine, atol=1e-12)


def test_queries_are_searched_among_the_rows(clouds):
    X = clouds[0]
    found = asbc.search_neighbors(X, 5, queries=X[:7])
    assert np.array_equal(found.indices[:, 0], np.arange(7))
    assert (found.distances[:, 0] == 0).all()
    squared = twins.squared_distances(X[:7] + 0.1, X)
    found = asbc.search_neighbors(X, 5, queries=X[:7] + 0.1)
    assert np.array_equal(found.indices, np.argsort(squared, axis=1, kind="stable")[:, :5])
    assert found.first is None


def test_as_many_queries_neighbours_as_rows():
    X = np.random.default_rng(0).normal(size=(9, 3))
    assert asbc.search_neighbors(X, 9, queries=X[:2]).indices.shape == (2, 9)


def test_read_only_memory_map(tmp_path, clouds):
    path = tmp_path / "x.npy"
    np.save(path, clouds[0].astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    found = asbc.search_neighbors(mapped, 10)
    assert np.array_equal(found.indices, asbc.search_neighbors(np.array(mapped), 10).indices)


@pytest.mark.parametrize(
    "X, error, message",
    [
        (np.r_[np.zeros((40, 3)), [[np.nan, 0, 0]]], ValueError, "X must be finite; row 40 holds NaN or infinity"),
        (np.r_[[[np.inf, 0, 0]], np.zeros((40, 3))], ValueError, "X must be finite; row 0"),
        (np.zeros(40), ValueError, r"X must be 2-dimensional.*got shape \(40,\)"),
        (np.zeros((40, 3), object), TypeError, "X must hold real numbers; got dtype object"),
        (np.zeros((40, 3), complex), TypeError, "X must hold real numbers; got dtype complex128"),
        (np.full((40, 3), "a"), TypeError, "X must hold real numbers"),
        (np.zeros((40, 0)), ValueError, "at least one column"),
        (np.zeros((30, 3)), ValueError, "k=30 neighbours need more than 30 nodes; got n_samples = 30"),
    ],
)
def test_bad_vectors(X, error, message):
    with pytest.raises(error, match=message):
        asbc.search_neighbors(X, 30)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "a", float("nan")])
def test_bad_k(k):
    with pytest.raises(ValueError, match="k must be a whole number of at least 1; got"):
        asbc.search_neighbors(np.zeros((40, 3)), k)


def test_other_bad_arguments():
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match="metric must be 'cosine' or 'euclidean'; got 'l1'"):
        asbc.search_neighbors(X, 5, metric="l1")
    with pytest.raises(ValueError, match="queries must have the 3 columns of X; got 2"):
        asbc.search_neighbors(X, 5, queries=X[:, :2])
    X[7] = 0
    with pytest.raises(ValueError, match="row 7 is all zeros"):
        asbc.search_neighbors(X, 5, metric="cosine")


def test_extreme_scales():
    X = np.random.default_rng(0).normal(size=(60, 4))
    unit = asbc.normalize(X)
    for scale in (1e-300, 1e-200, 1e200, 1e300):
        np.testing.assert_allclose(asbc.normalize(X * scale), unit, rtol=1e-12)
    for scale in (1e-150, 1e150):
        with pytest.raises(ValueError, match="X must spread between 1e-140 and 1e140"):
            asbc.search_neighbors(X * scale, 10)
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 60, the rows of X; got 61"):
        asbc.search_neighbors(X, 61, queries=X[:3])
    with pytest.raises(TypeError, match="X must be a dense array; got cs"):
        asbc.search_neighbors(sparse.csr_array(X), 10)
    with pytest.raises(TypeError, match="X must be a dense array; got None"):
        asbc.search_neighbors(None, 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"search": "kdtree"}, "search must be 'auto', 'exact', 'ivf', 'hnsw' or 'nn_descent'; got 'kdtree'"),
        (
            {"search": "ivf", "ef_search": 5},
            "search='ivf' has no option 'ef_search'; its options are: n_lists, n_probe",
        ),
        ({"search": "ivf", "n_probe": 0}, "n_probe must be a whole number from 1 to 2147483647; got 0"),
        ({"search": "ivf", "n_lists": 10**6}, "n_lists must be at most the number of rows"),
        ({"search": "hnsw", "ef_search": 10**400}, "ef_search must be"),
        ({"search": "exact", "seed": 1}, "search='exact' has no options"),
    ],
)
def test_bad_options(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        search_neighbors(X, 12, **arguments)
