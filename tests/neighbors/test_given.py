"""Neighbours from elsewhere: every form that other libraries give leads to the same graph."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsTransformer, NearestNeighbors

import asbc
from asbc.neighbors.given import given_neighbors
from asbc.validation import normalize

K = 12


@pytest.fixture(scope="module")
def X():
    X = np.random.default_rng(3).normal(size=(300, 6)).astype(np.float32)
    X[50:53] = X[50]  # duplicates: the node itself need not stand first
    return X


@pytest.fixture(scope="module")
def own(X):
    return asbc.search_neighbors(X, K)


def same(found, own):
    return (found.indices == own.indices).all() and (found.distances == own.distances).all()


def with_self(own, extra=0):
    """(indices, distances) with the node itself first, as UMAP has them."""
    nodes = np.arange(own.n)[:, None]
    return np.concatenate([nodes, own.indices], axis=1), np.concatenate([np.zeros((own.n, 1)), own.distances], axis=1)


def test_our_own(X, own):
    assert same(given_neighbors(X, own, K), own)
    assert given_neighbors(X, own, 9).k == 9


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_pairs_of_arrays_with_and_without_the_node_itself(X, own, dtype):
    indices, distances = with_self(own)
    assert same(given_neighbors(X, (indices.astype(dtype), distances.astype(np.float32)), K), own)
    assert same(given_neighbors(X, (own.indices, own.distances), K), own)
    assert same(given_neighbors(X, [own.indices, own.distances], K), own)


def test_squared_distances_as_faiss_gives_them(X, own):
    assert same(given_neighbors(X, (own.indices, own.distances**2), K), own)


def test_cosine_distances_as_pynndescent_gives_them(X):
    unit = normalize(X)
    own = asbc.search_neighbors(unit, K)
    assert same(given_neighbors(unit, (own.indices, own.distances**2 / 2), K, "cosine"), own)
    with pytest.raises(ValueError, match="its distances are not those between the rows of X"):
        given_neighbors(unit, (own.indices, own.distances**2 / 2), K)


def test_rows_in_any_order_and_with_repeated_ids(X, own):
    rng = np.random.default_rng(0)
    order = rng.permuted(np.tile(np.arange(K), (len(X), 1)), axis=1)
    shuffled = np.take_along_axis(own.indices, order, axis=1), np.take_along_axis(own.distances, order, axis=1)
    assert same(given_neighbors(X, shuffled, K), own)
    again = tuple(np.concatenate([part, part[:, :3]], axis=1) for part in (own.indices, own.distances))
    assert same(given_neighbors(X, again, K), own)


def test_missing_neighbours_are_told_by_row(X, own):
    indices, distances = own.indices.copy(), own.distances.copy()
    indices[7, -2:], distances[7, -2:] = -1, np.inf
    with pytest.raises(ValueError, match=r"at least k_cand=12 for every node; row 7 has 10"):
        given_neighbors(X, (indices, distances), K)
    assert given_neighbors(X, (indices, distances), 10).k == 10


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_array])
def test_scikit_learns_transformer(X, own, kind):
    matrix = KNeighborsTransformer(mode="distance", n_neighbors=K).fit_transform(X)
    found = given_neighbors(X, kind(matrix), K)
    # Among equal distances scikit-learn may have kept another of them.
    assert (found.distances == own.distances).all()
    builder = asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X, neighbors=matrix)
    assert builder.neighbors_.k == K


def test_a_graph_on_given_neighbours_has_the_same_bits(X, own):
    for given in (own, with_self(own), own.to_distances(), own.to_distances(include_self=True)):
        graph = asbc.GraphBuilder(k_cand=K, metric="euclidean").fit_transform(X, neighbors=given)
        assert (graph != asbc.GraphBuilder(k_cand=K, metric="euclidean").fit_transform(X)).nnz == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda i, d: (i + 1000, d), ValueError, "must refer to the 300 rows of X; row 0 refers to"),
        (lambda i, d: (i, -d - 1), ValueError, "finite and at least 0; row 0 has -"),
        (lambda i, d: (i, np.where(d > d.max() * 0.9, np.nan, d)), ValueError, "finite and at least 0; row"),
        (lambda i, d: (i[:, ::-1].astype(float), d), TypeError, "whole numbers as indices; got dtype float64"),
        (lambda i, d: (i[:100], d[:100]), ValueError, r"one shape \(300, m\).*got \(100, 12\)"),
        (lambda i, d: (i, d[:, :5]), ValueError, r"got \(300, 12\) and \(300, 5\)"),
        (lambda i, d: (i[:, :5], d[:, :5]), ValueError, "at least k_cand=12 for every node; row 0 has 5"),
        (lambda i, d: (i, d * 3), ValueError, "its distances are not those between the rows of X"),
        (lambda i, d: sparse.csr_array((5, 5)), ValueError, r"shape \(300, 300\).*got \(5, 5\)"),
        (lambda i, d: 3, TypeError, r"asbc.Neighbors, a pair \(indices, distances\) or a sparse matrix.*got int"),
    ],
)
def test_bad_neighbours(X, own, change, error, message):
    with pytest.raises(error, match=message):
        asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X, neighbors=change(own.indices, own.distances))


def test_neighbours_of_another_set(X, own):
    other = np.random.default_rng(9).normal(size=X.shape)
    for given in (own, (own.indices, own.distances)):
        with pytest.raises(ValueError, match="neighbors does not match X"):
            asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(other, neighbors=given)


def test_a_damaged_object_is_mended_or_refused(X, own):
    row = np.arange(150, 151)  # none of those that a sample of nodes would show
    wanted = asbc.GraphBuilder(k_cand=K - 1, metric="euclidean").fit(X, neighbors=own).neighbors_
    with_self_loop = own.indices.copy(), own.distances.copy()
    with_self_loop[0][row] = np.r_[row, own.indices[150, :-1]]
    with_self_loop[1][row] = np.r_[0.0, own.distances[150, :-1]]
    twice = own.indices.copy(), own.distances.copy()
    for array in twice:
        array[row, -1] = array[row, -2]
    shifted = own.indices, own.distances + np.where(np.arange(300) == 150, 1e-3, 0.0)[:, None]
    for damaged in (with_self_loop, twice, shifted):
        found = (
            asbc.GraphBuilder(k_cand=K - 1, metric="euclidean").fit(X, neighbors=asbc.Neighbors(*damaged)).neighbors_
        )
        np.testing.assert_array_equal(found.indices, wanted.indices)
        np.testing.assert_array_equal(found.distances, wanted.distances)
    with pytest.raises(
        ValueError, match=f"at least k_cand={K} for every node; row 150 has {K - 1}, excluding the node itself"
    ):
        asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X, neighbors=asbc.Neighbors(*with_self_loop))
    for value, message in ((np.nan, "finite and at least 0; row 150"), (-1.0, "row 150 has -1")):
        distances = own.distances.copy()
        distances[150, 0] = value
        with pytest.raises(ValueError, match=message):
            asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X, neighbors=asbc.Neighbors(own.indices, distances))
    for indices, message in (
        (own.indices + 1, r"must refer to the 300 rows of X; row \d+ refers to 300"),
        (own.indices - 1, "neighbors does not match X"),
    ):
        with pytest.raises(ValueError, match=message):
            asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X, neighbors=asbc.Neighbors(indices, own.distances))


def test_to_distances_keeps_zeros_and_order(X, own):
    matrix = own.to_distances(include_self=True)
    assert matrix.nnz == (K + 1) * len(X) and (np.diff(matrix.indptr) == K + 1).all()
    assert (np.diff(matrix.data.reshape(len(X), -1), axis=1) >= 0).all()
    model = NearestNeighbors(metric="precomputed", n_neighbors=K).fit(matrix)
    distances, _ = model.kneighbors()
    np.testing.assert_allclose(distances, own.distances)
    without = own.to_distances()
    assert without.nnz == K * len(X) and without.diagonal().sum() == 0


def test_queries_have_no_row_of_their_own(X):
    found = asbc.search_neighbors(X, 5, queries=X[:4] + 1)
    assert found.to_distances(n_columns=len(X)).shape == (4, len(X))
    with pytest.raises(ValueError, match="include_self=True needs nodes that are rows of X"):
        found.to_distances(include_self=True, n_columns=len(X))


def test_rounding_below_zero_is_no_negative_distance():
    X = np.repeat(asbc.normalize(np.random.default_rng(0).normal(size=(40, 6))), 2, axis=0)  # every row twice
    exact = asbc.search_neighbors(X, 12)
    given = exact.distances**2 / 2
    given[:, 0] = -1.2e-7  # what single precision makes of 1 - cos of two equal rows
    builder = asbc.GraphBuilder(k_cand=12, metric="cosine").fit(X, neighbors=(exact.indices, given))
    assert np.array_equal(builder.neighbors_.indices, exact.indices)
    given[3, 2] = -0.01
    with pytest.raises(ValueError, match=r"at least 0; row 3 has -0\.01"):
        builder.fit(X, neighbors=(exact.indices, given))


@pytest.mark.parametrize("shape", [(40, 9), (40, 40), (40,)])
def test_one_array_is_not_a_pair(shape):
    X = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(TypeError, match=r"a pair \(indices, distances\) .*; got ndarray of shape"):
        asbc.GraphBuilder(k_cand=8).fit(X, neighbors=np.zeros(shape))


@pytest.mark.parametrize(
    "given", [(np.zeros((40, 9)), np.zeros((40, 9)), np.zeros(3)), ([[1, 2], [3]], [[0.1], [0.2]])]
)
def test_what_is_no_pair_of_tables_is_refused(given):
    X = np.random.default_rng(0).normal(size=(40, 4))
    with pytest.raises(TypeError, match=r"a pair \(indices, distances\) .*; got tuple\."):
        asbc.GraphBuilder(k_cand=8).fit(X, neighbors=given)
