import numba
import numpy as np
import pytest

from asbc.kernels.threads import share_out


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("least", [1, 64])
def test_every_node_is_worked_on_once(count, least):
    times = np.zeros(count, int)

    def kernel(first, last, times):
        assert first % least == 0
        times[first:last] += 1

    before = numba.get_num_threads()
    for threads in {1, before}:
        numba.set_num_threads(threads)
        share_out(kernel, count, times, least=least)
    numba.set_num_threads(before)
    assert (times == len({1, before})).all()


def test_what_goes_wrong_on_a_thread_is_told():
    def kernel(first, last):
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        share_out(kernel, 1000)
