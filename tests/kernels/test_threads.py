import os
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import asbc
from asbc.kernels import threads
from asbc.kernels.threads import one_blas_thread, run_products, run_ranges, run_tasks


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("least", [1, 64])
def test_every_node_is_worked_on_once(count, least):
    times = np.zeros(count, int)

    def kernel(first, last, times):
        assert first % least == 0
        times[first:last] += 1

    before = numba.get_num_threads()
    for count_of_threads in {1, before}:
        numba.set_num_threads(count_of_threads)
        run_ranges(kernel, count, times, least=least)
    numba.set_num_threads(before)
    assert (times == len({1, before})).all()


def test_an_error_on_a_thread_is_raised():
    def kernel(first, last):
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        run_ranges(kernel, 1000)


def test_several_callers_at_once_and_a_forked_process_get_their_work_done():
    def kernel(first, last, times):
        times[first:last] += 1

    def call(times):
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
        for _ in range(20):
            run_ranges(kernel, len(times), times, least=1)

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


def test_after_an_error_no_task_starts():
    started = []

    def do(task):
        started.append(task)
        raise ValueError("no room")

    with pytest.raises(ValueError, match="no room"):
        run_tasks(range(1000), do, 2)
    assert len(started) <= 2


@pytest.mark.parametrize("started", [0, 1])
def test_without_more_threads_the_calling_thread_does_all_tasks(monkeypatch, started):
    """Also if a thread takes the work although starting it failed."""
    helpers = []

    class Pool:
        def submit(self, work):
            if started:
                helpers.append(threading.Thread(target=work))
                helpers[0].start()
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_pool", lambda *_: Pool())
    done = []

    def do(task):
        time.sleep(0.01 if threading.current_thread() is threading.main_thread() else 0.1)
        done.append(task)

    run_tasks(range(10), do, 2)
    assert sorted(done) == list(range(10))


def blas_threads():
    """Numbers of threads of NumPy's and SciPy's libraries; other tests may have loaded more, such as faiss's."""
    own = {library.filepath for library in threads._blas_libraries()}
    return {library["num_threads"] for library in threadpool_info() if library["filepath"] in own}


@pytest.fixture
def two_blas_threads():
    with threadpool_limits(2, user_api="blas"):
        yield
        assert blas_threads() == {2}


def test_products_run_on_the_thread_that_calls_them(two_blas_threads):
    """Also those of compiled loops, whose library comes with SciPy."""
    seen = []
    run_products(range(5), lambda _: seen.append(blas_threads()))
    with one_blas_thread():
        assert blas_threads() == {1}
    assert seen == [{1}] * 5


def test_overlapping_limits_are_restored_by_the_last(two_blas_threads):
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_overlapping_fits_errors_and_interrupts_restore_the_number_of_threads(two_blas_threads):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 16))

    def fit(number):
        numba.set_num_threads(2)
        if number % 3:
            asbc.search_neighbors(X[number:], 10)
            return
        error = KeyboardInterrupt if number % 2 else ValueError

        def fail(task):
            np.ones((64, 64)) @ np.ones((64, 64))
            if task == 5:
                raise error

        with pytest.raises(error):
            run_products(range(10), fail)

    for _ in range(3):
        callers = [threading.Thread(target=fit, args=(number,)) for number in range(12)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert blas_threads() == {2}


def test_interrupts_while_the_limit_is_set_or_released_restore_it(two_blas_threads, monkeypatch):
    library = threads._blas_libraries()[0]
    change, calls = library.set_num_threads, []

    def interrupted(number):
        calls.append(number)
        change(number)
        if len(calls) in (1, 4):
            raise KeyboardInterrupt

    monkeypatch.setattr(library, "set_num_threads", interrupted)
    with pytest.raises(KeyboardInterrupt), one_blas_thread():
        raise AssertionError("unreachable")  # interrupted while it is set
    assert blas_threads() == {2}
    with pytest.raises(KeyboardInterrupt), one_blas_thread():  # interrupted while it is released
        pass
    assert blas_threads() == {2}


@pytest.mark.parametrize("way", ["atexit", "daemon"])
def test_a_fit_at_exit_runs_on_the_calling_thread(way):
    code = """
import atexit, sys, threading, time
import numpy as np
import numba, asbc
X = np.random.default_rng(0).normal(size=(1500, 16))
numba.set_num_threads(min(2, numba.config.NUMBA_NUM_THREADS))
wanted = asbc.search_neighbors(X, 10).indices

def fit():
    assert (asbc.search_neighbors(X, 10).indices == wanted).all()
    print("fitted", flush=True)

if sys.argv[1] == "atexit":
    atexit.register(fit)
else:
    ended = threading.Event()
    def wait_and_fit():
        threading.main_thread().join()
        time.sleep(0.2)
        fit()
        ended.set()
    threading.Thread(target=wait_and_fit, daemon=True).start()
    atexit.register(ended.wait, 30)
"""
    result = subprocess.run([sys.executable, "-c", code, way], capture_output=True, text=True)
    assert result.stderr == "" and result.stdout == "fitted\n"
