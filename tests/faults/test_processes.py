"""Forks after a first use, threads, joblib, notebooks, and workers that die: it works, or an error says why."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import asbc
from asbc.outofcore import EngineError
from asbc.outofcore.engines import open_engine
from tests.commands import ROOT
from tests.faults.builds import write_vectors
from tests.outofcore.small import Dies

CODE = """
    import multiprocessing, sys
    from concurrent.futures import ThreadPoolExecutor
    import numpy as np
    import asbc

    X = np.random.default_rng(0).normal(size=(600, 5))

    def edges(seed):
        return asbc.GraphBuilder(k_cand=12, random_state=seed).fit(X).graph_.nnz

    if __name__ == "__main__":
        first = edges(0)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(edges, [0, 0]) == [first, first]
        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(edges, [0] * 8)) == {first}
        print("all the same")
"""


@pytest.mark.parametrize("layer", ["default", "workqueue"])
def test_forks_after_first_use_and_threads(tmp_path, layer, campaign, counted):
    if layer == "default" and not campaign:
        pytest.skip("the layer that aborts under threads: workqueue; all of them: make faults")
    (tmp_path / "code.py").write_text(textwrap.dedent(CODE))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    run = subprocess.run(
        [sys.executable, tmp_path / "code.py"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.stdout == "all the same\n", run.stderr
    counted("fork after first use, and four threads", f"numba's layer: {layer}", {"gave the same graph": 1})


JOBLIB = """
    import os, sys, warnings
    import numpy as np
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_info
    import asbc

    X = np.random.default_rng(0).normal(size=(600, 5))

    def fit(number):
        if number == 3:
            raise ValueError("one of them fails")
        return asbc.GraphBuilder(k_cand=12).fit(X).graph_.nnz, os.getpid()

    def state():
        return [(library["filepath"], library["num_threads"]) for library in threadpool_info()], warnings.filters[:]

    if __name__ == "__main__":
        first, here = fit(0)
        before = state()
        found = Parallel(2, backend=sys.argv[1])(delayed(fit)(0) for _ in range(6))
        assert {edges for edges, _ in found} == {first}
        assert ({process for _, process in found} == {here}) == (sys.argv[1] == "threading")
        try:
            Parallel(2, backend=sys.argv[1])(delayed(fit)(number) for number in range(6))
        except ValueError:
            pass
        assert fit(0)[0] == first and state() == before
        print("all the same")
"""


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_fits_in_joblib_workers(tmp_path, backend, campaign, counted):
    if backend != "loky" and not campaign:
        pytest.skip("joblib's default: loky; all of them: make faults")
    (tmp_path / "code.py").write_text(textwrap.dedent(JOBLIB))
    run = subprocess.run(
        [sys.executable, tmp_path / "code.py", backend],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.stdout == "all the same\n", run.stderr
    counted("fits in joblib's workers", f"backend: {backend}", {"gave the same graph": 6})


CELLS = [
    """
    import signal, threading
    from concurrent.futures import ThreadPoolExecutor
    import numpy as np
    from joblib import Parallel, delayed
    import asbc

    X = np.random.default_rng(0).normal(size=(600, 5))

    def edges(_):
        return asbc.GraphBuilder(k_cand=12).fit(X).graph_.nnz

    first = edges(0)
    with ThreadPoolExecutor(4) as pool:
        print(set(pool.map(edges, range(8))) == {first})
    """,
    "print(set(Parallel(2)(delayed(edges)(number) for number in range(4))) == {first})",
    """
    threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()  # the button that stops a cell
    try:
        while True:
            edges(0)
    except KeyboardInterrupt:
        print(edges(0) == first)
    """,
    """
    background = threading.Thread(target=lambda: print(edges(0) == first))
    background.start()
    background.join()
    """,
]


def test_fits_in_the_threads_of_a_notebook_and_after_an_interrupt(monkeypatch, counted):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    for cell in notebook.cells:
        printed = "".join(output.get("text", "") for output in cell.outputs if output.get("name") == "stdout")
        assert printed == "True\n", cell
    counted("fits in threads, joblib and after an interrupt", "a notebook", {"gave the same graph": len(CELLS)})


def test_a_dask_build_whose_workers_are_killed(tmp_path, campaign, counted):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    multiprocessing.set_forkserver_preload(["distributed.nanny", "distributed.worker", "tests.outofcore.small"])
    path, times = write_vectors(tmp_path), 20 if campaign else 1

    def arrays(folder, deaths, **options):
        deaths.mkdir()
        builder = asbc.GraphBuilder(k_cand=12, bandwidth=Dies(str(deaths), 5, os.getpid()))
        asbc.build_graph(path, folder, builder, search="exact", block=10, **options)
        return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.npy")}

    whole = arrays(tmp_path / "whole", tmp_path / "none")
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        for number in range(times):
            deaths = tmp_path / f"deaths{number}"
            assert arrays(tmp_path / str(number), deaths, engine="dask", workers=2) == whole
            assert len(list(deaths.iterdir())) in (5, 6)  # two workers may count at the same time
    counted("five workers killed", "a build on a Dask cluster of two workers", {"finished with the same bytes": times})


def test_a_dask_worker_that_dies_while_its_cluster_starts(tmp_path, monkeypatch):
    """Killed before it can say where it listens, as where memory is short."""
    nanny = pytest.importorskip("distributed.nanny")
    wait = nanny.WorkerProcess._wait_until_connected

    async def wait_for_the_dead(self, uid):
        os.kill(self.process.pid, signal.SIGKILL)
        return await wait(self, uid)

    monkeypatch.setattr(nanny.WorkerProcess, "_wait_until_connected", wait_for_the_dead)
    (tmp_path / "plan.json").write_text("{}")
    with (
        pytest.raises(EngineError, match="the Dask cluster did not start: a worker ended before it was ready"),
        open_engine("dask", str(tmp_path), workers=1),
    ):
        raise AssertionError("it has no worker to give work to")
