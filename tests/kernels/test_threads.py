import os
import threading

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info

from asbc.kernels.threads import on_threads, products_alone, share_out, work_together


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


def test_several_callers_at_once_and_a_forked_process_get_their_work_done():
    def kernel(first, last, times):
        times[first:last] += 1

    def call(times):
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
        for _ in range(20):
            share_out(kernel, len(times), times, least=1)

    counts = [np.zeros(1000, int) for _ in range(4)]
    callers = [threading.Thread(target=call, args=(times,)) for times in counts]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((times == 20).all() for times in counts)
    child = os.fork()
    if child == 0:
        times = np.zeros(1000, int)
        call(times)
        os._exit(0 if (times == 20).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_after_an_error_no_task_is_begun():
    begun = []

    def do(task):
        begun.append(task)
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        work_together(range(1000), do, 2)
    assert len(begun) <= 2


def test_products_run_on_the_thread_that_asks():
    """Also those that compiled loops ask for, whose library comes with SciPy."""

    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    before = threads()
    seen = []
    on_threads(range(5), lambda _: seen.append(threads()))
    with products_alone():
        assert threads() == {1}
    assert seen == [{1}] * 5
    assert threads() == before
