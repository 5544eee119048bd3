import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asbc.learn.vote import loo_accuracy, loo_hits, loo_predict


def slow_vote(indices, weights, codes):
    """Count votes in a dictionary, node by node; a tie goes to the class met first."""
    out = []
    for row, weight in zip(indices, weights, strict=True):
        votes: dict[int, float] = {}
        for j, w in zip(row, weight, strict=True):
            if w > 0:
                votes[codes[j]] = votes.get(codes[j], 0.0) + w
        best = max(votes.values(), default=0.0)
        out.append(next((c for c, v in votes.items() if v > best * (1 - 1e-12)), -1))
    return np.array(out)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), classes=st.integers(1, 6), whole=st.booleans())
def test_vote_equals_the_slow_twin(seed, n, classes, whole):
    rng = np.random.default_rng(seed)
    k = min(n - 1, 12)
    indices = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    # Whole numbers make ties common.
    weights = rng.integers(0, 3, (n, k)).astype(float) if whole else rng.random((n, k)) * (rng.random((n, k)) < 0.6)
    codes = rng.integers(0, classes, n)
    np.testing.assert_array_equal(loo_predict(indices, weights, codes), slow_vote(indices, weights, codes))


def test_ties_go_to_the_nearest_and_scaling_changes_nothing():
    indices = np.array([[1, 2, 3, 4]])
    codes = np.array([9, 5, 3, 3, 5])
    for scale in (1.0, 1 / 3, 1e-9):
        assert loo_predict(indices, np.full((1, 4), 0.1) * scale, codes)[0] == 5
        # 0.1 + 0.2 and 0.3 differ in the last bit; that must not decide.
        assert loo_predict(indices, np.array([[0.3, 0.1, 0.2, 0.0]]) * scale, codes)[0] == 5


def test_empty_row_is_wrong():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    weights = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(loo_hits(indices, weights, [0, 0, 0]), [True, True, False])
    assert loo_accuracy(indices, weights, [0, 0, 0]) == pytest.approx(2 / 3)


def test_labels_of_any_kind_give_the_same_answer():
    rng = np.random.default_rng(0)
    indices = np.array([rng.permutation(np.delete(np.arange(30), i))[:8] for i in range(30)])
    weights = rng.random((30, 8))
    codes = rng.integers(0, 4, 30)
    expected = loo_hits(indices, weights, codes)
    for names in (
        np.array(["d", "a", "c", "b"]),
        np.array([-7, 1000, 3, 0]),
        np.array([2.0, -1.0, 5.0, 9.0]),
    ):
        np.testing.assert_array_equal(loo_hits(indices, weights, names[codes]), expected)
    np.testing.assert_array_equal(
        loo_hits(indices, weights, np.array(["w", "x", "y", "z"], dtype=object)[codes]), expected
    )


def test_single_sample_classes_are_named():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    with pytest.warns(UserWarning, match=r"1 class\(es\) have only one sample \(lonely\)"):
        hits = loo_hits(indices, np.ones((3, 2)), ["a", "a", "lonely"])
    assert not hits[2]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "labels is None"),
        ([0, 1], "expected 3, got 2"),
        ([0.5, 1, 2], "whole and finite"),
        ([np.nan, 1, 2], "whole and finite"),
        ([[0], [1], [2]], r"shape \(n,\)"),
        (np.array([None, "a", "b"], dtype=object), "NoneType"),
        (np.array([0, 1, 2], dtype=complex), "dtype complex"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        loo_hits(np.array([[1, 2], [0, 2], [0, 1]]), np.ones((3, 2)), labels)


def test_bad_weights():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    with pytest.raises(ValueError, match="must have the shape"):
        loo_hits(indices, np.ones((3, 3)), [0, 0, 0])
    with pytest.raises(ValueError, match="at least 0"):
        loo_hits(indices, -np.ones((3, 2)), [0, 0, 0])
