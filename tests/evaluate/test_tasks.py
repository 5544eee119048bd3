import numpy as np
import pytest

import asbc
from asbc.evaluate import Clustering, LabelPropagation, LeaveOneOut, Method, Regret
from asbc.learn.vote import loo_accuracy
from tests.evaluate.small import KNN, NNK, by_metric


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
    with pytest.raises(ValueError, match="5 labels per class needs more than 5"):
        LabelPropagation(labels=(1, 5)).check(5)
    with pytest.raises(ValueError, match="at least 2 samples per class"):
        LeaveOneOut().check(1)


def test_clustering(sample):
    scores = by_metric(Clustering()(sample, NNK))
    assert 0.6 < scores["nmi"].value <= 1 and 0.5 < scores["ari"].value <= 1


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
    with pytest.raises(ValueError, match="gaussian and nnk weights; got uniform"):
        list(Regret()(sample, KNN))
