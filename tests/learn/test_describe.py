"""The description: every figure against a slow count of its own, from vectors, a builder and a folder."""

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import pdist, squareform
from scipy.stats import binomtest, skew
from sklearn.base import clone

import asbc
from asbc.kernels.mst import shuffle
from asbc.learn.describe import N_SUBSETS, global_dimension, global_rank
from asbc.learn.issues import wilson_interval
from asbc.outofcore.driver import build_graph


@pytest.fixture(scope="module")
def data():
    """Two far clouds of 150, one far-off point at the edge of the first, and a copy."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (150, 6)), rng.normal(30, 1, (150, 6))])
    X[5] = 8.0
    X[20] = X[10]
    return X, np.repeat(["cat", "dog"], 150)


@pytest.fixture(scope="module")
def builder(data):
    return asbc.GraphBuilder(k_cand=20, metric="euclidean").fit(data[0])


def test_figures(data, builder):
    X, y = data
    found = asbc.describe(builder, y)
    neighbors = builder.neighbors_
    assert (found.n, found.d, found.k) == (300, 6, 20)
    np.testing.assert_array_equal(found.dimension, builder.dimension_)
    np.testing.assert_allclose(found.dimension_quartiles, np.quantile(builder.dimension_, [0.25, 0.5, 0.75]))
    assert (found.global_dimension, found.global_interval) == global_dimension(X)
    assert (found.at_smallest, found.at_largest) == ((builder.dimension_ == 1).sum(), (builder.dimension_ == 200).sum())
    occurrence = np.array([(neighbors.indices == i).sum() for i in range(300)])
    np.testing.assert_array_equal(found.occurrence, occurrence)
    assert found.hubness == pytest.approx(skew(occurrence))
    assert found.antihubs == (occurrence == 0).mean()
    assert occurrence[found.hubs[0]] == occurrence.max() and len(found.hubs) == 10
    count, member = connected_components(builder.graph_, directed=False)
    assert found.components == count == 2
    assert ((found.component[:, None] == found.component) == (member[:, None] == member)).all()
    values = np.linalg.svd(X, compute_uv=False)
    shares = values / values.sum()
    assert found.effective_rank == pytest.approx(np.exp(-(shares * np.log(shares)).sum()))
    scale = neighbors.distances[:, -1]
    np.testing.assert_allclose(
        found.outlier_score, [scale[i] / np.median(scale[neighbors.indices[i]]) for i in range(300)]
    )
    assert found.outliers[0] == 5 and (found.outlier_score[found.outliers] > found.outlier_threshold).all()
    assert any({10, 20} <= set(group.tolist()) for group in found.duplicates.groups)
    assert found.loo_accuracy == asbc.NeighborVote(clone(builder)).fit(X, y).loo_score_
    assert found.loo_interval[0] < found.loo_accuracy <= found.loo_interval[1] <= 1
    assert (found.n_labeled, found.n_classes) == (300, 2)


def test_vectors_a_builder_and_a_folder_say_the_same(data, tmp_path, monkeypatch):
    X, y = data
    np.save(tmp_path / "x.npy", X)
    build_graph(tmp_path / "x.npy", tmp_path / "built", asbc.GraphBuilder(), search="exact", block=70)
    wanted = asbc.describe(asbc.GraphBuilder().fit(X), y)
    assert repr(asbc.describe(X, y, metric=asbc.GraphBuilder().metric)) == repr(wanted)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = asbc.describe(tmp_path / "built", y, vectors=mapped)
    assert repr(found) == repr(wanted)
    np.testing.assert_array_equal(found.outlier_score, wanted.outlier_score)
    bare = asbc.describe(tmp_path / "built")
    assert bare.d is None and bare.effective_rank is None and bare.loo_accuracy is None
    assert bare.global_dimension is None and "global" not in repr(bare)
    assert "effective rank" not in repr(bare) and "vote" not in repr(bare)
    with pytest.raises(ValueError, match=r"vectors must have one row per node, shape \(300, d\); got shape \(10"):
        asbc.describe(tmp_path / "built", vectors=X[:10])


def test_report_in_text(data, builder):
    text = repr(asbc.describe(builder, data[1]))
    for name in ("vectors", "dimension", "effective rank", "hubness", "components", "duplicates", "outliers"):
        assert f"{name}:" in text
    assert ("100.0% right" in text or "99." in text) and len(text.splitlines()) == 8


def test_unlabelled_nodes_do_not_count(data, builder):
    labels = data[1].copy()
    labels[::3] = ""
    found = asbc.describe(builder, labels)
    assert found.n_labeled == 200
    with pytest.raises(ValueError, match="labels must be one label per node"):
        asbc.describe(builder, labels[1:])
    with pytest.raises(ValueError, match="all 300 entries are unlabelled"):
        asbc.describe(builder, [None] * 300)


def test_uniform_weights_have_no_dimension_of_their_own(data):
    builder = asbc.GraphBuilder("uniform", k_cand=20).fit(data[0])
    np.testing.assert_array_equal(asbc.describe(builder).dimension, asbc.levina_bickel(builder.neighbors_, 10))


def test_wilson_interval():
    for right, of in ((0, 10), (10, 10), (7, 10), (955, 1000)):
        wanted = binomtest(right, of).proportion_ci(0.95, method="wilson")
        np.testing.assert_allclose(wilson_interval(right, of), [wanted.low, wanted.high], atol=1e-12)


def test_global_rank():
    X = np.random.default_rng(0).normal(size=(500, 7))
    assert global_rank(X) == pytest.approx(7, abs=0.1)
    assert global_rank(np.outer(np.arange(1, 9), np.ones(4))) == pytest.approx(1)
    assert global_rank(np.zeros((5, 3))) == 0
    assert global_rank(X, sample=200) == pytest.approx(global_rank(X), rel=0.05)
    assert global_rank(X, sample=200) == global_rank(X, sample=200)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_global_dimension_of_uniform_data(d):
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(8, d)))[0].T
    X = np.random.default_rng(d).uniform(size=(2000, d)) @ turned
    value, (low, high) = global_dimension(X)
    assert 0.85 * d < value < 1.1 * d and low <= value <= high < 1.25 * d and high > 0.9 * d
    assert global_dimension(X) == (value, (low, high))


def test_global_dimension_follows_its_definition():
    X = np.random.default_rng(0).normal(size=(40, 3))
    sizes = np.unique(np.geomspace(3, 20, 6).round().astype(int))
    slopes = []
    for repetition in range(N_SUBSETS):
        order = np.empty(40, np.int64)
        shuffle(0, 0, repetition, order)
        trees = [minimum_spanning_tree(squareform(pdist(X[order[:size]]))).sum() / (size - 1) for size in sizes]
        slopes.append(np.polyfit(np.log(sizes - 1), np.log(trees), 1)[0])
    value, (low, high) = global_dimension(X)
    assert value == pytest.approx(-1 / np.mean(slopes))
    ends = np.mean(slopes) + 1.96 * np.std(slopes, ddof=1) * np.array([-1, 1])
    np.testing.assert_allclose([low, high], np.clip(-1 / np.minimum(ends, -1e-9), 1, 200))


def test_global_dimension_of_copies_and_of_few_rows():
    assert global_dimension(np.ones((50, 3))) == (1.0, (1.0, 1.0))
    with pytest.raises(ValueError, match="X must have at least 8 rows for a global dimension; got 5"):
        global_dimension(np.ones((5, 3)))


def test_copies_only_are_no_outliers():
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[:30] = 0.0
    with pytest.warns(asbc.ConstantNeighborhoodWarning):
        builder = asbc.GraphBuilder(k_cand=10, metric="euclidean").fit(X)
    found = asbc.describe(builder)
    assert (found.outlier_score[:30] == 1).all() and np.isfinite(found.outlier_threshold)


def test_bad_sources():
    with pytest.raises(TypeError, match="source must be a dense array; got None"):
        asbc.describe(None)
    with pytest.raises(ValueError, match="k_cand=8 neighbours need more than 8 nodes"):
        asbc.describe(np.ones((4, 2)))
