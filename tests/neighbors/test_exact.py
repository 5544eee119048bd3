import numpy as np
import pytest
from scipy import sparse

import asbc
from asbc.neighbors import exact as module
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


@pytest.mark.parametrize("size", [2**12, 2**16, 2**20])
def test_blocks_of_any_size_give_the_same_bits(monkeypatch, size):
    X = np.random.default_rng(0).normal(size=(1500, 20)).astype(np.float32)
    expected = asbc.search_neighbors(X, 12)
    monkeypatch.setattr(module, "STRIP_BYTES", size)
    found = asbc.search_neighbors(X, 12)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.distances, expected.distances)


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


def test_head_and_rows(geometry):
    X, neighbors, dimension = geometry
    assert np.array_equal(neighbors.head(12).indices, asbc.search_neighbors(X, 12).indices)
    part = neighbors.rows(20, 50)
    assert part.first == 20
    assert np.array_equal(asbc.dim_mst(X, part), dimension[20:50])
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 30, the neighbours there are"):
        neighbors.head(31)


@pytest.mark.parametrize(
    "X, error, message",
    [
        (np.r_[np.zeros((40, 3)), [[np.nan, 0, 0]]], ValueError, "X must be finite; row 40 holds NaN or infinity"),
        (np.r_[[[np.inf, 0, 0]], np.zeros((40, 3))], ValueError, "X must be finite; row 0"),
        (np.zeros(40), ValueError, r"X must be 2-dimensional.*got shape \(40,\)"),
        (np.zeros((40, 3), object), TypeError, "X must be a numeric array; got dtype object"),
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
    with pytest.raises(ValueError, match="metric must be 'euclidean' or 'cosine'; got 'l1'"):
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
    with pytest.raises(TypeError, match="X must be a dense array; got a sparse matrix"):
        asbc.search_neighbors(sparse.csr_array(X), 10)
    with pytest.raises(TypeError, match="X must be a dense array; got None"):
        asbc.search_neighbors(None, 10)


def test_mismatched_neighbours(geometry):
    X, neighbors, _ = geometry
    with pytest.raises(ValueError, match="neighbors does not match X"):
        asbc.dim_mst(X[:100], neighbors)
    with pytest.raises(ValueError, match="neighbors does not match X: its distances are not those"):
        asbc.dim_mst(X[::-1], neighbors)
    with pytest.raises(ValueError, match="neighbors does not match X: it goes up to node"):
        asbc.dim_mst(X, asbc.Neighbors(neighbors.indices, neighbors.distances, first=5))
    with pytest.raises(TypeError, match=r"neighbors must be asbc.Neighbors.*got ndarray"):
        asbc.dim_mst(X, neighbors.indices)
    with pytest.raises(ValueError, match=r"one 2-dimensional shape; got \(240, 30\) and \(240, 29\)"):
        asbc.dim_mst(X, asbc.Neighbors(neighbors.indices, neighbors.distances[:, 1:]))
    cosine = asbc.search_neighbors(X, 30, metric="cosine")
    with pytest.raises(ValueError, match=r"asbc.normalize\(X\)"):
        asbc.dim_mst(X, cosine)
    asbc.dim_mst(asbc.normalize(X), cosine)
