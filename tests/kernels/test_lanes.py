import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from asbc.kernels.lanes import (
    HALF,
    LANES,
    SINGLES,
    any_positive,
    exp,
    gather,
    lane_min,
    lane_sum,
    larger_magnitude,
    load,
    load_half,
    safe_ratio,
    smaller,
    splat,
    splat_half,
    sqrt,
    store,
    store_apart,
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
    store(out, 6 * LANES, larger_magnitude(a, b))
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
    out = np.empty(7 * LANES)
    total, some = _arithmetic(x, y, out)
    expected = [x + y, x - y, x * y, x / y, np.abs(y), np.where(x > 0, 1, 2), np.maximum(x, np.abs(y))]
    np.testing.assert_allclose(out.reshape(7, LANES), expected, rtol=1e-15)
    assert total == pytest.approx(x.sum(), rel=1e-14)
    assert some
    assert not _arithmetic(-np.abs(x), y, out)[1]


@njit
def _singles(x, y, out):
    a, b = load(x, 0), load(y, SINGLES)
    results = (a + b, a - b, a * b, safe_ratio(a, b), larger_magnitude(b, a), splat(x[1]))
    for place, value in enumerate(results):
        store(out, place * SINGLES, value)


def test_singles_equal_numpy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2 * SINGLES)).astype(np.float32)
    y[SINGLES] = 0.0
    out = np.empty(6 * SINGLES, np.float32)
    _singles(x, y, out)
    a, b = x[:SINGLES], y[SINGLES:]
    share = np.where(b > 0, a / np.where(b > 0, b, 1), 0)
    expected = [a + b, a - b, a * b, share, np.maximum(b, np.abs(a)), np.full(SINGLES, x[1])]
    np.testing.assert_array_equal(out.reshape(6, SINGLES), np.array(expected, np.float32))


def test_only_flat_arrays_hold_lanes():
    with pytest.raises(TypingError, match="flat, contiguous float64"):
        _load_matrix(np.zeros((2, LANES)))
    singles = np.zeros(2 * SINGLES, np.float32)
    with pytest.raises(TypingError, match="flat, contiguous float32"):
        _singles(singles, singles, np.zeros(6 * SINGLES))


@njit
def _compare(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, smaller(a, b))
    store(out, LANES, where_less(a, b, splat(1.0), splat(2.0)))
    return lane_min(a)


def test_comparisons_are_lane_by_lane():
    x = np.array([1.0, 2.0, 3.0, np.inf, -1.0, 0.0, 5.0, 7.0])
    y = np.array([2.0, 1.0, 3.0, 1.0, -2.0, 1.0, np.inf, 8.0])
    out = np.empty(2 * LANES)
    assert _compare(x, y, out) == -1
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


@njit
def _halves(x, out):
    a = load_half(x, 0)
    b = load_half(x, HALF)
    store(out, 0, a + b)
    store(out, HALF, sqrt(b * b) / splat_half(2.0))
    store_apart(out, 3 * HALF, 2 * HALF, load(x, 0))
    return lane_sum(load(x, 0)), lane_sum(a) + lane_sum(b)


def test_halves_of_lanes():
    x = np.random.default_rng(1).normal(size=LANES)
    out = np.empty(4 * HALF)
    whole, parts = _halves(x, out)
    assert whole == parts
    np.testing.assert_allclose(out[:HALF], x[:HALF] + x[HALF:], rtol=1e-15)
    np.testing.assert_allclose(out[HALF : 2 * HALF], np.abs(x[HALF:]) / 2, rtol=1e-15)
    assert np.array_equal(out[2 * HALF :], np.r_[x[HALF:], x[:HALF]])
