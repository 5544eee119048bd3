"""Blocks on the workers of a Dask cluster: the same bits, and errors that arrive."""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from multiprocessing import forkserver

import numpy as np
import pytest

import asbc
from asbc.outofcore import BuildError, EngineError, engines
from asbc.outofcore.command import main
from asbc.outofcore.engines import DaskEngine
from asbc.storage import write_json
from tests.outofcore.small import (
    ARGUMENTS,
    BUILDERS,
    Started,
    assert_same_as_in_one_piece,
    build,
    files_of,
)

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module", autouse=True)
def workers_are_forked():
    """From a process that has imported what they need; otherwise each of them takes seconds to start."""
    multiprocessing.set_forkserver_preload(["distributed.nanny", "distributed.worker", "tests.outofcore.small"])
    forkserver.ensure_running()
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        yield


@pytest.fixture(scope="module")
def cluster(workers_are_forked):
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


def test_dask_gives_the_bits_of_the_local_engine(path, tmp_path, reference):
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS, "--engine", "dask", "--workers", "2"]) == 0
    assert files_of(tmp_path / "g") == reference
    assert json.loads((tmp_path / "g" / "timing.json").read_text())["engine"] == "dask"


def test_a_killed_dask_build_is_finished_by_the_local_engine(path, tmp_path, reference, cluster):
    folder = tmp_path / "g"
    engine = ["--engine", "dask", "--scheduler", cluster.scheduler_address]
    Started(path, folder, *ARGUMENTS, *engine, hold="scratch/filled.npy").wait_until_held().kill()
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    assert json.loads((folder / "timing.json").read_text())["blocks_found_finished"]["rows"] == 7
    assert files_of(folder) == reference


def test_nothing_large_goes_through_the_scheduler(path, tmp_path, cluster):
    sizes = []

    class Counting(distributed.diagnostics.plugin.SchedulerPlugin):
        def transition(self, key, start, finish, *args, nbytes=None, **kwargs):
            if finish == "memory" and nbytes:
                sizes.append(nbytes)

    cluster.scheduler.add_plugin(Counting(), name="counting")
    build(path, tmp_path / "g", engine="dask", scheduler=cluster.scheduler_address)
    cluster.scheduler.remove_plugin(name="counting")
    assert len(sizes) >= 4 * 5 and max(sizes) < 1000


def test_a_relative_folder_is_the_same_for_workers_elsewhere(path, tmp_path, reference, cluster, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([str(path), "g", *ARGUMENTS, "--engine", "dask", "--scheduler", cluster.scheduler_address]) == 0
    assert files_of(tmp_path / "g") == reference


def test_an_error_on_a_worker_arrives(tmp_path, cluster):
    np.save(tmp_path / "x.npy", np.where(np.arange(200) == 170, np.nan, 1.0)[:, None] * np.ones((1, 3)))
    with pytest.raises(ValueError, match="row 170 holds NaN or infinity"):
        build(tmp_path / "x.npy", tmp_path / "g", engine="dask", scheduler=cluster.scheduler_address)


@pytest.mark.parametrize("name", ["density_of_spectral", "own_global"])
def test_rules_that_need_all_nodes_have_the_same_bits_on_workers(X, path, tmp_path, cluster, name):
    builder = asbc.GraphBuilder(k_cand=12, **BUILDERS[name])
    build(path, tmp_path / "g", builder, engine="dask", scheduler=cluster.scheduler_address)
    assert_same_as_in_one_piece(X, tmp_path / "g", builder)


@pytest.fixture
def little_patience(monkeypatch):
    assert engines.CONNECT_SECONDS <= 10
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 1)


def test_an_unreachable_scheduler_is_an_error_in_seconds(path, tmp_path, little_patience):
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        build(path, tmp_path / "g", engine="dask", scheduler="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"], ids=["silent", "http"]
)
def test_a_peer_that_is_not_dask_is_an_error_in_seconds(path, tmp_path, answer, little_patience):
    def serve():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            peers.append(peer)
            if answer:
                peer.sendall(answer)

    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(BuildError, match="no Dask scheduler answers at"):
            build(path, tmp_path / "g", engine="dask", scheduler=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        server.shutdown(socket.SHUT_RDWR)
    for peer in peers:
        peer.close()


class Cluster:
    """A Dask scheduler and one worker without a nanny, as processes that can be killed."""

    def __init__(self, folder):
        write_json(folder / "plan.json", {"version": asbc.__version__})
        write_json(folder / "scratch" / "source.json", {"path": str(folder / "plan.json")})
        self.folder, self.processes = folder, []
        self.address = self.start()

    def start(self, port="0"):
        """Start both, and return the scheduler's address."""
        file = self.folder / f"scheduler{len(self.processes)}.json"
        # Without a memory limit: Dask's monitor of memory would wake a worker that a test paused.
        worker = ["--no-nanny", "--no-dashboard", "--memory-limit", "0"]
        places = {"scheduler": ["--port", port, "--no-dashboard"], "worker": worker}
        for place, options in places.items():
            command = [sys.executable, "-m", "dask", place, "--scheduler-file", str(file), *options]
            self.processes.append(subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL))
        return _address_in(file, self.processes[-2])

    @contextmanager
    def first_block(self):
        """Run a stage of which only the first block finishes; yields the engine's iterator."""
        client = distributed.Client(self.address, timeout=120)
        try:
            yield DaskEngine(client).run(finish_first_block, str(self.folder), "rows", range(3))
        finally:
            engines._disconnect(client)


def finish_first_block(folder, stage, block):
    """Return at once for the block that comes first, and wait for ever for the others."""
    try:
        os.close(os.open(os.path.join(folder, "first"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        time.sleep(3600)


@pytest.fixture
def processes(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    for process in cluster.processes:
        process.kill()
        process.wait()


LOST = r"lost in stage 'rows'.*the same command resumes"


def test_a_scheduler_that_dies_is_an_error_that_says_how_to_resume(processes):
    with processes.first_block() as done:
        assert next(done) in range(3)
        processes.processes[0].kill()
        with pytest.raises(BuildError, match=LOST):
            next(done)


def test_a_restarted_scheduler_is_an_error_that_says_how_to_resume(processes):
    with processes.first_block() as done:
        assert next(done) in range(3)
        for process in processes.processes[:2]:
            process.kill()
            process.wait()
        processes.start(processes.address.rpartition(":")[2])
        with pytest.raises(BuildError, match=LOST):
            next(done)


def test_a_cluster_without_workers_is_an_error_and_no_stall(processes, monkeypatch):
    with processes.first_block() as done:
        assert next(done) in range(3)
        processes.processes[1].kill()
        monkeypatch.setattr(engines, "WORKER_SECONDS", 5)
        with pytest.raises(EngineError, match=r"at work for \d+ s in stage 'rows'.*the same command resumes"):
            next(done)


def test_a_worker_that_is_paused_is_an_error_and_no_stall(processes, monkeypatch):
    """It is there, but does not take the blocks that it was given."""
    with processes.first_block() as done:
        with distributed.Client(processes.address, timeout=120) as client:
            client.wait_for_workers(1)
            client.run(lambda dask_worker: setattr(dask_worker, "status", distributed.Status.paused))
        monkeypatch.setattr(engines, "WORKER_SECONDS", 5)
        with pytest.raises(EngineError, match=r"at work for \d+ s in stage 'rows'"):
            next(done)


def test_workers_that_dask_loses_are_replaced_in_a_cluster_that_was_started_here(path, tmp_path, monkeypatch):
    """When workers are killed at the same time, Dask sometimes closes one for good."""

    class LosesItsWorker(DaskEngine):
        def run(self, *arguments):
            async def lose(dask_scheduler):
                for address in list(dask_scheduler.workers):
                    await dask_scheduler.remove_worker(address, stimulus_id="test")

            if arguments[2] == "rows":
                self._client.run_on_scheduler(lose)
            return super().run(*arguments)

    monkeypatch.setattr(engines, "DaskEngine", LosesItsWorker)
    monkeypatch.setattr(engines, "REPLACE_SECONDS", 3)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1s"}):
        build(path, tmp_path / "g", engine="dask", workers=1)
    build(path, tmp_path / "whole")
    assert files_of(tmp_path / "g") == files_of(tmp_path / "whole")


def test_a_worker_that_joins_later_and_sees_another_folder_is_named(processes, monkeypatch):
    monkeypatch.setattr(engines, "_stamp", lambda folder: -1)  # as if the plan here were another one
    expected = pytest.raises(EngineError, match=r"Dask worker tcp://.* sees another folder as")
    with processes.first_block() as done, expected:
        next(done)


def _address_in(file, scheduler):
    """What a scheduler has written into its file, once that is there and whole."""
    while True:
        assert scheduler.poll() is None
        try:
            return json.loads(file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.01)


def test_a_worker_that_sees_other_files_is_named(tmp_path):
    def problem(folder=tmp_path, stamp=None):
        return engines._find_problem(str(folder), engines._stamp(str(tmp_path)) if stamp is None else stamp)

    plan, source = tmp_path / "plan.json", tmp_path / "scratch" / "source.json"
    write_json(plan, {"version": asbc.__version__, "n": 1})
    assert "does not see" in problem(tmp_path / "elsewhere") and "does not see" in problem()
    write_json(source, {"path": str(plan)})
    assert problem() is None
    assert "sees another folder" in problem(stamp=-1)
    write_json(source, {"path": str(tmp_path / "none.npy")})
    assert "cannot read the vectors" in problem()
    write_json(plan, {"version": "0.0"})
    assert "has another version of asbc" in problem()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "engine must be 'local' or 'dask'; got 'spark'"),
        ({"engine": "dask", "workers": 0}, "workers must be a whole number of at least 1; got 0"),
        ({"scheduler": "tcp://1.2.3.4:5"}, "scheduler needs engine='dask'"),
        ({"block": 0}, "block must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_engines(path, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        build(path, tmp_path / "g", **options)
