"""The engines that run blocks: in this process, or on the workers of a Dask cluster.

An engine has ``run(function, folder, stage, blocks)``, which calls ``function(folder, stage, block)`` for each block
and yields the blocks as they finish. Calls carry a path and two small values, and return nothing: data stay in files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from asbc.extras import needed
from asbc.kernels.threads import thread_count
from asbc.outofcore.plan import EngineError
from asbc.outofcore.stages import close_folder
from asbc.storage import file_checksum, read_json
from asbc.validation import whole_number
from asbc.version import __version__

Work = Callable[[str, str, int], None]

CONNECT_SECONDS = 8  # time that a scheduler may take to answer
WORKER_SECONDS = 120  # time that may pass without any worker at work
# Time without any worker at work, after which a cluster that was started here gets new ones. When several workers are
# killed at once, Dask sometimes does not restart one. It frees the place of that worker after 15 seconds.
REPLACE_SECONDS = 20
POLL_SECONDS = 0.02
# Dask gives up on a block after this many ended workers. It also blames blocks that waited on a worker while it ended.
WORKERS_PER_BLOCK = 12
WATCH_SECONDS = 2  # time without a finished block, after which the scheduler is asked whether workers are busy
_block_lock = threading.Lock()  # held while this worker process runs a block


class LocalEngine:
    """Run one block after another in this process, each on all cores."""

    name = "local"

    def run(self, function: Work, folder: str, stage: str, blocks: Sequence[int]) -> Iterator[int]:
        for block in blocks:
            function(folder, stage, block)
            yield block


class DaskEngine:
    """Run blocks as tasks of a Dask cluster, several at a time.

    Parameters
    ----------
    client : dask.distributed.Client
        A client of the cluster.
    """

    name = "dask"

    def __init__(self, client):
        self._client = client

    def run(self, function: Work, folder: str, stage: str, blocks: Sequence[int]) -> Iterator[int]:
        """Run the blocks of a stage, and yield each when it is done, in any order."""
        from concurrent.futures import CancelledError

        from dask.distributed import KilledWorker, as_completed
        from distributed.comm import CommClosedError

        lost = EngineError(
            f"the Dask scheduler was lost in stage {stage!r}. Finished blocks are kept: the same command resumes, with "
            "a running scheduler or with the local engine."
        )
        stamp = _stamp(folder)
        futures = {}
        try:
            for block in blocks:
                # Dask remembers tasks by their key. A unique one keeps it from reusing those of a removed build.
                key = f"{stage}-{block}-{uuid.uuid4().hex}"
                futures[self._client.submit(_run_on_worker, function, folder, stamp, stage, block, key=key)] = block
            completed = as_completed(futures)
            last_busy = time.monotonic()
            while completed.count():
                finished = completed.next_batch(block=False)
                for future in finished:
                    if future.status == "cancelled":  # Dask does so only if the client has lost its scheduler
                        raise lost
                    if future.status == "error":
                        future.result()  # raises the block's own error
                    # The result is None and is not fetched: its worker may be gone by now, and its file is written.
                    future.release()
                    last_busy = time.monotonic()
                    yield futures[future]
                if not finished:
                    last_busy = self._watch(stage, last_busy)
                    time.sleep(POLL_SECONDS)
        except KilledWorker as error:
            raise EngineError(
                f"a block of stage {stage!r} ended several workers. Most often they have too little memory: give them "
                "more, or make blocks smaller."
            ) from error
        except (CommClosedError, CancelledError, asyncio.CancelledError) as error:
            raise lost from error
        finally:
            if self._client.status == "running":
                with suppress(Exception):  # the scheduler may be lost at this moment
                    self._client.cancel([future for future in futures if not future.done()])

    def _watch(self, stage: str, last_busy: float) -> float:
        """Return when a worker was last at work, and raise an error if that is too long ago.

        A block may take any time, but some worker must be running one.
        """
        waited = time.monotonic() - last_busy
        if waited < WATCH_SECONDS:
            return last_busy
        with suppress(OSError, asyncio.TimeoutError):
            if self._client.run_on_scheduler(
                lambda dask_scheduler: any(worker.executing for worker in dask_scheduler.workers.values())
            ):
                return time.monotonic()
        cluster = self._client.cluster
        if cluster is not None and waited > REPLACE_SECONDS:
            cluster.scale(len(cluster.worker_spec))  # starts the workers that are missing
        if waited > WORKER_SECONDS:
            raise EngineError(
                f"no Dask worker has been at work for {waited:.0f} s in stage {stage!r}. Finished blocks are kept: the "
                "same command resumes, once workers are running or with the local engine."
            )
        return last_busy


def _run_on_worker(function: Work, folder: str, stamp: int, stage: str, block: int) -> None:
    """Run one block on as many threads as the worker has; by default numba would take all cores."""
    import numba
    from dask.distributed import get_worker

    worker = get_worker()
    problem = _find_problem(folder, stamp)  # this worker may have joined after the others were checked
    if problem:
        raise _worker_error(worker.address, problem)
    with _block_lock:  # numba's threads must not be started by two tasks at once
        numba.set_num_threads(max(1, min(worker.state.nthreads, thread_count())))
        function(folder, stage, block)


def _worker_error(address: str, problem: str) -> EngineError:
    return EngineError(f"Dask worker {address} {problem}. All workers need the same folder, vectors and version.")


def _stamp(folder: str) -> int:
    """Return a checksum of the build's plan, which shows a worker whether it sees the same folder."""
    return file_checksum(Path(folder, "plan.json"))


def _find_problem(folder: str, stamp: int) -> str | None:
    """Return what keeps this worker from working in `folder`, and None if nothing does."""
    plan, source = Path(folder, "plan.json"), Path(folder, "scratch", "source.json")
    if not (plan.is_file() and source.is_file()):
        return f"does not see {folder}"
    if _stamp(folder) != stamp:
        return f"sees another folder as {folder}: its plan.json differs"
    if not os.access(folder, os.W_OK):
        return f"cannot write to {folder}"
    if read_json(plan)["version"] != __version__:
        return f"has another version of asbc, {__version__}"
    vectors = read_json(source)["path"]
    return None if os.access(vectors, os.R_OK) else f"cannot read the vectors, {vectors}"


@contextmanager
def open_engine(
    engine: str, folder: str, scheduler: str | None = None, workers: int = 2
) -> Iterator[LocalEngine | DaskEngine]:
    """Open the engine "local"; or "dask", that is, connect to a cluster, or start one, for the duration of the block.

    Parameters
    ----------
    engine : {"local", "dask"}
    folder : str
        The build's folder. All workers must see it.
    scheduler : str, optional
        Address of a running scheduler, or the file that it wrote. None starts a cluster on this machine.
    workers : int, default=2
        Processes of a cluster that is started here, one thread each.
    """
    if engine == "local":
        yield LocalEngine()
        return
    workers = whole_number(workers, "workers", 1)
    with needed("engine='dask'", "scale"):
        from distributed import Client
    with ExitStack() as stack:
        if scheduler is None:
            client = stack.enter_context(Client(stack.enter_context(_start_cluster(workers))))
        else:
            client = _connect(scheduler)
            stack.callback(_disconnect, client)
        _check_workers(client, folder)
        yield DaskEngine(client)


def _start_cluster(workers: int):
    import dask
    from distributed import LocalCluster

    try:
        with dask.config.set({"distributed.scheduler.allowed-failures": WORKERS_PER_BLOCK}):
            # No memory limit: Dask would count the pages of memory maps, which the system can reclaim, and end workers.
            return LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None
            )
    except Exception as error:  # a worker that ends while it starts shows in many ways
        reason = str(error.__cause__ or error) or type(error).__name__
        raise EngineError(
            f"the Dask cluster did not start: a worker ended before it was ready ({reason}). Start again, or "
            "use the local engine."
        ) from error


def _disconnect(client) -> None:
    if client.status == "running":
        with suppress(Exception):  # only so that Windows lets their memory maps be removed
            client.run(close_folder)
    disabled = logging.root.manager.disable
    if client.status != "running":  # the client would log a traceback when it is closed without a scheduler
        logging.disable(logging.CRITICAL)
    with suppress(Exception):
        client.close(timeout=CONNECT_SECONDS)
    logging.disable(disabled)


def _connect(scheduler: str):
    from distributed import Client

    try:
        address = scheduler
        if os.path.isfile(scheduler):
            with open(scheduler) as file:
                address = json.load(file)["address"]
        # In another thread, because a notebook has an event loop running in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _identify(address)).result()
        return Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:  # anything may answer at that address
        reason = str(error) or f"no answer in {CONNECT_SECONDS} s"
        raise EngineError(f"no Dask scheduler answers at {scheduler!r} ({type(error).__name__}: {reason}).") from error


async def _identify(address: str) -> None:
    """Check that a Dask scheduler answers. A client would wait without limit for a server that says nothing."""
    from distributed import rpc
    from distributed.security import Security

    security = Security().get_connection_args("client")
    async with rpc(address, timeout=CONNECT_SECONDS, connection_args=security) as peer:
        identity = await asyncio.wait_for(peer.identity(), CONNECT_SECONDS)
    if identity.get("type") != "Scheduler":
        raise TypeError(f"it is a {identity.get('type')}, not a scheduler")


def _check_workers(client, folder: str) -> None:
    """Check that there are workers, and that all of them can work in the folder."""
    from distributed.comm import CommClosedError

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
        problems = client.run(_find_problem, folder, _stamp(folder))
    except (CommClosedError, asyncio.TimeoutError, TimeoutError, ModuleNotFoundError) as error:
        raise EngineError(f"the Dask cluster has no usable workers ({type(error).__name__}: {error}).") from error
    for address, problem in problems.items():
        if problem:
            raise _worker_error(address, problem)
