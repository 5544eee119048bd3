"""Neighbours as they are passed on: parts of them, and whether they belong to X."""

import numpy as np
import pytest

import asbc


def test_head_and_rows(geometry):
    X, neighbors, dimension = geometry
    assert np.array_equal(neighbors.head(12).indices, asbc.search_neighbors(X, 12).indices)
    part = neighbors.rows(20, 50)
    assert part.first == 20
    assert np.array_equal(asbc.dim_mst(X, part), dimension[20:50])
    with pytest.raises(ValueError, match="k must be a whole number from 1 to 30, the number of neighbours"):
        neighbors.head(31)


def test_mismatched_neighbours(geometry):
    X, neighbors, _ = geometry
    with pytest.raises(ValueError, match="neighbors does not match X"):
        asbc.dim_mst(X[:100], neighbors)
    with pytest.raises(ValueError, match="neighbors does not match X: its distances are not those"):
        asbc.dim_mst(X[::-1], neighbors)
    with pytest.raises(ValueError, match="neighbors does not match X: it refers to row 238"):
        asbc.dim_mst(X[:238], asbc.Neighbors(np.zeros((4, 1), int), np.zeros((4, 1)), first=235))
    with pytest.raises(TypeError, match=r"neighbors must be asbc.Neighbors.*got ndarray"):
        asbc.dim_mst(X, neighbors.indices)
    with pytest.raises(ValueError, match=r"one 2-dimensional shape; got \(240, 30\) and \(240, 29\)"):
        asbc.dim_mst(X, asbc.Neighbors(neighbors.indices, neighbors.distances[:, 1:]))
    cosine = asbc.search_neighbors(X, 30, metric="cosine")
    with pytest.raises(ValueError, match=r"asbc.normalize\(X\)"):
        asbc.dim_mst(X, cosine)
    asbc.dim_mst(asbc.normalize(X), cosine)


def test_a_node_among_its_own_neighbors_is_refused_by_every_function():
    neighbors = asbc.Neighbors(np.array([[1], [1], [0]]), np.array([[1.0], [0.0], [3.0]]))
    for call in (neighbors.to_distances, lambda: asbc.levina_bickel(neighbors), lambda: neighbors.head(1)):
        with pytest.raises(ValueError, match=r"no node among its own neighbours .*; row 1 does not"):
            call()
    queries = asbc.Neighbors(neighbors.indices, neighbors.distances, first=None)
    assert queries.head(1).n == 3  # a query may have any number
