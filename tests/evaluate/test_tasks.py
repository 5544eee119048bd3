import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import asbc
from asbc.evaluate import Clustering, LabelPropagation, LeaveOneOut, Method, Regret, Sample
from asbc.learn.predict import loo_predict
from tests.evaluate.small import KNN, NNK, by_metric


def test_leave_one_out_scores_every_node(sample):
    score, balanced = LeaveOneOut()(sample, KNN)
    voted = loo_predict(sample.neighbors.indices, np.ones((300, 15)), sample.codes)
    assert score.value == (voted == sample.codes).mean()
    assert score.level == 7 and score.seconds > 0
    np.testing.assert_array_equal(score.nodes, np.arange(100, 400))
    assert score.right.mean() == score.value
    by_class = [score.right[sample.labels == c].mean() for c in range(10)]
    assert balanced.metric == "loo_balanced" and balanced.value == pytest.approx(np.mean(by_class), abs=1e-12)


def partly(sample, labels):
    """The same nodes with other labels."""
    return Sample(sample.X, labels, nodes=sample.nodes, total=sample.total, search=lambda X: sample.neighbors)


def test_nodes_without_a_label_are_in_the_graph_and_not_scored(sample):
    """Against a loop over nodes and classes."""
    labels = np.where(np.arange(300) % 3, sample.labels.astype(object), None)
    labels[7] = "alone"
    labels = np.array(["" if label is None else str(label) for label in labels])
    own = partly(sample, labels)
    score, balanced = LeaveOneOut()(own, NNK)
    rows, weights = own.neighbors.indices, own.weights(NNK)
    right = {}
    for node in np.flatnonzero(labels != ""):
        votes = {}
        for other, weight in zip(rows[node], weights[node], strict=True):
            if weight > 0 and labels[other]:
                votes[labels[other]] = votes.get(labels[other], 0.0) + weight
        right[node] = bool(votes) and max(votes, key=votes.get) == labels[node]
    assert score.nodes.tolist() == [100 + node for node in right]
    assert score.right.tolist() == list(right.values()) and not right[7]
    shares = [np.mean([right[n] for n in right if labels[n] == c]) for c in set(labels) - {""}]
    assert balanced.value == pytest.approx(np.mean(shares), abs=1e-12)
    lp = by_metric(LabelPropagation(labels=(2,))(own, NNK))
    assert len(lp["lp"].nodes) == 200 - 10 * 2 - 1 and lp["lp"].more == {"short_classes": 1}
    assert lp["lp"].value > 0.5 and lp["lp_balanced"].more == {"short_classes": 1}
    assert by_metric(Clustering()(own, NNK))["ari"].value > 0.4


def test_a_class_shows_all_labels_it_has_where_more_are_asked_for(sample):
    few = np.where((sample.labels == 3) & (np.cumsum(sample.labels == 3) > 2), -1, sample.labels)
    scores = [s for s in LabelPropagation(labels=(1, 2, 5, 500))(partly(sample, few), KNN) if s.metric == "lp"]
    assert [s.level for s in scores] == [1, 2, 5], "500 labels leave none to score"
    assert [s.more["short_classes"] for s in scores] == [0, 1, 1]
    scored = [np.bincount(few[s.nodes - 100], minlength=10)[3] for s in scores]
    assert scored == [1, 0, 0]


def test_propagation_scores_unlabelled_nodes_only(sample):
    scores = [s for s in LabelPropagation(labels=(1, 5))(sample, NNK) if s.metric == "lp"]
    assert [s.level for s in scores] == [1, 5]
    assert [len(s.nodes) for s in scores] == [290, 250]
    assert scores[1].value > scores[0].value > 0.3
    again = [s for s in LabelPropagation(labels=(1, 5))(sample, KNN) if s.metric == "lp"]
    np.testing.assert_array_equal(again[0].nodes, scores[0].nodes)  # the same labels for every method


def test_checks_before_any_work(caplog):
    lp = LabelPropagation(labels=(1, 5))
    lp.check(np.array([2, 6]))
    assert not caplog.text
    lp.check(np.array([2, 5]))
    assert "lp: [5] labels per class skipped: no class has more than 5 samples" in caplog.text
    with pytest.raises(
        ValueError, match="1 labels per class needs a class with more than 1 samples; the largest has 1"
    ):
        lp.check(np.array([1, 1]))
    with pytest.raises(ValueError, match="at least 2 samples per class"):
        LeaveOneOut().check(np.array([1, 1]))


def test_clustering(sample):
    scores = by_metric(Clustering()(sample, NNK))
    assert 0.6 < scores["nmi"].value <= 1 and 0.5 < scores["ari"].value <= 1
    assert "leiden_ari" not in scores


def test_clustering_by_leiden(sample):
    pytest.importorskip("graspologic_native")
    score = by_metric(Clustering(leiden=True)(sample, NNK))["leiden_ari"]
    found = asbc.GraphClusters(len(np.unique(sample.codes)), graph=sample.graph(NNK), random_state=sample.seed).fit()
    assert score.value == adjusted_rand_score(sample.codes, found.labels_) > 0.5


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


def test_regret_takes_its_scales_as_a_list_too(sample):
    listed, packed = (
        [s for s in Regret(scales=kind([0.5, 1.0]))(sample, NNK) if s.metric == "regret"] for kind in (list, tuple)
    )
    assert listed[0].value == packed[0].value


def test_regret_refuses_other_weights(sample):
    with pytest.raises(ValueError, match="regret is defined for weights with a bandwidth; uniform weights have none"):
        list(Regret()(sample, KNN))
