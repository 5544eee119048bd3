"""NumPy's own `Generator.poisson` is the slow twin: the same stream of uniforms gives the same counts."""

import numpy as np
import pytest

from asbc.kernels.poisson import UNKNOWN, four_counts, poisson_counts, unit_counts


def counts(rates, rows, uniforms):
    out = np.empty((rows, len(rates)), np.float32)
    units = unit_counts(uniforms, 0)
    return poisson_counts(uniforms, units, four_counts(units), 0, np.array(rates), out), out


@pytest.mark.parametrize(
    "rates", [[1], [1, 1, 2, 1, 9], [10, 1, 40, 3], [900, 1, 12], [1] * 4, [1] * 11 + [3] + [1] * 6]
)
def test_counts_are_those_of_numpy(rates):
    for seed in range(5):
        end, found = counts(rates, 200, np.random.default_rng(seed).random(400_000))
        assert end > 0
        assert np.array_equal(found, np.random.default_rng(seed).poisson(rates, (200, len(rates))))


@pytest.mark.parametrize("rates", [[1], [5], [20]])
def test_a_stream_that_ends_is_said_to_end(rates):
    uniforms = np.random.default_rng(0).random(400)
    assert counts(rates, 400, uniforms)[0] == -1
    assert counts(rates, 5, uniforms)[0] > 0


def test_counts_of_rate_one_at_every_place():
    uniforms = np.array([0.9, 0.5, 0.1, 0.2, 0.9])
    assert unit_counts(uniforms, 0).tolist() == [2, 1, 0, 0, UNKNOWN]
    assert unit_counts(uniforms, 2).tolist() == [0, 0, UNKNOWN]


def test_four_counts_at_every_place():
    units = np.array([2, 1, 0, 0, 3, 0, 1, 40, 0, 0, 0, 1, UNKNOWN], np.uint8)
    found = []
    for start in range(len(units)):
        place, four = start, []
        while len(four) < 4 and place < len(units) and units[place] < 32:
            four.append(int(units[place]))
            place += four[-1] + 1
        found.append(sum(c << 5 * i for i, c in enumerate(four)) | (place - start) << 20 if len(four) == 4 else 0)
    assert any(found) and not all(found)
    assert four_counts(units).tolist() == found


def test_counts_too_large_to_pack_are_counted_one_by_one():
    uniforms = np.full(390, 0.99)
    end, found = counts([1, 1, 1], 1, uniforms)
    size = int(found[0, 0])
    assert size > 31 and found.tolist() == [[size] * 3] and end == 3 * (size + 1)
    assert counts([1, 1, 1, 1], 1, uniforms)[0] == -1
