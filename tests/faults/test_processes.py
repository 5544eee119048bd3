"""Forks after a first use, several threads, and workers that die: it works, or an error says why."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from asbc.outofcore import EngineError
from asbc.outofcore.engines import open_dask
from tests.commands import ROOT

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
        open_dask(str(tmp_path), workers=1),
    ):
        raise AssertionError("it has no worker to give work to")
