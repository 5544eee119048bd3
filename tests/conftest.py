import gc
import os
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:  # several workers share the cores: threads of theirs would wait for each other
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest

gc.disable()  # until all tests are collected: what they import stays, and need not be looked through for garbage
# Only a power cut could tell whether the disk was waited for. That it would be, tests/faults sees by the calls.
os.fsync = lambda descriptor: None

HERE = Path(__file__).parent
# Folders whose tests start processes, run experiments or import torch: not for the one-minute check.
SLOW = ("embeddings", "experiments", "explore", "faults", "outofcore", "report", "runs", "train")
# Tests that share something that takes long to make, by how their names begin: of several workers, one has it.
TOGETHER = {
    # A process to fork from that has imported torch, Lightning, timm and lightly.
    "torch": (
        "embeddings/",
        "train/",
        "learn/test_probe.py",
        "faults/test_embeddings.py",
        "test_contributing.py::test_an_encoder",
    ),
    # Runs of every experiment.
    "report": ("report/",),
    # What pynndescent and umap-learn compile in every process that uses them, and a browser.
    "compilers": (
        "explore/",
        "evaluate/test_peers.py",
        "test_recipes.py",
        "test_graph.py::test_umap",
        "test_docstrings.py::test_examples_run[asbc.export.umap",
        "test_docstrings_of_experiments.py::test_examples_run[asbc.explore",
    ),
}
# Where the long tests are. They begin first, and the short ones fill up what is left of the time.
LONG = (
    "torch",
    "test_types.py",
    "compilers",
    "report",
    "runs",
    "test_notebooks.py",
    "outofcore",
    "test_commands.py",
    "faults",
    "test_conf.py",
    "test_contributing.py",
)


def group_of(nodeid):
    """The tests that one worker does one after another: those that share much, or those of a file."""
    if "[nn_descent" in nodeid:
        return "compilers"
    name = nodeid.removeprefix("tests/")
    shared = (group for group, begins in TOGETHER.items() if name.startswith(begins))
    return next(shared, name.partition("::")[0])


def pytest_addoption(parser):
    parser.addoption("--campaign", metavar="PAGE", help="run all of tests/faults; the table of counts goes to PAGE")


def pytest_collection_modifyitems(config, items):
    """Mark what is slow. For several workers, what is long comes first."""
    for item in items:
        if item.path.relative_to(HERE).parts[0] in SLOW:
            item.add_marker(pytest.mark.slow)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _rank(group_of(item.nodeid)))


def pytest_collection_finish():
    """What the tests import stays till their end, and is not looked through again for garbage."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """While pynndescent compiles itself, which makes objects by the million, none of them is looked for as garbage."""
    compiles = item.get_closest_marker("nn_descent") is not None
    if compiles:
        gc.disable()
    try:
        return (yield)
    finally:
        if compiles:
            gc.enable()


def _rank(group):
    return next((rank for rank, name in enumerate(LONG) if group.startswith(name)), len(LONG))


def pytest_xdist_make_scheduler(config, log):
    """Groups by the names of tests. The marks of pytest-xdist's own ``--dist loadgroup`` are lost on pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class InGroups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group_of(nodeid)

        def remove_node(self, node):
            """If a worker died, others do what it has left. Groups that it had finished are not handed out again."""
            work = self.assigned_work[node]
            self.assigned_work[node] = {group: tests for group, tests in work.items() if not all(tests.values())}
            return super().remove_node(node)

        def _reschedule(self, node):
            """A worker begins a test when it knows the one after: with one test alone it would wait for ever."""
            super()._reschedule(node)
            if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)

    config.option.loadscopereorder = False  # as sorted above, and not by the number of tests
    return InGroups(config, log)


def curved_clouds(n=240, d=12, classes=6, seed=0):
    """Points on bent two- to five-dimensional pieces with noise, one piece per class: small, but not round."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for c in range(classes):
        latent = rng.uniform(-1, 1, (n // classes, 2 + c % 4))
        bend = np.concatenate([latent, np.sin(2 * latent), latent**2], axis=1)
        X.append(bend @ rng.normal(size=(bend.shape[1], d)) + rng.normal(size=d) * 2)
        y += [c] * (n // classes)
    X = np.concatenate(X)
    return X + 0.05 * rng.normal(size=X.shape), np.array(y)


@pytest.fixture(scope="session")
def clouds():
    return curved_clouds()


@pytest.fixture(scope="session")
def geometry(clouds):
    """(X, neighbors, dimension) at k = 30."""
    import asbc  # here, since the process that hands out tests reads this file too

    X = clouds[0]
    neighbors = asbc.search_neighbors(X, 30)
    return X, neighbors, asbc.dim_mst(X, neighbors)
