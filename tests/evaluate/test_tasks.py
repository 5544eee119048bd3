import numpy as np
import pytest
from sklearn.datasets import load_digits

import asbc
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import (
    Alignment,
    Clustering,
    Health,
    LabelPropagation,
    LeaveOneOut,
    Regimes,
    Regret,
)
from asbc.learn.vote import loo_accuracy

NNK = Method("nnk", asbc.SpectralBandwidth())
KNN = Method("uniform")


@pytest.fixture(scope="module")
def sample():
    X, y = load_digits(return_X_y=True)
    nodes = np.arange(100, 400)
    return Sample(
        asbc.normalize(X[nodes].astype(np.float32)), y[nodes], nodes=nodes, total=len(X), level=7,
        search=lambda X: asbc.search_neighbors(X, 15),
    )  # fmt: skip


def by_metric(scores):
    return {score.metric: score for score in scores}


def test_leave_one_out_scores_every_node(sample):
    (score,) = LeaveOneOut()(sample, KNN)
    assert score.value == loo_accuracy(sample.neighbors.indices, np.ones((300, 15)), sample.labels)
    assert score.level == 7 and score.seconds > 0
    np.testing.assert_array_equal(score.nodes, np.arange(100, 400))
    assert score.right.mean() == score.value


def test_propagation_scores_unlabelled_nodes_only(sample):
    scores = [s for s in LabelPropagation(labels=(1, 5))(sample, NNK) if s.metric == "lp"]
    assert [s.level for s in scores] == [1, 5]
    assert [len(s.nodes) for s in scores] == [290, 250]
    assert scores[1].value > scores[0].value > 0.3
    again = [s for s in LabelPropagation(labels=(1, 5))(sample, KNN) if s.metric == "lp"]
    np.testing.assert_array_equal(again[0].nodes, scores[0].nodes)  # the same labels for every method


def test_checks_before_any_work():
    LabelPropagation(labels=(1, 5)).check(6)
    with pytest.raises(ValueError, match="5 labels a class needs more than 5"):
        LabelPropagation(labels=(1, 5)).check(5)
    with pytest.raises(ValueError, match="at least 2 samples a class"):
        LeaveOneOut().check(1)


def test_clustering(sample):
    scores = by_metric(Clustering()(sample, NNK))
    assert 0.6 < scores["nmi"].value <= 1 and 0.5 < scores["ari"].value <= 1


def test_health_with_and_without_a_bandwidth(sample):
    plain, nnk = by_metric(Health()(sample, KNN)), by_metric(Health()(sample, NNK))
    assert plain["row_degree_median"].value == 15 > nnk["row_degree_median"].value
    assert plain["edges"].value > nnk["edges"].value
    assert "sigma_median" not in plain
    assert 1 <= nnk["rank_median"].value <= 15 and 0 <= nnk["at_edge"].value <= 1
    assert nnk["condition_q95"].value >= nnk["condition_median"].value >= 1


def test_alignment_takes_each_estimator_as_the_target(sample):
    fine = Method("nnk", asbc.SpectralBandwidth(n_grid=48))
    scores = list(Alignment()(sample, fine))
    spearman = {(s.more["target"], s.more["estimator"]): s.value for s in scores if s.metric == "spearman"}
    assert len(spearman) == 9
    # r follows whatever it is told to follow; that is why the control exists.
    assert spearman["mst", "mst"] > spearman["mst", "levina_bickel"]
    assert spearman["levina_bickel", "levina_bickel"] > spearman["levina_bickel", "mst"]
    with pytest.raises(ValueError, match="needs a method with a bandwidth"):
        list(Alignment()(sample, KNN))


def test_regimes_go_from_all_separate_to_all_alike(sample):
    scores = list(Regimes(n_scales=7)(sample, NNK))
    ranks = [s.value for s in scores if s.metric == "rank_median"]
    assert len(ranks) == 7 and ranks == sorted(ranks, reverse=True)
    assert ranks[0] == pytest.approx(15, abs=1e-3) and ranks[-1] < 3
    conditions = [s.value for s in scores if s.metric == "condition_median"]
    assert conditions[0] == pytest.approx(1, abs=1e-3) and conditions == sorted(conditions)
    chosen = by_metric(scores)
    assert chosen["chosen_scale_q25"].value <= chosen["chosen_scale_q75"].value
    with pytest.raises(ValueError, match="needs a method with a bandwidth"):
        list(Regimes()(sample, KNN))


@pytest.mark.parametrize("kind", ["gaussian", "nnk"])
def test_regret_is_the_distance_to_the_best_candidate(sample, kind):
    task = Regret(scales=(0.5, 1.0, 2.0))
    methods = [Method(kind, asbc.SpectralBandwidth()), Method(kind, asbc.Fixed("mean_knn"))]
    first, second = (list(task(sample, method)) for method in methods)
    candidates = [s for s in first if s.method is not None]
    assert {s.method for s in candidates} == {f"tuned_local_{kind}", f"tuned_global_{kind}"}
    assert len(candidates) == 6 and not [s for s in second if s.method is not None]
    best = max(s.value for s in candidates)
    for scores in (first, second):
        own = {s.metric: s for s in scores if s.method is None}
        assert own["regret"].value == pytest.approx(best - own["loo"].value)
    # sigma = 1.0 x mean d_10 is what the fixed rule takes: the same rows, so the same score.
    twin = next(s for s in candidates if s.more == {"scale": 1.0, "per_node": False})
    assert twin.value == next(s.value for s in second if s.metric == "loo")


def test_regret_refuses_other_weights(sample):
    with pytest.raises(ValueError, match="gaussian and nnk weights; got uniform"):
        list(Regret()(sample, KNN))
