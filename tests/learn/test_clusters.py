import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import asbc
from asbc.learn import clusters as module

pytest.importorskip("graspologic_native")


@pytest.fixture(scope="module")
def blobs():
    """Eight tight clouds around the corners of a cube, in two groups of four."""
    rng = np.random.default_rng(0)
    corners = np.array([[x, y, z] for x in (1, 6) for y in (1, 2.5) for z in (1, 2.5)], float)
    X = np.concatenate([corner + rng.normal(0, 0.12, (60, 3)) for corner in corners])
    return X, np.repeat(np.arange(8), 60)


@pytest.fixture(scope="module")
def fitted(blobs):
    return asbc.GraphClusters(metric="euclidean").fit(blobs[0])


def test_the_recommended_level_finds_the_clouds(blobs, fitted):
    assert adjusted_rand_score(blobs[1], fitted.labels_) > 0.95
    assert fitted.n_clusters_ == fitted.labels_.max() + 1 == len(fitted.stability_)
    assert fitted.n_noise_ == 0
    assert (fitted.stability_ > 0.8).all() and fitted.confidence_.mean() > 0.9


def test_levels_are_nested_and_ordered(fitted):
    counts = [level.max() + 1 for level in fitted.levels_]
    assert counts == sorted(counts) and 1 <= len(counts) <= 4
    np.testing.assert_array_equal(fitted.levels_[fitted.level_], fitted.labels_)
    for coarse, fine in zip(fitted.levels_, fitted.levels_[1:], strict=False):
        for cluster in range(fine.max() + 1):
            assert len(set(coarse[fine == cluster])) == 1


def test_clusters_are_numbered_by_size(fitted):
    for level in fitted.levels_:
        sizes = np.bincount(level)
        assert (np.diff(sizes) <= 0).all() and sizes.min() > 0


@pytest.mark.parametrize("count", [1, 2, 5, 8, 20])
def test_the_number_of_clusters_is_the_one_asked_for(blobs, count):
    found = asbc.GraphClusters(count, metric="euclidean").fit(blobs[0])
    assert found.n_clusters_ == count == len(set(found.labels_))
    assert len(found.levels_) == 1


def test_one_seed_gives_one_answer_also_with_copies(blobs):
    X = np.concatenate([blobs[0], blobs[0][:50], blobs[0][:1].repeat(40, axis=0)])
    first, second = (asbc.GraphClusters(metric="euclidean", random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.confidence_, second.confidence_)


def test_new_points_join_the_cluster_around_them(blobs, fitted):
    X, _ = blobs
    rng = np.random.default_rng(1)
    rows = rng.permutation(len(X))[:100]
    near = X[rows] + rng.normal(0, 0.02, (100, 3))
    assert (fitted.predict(near) == fitted.labels_[rows]).mean() > 0.97


def test_noise_is_marked_only_where_asked_for_and_counted():
    X = np.random.default_rng(0).normal(size=(300, 8))  # one cloud without structure
    plain = asbc.GraphClusters(6).fit(X)
    marked = asbc.GraphClusters(6, noise=True).fit(X)
    assert plain.n_noise_ == 0 and (plain.labels_ >= 0).all()
    assert marked.n_noise_ == (marked.labels_ == -1).sum() == (marked.confidence_ < 0.5).sum() > 0
    np.testing.assert_array_equal(marked.labels_[marked.labels_ >= 0], plain.labels_[marked.labels_ >= 0])


def test_a_graph_is_clustered_as_its_vectors_are(blobs, fitted, tmp_path):
    graph = asbc.GraphBuilder("gaussian", "perplexity", metric="euclidean").fit_transform(blobs[0])
    same = asbc.GraphClusters(graph=graph).fit()
    np.testing.assert_array_equal(same.labels_, fitted.labels_)
    with pytest.raises(ValueError, match="predict needs vectors"):
        same.predict(blobs[0])
    np.save(tmp_path / "vectors.npy", blobs[0])
    builder = asbc.GraphBuilder("gaussian", "perplexity", metric="euclidean")
    asbc.build_graph(tmp_path / "vectors.npy", tmp_path / "graph", builder)
    np.testing.assert_array_equal(asbc.GraphClusters(graph=tmp_path / "graph").fit().labels_, fitted.labels_)


def test_pieces_and_nodes_without_edges_are_clusters_of_their_own():
    pieces = sparse.csr_array(sparse.block_diag([1 - np.eye(5), 1 - np.eye(4), np.zeros((2, 2))]))
    found = asbc.GraphClusters(graph=pieces).fit()
    assert found.labels_.tolist() == [0] * 5 + [1] * 4 + [2, 3]
    assert asbc.GraphClusters(2, graph=pieces).fit().n_clusters_ == 2
    assert asbc.GraphClusters(graph=sparse.csr_array((4, 4))).fit().labels_.tolist() == [0, 1, 2, 3]


def test_loops_count_as_weight_within_a_cluster():
    rng = np.random.default_rng(0)
    graph = sparse.random_array((40, 40), density=0.2, random_state=rng)
    graph = sparse.csr_array(graph + graph.T)
    graph.setdiag(0)
    graph.eliminate_zeros()
    loops = sparse.csr_array(graph + sparse.diags_array(rng.uniform(1, 9, 40)))
    plain = module._without_loops(loops)
    assert plain.diagonal().max() == 0 and plain.sum() == pytest.approx(loops.sum())
    halves = np.repeat([0, 1], 20)
    both = np.concatenate([halves, halves])
    np.testing.assert_allclose(module._merged(plain, both).toarray(), module._merged(loops, halves).toarray())


def test_merging_takes_the_pair_with_the_best_modularity():
    rng = np.random.default_rng(1)
    graph = sparse.csr_array(np.triu(rng.uniform(size=(24, 24)) ** 3, 1))
    graph = sparse.csr_array(graph + graph.T)
    labels, resolution = np.repeat(np.arange(6), 4), 1.3

    def modularity(labels):
        between = module._merged(graph, labels).toarray()
        return np.trace(between) - resolution * (between.sum(axis=1) ** 2).sum() / between.sum()

    merged = module._merge_down(graph, module._Partition(resolution, labels, np.nan), 5)
    pairs = [np.where(labels == b, a, labels) for a in range(6) for b in range(a + 1, 6)]
    best = max(modularity(module.by_size(pair)) for pair in pairs)
    assert merged.max() == 4 and modularity(merged) == pytest.approx(best)


def test_finer_levels_divide_clusters_that_are_strongly_linked_to_others():
    X = np.random.default_rng(0).normal(size=(400, 5))  # most edges run between clusters
    graph = asbc.GraphBuilder("gaussian", "perplexity").fit_transform(X)
    coarse, fine = (module._Partition(r, module.leiden(graph, r, 0), np.nan) for r in (0.5, 4.0))
    nested = module._nested(graph, [coarse, fine], 0, 0)
    np.testing.assert_array_equal(nested[0].labels, coarse.labels)
    assert nested[1].count >= 0.8 * fine.count


def test_a_large_graph_is_clustered_by_groups(blobs, fitted, monkeypatch):
    monkeypatch.setattr(module, "MAX_NODES", 300)
    graph = asbc.GraphBuilder("gaussian", "perplexity", metric="euclidean").fit(blobs[0]).graph_
    groups, between = module._groups(graph, 300)
    member = np.eye(groups.max() + 1)[groups]
    assert 8 < between.shape[0] <= 300
    np.testing.assert_allclose(between.toarray(), member.T @ graph @ member, atol=1e-12)
    grouped = asbc.GraphClusters(metric="euclidean").fit(blobs[0])
    assert adjusted_rand_score(grouped.labels_, fitted.labels_) > 0.9
    assert asbc.GraphClusters(400, metric="euclidean").fit(blobs[0]).n_clusters_ == 400


def test_agreement_follows_its_definition():
    labels, other = np.array([0, 0, 0, 1, 1]), np.array([1, 1, 0, 0, 0])
    jaccard, kept = module._agreement(labels, [other, labels], np.ones(5))
    np.testing.assert_allclose(jaccard, [(2 / 3 + 1) / 2, (2 / 3 + 1) / 2])
    np.testing.assert_allclose(kept, [1, 1, 0.5, 1, 1])


def test_bad_arguments_are_named(blobs):
    X = blobs[0][:40]
    with pytest.raises(ValueError, match="n_clusters must be at most the number of nodes, 40; got 41"):
        asbc.GraphClusters(41).fit(X)
    with pytest.raises(ValueError, match="n_clusters"):
        asbc.GraphClusters(0).fit(X)
    with pytest.raises((TypeError, ValueError), match="noise"):
        asbc.GraphClusters(noise="yes").fit(X)
    with pytest.raises(ValueError, match="both given"):
        asbc.GraphClusters(builder=asbc.GraphBuilder(), graph=sparse.csr_array((3, 3))).fit()


def test_it_is_a_scikit_learn_clusterer(blobs):
    estimator = asbc.GraphClusters(3, metric="euclidean")
    assert clone(estimator).get_params() == estimator.get_params()
    np.testing.assert_array_equal(estimator.fit_predict(blobs[0]), estimator.labels_)
