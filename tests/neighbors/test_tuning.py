"""A recall that is asked for is reached, and exact search takes over where lists would cost more."""

import numba
import numpy as np
import pytest

import asbc
from asbc.neighbors import outline, tuning
from asbc.neighbors.exact import search_exactly
from asbc.neighbors.lists import InvertedLists, nearest_lists, train_centroids
from asbc.neighbors.outline import Outlining
from asbc.neighbors.search import build_index, find_rows


def clusters(n=4000, d=16, spread=0.6, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(40, d))
    return (centers[rng.integers(0, 40, n)] + spread * rng.normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize("recall", [0.9, 0.95, 0.98, 0.99])
@pytest.mark.parametrize("spread", [0.2, 1.0], ids=["apart", "overlapping"])
@pytest.mark.usefixtures("lists_cost_nothing")
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
    missed = [reached[tuning.tune_probes(X, centroids, 15, target, seed).n_probe] < target for target, seed in targets]
    assert np.mean(missed) < 0.1


def test_the_expected_recall_is_what_a_search_finds():
    X = clusters()
    centroids = train_centroids(X, 64, 0)
    found = tuning.tune_probes(X, centroids, 15, 0.9, seed=0)
    assert 1 < found.n_probe < 64
    exact = search_exactly(X, 15)
    for n_probe, wanted in ((found.n_probe, True), (max(1, found.n_probe // 3), False)):
        index = InvertedLists.build(X, centroids, n_probe)
        share = (find_rows(X, np.arange(len(X)), index, 15)[1] <= exact.distances[:, -1:]).mean()
        assert (share > 0.89) == wanted


def test_noise_is_searched_exactly():
    X = np.random.default_rng(0).uniform(size=(3000, 48)).astype(np.float32)
    index, decision = build_index(X, 15, "ivf", {}, 0.98)
    assert index is None and decision.search == "exact"
    found = asbc.search_neighbors(X, 15, search="ivf")
    assert (found.indices == asbc.search_neighbors(X, 15).indices).all()


def test_no_lists_are_trained_where_they_are_hopeless():
    def centroids():
        raise AssertionError("lists are trained")

    X = np.random.default_rng(0).uniform(size=(5000, 48)).astype(np.float32)
    decision = tuning.decide_lists(X, 15, "ivf", {"n_lists": 128}, 0.9, 0, centroids)
    assert decision.search == "exact"


def test_lists_cost_more_the_more_they_look_at_and_exact_search_less_the_more_outlines_spare():
    lists = [tuning.cost_of_lists(50_000, 384, 512, candidates) for candidates in (100, 1000, 50_000)]
    exact = [tuning.cost_of_exact(50_000, 384, share=share) for share in (0.1, 0.5, 1.0)]
    assert lists == sorted(lists) and exact == sorted(exact)
    assert lists[0] < exact[0] and lists[-1] > exact[-1]


@pytest.mark.parametrize("spared", [0.0, 1.0])
def test_what_outlines_spare_exact_search_can_decide(spared, monkeypatch):
    """With a tenth of the rows to look at, lists pay here only if exact search multiplies whole rows."""
    monkeypatch.setattr(tuning, "try_outlines", lambda *_: Outlining(cost=1.0 - spared))
    monkeypatch.setattr(tuning, "share_looked_at", lambda *_: 0.1)
    X = np.zeros((30_000, 400), np.float32)
    X[:, 0] = np.arange(30_000) % 7

    def centroids():
        raise RuntimeError("lists are trained")

    if spared:
        assert tuning.decide_lists(X, 15, "auto", {"n_lists": 256}, 0.9, 0, centroids).search == "exact"
    else:
        with pytest.raises(RuntimeError, match="lists are trained"):
            tuning.decide_lists(X, 15, "auto", {"n_lists": 256}, 0.9, 0, centroids)


def test_the_rows_are_not_looked_at_where_their_number_tells(monkeypatch):
    def draw_some(*_):
        raise RuntimeError("rows are drawn")

    monkeypatch.setattr(tuning, "draw_some", draw_some)
    X = np.zeros((21_000, 256), np.float32)
    assert tuning.decide_lists(X[:, :4], 15, "auto", {"n_lists": 256}, 0.9, 0, list).search == "exact"
    with pytest.raises(RuntimeError, match="rows are drawn"):
        tuning.decide_lists(X, 15, "auto", {"n_lists": 256}, 0.9, 0, list)


@pytest.mark.parametrize("deciding", [True, False])
def test_outlines_that_were_tried_to_decide_are_not_looked_for_again(deciding, monkeypatch):
    X = (np.random.default_rng(0).normal(size=(3000, 64)) * np.arange(1, 65) ** -1.0).astype(np.float32)
    plain = asbc.search_neighbors(X, 15)
    n, d = X.shape
    between = (tuning.cost_of_exact(n, d) + tuning.cost_of_exact(n, d, share=0.3)) / 2
    # Nothing is known of the rows at first. Then what outlines spare decides, or lists are hopeless in any case.
    costs = iter([0.0, tuning.LISTS_WORTH * between if deciding else np.inf])
    monkeypatch.setattr(tuning, "cost_of_lists", lambda *_: next(costs))
    monkeypatch.setattr(outline, "FEWEST_PRODUCTS", 0)
    looked_for = []
    find = outline.best_outlining
    monkeypatch.setattr(outline, "best_outlining", lambda *rest: looked_for.append(1) or find(*rest))
    found = asbc.search_neighbors(X, 15, search="ivf")
    assert found.recall is None and not looked_for
    assert np.array_equal(found.indices, plain.indices) and np.array_equal(found.distances, plain.distances)
    asbc.search_neighbors(X, 15)
    assert looked_for == [1]


@pytest.mark.parametrize(("asked", "lists"), [(None, False), (30_000, True), (1000, False)])
def test_lists_pay_where_each_of_many_vectors_would_be_compared_with_every_row(asked, lists, monkeypatch):
    """All rows together are searched exactly with half the products; few queries are not worth filing all rows for."""
    monkeypatch.setattr(tuning, "share_looked_at", lambda *_: 0.25)
    X = np.random.default_rng(0).normal(size=(30_000, 200)).astype(np.float32)
    wanted = []

    def centroids():
        wanted.append(True)
        return train_centroids(X[::30], 16, 0)

    tuning.decide_lists(X, 15, "auto", {"n_lists": 256}, 0.9, 0, centroids, asked)
    assert bool(wanted) == lists


def test_few_queries_are_compared_with_every_row():
    X = clusters(12_000, 64, spread=0.2)
    assert build_index(X, 15, "ivf", {}, asked=12_000)[0] is not None
    assert build_index(X, 15, "ivf", {}, asked=100)[0] is None
    found = asbc.search_neighbors(X, 15, queries=X[:100], search="ivf")
    assert found.recall is None
    assert np.array_equal(found.indices, asbc.search_neighbors(X, 15, queries=X[:100]).indices)


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
    monkeypatch.setattr(tuning, "EXACT_ROWS", 1000)
    index, decision = build_index(X, 15, "auto", {})
    assert isinstance(index, InvertedLists) and decision.target == 0.98


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
