import numpy as np

from asbc.kernels.distances import neighborhood_distances
from asbc.kernels.mst import shuffle, tree_lengths
from tests import twins


def test_permutations_equal_the_twin():
    for seed, node, repetition, k in [(0, 0, 0, 30), (7, 12345, 4, 8), (2**31, 10**9, 2, 61)]:
        order = np.empty(k, np.int64)
        shuffle(seed, node, repetition, order)
        assert list(order) == twins.permutation(seed, node, repetition, k)
        assert sorted(order) == list(range(k))


def test_permutations_are_uniform():
    counts = np.zeros((5, 5))
    order = np.empty(5, np.int64)
    for node in range(20_000):
        shuffle(3, node, 1, order)
        counts[np.arange(5), order] += 1
    assert np.abs(counts / 20_000 - 0.2).max() < 0.015


def test_trees_equal_kruskal_also_with_duplicates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    X[10:20] = X[0]
    indices = rng.integers(0, 60, (40, 14))
    sizes = np.array([2, 5, 9, 14])
    out = tree_lengths(neighborhood_distances(X, indices), 14, sizes, 3, 5, np.arange(100, 140))
    for i in (0, 17, 39):
        D = np.sqrt(twins.squared_distances(X[indices[i]], X[indices[i]]))
        for repetition in range(3):
            order = twins.permutation(5, 100 + i, repetition, 14)
            for s, size in enumerate(sizes):
                part = order[:size]
                expected = twins.tree_length(D[np.ix_(part, part)]) / (size - 1)
                np.testing.assert_allclose(out[i, repetition, s], expected, rtol=1e-12)


def test_a_tree_does_not_depend_on_the_trees_beside_it():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, (50, 4)).astype(float)  # many equal distances
    pairs = neighborhood_distances(X, rng.integers(0, 50, (21, 12)))
    sizes, nodes = np.array([4, 7, 12]), np.arange(21)
    many = tree_lengths(pairs, 12, sizes, 11, 3, nodes)
    for n_rep in (1, 2, 5, 8):
        assert np.array_equal(tree_lengths(pairs, 12, sizes, n_rep, 3, nodes), many[:, :n_rep])
    for i in (0, 5, 20):
        assert np.array_equal(tree_lengths(pairs[i : i + 1], 12, sizes, 11, 3, nodes[i : i + 1]), many[i : i + 1])
