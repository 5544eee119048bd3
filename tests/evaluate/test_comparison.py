import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from asbc.evaluate import comparison as module
from asbc.evaluate.comparison import Bootstrap, compare, compare_methods, rank_methods
from asbc.evaluate.tasks import pack_hits, unpack_hits


def test_clear_difference_holds_and_its_mirror_does_not():
    rng = np.random.default_rng(0)
    b = rng.random(20)
    a = b + 0.1 + rng.normal(0, 0.01, 20)
    up, down = compare(a, b), compare(b, a)
    assert up.verdict == "holds" and down.verdict == "does not hold"
    assert up.difference == pytest.approx(-down.difference) == pytest.approx((a - b).mean())
    assert up.low < up.difference < up.high
    assert (up.wins, up.ties, up.losses) == (20, 0, 0) == (down.losses, down.ties, down.wins)
    assert up.p_value == pytest.approx(wilcoxon(a - b).pvalue)


def test_equal_methods_cannot_be_told_apart():
    result = compare([0.5, 0.6], [0.5, 0.6])
    assert result.verdict == "cannot tell"
    assert (result.p_value, result.ties) == (1.0, 2)


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(200):
        delta = rng.normal(0.3, 1.0, 30)
        result = compare(delta, np.zeros(30), bootstrap=Bootstrap(400))
        inside += result.low <= 0.3 <= result.high
    assert 0.88 <= inside / 200 <= 0.99


def test_trials_not_pairs_are_resampled():
    """Ten levels of each trial say the same thing ten times: the interval must not shrink for it."""
    rng = np.random.default_rng(2)
    per_trial = rng.normal(0.02, 0.05, 5)
    once = compare(per_trial, np.zeros(5))
    often = compare(np.repeat(per_trial, 10), np.zeros(50), trial=np.repeat(np.arange(5), 10))
    assert often.low == pytest.approx(once.low, abs=1e-12) and often.high == pytest.approx(once.high, abs=1e-12)
    assert often.p_value == once.p_value and often.trials == 5


def test_identical_trials_still_leave_the_doubt_about_nodes():
    """Five trials of the whole data set are one trial: only the nodes can say how sure a difference is."""
    rng = np.random.default_rng(3)
    n = 400
    a = (rng.random(n) < 0.62).astype(np.int8)
    b = (rng.random(n) < 0.60).astype(np.int8)
    values_a, values_b = np.full(5, a.mean()), np.full(5, b.mean())
    blind = compare(values_a, values_b)
    assert blind.low == blind.high
    honest = compare(values_a, values_b, hits_a=[a] * 5, hits_b=[b] * 5)
    standard_error = (a - b.astype(float)).std() / np.sqrt(n)
    assert (honest.high - honest.low) == pytest.approx(2 * 1.96 * standard_error, rel=0.15)
    assert honest.over == "trials and nodes"


def test_nodes_that_were_not_scored_do_not_count():
    a = np.array([1, 1, 0, -1, -1], np.int8)
    b = np.array([0, 1, 0, -1, -1], np.int8)
    result = compare([2 / 3], [1 / 3], hits_a=[a], hits_b=[b])
    assert 0 <= result.low <= result.difference <= result.high <= 1
    with pytest.raises(ValueError, match="same nodes"):
        compare([2 / 3], [1 / 3], hits_a=[a], hits_b=[np.array([0, 1, 0, 1, -1], np.int8)])


def make_table():
    rows = []
    for level in (5, 10):
        for trial in range(4):
            for method, p in (("knn", 0.5), ("nnk", 0.8)):
                hits = (np.random.default_rng([level, trial]).random(100) < p).astype(np.int8)
                scored, right = pack_hits(np.arange(100), hits == 1, 100)
                rows.append(
                    dict(dataset="x", encoder="y", samples=level, level=level, trial=trial, method=method,
                         metric="loo", value=hits.mean(), scored=scored, right=right)
                )  # fmt: skip
    return pd.DataFrame(rows)


def test_compare_methods_pairs_rows_whatever_their_order():
    table = make_table()
    result = compare_methods(table, "nnk", "knn")
    assert result.verdict == "holds" and result.trials == 4 and result.wins == 8
    shuffled = compare_methods(table.sample(frac=1, random_state=0), "nnk", "knn")
    assert shuffled == result


def test_compare_methods_refuses_what_is_not_there():
    table = make_table()
    with pytest.raises(ValueError, match="it has: loo"):
        compare_methods(table, "nnk", "knn", metric="speed")
    with pytest.raises(ValueError, match="knn, nnk"):
        compare_methods(table, "nnk", "umap")
    with pytest.raises(ValueError, match="mixes settings"):
        compare_methods(pd.concat([table, table]), "nnk", "knn")


def test_bad_input():
    with pytest.raises(ValueError, match="one shape"):
        compare([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        compare([np.nan], [1.0])


def test_hits_survive_packing():
    rng = np.random.default_rng(0)
    nodes = rng.permutation(101)[:37]
    right = rng.random(37) < 0.5
    hits = unpack_hits([pack_hits(nodes, right, 101)])[0, :101]
    np.testing.assert_array_equal(hits[nodes], right.astype(int))
    assert (np.delete(hits, nodes) == -1).all()


def test_sums_are_those_over_all_drawn_nodes(monkeypatch):
    monkeypatch.setattr(module, "NODES_PER_BLOCK", 64)
    values = np.random.default_rng(0).integers(-1, 2, (200, 4))
    values[:150] *= np.random.default_rng(1).random((150, 1)) < 0.1
    draws = Bootstrap(50, 7)
    counts = np.hstack([np.random.default_rng([7, block]).poisson(1.0, (50, 64)) for block in range(4)])[:, :200]
    for _ in range(2):
        np.testing.assert_array_equal(draws.sums(values), counts @ values)


def test_node_counts_are_a_bootstrap():
    """The spread of a mean over redrawn nodes is its standard error."""
    right = np.random.default_rng(0).random(500) < 0.7
    draws = Bootstrap()
    means = draws.sums(right[:, None])[:, 0] / draws.sums(np.ones((500, 1)))[:, 0]
    assert means.std() == pytest.approx(right.std() / np.sqrt(500), rel=0.06)


def test_shared_draws_change_no_comparison():
    rng = np.random.default_rng(1)
    shared = Bootstrap()
    for trials, levels in ((4, 1), (4, 3), (2, 2)):
        seen = rng.random((trials * levels, 150)) < 0.7
        a, b = (np.where(seen, rng.random(seen.shape) < share, -1).astype(np.int8) for share in (0.8, 0.7))
        sides = [[row[row >= 0].mean() for row in side] for side in (a, b)]
        given = dict(trial=np.repeat(np.arange(trials), levels), hits_a=a, hits_b=b)
        assert compare(*sides, **given, bootstrap=shared) == compare(*sides, **given)


def methods_of(accuracies, seed=0, nodes=400, trials=4):
    """Hits of methods of known accuracy on the same nodes in every trial, and their values."""
    rng = np.random.default_rng(seed)
    hits = {name: [(rng.random(nodes) < p).astype(np.int8)] * trials for name, p in accuracies.items()}
    return {name: [h.mean() for h in found] for name, found in hits.items()}, hits


def test_a_clear_winner_is_above_all_others_and_a_tie_is_called_one():
    values, hits = methods_of({"low": 0.5, "top": 0.9, "near": 0.88})
    found = rank_methods(values, trial=range(4), hits=hits)
    assert found.methods[2] == "low" and found.alike == [found.methods[1]]
    gap, back = found.gaps["top", "low"], found.gaps["low", "top"]
    assert gap.low > 0 and (gap.low, gap.high) == pytest.approx((-back.high, -back.low))
    assert gap.difference == pytest.approx(np.mean(values["top"]) - np.mean(values["low"]))


def test_the_best_of_many_equals_is_seldom_called_best():
    """Twelve methods of one accuracy: intervals for two chosen beforehand would call one the best far more often."""
    shared = Bootstrap(500)
    wrong = 0
    for seed in range(60):
        values, hits = methods_of({f"m{i}": 0.7 for i in range(12)}, seed=seed, nodes=200, trials=1)
        ranking = rank_methods(values, trial=[0], hits=hits, bootstrap=shared)
        wrong += any(gap.low > 0 for gap in ranking.gaps.values())
    assert wrong <= 9  # 5% are meant: 3 of 60


def test_trials_alone_where_nodes_are_not_known():
    found = rank_methods({"a": [0.1, 0.1, 0.1], "b": [0.2, 0.3, 0.25], "c": [0.1, 0.1, 0.1]}, trial=[0, 1, 2])
    assert found.methods[0] == "b" and found.alike == []
    assert found.gaps["a", "c"].low == found.gaps["a", "c"].high == 0


def test_bad_rankings():
    with pytest.raises(ValueError, match="at least two methods"):
        rank_methods({"a": [1.0]}, trial=[0])
    with pytest.raises(ValueError, match="finite"):
        rank_methods({"a": [1.0], "b": [np.nan]}, trial=[0])
    with pytest.raises(ValueError, match="same nodes"):
        one, other = np.array([1, 0], np.int8), np.array([1, -1], np.int8)
        rank_methods({"a": [0.5], "b": [1.0]}, trial=[0], hits={"a": [one], "b": [other]})
