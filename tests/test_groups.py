"""Groups of tests for several workers: all tests are done, also where a worker dies."""

import itertools
from types import SimpleNamespace

import pytest

from tests.conftest import group_of, pytest_xdist_make_scheduler

SIZES = {"a": 1, "b": 3, "c": 1, "d": 2}
TESTS = [f"tests/test_{name}.py::test_{number}" for name, size in SIZES.items() for number in range(size)]


class Worker:
    """As pytest-xdist's: it begins a test once it knows the next one, or that there is none."""

    def __init__(self, name):
        self.gateway = SimpleNamespace(id=name)
        self.queue, self.shutting_down = [], False

    def send_runtest_some(self, indices):
        assert not self.shutting_down
        self.queue += indices

    def shutdown(self):
        self.shutting_down = True

    def next_test(self):
        return self.queue.pop(0) if len(self.queue) > (not self.shutting_down) else None


def run(deaths):
    """The tests that are done, in order, where the worker whose turn it is dies at these steps."""
    option = SimpleNamespace(loadscopereorder=True, tx=["popen", "popen"], maxprocesses=None)
    config = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduler = pytest_xdist_make_scheduler(config, SimpleNamespace(loadscopesched=lambda *_: None))
    names, workers, done = itertools.count(), [], []

    def add():
        workers.append(Worker(f"gw{next(names)}"))
        scheduler.add_node(workers[-1])
        scheduler.add_node_collection(workers[-1], TESTS)

    add()
    add()
    scheduler.schedule()
    for step in range(100):
        worker = workers[step % 2]
        test = worker.next_test()
        if test is None:
            continue
        if len(done) in deaths:
            deaths = deaths - {len(done)}
            workers.remove(worker)
            assert scheduler.remove_node(worker) == TESTS[test]
            add()
            scheduler.schedule()
        else:
            done.append(TESTS[test])
            scheduler.mark_test_complete(worker, test)
    return done


@pytest.mark.parametrize("deaths", [(), *((step,) for step in range(len(TESTS))), (1, 4), (2, 6), (5, 6)])
def test_all_tests_are_done_once_whoever_dies(deaths):
    assert sorted(run(set(deaths))) == sorted(TESTS)


def test_groups():
    assert group_of("tests/train/test_run.py::test_x[simclr]") == group_of("tests/train/test_guide.py::test_y")
    assert group_of("tests/kernels/test_mst.py::test_x") != group_of("tests/kernels/test_nnk.py::test_x")
    assert group_of("tests/test_graph.py::test_x[nn_descent-3]") == group_of("tests/test_recipes.py::test_map")
    assert group_of("tests/test_docstrings.py::test_examples_run[asbc.export.umap_layout]") == "compilers"
    assert group_of("tests/test_contributing.py::test_a_task") == "test_contributing.py"
