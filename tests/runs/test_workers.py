"""Workers end when the sweep that started them is gone."""

import multiprocessing
import os
import time

from asbc.runs.workers import end_with_parent

START = multiprocessing.get_context("forkserver")


def work(pipe):
    end_with_parent()
    pipe.send(os.getpid())
    time.sleep(3600)


def sweep(pipe):
    worker = multiprocessing.get_context("fork").Process(target=work, args=(pipe,))
    worker.start()
    pipe.send("started")
    worker.join()


def test_a_worker_whose_parent_is_killed_ends():
    here, there = multiprocessing.Pipe()
    parent = START.Process(target=sweep, args=(there,))
    parent.start()
    there.close()
    assert {type(here.recv()), type(here.recv())} == {int, str}
    parent.kill()
    parent.join()
    # The other end of the pipe is held by the worker alone: this waits for its end.
    try:
        here.recv()
    except EOFError:
        pass
    else:
        raise AssertionError("the worker said something more")


def test_a_process_without_such_a_parent_goes_on():
    end_with_parent()
