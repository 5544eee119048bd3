"""Where blocks of work run: in this process, or on the workers of a Dask cluster.

An engine has ``run(function, folder, stage, blocks)``, which calls ``function(folder, stage, block)`` for each block
and yields the blocks as they are done. Calls carry a path and two small values and return nothing: data stays in files.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from asbc.extras import needed
from asbc.outofcore.errors import EngineError
from asbc.validation import whole_number
from asbc.version import __version__

Work = Callable[[str, str, int], None]

CONNECT_SECONDS = 8  # how long a scheduler may take to answer
WORKER_SECONDS = 60  # how long a scheduler may take to have its first worker
_one_at_a_time = threading.Lock()  # held while a worker's process runs a block


class LocalEngine:
    """One block after another, each on all cores."""

    name = "local"

    def run(self, function: Work, folder: str, stage: str, blocks: Sequence[int]) -> Iterator[int]:
        """Run the blocks of a stage, and yield each when it is done."""
        for block in blocks:
            function(folder, stage, block)
            yield block


class DaskEngine:
    """Blocks as tasks of a Dask cluster, several at a time, each on one worker.

    Parameters
    ----------
    client : dask.distributed.Client
        A client of the cluster.
    """

    name = "dask"

    def __init__(self, client):
        self._client = client

    def run(self, function: Work, folder: str, stage: str, blocks: Sequence[int]) -> Iterator[int]:
        """Run the blocks of a stage, and yield each when it is done, in no order."""
        from concurrent.futures import CancelledError

        from dask.distributed import KilledWorker, as_completed
        from distributed.comm import CommClosedError

        lost = EngineError(
            f"the Dask scheduler was lost in stage {stage!r}. Finished blocks are kept: the same command goes on from "
            "there, with a scheduler that is running or with the local engine."
        )
        futures = {}
        try:
            for block in blocks:
                # A key that is never used again: otherwise Dask would take the blocks of a build that was removed and
                # started anew for done, because it remembers tasks by their key.
                key = f"{stage}-{block}-{uuid.uuid4().hex}"
                futures[self._client.submit(_on_worker, function, folder, stage, block, pure=False, key=key)] = block
            for future in as_completed(list(futures)):
                # A task is cancelled only where the client has lost its scheduler. An error in the block itself
                # arrives as the exception that it raised.
                if future.status == "cancelled":
                    raise lost
                try:
                    future.result()
                except KilledWorker as error:
                    raise EngineError(
                        f"block {futures[future]} of stage {stage!r} ended several workers. Most often they have too "
                        "little memory: give them more, or make blocks smaller."
                    ) from error
                future.release()
                yield futures[future]
        except (CommClosedError, CancelledError, asyncio.CancelledError) as error:
            raise lost from error
        finally:
            if self._client.status == "running":
                self._client.cancel([future for future in futures if not future.done()])


def _on_worker(function: Work, folder: str, stage: str, block: int) -> None:
    """Run one block on as many threads as the worker was given; by themselves libraries would take all cores."""
    import numba
    from dask.distributed import get_worker

    threads = max(1, min(get_worker().state.nthreads, numba.get_num_threads()))
    # Compiled code starts threads of its own, which two tasks of one process must not do at the same time.
    with _one_at_a_time:
        numba.set_num_threads(threads)
        try:
            import faiss
        except ImportError:
            pass
        else:
            faiss.omp_set_num_threads(threads)
        function(folder, stage, block)


def _stamp(folder: str) -> int:
    """A checksum of the build's plan, by which a worker tells that it sees the same folder."""
    with open(os.path.join(folder, "plan.json"), "rb") as file:
        return zlib.crc32(file.read())


def _sees(folder: str, stamp: int) -> str | None:
    """What keeps this worker from working in `folder`, whose plan has that stamp; None if nothing does."""
    if not os.path.isfile(os.path.join(folder, "plan.json")):
        return f"does not see {folder}"
    if _stamp(folder) != stamp:
        return f"sees another folder as {folder}: its plan.json differs"
    if not os.access(folder, os.W_OK):
        return f"cannot write to {folder}"
    with open(os.path.join(folder, "plan.json")) as file:
        if json.load(file)["version"] != __version__:
            return f"has another version of asbc, {__version__}"
    with open(os.path.join(folder, "scratch", "source.json")) as file:
        vectors = json.load(file)["path"]
    if not os.access(vectors, os.R_OK):
        return f"cannot read the vectors, {vectors}"
    return None


@contextmanager
def open_engine(engine: str, folder: str, *, scheduler: str | None = None, workers: int = 2) -> Iterator:
    """The engine of that name, for as long as the ``with`` block lasts.

    Parameters
    ----------
    engine : {"local", "dask"}
        Where blocks run: in this process, or on the workers of a Dask cluster.
    folder : str
        Where the build writes. All workers must see it.
    scheduler : str or None, default=None
        For "dask": the address of a running scheduler, or the file that it wrote. None starts a cluster on this
        machine.
    workers : int, default=2
        For "dask" without a scheduler: the processes of the cluster that is started, one thread each.
    """
    if engine == "local":
        if scheduler is not None:
            raise ValueError("scheduler goes with engine='dask'; got it with engine='local'.")
        yield LocalEngine()
        return
    if engine != "dask":
        raise ValueError(f"engine must be 'local' or 'dask'; got {engine!r}.")
    workers = whole_number(workers, "workers", 1)
    with needed("engine='dask'", "scale"):
        from distributed import Client, LocalCluster
    if scheduler is None:
        # No memory limit: Dask would count the pages of memory maps, although the system takes them back when it needs
        # memory, and would end workers for them.
        try:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, memory_limit=0, dashboard_address=None
            )
        except Exception as error:  # a worker that ends while it starts shows in many ways
            reason = str(error.__cause__ or error) or type(error).__name__
            raise EngineError(
                f"the Dask cluster did not start: a worker ended before it was ready ({reason}). Start again, or "
                "take the local engine."
            ) from error
        with cluster, Client(cluster) as client:
            yield DaskEngine(_checked(client, folder))
        return
    try:
        address = scheduler
        if os.path.isfile(scheduler):
            with open(scheduler) as file:
                address = json.load(file)["address"]
        # In a thread of its own, because a notebook has an event loop running in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _greet(address)).result()
        client = Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:  # if something else than Dask answers at that address, reading it may fail in any way
        reason = str(error) or f"nothing came back in {CONNECT_SECONDS} s"
        raise EngineError(f"no Dask scheduler answers at {scheduler!r} ({type(error).__name__}: {reason}).") from error
    try:
        yield DaskEngine(_checked(client, folder))
    finally:
        loggers = [logging.getLogger(name) for name in ("distributed.client", "distributed.utils")]
        levels = [logger.level for logger in loggers]
        if client.status != "running":  # it is looking for its lost scheduler, and would log a traceback when closed
            for logger in loggers:
                logger.setLevel(logging.CRITICAL)
        client.close(timeout=CONNECT_SECONDS)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


async def _greet(address: str) -> None:
    """Ask whoever answers at `address` whether it is a Dask scheduler.

    A Dask client would wait without limit for a server that accepts the connection and says nothing.
    """
    from distributed import rpc
    from distributed.security import Security

    async def ask() -> None:
        async with rpc(
            address, timeout=CONNECT_SECONDS, connection_args=Security().get_connection_args("client")
        ) as peer:
            identity = await peer.identity()
            if identity.get("type") != "Scheduler":
                raise TypeError(f"it is a {identity.get('type')}, not a scheduler")

    await asyncio.wait_for(ask(), CONNECT_SECONDS)


def _checked(client, folder: str):
    """The client, after a check that there are workers and that all of them can work in the folder."""
    from distributed.comm import CommClosedError

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise EngineError(f"the Dask scheduler has no worker after {WORKER_SECONDS} s.") from error
    try:
        problems = client.run(_sees, folder, _stamp(folder))
    except (CommClosedError, asyncio.TimeoutError) as error:
        raise EngineError(f"the Dask cluster was lost while its workers were checked ({error}).") from error
    for address, problem in problems.items():
        if problem:
            raise EngineError(
                f"Dask worker {address} {problem}. All workers need the same folder, vectors and version."
            )
    return client
