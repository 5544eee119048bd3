"""NumPy's own `Generator.poisson` is the slow twin: the same stream of uniforms gives the same counts."""

import math

import numpy as np
import pytest

from asbc.kernels.poisson import (
    KNOWN,
    MASK,
    OTHER,
    PADDING,
    SHIFT,
    SURE,
    TAKEN,
    look_ahead,
    poisson_counts,
    steps_of,
)


def known_of(uniforms):
    out = np.empty(len(uniforms) + 1, np.uint32)
    look_ahead(uniforms, 0, out)
    return out


def counts(rates, rows, uniforms, known=None, logs=50, dtype=np.float32):
    """Where the stream was left, and the counts."""
    rates = np.array(rates)
    out = np.full(rows * len(rates) + PADDING, -1, dtype)
    known = known_of(uniforms) if known is None else known
    factorials = np.array([math.lgamma(count + 1.0) for count in range(logs)])
    end = poisson_counts(uniforms, known, 0, steps_of(rates), rates[rates > KNOWN], factorials, rows, out)
    return end, out[:-PADDING].reshape(rows, -1)


@pytest.mark.parametrize(
    "rates",
    [
        [1],
        [1, 1, 2, 1, 9],
        [10, 1, 40, 3],
        [900, 1, 12],
        [1] * 4,
        [1] * 11 + [3] + [1] * 6,
        [4, 3, 2, 1, 1, 5],
        [2, 4, 4],
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_counts_are_those_of_numpy(rates, dtype):
    for seed in range(5):
        end, found = counts(rates, 200, np.random.default_rng(seed).random(400_000), dtype=dtype)
        assert end > 0
        assert np.array_equal(found, np.random.default_rng(seed).poisson(rates, (200, len(rates))))


@pytest.mark.parametrize("rates", [[1], [1] * 7, [2], [3], [4], [5], [20]])
def test_a_stream_that_ends_is_said_to_end(rates):
    uniforms = np.random.default_rng(0).random(400)
    assert counts(rates, 400, uniforms)[0] == -1
    end, found = counts(rates, 5, uniforms)
    assert end > 0 and np.array_equal(found, np.random.default_rng(0).poisson(rates, (5, len(rates))))


def test_a_stream_is_read_to_its_very_end():
    uniforms = np.array([0.9, 0.5, 0.1, 0.2, 0.3])
    assert counts([1], 4, uniforms)[1].ravel().tolist() == [2, 0, 0, -1]  # 0.9 x 0.5 and x 0.1, then 0.2 and 0.3
    assert counts([1], 3, uniforms)[0] == len(uniforms)


@pytest.mark.parametrize("high", [0.5, 1.0], ids=["small counts", "counts of all sizes"])
def test_what_is_known_of_a_place_follows_from_products_one_by_one(high):
    uniforms = np.random.default_rng(3).random(9000) * high
    uniforms[100:140] = 0.999  # a large count
    known = known_of(uniforms)

    def after(start, rate):
        """Where a count ends that begins at a place; None where it is too large, or near the end."""
        if start is None or start >= len(uniforms) - SURE:
            return None
        below = np.multiply.accumulate(uniforms[start : start + SURE + 1]) <= np.exp(-float(rate))
        return start + int(np.argmax(below)) + 1 if below.any() else None

    unknown = 0
    for start in range(len(uniforms)):
        places = [start]
        for _ in range(4):
            places.append(after(places[-1], 1))
        wanted = places[1:] + [after(start, rate) for rate in (2, 3, 4)]
        unknown += wanted.count(None)
        assert (known[start] >> SHIFT & MASK).tolist() == [0 if place is None else place - start for place in wanted]
    assert unknown > 50
    assert known[-1] == 0


def test_a_stream_that_has_become_longer_is_known_as_if_it_had_always_been():
    uniforms = np.random.default_rng(5).random(6000)
    known = np.empty(6001, np.uint32)
    look_ahead(uniforms[:4500], 0, known[:4501])
    look_ahead(uniforms, 4400, known)
    assert np.array_equal(known, known_of(uniforms))


def test_counts_too_large_to_be_known_are_counted_one_by_one():
    uniforms = np.full(390, 0.99)
    end, found = counts([1, 1, 1], 1, uniforms)
    size = int(found[0, 0])
    assert size > 64 and found.tolist() == [[size] * 3] and end == 3 * (size + 1)
    assert counts([1, 1, 1, 1], 1, uniforms)[0] == -1


def test_counts_are_right_where_nothing_is_known():
    uniforms = np.random.default_rng(0).random(20_000)
    end, found = counts([1, 1, 3, 1, 60], 100, uniforms, known=np.zeros(20_001, np.uint32), logs=1)
    assert end > 0 and np.array_equal(found, np.random.default_rng(0).poisson([1, 1, 3, 1, 60], (100, 5)))


def test_steps_take_every_count_once():
    rates = np.array([1] * 9 + [7, 1, 2, 2] + [1] * 4 + [3, 12, 4])
    steps = steps_of(rates)
    assert steps.tolist() == [3, 3, 0, OTHER, 0, 4, 4, 3, 5, OTHER, 6]
    assert sum(1 if step == OTHER else int(TAKEN[step]) for step in steps) == len(rates)
    assert steps_of(np.array([2])).tolist() == [4]
