import numpy as np
import pytest

from asbc.kernels.lanes import LANES
from asbc.kernels.spectrum import WORK_PER_ROW, effective_ranks
from tests import twins


def ranks_of(matrices):
    k = matrices.shape[1]
    r, c = np.tril_indices(k)
    out = np.empty(LANES)
    A = np.ascontiguousarray(matrices[:, r, c].T).ravel()
    effective_ranks(A, k, np.empty(WORK_PER_ROW * k), out)
    return out


@pytest.mark.parametrize("k", [1, 2, 3, 8, 15, 30, 61])
def test_ranks_equal_lapack(k):
    rng = np.random.default_rng(k)
    worst = 0.0
    for sigma in np.geomspace(0.05, 50, 12):
        points = rng.normal(size=(LANES, k, 6))
        K = np.array([twins.kernel(twins.squared_distances(p, p), sigma) for p in points])
        worst = max(worst, np.abs(ranks_of(K) / [twins.effective_rank(m) for m in K] - 1).max())
    assert worst < 1e-9


def test_special_matrices():
    k = 30
    K = np.array([np.eye(k)] * LANES)
    K[1] = np.ones((k, k))
    K[2] = np.kron(np.eye(15), np.ones((2, 2)))
    K[3] = np.kron(np.eye(3), np.ones((10, 10)))
    K[4, 0, 1] = K[4, 1, 0] = 1.0
    K[5] = np.eye(k) + 1e-9 * (1 - np.eye(k))
    K[6] = np.ones((k, k)) - 1e-12 * (1 - np.eye(k))
    np.testing.assert_allclose(ranks_of(K)[:4], [30, 1, 15, 3], rtol=1e-12)
    np.testing.assert_allclose(ranks_of(K), [twins.effective_rank(m) for m in K], rtol=1e-9)


@pytest.mark.parametrize("size", [1e-8, 1e-30, 1e-100, 1e-150, 1e-155, 1e-160, 1e-200, 1e-310])
def test_entries_that_nearly_vanish(size):
    rng = np.random.default_rng(3)
    K = size * rng.uniform(size=(LANES, 30, 30)) * rng.integers(0, 2, (LANES, 30, 30))
    K = K + K.transpose(0, 2, 1)
    K[:, np.arange(30), np.arange(30)] = 1.0
    np.testing.assert_allclose(ranks_of(K), 30, rtol=1e-9)


def test_a_lane_does_not_feel_the_others():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(LANES, 30, 5))
    K = np.array([twins.kernel(twins.squared_distances(p, p), 1.0) for p in points])
    alone = np.repeat(K[:1], LANES, axis=0)
    assert (ranks_of(alone) == ranks_of(K)[0]).all()
