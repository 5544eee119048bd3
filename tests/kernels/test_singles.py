import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from asbc.kernels.singles import SINGLES, largest_size, load_singles, share_of, spread, store_singles


@njit
def everything(x, y, out):
    a, b = load_singles(x, 0), load_singles(y, SINGLES)
    results = (a + b, a - b, a * b, share_of(a, b), largest_size(b, a), spread(x[1]))
    for place, value in enumerate(results):
        store_singles(out, place * SINGLES, value)


def test_arithmetic_equals_numpy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 2 * SINGLES)).astype(np.float32)
    y[SINGLES] = 0.0
    out = np.empty(6 * SINGLES, np.float32)
    everything(x, y, out)
    a, b = x[:SINGLES], y[SINGLES:]
    share = np.where(b > 0, a / np.where(b > 0, b, 1), 0)
    expected = [a + b, a - b, a * b, share, np.maximum(b, np.abs(a)), np.full(SINGLES, x[1])]
    np.testing.assert_array_equal(out.reshape(6, SINGLES), np.array(expected, np.float32))


def test_only_flat_arrays_of_singles_hold_them():
    with pytest.raises(TypingError, match="flat, contiguous float32"):
        everything(np.zeros(2 * SINGLES), np.zeros(2 * SINGLES, np.float32), np.zeros(6 * SINGLES, np.float32))
