import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from asbc.evaluate.comparison import compare, compare_methods
from asbc.evaluate.hits import pack_hits


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
        result = compare(delta, np.zeros(30), n_boot=400)
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
    with pytest.raises(ValueError, match="confidence"):
        compare([1.0], [1.0], confidence=95)
