import numpy as np
import pytest

from asbc.evaluate.bootstrap import Bootstrap
from asbc.evaluate.ranking import rank_methods


def made(accuracies, seed=0, nodes=400, trials=4):
    """Hits of methods of known accuracy on the same nodes in every trial, and their values."""
    rng = np.random.default_rng(seed)
    hits = {name: [(rng.random(nodes) < p).astype(np.int8)] * trials for name, p in accuracies.items()}
    return {name: [h.mean() for h in found] for name, found in hits.items()}, hits


def test_a_clear_winner_is_above_all_others_and_a_tie_is_called_one():
    values, hits = made({"low": 0.5, "top": 0.9, "near": 0.88})
    found = rank_methods(values, trial=range(4), hits=hits)
    assert found.methods[2] == "low" and found.alike == [found.methods[1]] and found.over == "trials and nodes"
    gap, back = found.gaps["top", "low"], found.gaps["low", "top"]
    assert gap.low > 0 and (gap.low, gap.high) == pytest.approx((-back.high, -back.low))
    assert gap.difference == pytest.approx(np.mean(values["top"]) - np.mean(values["low"]))


def test_the_best_of_many_equals_is_seldom_called_best():
    """Twelve methods of one accuracy: intervals for two chosen beforehand would call one the best far more often."""
    shared = Bootstrap(500)
    wrong = 0
    for seed in range(60):
        values, hits = made({f"m{i}": 0.7 for i in range(12)}, seed=seed, nodes=200, trials=1)
        ranking = rank_methods(values, trial=[0], hits=hits, bootstrap=shared)
        wrong += any(gap.low > 0 for gap in ranking.gaps.values())
    assert wrong <= 9  # 5% are meant: 3 of 60


def test_trials_alone_where_nodes_are_not_known():
    found = rank_methods({"a": [0.1, 0.1, 0.1], "b": [0.2, 0.3, 0.25], "c": [0.1, 0.1, 0.1]}, trial=[0, 1, 2])
    assert found.over == "trials" and found.methods[0] == "b" and found.alike == []
    assert found.gaps["a", "c"].low == found.gaps["a", "c"].high == 0


def test_bad_input():
    with pytest.raises(ValueError, match="at least two methods"):
        rank_methods({"a": [1.0]}, trial=[0])
    with pytest.raises(ValueError, match="finite"):
        rank_methods({"a": [1.0], "b": [np.nan]}, trial=[0])
    with pytest.raises(ValueError, match="confidence"):
        rank_methods({"a": [1.0], "b": [0.5]}, trial=[0], confidence=95)
    with pytest.raises(ValueError, match="same nodes"):
        one, other = np.array([1, 0], np.int8), np.array([1, -1], np.int8)
        rank_methods({"a": [0.5], "b": [1.0]}, trial=[0], hits={"a": [one], "b": [other]})
