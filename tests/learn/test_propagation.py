import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from asbc.learn import predict
from asbc.learn.labels import encode_partial, reveal
from asbc.learn.predict import propagate, transition


def random_graph(rng, n, k):
    indices = np.array([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    W = sp.csr_array((rng.random(n * k), indices.reshape(-1), np.arange(0, n * k + 1, k)), shape=(n, n))
    return sp.csr_array(W.maximum(W.T))


def slow_rounds(W, codes, shown, n_classes, alpha, rounds):
    """The recursion as it is written, dense."""
    W = W.toarray()
    degree = W.sum(axis=1)
    P = np.divide(W, degree[:, None], out=np.zeros_like(W), where=degree[:, None] > 0)
    P[shown] = 0
    Y = np.zeros((len(W), n_classes))
    Y[shown, codes[shown]] = 1
    F = (1 - alpha) * Y
    for _ in range(rounds):
        F = alpha * P @ F + (1 - alpha) * Y
    return F


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(5, 60), classes=st.integers(1, 19), rounds=st.integers(1, 40))
def test_equals_the_slow_twin(seed, n, classes, rounds):
    rng = np.random.default_rng(seed)
    W = random_graph(rng, n, min(4, n - 1))
    codes = rng.integers(0, classes, n)
    shown = rng.random(n) < 0.3
    shown[0] = True
    result = propagate(W, codes, shown, n_classes=classes, max_rounds=rounds, tol=0)
    assert result.rounds == rounds and not result.converged
    expected = slow_rounds(W, codes, shown, classes, 0.85, rounds)
    np.testing.assert_allclose(result.scores, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(result.predicted, np.where(expected.any(axis=1), result.scores.argmax(axis=1), -1))


def test_equals_a_dense_solve():
    rng = np.random.default_rng(1)
    n, classes = 500, 100
    W = random_graph(rng, n, 30)
    codes = np.arange(n) % classes
    shown = reveal(codes, 1, seed=0)
    result = propagate(W, codes, shown)
    assert result.converged and result.rounds < 200
    P = transition(W, shown).toarray()
    Y = np.zeros((n, classes))
    Y[shown, codes[shown]] = 1
    exact = np.linalg.solve(np.eye(n) - 0.85 * P, 0.15 * Y)
    assert np.abs(result.scores - exact).max() < 1e-6


def test_unreached_nodes_are_not_class_zero():
    # Two pieces; only the first has a label. Node 4 has no edge at all.
    W = sp.csr_array(([1.0, 1.0, 1.0, 1.0], ([0, 1, 2, 3], [1, 0, 3, 2])), shape=(5, 5))
    shown = np.array([True, False, False, False, False])
    np.testing.assert_array_equal(propagate(W, np.zeros(5, int), shown).predicted, [0, 0, -1, -1, -1])


def test_labelled_nodes_keep_their_label():
    rng = np.random.default_rng(2)
    W = random_graph(rng, 60, 5)
    codes = rng.integers(0, 3, 60)
    shown = rng.random(60) < 0.5
    result = propagate(W, codes, shown, n_classes=3)
    np.testing.assert_array_equal(result.predicted[shown], codes[shown])
    assert not transition(W, shown)[np.flatnonzero(shown)].nnz
    rows = np.asarray(transition(W, shown).sum(axis=1)).reshape(-1)
    np.testing.assert_allclose(rows[~shown], 1.0)


def test_reveal_is_nested_stratified_and_seeded():
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(7), 12))
    previous = np.zeros(len(codes), bool)
    for m in (1, 2, 5, 11):
        shown = reveal(codes, m, seed=3)
        np.testing.assert_array_equal(np.bincount(codes[shown]), np.full(7, m))
        assert (shown | ~previous).all()
        previous = shown
    assert (reveal(codes, 2, seed=[0, 1]) != reveal(codes, 2, seed=[0, 2])).any()


def test_reveal_shows_all_of_a_class_with_fewer_and_never_the_unlabelled():
    codes = np.array([0, 0, 0, 0, 1, 2, 2, -1, -1])
    for seed in range(5):
        shown = reveal(codes, 2, seed=seed)
        assert np.bincount(codes[shown]).tolist() == [2, 1, 2] and not shown[-2:].any()


def test_bad_input():
    codes, _ = encode_partial(["a", "a", "a", "b", "b"])
    with pytest.raises(ValueError, match="none would be left"):
        reveal(codes, 3, seed=0)
    with pytest.raises(ValueError, match="none would be left"):
        reveal(codes[1:], 2, seed=0)
    with pytest.raises(ValueError, match="at least 1"):
        reveal(codes, 0, seed=0)
    W = random_graph(np.random.default_rng(0), 5, 2)
    shown = np.array([True, False, False, False, False])
    with pytest.raises(ValueError, match="at least one labelled"):
        propagate(W, codes, np.zeros(5, bool))
    with pytest.raises(ValueError, match="alpha"):
        propagate(W, codes, shown, alpha=1.0)
    with pytest.raises(ValueError, match="0 or more"):
        propagate(-W, codes, shown)
    with pytest.raises(ValueError, match="square"):
        propagate(W[:, :3], codes, shown)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (None, "labels is None"),
        ([0, 1], r"shape \(3,\); got shape \(2,\)"),
        ([0.5, 1, 2], "whole and finite"),
        ([np.inf, 1, 2], "whole and finite"),
        ([[0], [1], [2]], r"got shape \(3, 1\)"),
        (np.array([1, "a", "b"], dtype=object), "of one kind"),
        (np.array([0, 1, 2], dtype=complex), "dtype complex"),
    ],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        encode_partial(labels, 3)


def test_memory_grows_with_edges_not_with_nodes_squared():
    rng = np.random.default_rng(0)
    n, k, classes = 20_000, 15, 50
    # Neighbours come from the node's own stretch, as they do where nodes of a class are near each other.
    indices = (np.arange(n)[:, None] + rng.integers(1, 500, (n, k))) % n
    W = sp.csr_array((rng.random(n * k), indices.reshape(-1), np.arange(0, n * k + 1, k)), shape=(n, n))
    shown = rng.random(n) < 0.02
    codes = rng.integers(0, classes, n)
    propagate(W[:50, :50], codes[:50], np.arange(50) < 5)  # compile
    tracemalloc.start()
    try:
        result = propagate(W, codes, shown, n_classes=classes, max_rounds=5, tol=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.rounds == 5
    assert peak < 10 * 8 * (n * k + n * classes) < 8 * n * n / 20


def dense_limit(W, codes, shown, classes):
    Y = np.zeros((len(codes), classes))
    Y[shown, codes[shown]] = 1
    return np.linalg.solve(np.eye(len(codes)) - 0.85 * transition(W, shown).toarray(), 0.15 * Y)


@pytest.fixture
def plain(monkeypatch):
    """Propagation by the formula alone."""

    def run(*args, **options):
        with monkeypatch.context() as patch:
            patch.setattr(predict, "_symmetric", lambda graph: False)
            return propagate(*args, **options)

    return run


def test_accelerated_rounds_lead_to_the_same_limit_in_fewer(plain):
    rng = np.random.default_rng(3)
    W = random_graph(rng, 200, 8)
    W = sp.csr_array(sp.block_diag([W, random_graph(rng, 20, 4)]))  # a piece without any label
    codes = np.arange(220) % 19
    shown = np.zeros(220, bool)
    shown[:200] = reveal(codes[:200], 2, seed=0)
    formula, accelerated = plain(W, codes, shown), propagate(W, codes, shown)
    assert accelerated.converged and accelerated.rounds < 0.6 * formula.rounds
    assert np.abs(accelerated.scores - dense_limit(W, codes, shown, 19)).max() < 1e-6
    assert (accelerated.scores >= 0).all()
    np.testing.assert_array_equal(accelerated.predicted, formula.predicted)
    assert (accelerated.predicted[200:] == -1).all()


@pytest.mark.parametrize("options", [{"max_rounds": 3}, {"tol": 0, "max_rounds": 30}])
def test_rounds_that_are_too_few_to_accelerate_are_those_of_the_formula(plain, options):
    W = random_graph(np.random.default_rng(4), 60, 4)
    codes, shown = np.arange(60) % 3, np.arange(60) < 6
    formula, accelerated = plain(W, codes, shown, **options), propagate(W, codes, shown, **options)
    np.testing.assert_array_equal(formula.scores, accelerated.scores)
    assert formula.rounds == accelerated.rounds == options["max_rounds"]


@pytest.mark.parametrize("symmetric", [True, False])
def test_far_nodes_and_one_way_edges_are_not_accelerated(plain, symmetric):
    # At the far end of a chain scores are smaller than the tolerance, and still say which class is nearer.
    chain = sp.diags_array([np.full(119, 1.0 if symmetric else 0.5), np.ones(119)], offsets=[-1, 1], format="csr")
    codes, shown = np.arange(120) % 2, np.isin(np.arange(120), [0, 119])
    np.testing.assert_array_equal(plain(chain, codes, shown).scores, propagate(chain, codes, shown).scores)


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-11])
def test_accelerated_rounds_keep_any_tolerance(tol):
    # Single precision, in which the first of them are done, has no more than seven digits.
    W = random_graph(np.random.default_rng(5), 200, 8)
    codes = np.arange(200) % 19
    shown = reveal(codes, 2, seed=0)
    accelerated = propagate(W, codes, shown, tol=tol)
    assert accelerated.converged
    assert np.abs(accelerated.scores - dense_limit(W, codes, shown, 19)).max() < tol
