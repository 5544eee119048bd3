"""How a file of embeddings becomes a graph on disk, block by block, and goes on after it was stopped.

The work is cut into stages, and a stage into blocks of nodes. A block reads memory maps and the parts of earlier
stages, and writes one part: whole, under its final name, or not at all. So memory is bounded by the block, a build
that was killed goes on with the parts that are missing, and blocks may run anywhere in any order. What a block writes
depends on nothing but the plan, the vectors and earlier parts, which makes the result the same to the last bit
for every engine, number of workers and history of interruptions. :mod:`asbc.outofcore.stages` lists the stages; at the
end the parts of all blocks are joined.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from asbc.bandwidth.rule import fill_constant
from asbc.builder import GraphBuilder
from asbc.checksums import file_crc32
from asbc.files import whole_path
from asbc.neighbors.external import HNSW, nn_descent_candidates, require_library
from asbc.neighbors.lists import file_under, train_centroids
from asbc.neighbors.recall import Recall, measure_recall, warn_of_recall
from asbc.neighbors.search import Decision, check_search, decide_breadth, decide_lists, find_rows
from asbc.outofcore.arrays import (
    GraphFileError,
    open_array,
    read_part,
    write_array,
    write_joined,
    write_json,
    write_note,
)
from asbc.outofcore.engine import open_engine
from asbc.outofcore.errors import VectorsChangedError
from asbc.outofcore.folder import BuildFolder, check_scratch, opened
from asbc.outofcore.guard import check_target, clear_errors, locked, sweep
from asbc.outofcore.joining import finished_manifest, join_parts
from asbc.outofcore.plan import (
    check_same_plan,
    check_space,
    converted,
    forget_plan_of_nothing,
    make_plan,
    rule_to_json,
    vectors_in_plan,
)
from asbc.outofcore.progress import Progress
from asbc.outofcore.source import find_vectors, is_url, local_copy
from asbc.outofcore.stages import compare_block, run_block
from asbc.validation import as_vectors, normalize
from asbc.weights import warn_of_empty_rows

BLOCK_NODES = 16384  # nodes per block, unless another number is asked for


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
    """Build a graph on disk, block by block, or go on with a build that was stopped.

    Parameters
    ----------
    source : str or path
        The vectors: an ``.npy`` file (n, d), a folder of the embedding store, or a URL that fsspec reads, which is
        copied into the folder first.
    folder : str or path
        Where the graph goes, a folder of its own. A build that was stopped there goes on if the arguments are the same.
    builder : GraphBuilder or None, default=None
        Weights, bandwidth, metric and the rest; None takes ``GraphBuilder()``, whose metric is euclidean.
    search : {"auto", "exact", "ivf", "hnsw", "nn_descent"} or None, default=None
        How neighbours are found; None takes the builder's. The last two hold all vectors in memory.
    search_options : mapping or None, default=None
        Options of the search, such as ``{"n_probe": 16}``; None takes the builder's.
    block : int, default=16384
        Nodes per block. Memory grows with it; the result does not depend on it.
    engine : {"local", "dask"}, default="local"
        Where blocks run: in this process, or on the workers of a Dask cluster.
    scheduler : str or None, default=None
        For "dask": the address of a running scheduler, or its scheduler file. None starts a cluster on this machine.
    workers : int, default=2
        For "dask" without a scheduler: the processes of the cluster that is started, one thread each.
    progress : bool, default=False
        Whether to show bars with the time left.

    Returns
    -------
    dict
        The manifest: the settings, the recall of the search, and the dtype and shape of every file.

    See Also
    --------
    asbc.load_graph, asbc.load_nodes, asbc.load_rows : open what was built.
    asbc.GraphBuilder : the same in memory.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> from asbc.build import build_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     asbc.load_graph(f"{folder}/graph").shape, manifest["k"]
    ((60, 60), 30)
    """
    folder = Path(folder).absolute()  # workers of a cluster have working directories of their own
    builder = clone(builder) if builder is not None else GraphBuilder()
    given = {"search": search, "search_options": search_options}
    builder.set_params(**{name: value for name, value in given.items() if value is not None})
    plan = make_plan(builder, block)
    if not is_url(source) and not Path(source).exists():
        raise FileNotFoundError(f"{os.fspath(source)}: no such file.")
    check_target(folder)
    with clear_errors(folder), locked(folder):
        local_source = local_copy(os.fspath(source), folder)
        vectors_path, labels = find_vectors(local_source)
        # Not kept open: even the few rows that are looked at here would bring in nearly all pages of the map.
        plan |= vectors_in_plan(open_array(vectors_path, **labels), vectors_path, plan)
        forget_plan_of_nothing(folder, plan)
        if (folder / "plan.json").is_file():
            check_same_plan(folder, plan)
            if (folder / "manifest.json").is_file():
                return finished_manifest(folder)
        else:
            require_library(plan["search"])
            check_space(folder, plan)
            write_json(folder / "plan.json", plan)
        # Not part of the plan, which must stay the same: the vectors may have been moved between two starts.
        write_json(folder / "scratch" / "source.json", {"path": os.fspath(vectors_path.resolve())})
        sweep(folder)
        with open_engine(engine, os.fspath(folder), scheduler=scheduler, workers=workers) as run:
            return _Build(folder, plan, run, progress).finish()


class _Build:
    """A build in progress: it runs the stages in order and does, between them, the work that needs all nodes."""

    def __init__(self, folder: Path, plan: dict[str, Any], engine, progress: bool):
        self.folder = folder
        self.plan = plan
        self.engine = engine
        self.job = opened(os.fspath(folder))
        self.progress = Progress(progress)
        self.resumed: dict[str, int] = {}

    def finish(self) -> dict[str, Any]:
        """Do all that is not done yet, write the manifest, and return it."""
        begun = time.perf_counter()
        self._prepare()
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
            manifest = join_parts(self.job)
        self._compare_vectors()
        own = resource.getrusage(resource.RUSAGE_SELF)
        write_json(
            self.folder / "timing.json",
            {
                "engine": self.engine.name,
                "cores": os.cpu_count(),
                "seconds": {name: round(value, 3) for name, value in self.progress.seconds.items()},
                "total_seconds": round(time.perf_counter() - begun, 3),
                # Of this process, which does all the work of the local engine but little of the work of a cluster.
                "cpu_seconds": round(own.ru_utime + own.ru_stime, 3),
                "peak_bytes": own.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
                "blocks_found_finished": self.resumed,
            },
        )
        write_json(self.folder / "manifest.json", manifest)
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        return manifest

    def _stage(self, stage: str) -> None:
        """Run those blocks of a stage whose parts are missing."""
        blocks = range(self.job.count(stage))
        missing = [block for block in blocks if not self.job.part(stage, block).is_file()]
        self.resumed[stage] = len(blocks) - len(missing)
        self._run(stage, run_block, stage, missing, len(blocks))

    def _run(self, name: str, function, stage: str, blocks: list[int], total: int) -> None:
        """Call `function` for some of a stage's `total` blocks, and show a bar called `name`."""
        with self.progress.blocks(name, total, total - len(blocks)) as advance:
            for _ in self.engine.run(function, os.fspath(self.folder), stage, blocks):
                advance()

    def _once(self, path: Path, make: Callable[[], NDArray]) -> None:
        """Make and write an array that belongs to no block, unless an earlier start has written it."""
        if not path.is_file():
            write_array(path, make())

    def _compare_vectors(self) -> None:
        """Refuse to finish if the vectors have changed while the build ran: some blocks may have seen the new ones."""
        blocks = list(range(self.job.count("check")))
        try:
            self._run("compare", compare_block, "check", blocks, len(blocks))
        except (VectorsChangedError, GraphFileError, FileNotFoundError):
            # Nobody knows which parts were made of which vectors, so none may be used again.
            shutil.rmtree(self.folder / "scratch")
            raise

    def _prepare(self) -> None:
        """Check the vectors, compare those that were checked before, and convert them if kernels cannot read them."""
        checked = [block for block, path in enumerate(self.job.parts("check")) if path.is_file()]
        if checked:
            self._run("compare", compare_block, "check", checked, len(checked))
            with self.progress.step("verify"):
                check_scratch(self.job.scratch)
        self._stage("check")
        if converted(self.plan) and not self.job.converted.is_file():
            with self.progress.step("convert"):
                shape = (self.plan["n"], self.plan["d"])
                dtype = np.float64 if np.dtype(self.plan["dtype"]).itemsize == 8 else np.float32
                prepare = normalize if self.plan["builder"]["metric"] == "cosine" else as_vectors
                pieces = map(prepare, _slices(self.job.open_source(), BLOCK_NODES))
                write_joined(self.job.converted, dtype, shape, pieces)

    def _search(self) -> None:
        """Decide how to search, make the index that the blocks will look into, and measure what it finds."""
        job, plan = self.job, self.plan
        seed = plan["builder"]["random_state"]
        settings = check_search(plan["search"], plan["n"], plan["search_options"])
        if plan["search"] == "exact":
            self._decided(Decision("exact"))
        elif plan["search"] in ("auto", "ivf"):
            self._decide_lists(settings, seed)
            if job.search["search"] == "ivf":
                self._inverted_lists(job.search["options"], seed)
        elif plan["search"] == "hnsw":
            if not (job.scratch / "index.faiss").is_file():
                with self.progress.step("index"), whole_path(job.scratch / "index.faiss") as temporary:
                    HNSW.build(job.X, settings).save(temporary)
                    write_note(job.scratch / "index.faiss", file_crc32(temporary))
            if not (job.scratch / "search.json").is_file():
                with self.progress.step("tune"):
                    index = HNSW.open(job.scratch / "index.faiss", 0)
                    self._decided(decide_breadth(job.X, plan["k"], settings, plan["recall"], seed, index))
        else:
            with self.progress.step("index"):
                self._once(
                    job.scratch / "candidates.npy",
                    lambda: nn_descent_candidates(job.X, plan["k"], settings["n_trees"], seed),
                )
            self._decided(Decision(plan["search"], settings, plan["recall"]))
        if job.search["search"] != "exact" and not (job.scratch / "recall.json").is_file():
            with self.progress.step("recall"):
                recall = _measured(job)
                target = job.search["target"]
                found = {"target": target, **asdict(recall), "interval": list(recall.interval)}
                write_json(job.scratch / "recall.json", found)
                warn_of_recall(recall, job.search["search"], job.search["options"], target)

    def _decided(self, decision: Decision) -> None:
        """Write down how to search, unless an earlier start has."""
        path = self.job.scratch / "search.json"
        if not path.is_file():
            write_json(path, asdict(decision))

    def _decide_lists(self, settings: Mapping[str, int], seed: int) -> None:
        job, plan = self.job, self.plan

        def centroids() -> NDArray:
            path = job.scratch / "centroids.npy"
            with self.progress.step("train"):
                self._once(path, lambda: train_centroids(job.X, settings["n_lists"], seed))
            return open_array(path)

        if not (job.scratch / "search.json").is_file():
            with self.progress.step("tune"):
                self._decided(decide_lists(job.X, plan["k"], plan["search"], settings, plan["recall"], seed, centroids))
        if job.search["search"] == "ivf":
            centroids()

    def _inverted_lists(self, options: Mapping[str, int], seed: int) -> None:
        job, plan = self.job, self.plan
        n_lists, n_probe = options["n_lists"], options["n_probe"]
        self._stage("assign")
        with self.progress.step("order"):
            names = ("probes", "members", "first_lists", "starts")
            if not all((job.scratch / f"{name}.npy").is_file() for name in names):
                probes = (read_part(path, "probes")[0] for path in job.parts("assign"))
                write_joined(job.scratch / "probes.npy", np.int32, (plan["n"], n_probe), probes)
                members, starts = file_under(job.array("probes")[:, 0], n_lists)
                write_array(job.scratch / "members.npy", members)
                write_array(job.scratch / "first_lists.npy", _list_groups(starts, plan["block"]))
                write_array(job.scratch / "starts.npy", starts)
        self._stage("lists")

    def _survey(self) -> None:
        """Bring the rule, and the estimate of dimension, to a form that looks at nodes one by one.

        Each round asks every block for what the rule needs, and resolves the rule with the joined answers, on disk.
        """
        job = self.job
        if self.plan["builder"]["dimension"] == "two_nn" and not (job.scratch / "log_ratio.npy").is_file():
            estimate = self._unresolved_dimension()
            ratios = [estimate.summarize(job.neighbors(block))["log_ratio"] for block in range(job.count("neighbors"))]
            write_array(job.scratch / "log_ratio.npy", np.concatenate(ratios))
        surveys = 0
        while not (rule := job.rule_after(surveys)).local:
            stage = f"survey-{surveys}"
            self._stage(stage)
            surveys += 1
            folder = job.scratch / f"rule-{surveys}"
            if not (folder / "rule.json").is_file():
                with self.progress.step("resolve"):
                    resolved = rule.resolve(self._joined_survey(stage))
                    write_json(folder / "rule.json", rule_to_json(resolved, folder))
        write_json(job.scratch / "rule.json", {"surveys": surveys})

    def _unresolved_dimension(self):
        return GraphBuilder(**self.plan["builder"]).dimension_estimate()

    def _joined_survey(self, stage: str) -> dict[str, NDArray]:
        """The answers of all blocks, joined on disk so that wide ones need not fit into memory."""
        job = self.job
        first = np.load(job.part(stage, 0), allow_pickle=False)
        joined = {}
        for name in first.files:
            path = job.scratch / f"{stage}-{name}.npy"
            shape = (self.plan["n"], *first[name].shape[1:])
            pieces = (read_part(part, name)[0] for part in job.parts(stage))
            write_joined(path, first[name].dtype, shape, pieces)
            joined[name] = open_array(path)
        return joined

    def _fill_bandwidths(self) -> None:
        """Give nodes that coincide with all their neighbours the median bandwidth of the others, known only now.

        Their weights need no change: where all distances are zero, they do not depend on the bandwidth.
        """
        if (self.job.scratch / "filled.npy").is_file():
            return
        parts = [read_part(path, "sigma", "constant", "empty") for path in self.job.parts("rows")]
        warn_of_empty_rows(int(sum(part[2] for part in parts)), self.plan["n"])
        sigma, constant = (np.concatenate([part[i] for part in parts]) for i in range(2))
        write_array(self.job.scratch / "filled.npy", fill_constant(sigma, constant))


def _slices(array: NDArray, step: int) -> Iterator[NDArray]:
    for start in range(0, len(array), step):
        yield array[start : start + step]


def _list_groups(starts: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Cut the lists into groups of about `block` rows: the first list of each group, then the number of lists."""
    firsts = [0]
    for number in range(1, len(starts) - 1):
        if starts[number + 1] - starts[firsts[-1]] > block:
            firsts.append(number)
    return np.array([*firsts, len(starts) - 1])


def _measured(job: BuildFolder) -> Recall:
    """The recall of the index, on a sample of the nodes."""
    k = job.plan["k"]
    return measure_recall(
        job.X,
        job.X,
        k,
        lambda nodes: find_rows(job.X, nodes, job.index, k)[1],
        among_rows=True,
        seed=job.plan["builder"]["random_state"],
    )
