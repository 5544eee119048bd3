import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from asbc.kernels.lanes import (
    LANES,
    any_positive,
    exp,
    gather,
    lane_sum,
    load,
    load_row,
    smaller,
    splat,
    sqrt,
    store,
    where_less,
    where_positive,
)


@njit
def _exp(x, out):
    for i in range(0, x.shape[0], LANES):
        store(out, i, exp(load(x, i)))


@njit
def _arithmetic(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a + b)
    store(out, LANES, a - b)
    store(out, 2 * LANES, a * b)
    store(out, 3 * LANES, a / b)
    store(out, 4 * LANES, sqrt(b * b))
    store(out, 5 * LANES, where_positive(a, splat(1.0), splat(2.0)))
    return lane_sum(a), any_positive(a)


@njit
def _load_matrix(x):
    return lane_sum(load(x, 0))


def test_exp_is_good_to_the_last_place():
    x = -np.concatenate([np.linspace(0, 707.9, 80_000), np.geomspace(1e-300, 700, 80_000)])
    out = np.empty_like(x)
    _exp(x, out)
    assert np.abs(out / np.exp(x) - 1).max() < 4e-16


def test_exp_at_the_ends():
    x = np.array([0.0, -0.0, -1e-320, -708.0, -708.5, -1e300, -np.inf, -1.0])
    out = np.empty(8)
    _exp(x, out)
    assert np.array_equal(out[:3], [1, 1, 1])
    assert out[3] == pytest.approx(np.exp(-708.0), rel=1e-15)
    assert np.array_equal(out[4:7], [0, 0, 0])


def test_operators_are_lane_by_lane():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, LANES))
    out = np.empty(6 * LANES)
    total, some = _arithmetic(x, y, out)
    expected = [x + y, x - y, x * y, x / y, np.abs(y), np.where(x > 0, 1, 2)]
    np.testing.assert_allclose(out.reshape(6, LANES), expected, rtol=1e-15)
    assert total == pytest.approx(x.sum(), rel=1e-14)
    assert some
    assert not _arithmetic(-np.abs(x), y, out)[1]


@njit
def _load_rows(X, row, column, out):
    store(out, 0, load_row(X, row, column))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_a_matrix_become_doubles(dtype):
    X = np.random.default_rng(0).normal(size=(3, 20)).astype(dtype)
    out = np.empty(LANES)
    _load_rows(X, 2, 5, out)
    assert np.array_equal(out, X[2, 5 : 5 + LANES].astype(float))


def test_only_flat_arrays_hold_lanes():
    with pytest.raises(TypingError, match="flat, contiguous float64"):
        _load_matrix(np.zeros((2, LANES)))
    with pytest.raises(TypingError, match="flat, contiguous float64"):
        _load_matrix(np.zeros(LANES, np.float32))


@njit
def _compare(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, smaller(a, b))
    store(out, LANES, where_less(a, b, splat(1.0), splat(2.0)))


def test_comparisons_are_lane_by_lane():
    x = np.array([1.0, 2.0, 3.0, np.inf, -1.0, 0.0, 5.0, 7.0])
    y = np.array([2.0, 1.0, 3.0, 1.0, -2.0, 1.0, np.inf, 8.0])
    out = np.empty(2 * LANES)
    _compare(x, y, out)
    assert np.array_equal(out[:LANES], np.minimum(x, y))
    assert np.array_equal(out[LANES:], np.where(x < y, 1, 2))


@njit
def _gather(values, starts, offsets, place, out):
    store(out, 0, gather(values, starts, offsets, place))


def test_gathered_lanes_come_from_where_they_should():
    rng = np.random.default_rng(0)
    values, starts, offsets = rng.normal(size=50), rng.integers(0, 30, LANES), rng.integers(0, 20, 3 * LANES)
    out = np.empty(LANES)
    _gather(values, starts, offsets, LANES, out)
    assert np.array_equal(out, values[starts + offsets[LANES : 2 * LANES]])
