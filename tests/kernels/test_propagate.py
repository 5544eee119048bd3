import numpy as np
import pytest
import scipy.sparse as sp

from asbc.kernels.propagate import CLASSES_PER_STRIP, conjugate_strips, propagate_strips


def plain_conjugate(P, alpha, degree, source, rounds):
    """Conjugate gradients for (I - alpha P) F = source, one class at a time, in the inner product of the degrees."""
    found = np.empty_like(source)
    for c in range(source.shape[1]):
        scores = source[:, c].copy()
        rest = alpha * (P @ scores)
        step = rest.copy()
        for _ in range(rounds - 1):
            image = step - alpha * (P @ step)
            along = degree @ (step * image)
            if along == 0:
                break
            power = degree @ rest**2
            scores, rest = scores + power / along * step, rest - power / along * image
            step = rest + degree @ rest**2 / power * step
        found[:, c] = scores
    return found


@pytest.mark.parametrize("strips", [1, 2, 3])
@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_conjugate_rounds_equal_the_slow_twin(strips, rounds):
    rng = np.random.default_rng(0)
    n = 70
    W = sp.csr_array(np.where(rng.random((n, n)) < 0.1, rng.random((n, n)), 0.0))
    W = sp.csr_array(W + W.T)
    degree = W.sum(axis=1)
    P = sp.csr_array(sp.diags_array(np.where(np.arange(n) < 9, 0.0, 1.0 / np.maximum(degree, 1e-9))) @ W)
    source = np.zeros((strips, n, CLASSES_PER_STRIP))
    source[rng.integers(0, strips, 9), np.arange(9), rng.integers(0, CLASSES_PER_STRIP, 9)] = 0.15
    found, taken = conjugate_strips(P.indptr, P.indices, P.data, 0.85, degree, source, rounds, 0.0)
    assert taken == rounds
    for s in range(strips):
        expected = np.maximum(plain_conjugate(P, 0.85, degree, source[s], rounds), 0.0)
        np.testing.assert_allclose(found[s], expected, atol=1e-12)


def test_rounds_begin_where_they_are_told():
    W = sp.csr_array(np.ones((4, 4)) - np.eye(4)) / 3.0
    source = np.zeros((1, 4, CLASSES_PER_STRIP))
    source[0, 0, 0] = 0.15
    begin = np.full(source.shape, 0.5)
    scores, rounds, _ = propagate_strips(W.indptr, W.indices, W.data, 0.85, source, 1, 0.0, begin)
    np.testing.assert_allclose(scores, 0.85 * 0.5 + source)
    assert rounds.tolist() == [1]
