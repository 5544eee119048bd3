"""Run compiled loops and matrix products on several threads.

Each kernel is a loop over a range of nodes, ``kernel(first, last, ...)``, compiled for one thread and without the
interpreter lock. Threads take ranges in turn. numba's parallel loops would do the same, but take about a second longer
to compile each.

The threads of BLAS libraries keep waiting busily for some milliseconds after each product and block a core. So
products are distributed like loops, with BLAS limited to one thread.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from numba import get_num_threads
from threadpoolctl import ThreadpoolController

NODES_PER_TASK = 64  # the least number of nodes per task, so that its workspace is worth allocating
TASKS_PER_THREAD = 4  # of about equal size, so that no thread waits long for the others at the end
_END = object()  # marks the end of the tasks


@functools.cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work; starting them for each call would slow small graphs down.

    A forked process has none of its parent's threads, so each process has its own pool.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix="asbc")


def run_tasks(tasks: Iterable[Any], do: Callable[[Any], Any], threads: int) -> None:
    """Call ``do(task)`` for every task, on the calling thread and ``threads - 1`` others.

    After an error or an interrupt no further task starts. The calling thread works alone if no other thread can be
    started, for example at the exit of the interpreter.
    """
    waiting = iter(tasks)
    errors: list[BaseException] = []
    active = 0  # threads at work
    changed = threading.Condition()

    def next_task():
        with changed:
            return next(waiting, _END)

    def work() -> None:
        nonlocal active, waiting
        with changed:
            active += 1
        try:
            while (task := next_task()) is not _END:
                do(task)
        except BaseException as error:
            waiting = iter(())
            errors.append(error)
        finally:
            with changed:
                active -= 1
                changed.notify_all()

    try:
        with suppress(RuntimeError):  # the interpreter exits, or the system has no more threads
            for _ in range(threads - 1):
                _pool(os.getpid(), threads - 1).submit(work)
        work()
        with changed:
            changed.wait_for(lambda: active == 0)
        if errors:
            raise errors[0]
    finally:
        waiting = iter(())
        errors.clear()  # they refer to this frame


_blas_lock = threading.RLock()
_blas_holders: set[object] = set()  # contexts in which BLAS has one thread
_blas_before: list[tuple[Any, int]] = []  # libraries, and their numbers of threads before the limit


def _limit_blas() -> None:
    """Limit BLAS to one thread if somebody holds the limit; otherwise restore what was set before."""
    if _blas_holders and not _blas_before:
        _blas_before.extend((library, library.num_threads) for library in _blas_libraries())
        for library, _ in _blas_before:
            library.set_num_threads(1)
    elif not _blas_holders:
        for library, threads in _blas_before:
            library.set_num_threads(threads)
        _blas_before.clear()


def _reset_blas_limit() -> None:
    """Start again in a forked process, which has no other threads."""
    global _blas_lock
    _blas_lock = threading.RLock()
    _blas_holders.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_blas_limit)


@functools.cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg.cython_blas  # noqa: F401  compiled loops use this library, so it must be loaded first

    found = ThreadpoolController().lib_controllers  # takes milliseconds
    return [library for library in found if library.user_api == "blas"]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context in which every matrix product runs on the thread that calls it.

    Contexts may overlap in any order and on any threads: the last one that ends restores the number of threads.
    """
    holder = object()
    try:
        with _blas_lock:
            _blas_holders.add(holder)
            _limit_blas()
        yield
    finally:
        try:
            _release_blas(holder)
        except KeyboardInterrupt:
            _release_blas(holder)
            raise


def _release_blas(holder: object) -> None:
    with _blas_lock:
        _blas_holders.discard(holder)
        _limit_blas()


@functools.cache
def _launch_numba() -> None:
    """Launch numba's threads without a change of the threads of other libraries.

    numba may use the OpenMP library of torch, and sets its number of threads.
    """
    libraries = [library for library in ThreadpoolController().lib_controllers if library.user_api == "openmp"]
    before = [library.num_threads for library in libraries]
    get_num_threads()
    for library, threads in zip(libraries, before, strict=True):
        library.set_num_threads(threads)


def thread_count() -> int:
    """Return the number of threads that numba allows this thread."""
    _launch_numba()
    return get_num_threads()


def run_products(tasks: Iterable[Any], do: Callable[[Any], Any]) -> None:
    """Call ``do(task)`` for every task on all of numba's threads, with matrix products on one thread each."""
    with one_blas_thread():
        run_tasks(tasks, do, thread_count())


def run_ranges(kernel: Callable[..., Any], count: int, *arguments: Any, least: int = NODES_PER_TASK) -> None:
    """Run ``kernel(first, last, *arguments)`` on ranges that cover 0 to `count`, on all of numba's threads.

    The kernel writes its results into arrays among the `arguments`. The lengths of all ranges except the last are
    multiples of `least`.
    """
    threads = min(thread_count(), -(-count // least))
    if threads <= 1:
        kernel(0, count, *arguments)
        return
    step = -(-count // (least * threads * TASKS_PER_THREAD)) * least
    run_tasks(range(0, count, step), lambda first: kernel(first, min(first + step, count), *arguments), threads)
