import pytest

import asbc
from asbc.evaluate import Alignment, Health, Method, Regimes
from tests.evaluate.small import KNN, NNK, by_metric


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
