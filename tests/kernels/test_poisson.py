"""NumPy's own `Generator.poisson` is the slow twin: the same stream of uniforms gives the same counts."""

import numpy as np
import pytest

from asbc.kernels.poisson import NONE, UNKNOWN, counts_at, four_counts, poisson_counts


def counts(rates, rows, uniforms):
    """Where the stream was left, and the counts in the order of their rates."""
    rates = np.array(rates)
    other = np.flatnonzero(rates != 1)
    ones, others = np.zeros((rows, np.sum(rates == 1) + 4), np.uint8), np.zeros((rows, len(other)))
    units, twos = counts_at(uniforms, 0, 1.0), counts_at(uniforms, 0, 2.0)
    ahead = np.diff(other, prepend=-1, append=len(rates)) - 1
    end = poisson_counts(uniforms, units, twos, four_counts(units), 0, ahead, rates[other], ones, others)
    out = np.empty((rows, len(rates)))
    out[:, rates == 1], out[:, other] = ones[:, :-4], others
    return end, out


@pytest.mark.parametrize(
    "rates", [[1], [1, 1, 2, 1, 9], [10, 1, 40, 3], [900, 1, 12], [1] * 4, [1] * 11 + [3] + [1] * 6]
)
def test_counts_are_those_of_numpy(rates):
    for seed in range(5):
        end, found = counts(rates, 200, np.random.default_rng(seed).random(400_000))
        assert end > 0
        assert np.array_equal(found, np.random.default_rng(seed).poisson(rates, (200, len(rates))))


@pytest.mark.parametrize("rates", [[1], [2], [5], [20]])
def test_a_stream_that_ends_is_said_to_end(rates):
    uniforms = np.random.default_rng(0).random(400)
    assert counts(rates, 400, uniforms)[0] == -1
    assert counts(rates, 5, uniforms)[0] > 0


def test_counts_of_rate_one_at_every_place():
    uniforms = np.array([0.9, 0.5, 0.1, 0.2, 0.9])
    assert counts_at(uniforms, 0, 1.0).tolist() == [2, 1, 0, 0, UNKNOWN]
    assert counts_at(uniforms, 2, 1.0).tolist() == [0, 0, UNKNOWN]


@pytest.mark.parametrize("rate", [1.0, 2.0])
@pytest.mark.parametrize("high", [0.5, 1.0], ids=["small counts", "counts of all sizes"])
def test_counts_at_every_place_are_those_of_products_one_by_one(high, rate):
    uniforms = np.random.default_rng(3).random(3000) * high
    uniforms[100:140] = 0.999  # a large one
    wanted = []
    for start in range(len(uniforms)):
        below = np.flatnonzero(np.multiply.accumulate(uniforms[start:]) <= np.exp(-rate))
        wanted.append(int(below[0]) if len(below) else UNKNOWN)
    assert max(c for c in wanted if c != UNKNOWN) > 30
    assert counts_at(uniforms, 0, rate).tolist() == wanted
    assert counts_at(uniforms, 70, rate).tolist() == wanted[70:]


def test_four_counts_at_every_place():
    units = np.array([2, 1, 0, 0, 3, 0, 1, 90, 0, 0, 0, 1, *[0] * 90, 1, UNKNOWN], np.uint8)
    found = []
    for start in range(len(units)):
        place, four = start, []
        while len(four) < 4 and place < len(units) and units[place] != UNKNOWN:
            four.append(int(units[place]))
            place += four[-1] + 1
        found.append(sum(c << 8 * i for i, c in enumerate(four)) if len(four) == 4 else int(NONE))
    assert any(f == NONE for f in found) and any(f != NONE and f > 255 for f in found)
    assert four_counts(units).tolist() == found


def test_counts_too_large_to_pack_are_counted_one_by_one():
    uniforms = np.full(390, 0.99)
    end, found = counts([1, 1, 1], 1, uniforms)
    size = int(found[0, 0])
    assert size > 64 and found.tolist() == [[size] * 3] and end == 3 * (size + 1)
    assert counts([1, 1, 1, 1], 1, uniforms)[0] == -1
