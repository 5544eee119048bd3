import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asbc.learn.predict import loo_predict


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


def test_empty_rows_and_unlabelled_neighbors_have_no_vote():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    weights = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert loo_predict(indices, weights, np.zeros(3, int)).tolist() == [0, 0, -1]
    assert loo_predict(indices, weights, np.array([-1, 0, 0])).tolist() == [0, -1, -1]


def test_bad_weights():
    indices = np.array([[1, 2], [0, 2], [0, 1]])
    with pytest.raises(ValueError, match="must have shape"):
        loo_predict(indices, np.ones((3, 3)), np.zeros(3, int))
    with pytest.raises(ValueError, match="at least 0"):
        loo_predict(indices, -np.ones((3, 2)), np.zeros(3, int))
