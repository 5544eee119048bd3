import numpy as np
import pytest
from sklearn.datasets import load_digits

import asbc
from asbc.dimension import Dimension
from asbc.evaluate.sample import Method, Sample


def make_sample(calls, n=200):
    X, y = load_digits(return_X_y=True)

    def search(X):
        calls.append("search")
        return asbc.search_neighbors(X, 15)

    return Sample(asbc.normalize(X[:n].astype(np.float32)), y[:n], search=search, seed=3)


def test_shared_steps_are_done_once_and_equal_the_builder():
    calls = []
    sample = make_sample(calls)
    rule = asbc.SpectralBandwidth()
    for weights in ("gaussian", "nnk"):
        for sharpen in (False, True):
            method = Method(weights, asbc.SpectralBandwidth(), sharpen)  # equal, not the same object
            graph = sample.graph(method)
            builder = asbc.GraphBuilder(weights, rule, sharpen, k_cand=15, random_state=sample.seed, metric="euclidean")
            expected = builder.fit_transform(sample.X)
            np.testing.assert_allclose(graph.toarray(), expected.toarray(), atol=1e-12)
            np.testing.assert_array_equal(sample.choice(rule).sigma, builder.bandwidth_.sigma)
    assert calls == ["search"]
    assert len([key for key in sample.own if key[0] == "bandwidth"]) == 1


def test_seconds_of_a_method_include_what_it_shares():
    sample = make_sample([])
    plain, sharp = (Method("nnk", asbc.SpectralBandwidth(), s) for s in (False, True))
    sample.weights(plain)
    sample.weights(sharp)
    assert sample.seconds(sharp) > sample.seconds(plain) > sample.common["neighbors"][1] > 0
    assert sample.seconds(plain) < sum(
        seconds for cache in (sample.own, sample.common) for _, seconds in cache.values()
    )
    before = sample.seconds(plain, graph=True)
    sample.graph(plain)
    assert sample.seconds(plain, graph=True) > before


def test_nested_steps_are_not_counted_twice(monkeypatch):
    now = [0.0]

    def work(seconds):
        now[0] += seconds

    monkeypatch.setattr("asbc.evaluate.sample.time.perf_counter", lambda: now[0])
    sample = make_sample([])

    def outer():
        work(1.0)
        sample.once("inner", lambda: work(5.0))
        work(2.0)

    sample.once("outer", outer)
    assert {key: seconds for key, (_, seconds) in sample.own.items()} == {"outer": 3.0, "inner": 5.0}


def test_dimensions_and_targets():
    sample = make_sample([])
    rule = asbc.SpectralBandwidth()
    levina = Dimension("levina_bickel")
    np.testing.assert_array_equal(sample.dimension(levina), asbc.levina_bickel(sample.neighbors, k=10))
    np.testing.assert_array_equal(sample.dimension(Dimension("two_nn")), asbc.two_nn(sample.neighbors))
    assert (sample.choice(rule).sigma != sample.choice(rule, levina).sigma).any()


def test_bad_methods_name_the_valid_ones():
    with pytest.raises(ValueError, match="'mst', 'levina_bickel' or 'two_nn'; got 'pca'"):
        Dimension("pca")
    with pytest.raises(
        ValueError, match=r"weights must be 'blend', 'gaussian', 'nnk', 'uniform', or a rule; got 'umap'"
    ):
        Method("umap")
    with pytest.raises(ValueError, match="bandwidth is needed"):
        Method("nnk")
    with pytest.raises(ValueError, match="bandwidth is needed"):
        Method("uniform", sharpen=True)


def test_what_needs_no_seed_is_told_from_what_does():
    sample = make_sample([])
    spectral, self_tuning = Method("nnk", asbc.SpectralBandwidth()), Method("nnk", asbc.SelfTuning())
    for method in (spectral, self_tuning, Method("uniform"), Method(asbc.uniform_weights)):
        sample.graph(method)
    sample.dimension(Dimension("two_nn"))
    kinds = [{key[0] for key in kept if isinstance(key, tuple)} for kept in (sample.own, sample.common)]
    assert kinds == [{"dimension", "bandwidth", "weights", "graph"}, {"dimension", "weights", "graph"}]
    assert ("graph", spectral.key, False) in sample.own
    assert ("graph", self_tuning.key, False) in sample.common
    assert ("graph", Method("uniform").key, False) in sample.common
    assert ("graph", Method(asbc.uniform_weights).key, False) in sample.own  # it may draw at random
    assert ("dimension", Dimension("two_nn")) in sample.common
    other = make_sample([])
    other.seed, other.common = 4, sample.common
    for method in (spectral, self_tuning):
        alone = make_sample([])
        alone.seed = 4
        assert (other.graph(method) != alone.graph(method)).nnz == 0
    assert other.graph(self_tuning) is sample.graph(self_tuning)
    assert (other.graph(spectral) != sample.graph(spectral)).nnz > 0


def test_scale_of_nodes_among_duplicates():
    """A node with as many copies as are asked for takes the next distance; one among copies alone, the others' mean."""

    def sample_of(X):
        return Sample(X, np.zeros(len(X), int), search=lambda X: asbc.search_neighbors(X, 4))

    X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [3.0], *[[50.0]] * 6])
    scale = sample_of(X).kth_distance(3)
    assert scale[:6].tolist() == [1, 1, 1, 1, 1, 3]
    assert scale[6:] == pytest.approx(np.mean([1, 1, 1, 1, 1, 3]))
    with pytest.raises(ValueError, match="all nodes coincide with all their neighbours"):
        sample_of(np.zeros((8, 1))).kth_distance(3)
    with pytest.raises(ValueError, match="between 1 and 4, the number of neighbours; got 5"):
        sample_of(X).kth_distance(5)
