"""Build a graph on disk from a file of embeddings, block by block, and resume a build that was stopped.

The work is divided into stages, and a stage into blocks of nodes (:mod:`asbc.outofcore.stages`). A block writes one
part, atomically. So memory is bounded by the block, a killed build resumes with the parts that are missing, and blocks
may run anywhere in any order. A part depends only on the plan, the vectors and earlier parts, so the result has the
same bits for every engine, number of workers and history of interruptions. At the end all parts are joined.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from asbc.bandwidth.rule import fill_constant
from asbc.builder import GraphBuilder
from asbc.neighbors.external import LIBRARIES, import_library
from asbc.neighbors.lists import Blocks, one_block
from asbc.neighbors.recall import measure_recall, warn_of_recall
from asbc.neighbors.search import check_search, decide_search, find_rows
from asbc.outofcore.engines import open_engine
from asbc.outofcore.folder import open_files, read_graph_manifest
from asbc.outofcore.plan import (
    BuildError,
    check_same_plan,
    check_space,
    find_vectors,
    is_url,
    local_copy,
    needs_conversion,
    scan_vectors,
    settings_in_plan,
    vectors_in_plan,
)
from asbc.outofcore.stages import check_scratch, close_folder, open_folder, read_part, run_block
from asbc.progress import Progress
from asbc.storage import (
    DISK_FULL,
    DamagedFileError,
    LockedError,
    explain_write_error,
    folder_lock,
    open_array,
    read_json,
    remove_temporary_files,
    write_array_blocks,
    write_json,
)
from asbc.validation import as_vectors, normalize, one_of, warn_about_lengths
from asbc.weights import warn_of_empty_rows

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

BLOCK_NODES = 16384  # default number of nodes per block
LOCK = "build.lock"
NODE_ARRAYS = ("effective_rank", "slope", "objective", "at_edge", "dimension")


def build_graph(
    source: str | os.PathLike,
    folder: str | os.PathLike,
    builder: GraphBuilder | None = None,
    *,
    search: str | None = None,
    search_options: Mapping[str, int] | None = None,
    block: int = BLOCK_NODES,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int = 2,
    progress: bool = False,
) -> dict[str, Any]:
    """Build a graph on disk, block by block, or resume a build that was stopped.

    Parameters
    ----------
    source : str or path
        The vectors: an ``.npy`` file (n, d), a folder of the embedding store, or a URL that fsspec reads, which is
        first copied into the folder.
    folder : str or path
        Where the graph goes; a new folder, or one with a stopped build and the same arguments, which is resumed.
    builder : GraphBuilder or None, default=None
        Weights, bandwidth, metric and other settings; None uses ``GraphBuilder()``.
    search : {"auto", "exact", "ivf", "hnsw", "nn_descent"} or None, default=None
        How neighbours are found; None uses the builder's setting. The last two hold all vectors in memory.
    search_options : mapping or None, default=None
        Options of the search, such as ``{"n_probe": 16}``; None uses the builder's.
    block : int, default=16384
        Nodes per block. Memory grows with it; the result does not depend on it.
    engine : {"local", "dask"}, default="local"
        Where blocks run: in this process, or on the workers of a Dask cluster.
    scheduler : str or None, default=None
        For "dask": the address of a running scheduler, or its scheduler file. None starts a cluster on this machine.
    workers : int, default=2
        For "dask" without a scheduler: the processes of the cluster that is started, one thread each.
    progress : bool, default=False
        Whether to show the progress of each stage.

    Returns
    -------
    dict
        The manifest: the settings, the recall of the search, and the dtype and shape of every file.

    See Also
    --------
    asbc.load_graph, asbc.load_nodes, asbc.load_rows : open the result.
    asbc.GraphBuilder : the same in memory.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = asbc.build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     asbc.load_graph(f"{folder}/graph").shape, manifest["k"]
    ((60, 60), 30)
    """
    folder = Path(folder).absolute()  # Dask workers have their own working directories
    builder = clone(builder) if builder is not None else GraphBuilder()
    given = {"search": search, "search_options": search_options}
    builder.set_params(**{name: value for name, value in given.items() if value is not None})
    plan = settings_in_plan(builder, block)
    if not is_url(source) and not Path(source).exists():
        raise FileNotFoundError(f"{os.fspath(source)}: no such file.")
    if one_of(engine, "engine", ("local", "dask")) == "local" and scheduler is not None:
        raise ValueError("scheduler needs engine='dask'; got engine='local'.")
    _check_target(folder)
    if plan["search"] in LIBRARIES:
        import_library(plan["search"])
    local = Path(source)
    if is_url(source):
        with _locked(folder):
            local = local_copy(os.fspath(source), folder)
    path, expected = find_vectors(local)
    # The map is closed at once: even a few rows would bring nearly all of its pages into memory.
    vectors = open_array(path, **expected)
    plan |= vectors_in_plan(vectors, path, plan)
    warn_about_lengths(vectors, plan["builder"]["metric"], stacklevel=3)
    del vectors
    steps = Progress(progress)
    with steps.step("check"):
        plan["vectors_crc32"] = scan_vectors(path, plan)
    with _locked(folder):
        resumed = (folder / "plan.json").is_file()
        if resumed:
            check_same_plan(folder, plan)
            if (folder / "manifest.json").is_file():
                return _check_finished(folder)
        else:
            check_space(folder, plan)
            write_json(folder / "plan.json", plan)
        # Not part of the plan: the vectors may be moved between two starts.
        write_json(folder / "scratch" / "source.json", {"path": os.fspath(path.resolve())})
        for place in (folder, *(entry for entry in folder.rglob("*") if entry.is_dir())):
            remove_temporary_files(place)
        with open_engine(engine, os.fspath(folder), scheduler, workers) as run:
            manifest = _Build(folder, run, steps).finish(resumed)
        close_folder()
        shutil.rmtree(folder / "scratch", ignore_errors=True)
        return manifest


def _check_target(folder: Path) -> None:
    """Refuse a folder that is not a build of asbc, before anything is written to it."""
    if folder.exists() and not folder.is_dir():
        raise BuildError(f"{folder}: is a file; the build needs a folder.")
    if folder.is_dir() and not (folder / "plan.json").is_file():
        # A build that was killed while it wrote its plan has left a temporary file.
        names = [entry.name for entry in folder.iterdir() if not entry.name.startswith((".plan.json.", LOCK))]
        others = sorted(set(names) - {"source"})
        if others:
            raise BuildError(f"{folder}: not empty, and not a build of asbc (it holds {others[0]!r}).")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create and lock the folder, and explain a full disk."""
    try:
        with folder_lock(folder, LOCK):
            yield
    except LockedError as error:
        raise BuildError(f"{error} Another build is writing there.") from error
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise BuildError(f"{folder}: {explain_write_error(error)}; finished parts are kept.") from error


def peak_memory_bytes() -> int | None:
    """Return the largest memory that this process has used so far, and None where the system does not report it."""
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _check_finished(folder: Path) -> dict[str, Any]:
    """Return the manifest of a finished build, after a check that its files are as they were written."""
    try:
        manifest = read_graph_manifest(folder)
        open_files(folder, manifest, manifest["files"], verify=True)
    except (DamagedFileError, FileNotFoundError) as error:
        raise BuildError(f"{error} The scratch files are gone: remove {folder} and build it again.") from error
    shutil.rmtree(folder / "scratch", ignore_errors=True)  # still there if the build was killed at its very end
    return manifest


class _Build:
    """A build in progress: runs the stages in order and, between them, the work that needs all nodes."""

    def __init__(self, folder: Path, engine: Any, progress: Progress):
        self.folder = folder
        self.engine = engine
        self.job = open_folder(os.fspath(folder))
        self.plan = self.job.plan
        self.progress = progress
        self.resumed: dict[str, int] = {}

    def finish(self, resumed: bool) -> dict[str, Any]:
        """Do the work that is missing, write the manifest, and return it."""
        if resumed:
            with self.progress.step("verify"):
                check_scratch(self.job.scratch)
        if needs_conversion(self.plan):
            with self.progress.step("convert"):
                self.job.keep("vectors", self._converted)
        self._search()
        self._stage("neighbors")
        if self.job.weighted:
            self._survey()
        self._stage("rows")
        if self.job.weighted:
            self._fill_bandwidths()
        if self.plan["builder"]["symmetrize"]:
            self._stage("transpose")
        self._stage("graph")
        with self.progress.step("join"):
            manifest = self._join()
        self._compare_vectors()
        timing = {
            "engine": self.engine.name,
            "cores": os.cpu_count(),
            "seconds": {name: round(value, 3) for name, value in self.progress.seconds.items()},
            "total_seconds": round(time.perf_counter() - self.progress.begun, 3),
            "peak_bytes": peak_memory_bytes(),  # of this process, which does little of the work of a cluster
            "blocks_found_finished": self.resumed,
        }
        write_json(self.folder / "timing.json", timing)
        write_json(self.folder / "manifest.json", manifest)
        return manifest

    def _stage(self, stage: str) -> None:
        """Run the blocks of a stage whose parts are missing."""
        paths = self.job.parts(stage)
        missing = [block for block, path in enumerate(paths) if not path.is_file()]
        self.resumed[stage] = len(paths) - len(missing)
        with self.progress.step(stage, len(paths), self.resumed[stage]) as advance:
            for _ in self.engine.run(run_block, os.fspath(self.folder), stage, missing):
                advance()
        for path in paths:
            if not path.is_file():
                raise BuildError(f"{path}: a worker finished this block, but its file is not visible here.")

    def _compare_vectors(self) -> None:
        """Refuse to finish if the vectors have changed during the build."""
        try:
            with self.progress.step("compare"):
                if scan_vectors(self.job.source, self.plan) != self.plan["vectors_crc32"]:
                    raise BuildError(
                        f"{self.folder}: the vectors have changed since this build began. Use another folder for the "
                        "new ones, or remove this one."
                    )
        except (BuildError, ValueError, FileNotFoundError):
            # It is unknown which parts come from which vectors, so none may be reused.
            scratch = self.job.scratch
            self.job.close()
            shutil.rmtree(scratch)
            raise

    def _converted(self) -> Blocks:
        """The vectors as kernels read them from a memory map."""
        source = self.job.open_source()
        prepare = normalize if self.plan["builder"]["metric"] == "cosine" else as_vectors
        dtype = np.float64 if source.dtype.itemsize == 8 else np.float32
        blocks = (prepare(source[start : start + BLOCK_NODES]) for start in range(0, len(source), BLOCK_NODES))
        return dtype, source.shape, blocks

    def _search(self) -> None:
        """Choose the search, build its index, and measure its recall."""
        job, plan = self.job, self.plan
        k, seed = plan["k"], plan["builder"]["random_state"]
        if not (job.scratch / "search.json").is_file():
            settings = check_search(plan["search"], plan["n"], plan["search_options"])
            with self.progress.step("tune"):
                decision = decide_search(job.X, k, plan["search"], settings, plan["recall"], seed, self._keep)
            write_json(job.scratch / "search.json", asdict(decision))
        search, options, target = (job.search[name] for name in ("search", "options", "target"))
        if search == "exact":
            return
        with self.progress.step("lists" if search == "ivf" else "index"):
            job.index = job.open_index(self._keep)
        if not (job.scratch / "recall.json").is_file():
            with self.progress.step("recall"):
                recall = measure_recall(
                    job.X, job.X, k, lambda nodes: find_rows(job.X, nodes, job.index, k)[1], among_rows=True, seed=seed
                )
                found = {"target": target, **asdict(recall), "interval": list(recall.interval)}
                write_json(job.scratch / "recall.json", found)
                warn_of_recall(recall, search, options, target)

    def _keep(self, name: str, compute: Callable[[], Blocks]) -> NDArray:
        """Keep an array of the index in a file. The engine's blocks find the lists that each row scans."""
        if name == "probes":
            self._stage("assign")
            compute = partial(self.job.joined, "assign", name)
        with self.progress.step("train") if name == "centroids" else nullcontext():
            return self.job.keep(name, compute)

    def _survey(self) -> None:
        """Ask every block for what the bandwidth rule and the estimator of dimension need to become local."""
        job = self.job
        _ = job.dimension  # now, so that no two workers compute what it needs of all nodes
        for surveys in itertools.takewhile(lambda surveys: not job.rule_after(surveys).local, itertools.count()):
            stage = f"survey-{surveys}"
            self._stage(stage)
            # Blocks are joined on disk: wide ones need not fit into memory.
            for name in read_part(job.part(stage, 0)):
                job.keep(f"{stage}/{name}", partial(job.joined, stage, name))

    def _fill_bandwidths(self) -> None:
        """Give nodes that coincide with all their neighbours the median bandwidth of the others.

        Their weights stay: where all distances are zero, they do not depend on the bandwidth.
        """

        def fill() -> Blocks:
            warn_of_empty_rows(int(sum(self.job.column("rows", "empty"))), self.plan["n"])
            sigma, constant = (np.concatenate([*self.job.column("rows", name)]) for name in ("sigma", "constant"))
            return one_block(fill_constant(sigma, constant))

        self.job.keep("filled", fill)

    def _join(self) -> dict[str, Any]:
        """Join the parts of all blocks into the files of the finished graph, and return the manifest."""
        job, n, k = self.job, self.plan["n"], self.plan["k"]
        files: dict[str, dict[str, Any]] = {}

        def write(name: str, dtype: Any, shape: tuple[int, ...], blocks: Iterator[NDArray]) -> None:
            checksum = write_array_blocks(job.folder / name, dtype, shape, blocks)
            size = (job.folder / name).stat().st_size
            files[name] = {"dtype": np.dtype(dtype).str, "shape": list(shape), "crc32": checksum, "bytes": size}

        id_type = np.int32 if n < 2**31 else np.int64
        write("rows/indices.npy", id_type, (n, k), job.column("neighbors", "indices"))
        write("rows/distances.npy", *job.joined("neighbors", "distances"))
        write("rows/weights.npy", *job.joined("graph", "weights"))
        if job.weighted:
            for name in NODE_ARRAYS:
                write(f"nodes/{name}.npy", *job.joined("rows", name))
            write("nodes/sigma.npy", *one_block(job.array("filled")))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([*job.column("graph", "counts")]))])
        edges = int(indptr[-1])
        # One dtype for indptr and indices: otherwise scipy would convert them, and read the whole file.
        index_type = np.int32 if max(edges, n) < 2**31 else np.int64
        write("graph/indptr.npy", index_type, (n + 1,), iter([indptr]))
        write("graph/indices.npy", index_type, (edges,), job.column("graph", "columns"))
        write("graph/data.npy", np.float64, (edges,), job.column("graph", "values"))
        recall = job.scratch / "recall.json"
        return {
            **self.plan,
            "search_used": dict(job.search),
            "edges": edges,
            "files": files,
            "recall": read_json(recall) if recall.is_file() else None,
        }
