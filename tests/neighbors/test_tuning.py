"""A recall that is asked for is reached, and exact search takes over where lists would cost more."""

import numba
import numpy as np
import pytest

import asbc
from asbc.neighbors import search
from asbc.neighbors.exact import search_exactly
from asbc.neighbors.lists import InvertedLists, nearest_lists, train_centroids, tune_probes
from asbc.neighbors.search import build_index, find_rows


def clusters(n=4000, d=16, spread=0.6, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(40, d))
    return (centers[rng.integers(0, 40, n)] + spread * rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("recall", [0.9, 0.95, 0.98, 0.99])
@pytest.mark.parametrize("spread", [0.2, 1.0], ids=["apart", "overlapping"])
@pytest.mark.usefixtures("lists_always")
def test_the_recall_asked_for_is_reached(recall, spread):
    found = asbc.search_neighbors(clusters(spread=spread), 15, search="ivf", recall=recall)
    assert found.recall is not None and found.recall > recall - 0.01


def test_chance_in_the_sample_is_allowed_for():
    """Targets just above what some number of lists finds: chance alone would take too few lists for about half."""
    X = clusters(spread=1.0)
    centroids = train_centroids(X, 64, 0)
    order = nearest_lists(centroids, X, 64)
    holder = order[search_exactly(X, 15).indices, 0]
    needed = np.argmax(order[:, None, :] == holder[:, :, None], axis=2)
    reached = np.array([(needed < n_probe).mean() for n_probe in range(65)])
    targets = [(target, seed) for target in reached[4:24:4] + 0.001 for seed in range(4)]
    missed = [reached[tune_probes(X, centroids, 15, target, seed)[0]] < target for target, seed in targets]
    assert np.mean(missed) < 0.1


def test_the_expected_recall_is_what_a_search_finds():
    X = clusters()
    centroids = train_centroids(X, 64, 0)
    enough, _ = tune_probes(X, centroids, 15, 0.9, seed=0)
    assert 1 < enough < 64
    exact = search_exactly(X, 15)
    for n_probe, wanted in ((enough, True), (max(1, enough // 3), False)):
        index = InvertedLists.build(X, centroids, n_probe)
        share = (find_rows(X, np.arange(len(X)), index, 15)[1] <= exact.distances[:, -1:]).mean()
        assert (share > 0.89) == wanted


def test_noise_is_searched_exactly():
    X = np.random.default_rng(0).uniform(size=(3000, 48)).astype(np.float32)
    index, decision = build_index(X, 15, "ivf", {}, 0.98)
    assert index is None and decision.search == "exact"
    found = asbc.search_neighbors(X, 15, search="ivf")
    assert (found.indices == asbc.search_neighbors(X, 15).indices).all()


def test_threads_do_not_change_the_decision():
    X = clusters(12_000, 256)
    before = numba.get_num_threads()
    decisions = []
    try:
        for threads in (1, before):
            numba.set_num_threads(threads)
            decisions.append([build_index(X, 15, "ivf", {}, recall)[1] for recall in (0.9, 0.99)])
    finally:
        numba.set_num_threads(before)
    assert decisions[0] == decisions[1]


def test_auto_is_exact_for_few_rows_and_lists_above(monkeypatch):
    X = clusters(12_000, 256, spread=0.2)
    assert build_index(X, 15, "auto", {})[0] is None
    monkeypatch.setattr(search, "MAX_EXACT_ROWS", 1000)
    index, decision = build_index(X, 15, "auto", {})
    assert isinstance(index, InvertedLists) and decision.target == 0.98
    assert asbc.search_neighbors(X, 15, search="auto").recall is not None
    # Few queries are compared with every row.
    found = asbc.search_neighbors(X, 15, queries=X[:100], search="auto")
    assert found.recall is None
    assert np.array_equal(found.indices, asbc.search_neighbors(X, 15, queries=X[:100]).indices)


def test_lists_that_would_scan_many_rows_are_replaced_by_exact_search(monkeypatch):
    X = clusters(spread=1.0)
    centroids = train_centroids(X, 64, 0)
    n_probe, share = tune_probes(X, centroids, 15, 0.9, seed=0)
    index = InvertedLists.build(X, centroids, n_probe)
    scanned = np.diff(index.starts)[index.probes].sum(axis=1).mean() / len(X)
    assert share == pytest.approx(scanned, rel=0.1)
    for limit, wanted in ((share * 1.01, "ivf"), (share * 0.99, "exact")):
        monkeypatch.setattr(search, "MAX_SCANNED_SHARE", limit)
        assert build_index(X, 15, "ivf", {"n_lists": 64}, 0.9)[1].search == wanted


def test_a_given_number_of_probes_is_taken_as_it_is():
    decision = build_index(clusters(), 15, "ivf", {"n_lists": 20, "n_probe": 2})[1]
    assert decision.options == {"n_lists": 20, "n_probe": 2} and decision.target is None


def test_a_small_world_graph_is_searched_as_wide_as_it_takes():
    pytest.importorskip("faiss")
    X = clusters(spread=1.0)
    found = asbc.search_neighbors(X, 15, search="hnsw", recall=0.99)
    assert found.recall is not None and found.recall > 0.98


def test_what_is_not_reached_is_told():
    pytest.importorskip("faiss")
    X = np.random.default_rng(0).uniform(size=(3000, 64)).astype(np.float32)
    with pytest.warns(asbc.LowRecallWarning, match=r"recall is 0\.\d+, measured on"):
        asbc.search_neighbors(X, 15, search="ivf", n_lists=50, n_probe=1)


@pytest.mark.parametrize("recall", [0, -1, 1.5, "all", None, True])
def test_bad_recall(recall):
    with pytest.raises(ValueError, match="recall must be a number above 0 and at most 1; got"):
        asbc.GraphBuilder(recall=recall).fit(clusters(200))
