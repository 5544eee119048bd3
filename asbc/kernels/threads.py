"""Compiled loops, and matrix products, on several threads.

Each kernel is a loop over a range of nodes, ``kernel(first, last, ...)``, compiled for one thread and without the lock
of the interpreter. Threads take ranges in turn. Numba's own parallel loops do the same, but compiling one takes about a
second longer, and the first graph has to wait for every loop that it needs.

Libraries of matrix products have threads of their own, which go on waiting busily for some milliseconds after each
product, and keep a core from whoever comes next. So products are shared out in the same way as loops, each on one
thread.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

from numba import get_num_threads
from threadpoolctl import ThreadpoolController

from asbc.kernels.ahead import wait_for

NODES_PER_TASK = 64  # nodes that one task works on at least: enough to be worth its workspace
_NOTHING = object()  # in place of a task, when there is none left
TASKS_PER_THREAD = 4  # of about equal size, so that no thread waits long for the others at the end


@functools.cache
def _helpers(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that wait for work. Starting them takes most of a millisecond, which a small graph would notice.

    A process that was forked has none of the threads of its parent, so each has its own.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix="asbc")


def work_together(tasks: Iterable[Any], do: Callable[[Any], Any], threads: int) -> None:
    """Call ``do(task)`` for every task, on the calling thread and ``threads - 1`` others; each takes the next in turn.

    After an error no further task is begun.
    """
    waiting = iter(tasks)
    one_at_a_time = threading.Lock()

    def following():
        with one_at_a_time:
            return next(waiting, _NOTHING)

    def work() -> None:
        nonlocal waiting
        try:
            while (task := following()) is not _NOTHING:
                do(task)
        except BaseException:
            waiting = iter(())
            raise

    helping = [_helpers(os.getpid(), threads - 1).submit(work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        for helper in helping:
            if not helper.cancel():  # one that is still busy for somebody else is not needed any more
                helper.result()


@functools.cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  compiled loops take products from there, so it must be found too

    return ThreadpoolController()  # looking for them takes milliseconds


def products_alone() -> AbstractContextManager[Any]:
    """A context in which every matrix product runs on the thread that asks for it."""
    return _libraries().limit(limits=1, user_api="blas")


def on_threads(tasks: Iterable[Any], do: Callable[[Any], Any]) -> None:
    """Call ``do(task)`` for every task, on as many threads as numba takes, with matrix products on one thread each."""
    with products_alone():
        work_together(tasks, do, get_num_threads())


def share_out(kernel: Callable[..., Any], count: int, *arguments: Any, least: int = NODES_PER_TASK) -> None:
    """Run ``kernel(first, last, *arguments)`` on ranges that make up 0 to `count`, on as many threads as numba takes.

    The kernel writes its results into arrays among the `arguments`. Ranges are multiples of `least` long, but the last.
    """
    wait_for(kernel.__name__)
    threads = min(get_num_threads(), -(-count // least))
    if threads <= 1:
        kernel(0, count, *arguments)
        return
    step = -(-count // (least * threads * TASKS_PER_THREAD)) * least
    work_together(range(0, count, step), lambda first: kernel(first, min(first + step, count), *arguments), threads)
