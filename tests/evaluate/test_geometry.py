import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import linregress, spearmanr

import asbc
from asbc.evaluate import Alignment, Health, Method, Regimes
from asbc.evaluate.geometry import align, graph_health, local_kernels
from asbc.neighbors.types import with_pairs
from tests.evaluate.small import KNN, NNK, by_metric


def test_health_with_and_without_a_bandwidth(sample):
    plain, nnk = by_metric(Health()(sample, KNN)), by_metric(Health()(sample, NNK))
    assert plain["row_degree_median"].value == 15 > nnk["row_degree_median"].value
    assert plain["edges"].value > nnk["edges"].value
    assert "sigma_median" not in plain
    assert 1 <= nnk["rank_median"].value <= 15 and 0 <= nnk["at_edge"].value <= 1
    assert nnk["condition_median"].value >= 1


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


def test_counts_on_a_graph_known_by_hand():
    # 0 -> 1 -> 2, 3 -> 4, 5 alone; one stored zero that is no edge.
    W = sp.csr_array(([1.0, 2.0, 3.0, 0.0], ([0, 1, 3, 5], [1, 2, 4, 0])), shape=(6, 6))
    health = graph_health(W)
    assert (health["components"], health["isolated"], health["edges"]) == (3, 1, 3)
    assert health["degree_median"] == 0.5
    assert W.nnz == 4  # the caller's graph is left as it was
    with pytest.raises(ValueError, match="square"):
        graph_health(W[:2])


def test_condition_equals_the_slow_twin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    neighbors = asbc.search_neighbors(X, 8)
    sigma = rng.uniform(0.1, 3.0, 50)
    expected = []
    for i in range(50):
        P = X[neighbors.indices[i]]
        K = np.exp(-((P[:, None] - P) ** 2).sum(-1) / (2 * sigma[i] ** 2))
        expected.append(np.linalg.cond(K))
    expected = np.array(expected)
    found = local_kernels(X, neighbors, sigma)[2]
    # Rounding moves the least eigenvalue by some eps times the largest, whoever works it out.
    assert (np.abs(found / expected - 1) <= 1e-14 * expected).all() and expected.max() > 1e4
    np.testing.assert_array_equal(local_kernels(X, with_pairs(X, neighbors), sigma)[2], found)


def test_condition_is_finite_for_duplicates_and_refuses_bad_sigma():
    X = np.zeros((10, 2))
    neighbors = asbc.search_neighbors(X, 9)
    assert (local_kernels(X, neighbors, 1.0)[2] == 1 / np.finfo(float).eps).all()
    with pytest.raises(ValueError, match=r"from 1e-150 to 1e\+150"):
        local_kernels(X, neighbors, 0.0)[2]


def test_agrees_with_scipy():
    rng = np.random.default_rng(0)
    d = rng.integers(1, 20, 200).astype(float)  # with ties
    r = 0.7 * d + rng.normal(size=200)
    result = align(r, d)
    assert result["spearman"] == pytest.approx(spearmanr(r, d).statistic, abs=1e-12)
    line = linregress(d, r)
    assert result["slope"] == pytest.approx(line.slope) and result["intercept"] == pytest.approx(line.intercept)


def test_constant_and_infinite_values():
    result = align([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    assert np.isnan(result["spearman"]) and np.isnan(result["slope"])
    assert align([1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 3.0, np.inf]) == align([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
