"""From a file of embeddings to a graph on disk, block by block.

The work is cut into stages, and a stage into blocks of nodes. A block reads memory maps and the parts of earlier
stages, and writes one part: whole, under its final name, or not at all. So memory is bounded by the block, a build
that was killed goes on with the parts that are missing, and blocks may run anywhere in any order. What a block writes
depends on nothing but the plan, the vectors and earlier parts, which makes the result the same to the last bit
for every engine, number of workers and history of interruptions.

Stages: ``check`` the vectors; ``assign`` rows to inverted lists and write the ``lists`` (``ivf`` only); ``neighbors``;
``rows`` (dimension, bandwidth, weights); ``transpose`` the edges and put the ``graph`` together; then parts are joined.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import shutil
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asbc
from asbc import approximate
from asbc.bandwidth import (
    Fixed,
    SelfTuning,
    anchor,
    fill_constant,
)
from asbc.blocks import RULES, Job, compare_block, converted, opened, run_block
from asbc.engine import BuildError, open_engine
from asbc.graph import GraphBuilder
from asbc.graphfile import (
    FORMAT,
    GraphFileError,
    check_files,
    open_array,
    read_json,
    read_manifest,
    read_part,
    whole_file,
    write_array,
    write_joined,
    write_json,
)
from asbc.neighbors import Neighbors, as_vectors, check_k, normalize
from asbc.weights import EmptyRowWarning, warn_of_empty_rows

BLOCK = 16384
_QUIET_SECONDS = 20
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CHECKED_ROWS = 4096  # that tell whether the vectors are those of the last start
_TRIAL_K = 64
_SAMPLE = 1000  # nodes that recall is measured on
_NODE_ARRAYS = ("sigma", "effective_rank", "slope", "objective", "at_edge", "dimension")


def build_graph(
    source: str | os.PathLike,
    folder: str | os.PathLike,
    builder: GraphBuilder | None = None,
    *,
    search: str = "ivf",
    search_options: Mapping[str, int] | None = None,
    block: int = BLOCK,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int = 2,
    progress: bool = False,
) -> dict[str, Any]:
    """Build a graph on disk. Started again after an interruption, it goes on where it was.

    Parameters
    ----------
    source : path
        ``.npy`` file (n, d), a folder of the embedding store, or a URL that fsspec reads, which is copied first.
    folder : path
        The build's own folder. Another build of the same plan is continued there; any other is refused.
    builder : GraphBuilder, optional
        Weights, bandwidth and the rest. Rules that look at all nodes at once do not work in blocks, except
        ``Fixed("mean_knn")`` and ``SelfTuning``.
    search : {"ivf", "exact", "hnsw", "nn_descent"}
        The last two hold all vectors in memory.
    search_options : mapping, optional
        ``n_lists``, ``n_probe`` and so on, see :func:`asbc.search_neighbors`.
    block : int
        Nodes a block. Memory goes with it, results do not.
    engine, scheduler, workers
        See :func:`asbc.engine.open_engine`.
    progress : bool
        Show bars with the time left.

    Returns
    -------
    The manifest. :func:`asbc.load_graph` opens the graph.
    """
    folder = Path(folder).absolute()  # workers of a cluster have working directories of their own
    plan = _plan(builder if builder is not None else GraphBuilder(), search, search_options or {}, block)
    if not _is_url(source) and not Path(source).exists():
        raise FileNotFoundError(f"{os.fspath(source)}: no such file.")
    if folder.exists() and not folder.is_dir():
        raise BuildError(f"{folder}: a file; the build needs a folder of its own.")
    with _clear_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _clear_errors(folder), _locked(folder):
        local_source = _local_copy(os.fspath(source), folder)
        vectors_path, labels = find_vectors(local_source)
        vectors = open_array(vectors_path, **labels)
        plan |= _shape_of(vectors, vectors_path, plan)
        if (folder / "plan.json").is_file():
            _same_plan(folder, plan)
            if (folder / "manifest.json").is_file():
                return _finished(folder)
        else:
            # A start that was killed as it wrote its plan has left no more than that behind.
            names = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".plan.json.")]
            strangers = [name for name in names if name not in ("build.lock", "source")]
            if strangers:
                raise BuildError(f"{folder}: not empty, and not a build of asbc (it holds {strangers[0]!r}).")
            _check_space(folder, plan)
            write_json(folder / "plan.json", plan)
        # Where the vectors are may change between starts, so it is not part of the plan.
        write_json(folder / "scratch" / "source.json", {"path": os.fspath(vectors_path.resolve())})
        _sweep(folder)
        with open_engine(engine, os.fspath(folder), scheduler=scheduler, workers=workers) as run:
            return _Build(folder, plan, run, progress).finish()


# --- the plan -------------------------------------------------------------------------------------------------------


def _plan(builder: GraphBuilder, search: str, options: Mapping[str, int], block: int) -> dict[str, Any]:
    builder._check_parameters()
    if isinstance(block, bool) or int(block) != block or block < 1:
        raise ValueError(f"block must be a whole number of at least 1; got {block!r}.")
    approximate.check_search(search, 2**40, options)
    seed = builder.random_state
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"random_state must be a whole number of at least 0, so that blocks agree; got {seed!r}.")
    # A trial on a few points refuses what cannot work now, rather than after hours of search.
    settings = builder.get_params(deep=False)
    small = _for_trial(builder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyRowWarning)  # which says nothing about the vectors
        GraphBuilder(**settings | small).fit(np.random.default_rng(0).normal(size=(small["k_cand"] + 2, 8)))
    settings.pop("bandwidth")
    rule = builder._rule()
    return {
        "format": FORMAT,
        "version": asbc.__version__,
        "builder": {**settings, "random_state": int(seed)},
        "bandwidth": _rule_to_json(rule) if builder.weights != "uniform" else None,
        "search": search,
        "search_options": dict(options),
        "block": int(block),
    }


def _for_trial(builder: GraphBuilder) -> dict[str, int]:
    """k_cand and k_min for a trial: its memory grows with the cube of k, so a large k is tried as a smaller one."""
    # A rule that looks at a certain neighbour must find it.
    ranks = [] if builder.bandwidth is None else builder.bandwidth.get_params(deep=False).items()
    ranks = [value for name, value in ranks if name.startswith("k") and isinstance(value, int | np.integer)]
    k = int(min(builder.k_cand, max([_TRIAL_K, *ranks])))
    k_min = builder.k_min
    allowed = isinstance(k_min, int | np.integer) and k_min <= builder.k_cand
    return {"k_cand": k, "k_min": min(k_min, k) if allowed else k_min}


def _rule_to_json(rule) -> dict[str, Any]:
    name = type(rule).__name__
    if name not in RULES or (isinstance(rule, Fixed) and rule.value == "median_spectral"):
        what = "Fixed('median_spectral')" if isinstance(rule, Fixed) else name
        raise ValueError(
            f"bandwidth {what} looks at all nodes at once and does not work in blocks. These do: SpectralBandwidth, "
            "Perplexity, SelfTuning, Fixed with a number or 'mean_knn'. A global bandwidth found on a sample can be "
            "passed as Fixed(number)."
        )
    return {"rule": name, **rule.get_params(deep=False)}


def _finished(folder: Path) -> dict[str, Any]:
    """The manifest of a build that is done, after a look at the size of its files."""
    try:
        manifest = read_manifest(folder)
        check_files(folder, manifest)
    except (GraphFileError, FileNotFoundError) as error:
        raise BuildError(
            f"{error} The build had finished, and its parts are gone: remove {folder} and build it anew."
        ) from error
    shutil.rmtree(folder / "scratch", ignore_errors=True)  # a kill may have come just before that
    return manifest


def find_vectors(source: Path) -> tuple[Path, dict[str, Any]]:
    """The ``.npy`` file of `source`, and the dtype and shape that the store's manifest gives it, if it has one."""
    if source.suffix == ".npz":
        raise ValueError(f"{source}: an .npz archive; an .npy file (n, d) is wanted, as numpy.save writes it.")
    if not source.is_dir():
        return source, {}
    manifest_path = source / "manifest.json"
    if not manifest_path.is_file():
        raise FileNotFoundError(f"{source}: a folder without manifest.json is not an entry of the embedding store.")
    manifest = read_json(manifest_path)
    try:
        dtype = np.dtype(str(manifest["dtype"]))
        return source / "vectors.npy", {"dtype": dtype, "shape": tuple(manifest["shape"])}
    except (KeyError, TypeError) as error:
        raise GraphFileError(f"{manifest_path}: has no dtype and shape ({error}).") from error


def _is_url(source: str | os.PathLike) -> bool:
    return "://" in os.fspath(source)


def _local_copy(source: str, folder: Path) -> Path:
    """`source` as a path of this file system; a URL is copied into the build's folder once."""
    if not _is_url(source):
        return Path(source)
    try:
        import fsspec
    except ImportError as error:
        raise ImportError("reading from a URL needs fsspec: pip install 'asbc[scale]'.") from error
    copy, origin = folder / "source" / "vectors.npy", folder / "source" / "origin.json"
    if copy.is_file() and origin.is_file():
        url = read_json(origin).get("url")
        if url != source:
            raise BuildError(
                f"{folder}: holds a copy of {url!r}, and now {source!r} is given. Give this one another folder, or "
                "remove it."
            )
        return copy
    for leftover in copy.parent.glob(".*"):
        leftover.unlink()
    arrived = folder / "source" / "arrived.npy"  # a copy gets its name once it is known to be whole
    try:
        with fsspec.open(source, "rb") as remote, whole_file(arrived) as file:
            shutil.copyfileobj(remote, file, 2**24)
        open_array(arrived)
    except GraphFileError as error:
        arrived.unlink(missing_ok=True)
        reason = str(error).removeprefix(f"{arrived}: ")
        raise BuildError(f"{source}: {reason} Nothing of it is kept; the same command reads it again.") from error
    except Exception as error:  # every file system of fsspec has errors of its own
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            raise
        raise BuildError(f"{source}: cannot be read ({type(error).__name__}: {error}).") from error
    copy.unlink(missing_ok=True)
    write_json(origin, {"url": source})
    os.replace(arrived, copy)
    return copy


def _shape_of(vectors: NDArray, path: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan says of the vectors: enough to notice that they are not those of the last start."""
    if vectors.ndim != 2:
        raise ValueError(f"{path}: must have shape (n_samples, n_features); got {vectors.shape}.")
    if vectors.dtype.kind != "f" or vectors.dtype.itemsize > 8:
        raise TypeError(f"{path}: must be float16, float32 or float64; got {vectors.dtype}.")
    n, d = vectors.shape
    if d == 0:
        raise ValueError(f"{path}: must have at least one column; got shape {vectors.shape}.")
    k = check_k(plan["builder"]["k_cand"], n, "k_cand")
    options = approximate.check_search(plan["search"], n, plan["search_options"])
    checksum = 0
    for row in np.unique(np.linspace(0, n - 1, _CHECKED_ROWS).astype(int)):
        checksum = zlib.crc32(np.ascontiguousarray(vectors[row]).tobytes(), checksum)
    return {
        "n": n,
        "d": d,
        "k": k,
        "dtype": str(vectors.dtype),
        "fortran": not vectors.flags.c_contiguous,
        "search_options": options,
        "vectors_crc32": checksum,
    }


def _same_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    stored = read_json(folder / "plan.json")
    for key in sorted(stored.keys() | plan.keys()):
        before, after = stored.get(key), plan.get(key)
        if before != after:
            if isinstance(before, dict) and isinstance(after, dict):  # what of it differs
                key = next(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
                before, after = before.get(key), after.get(key)
            what = "the vectors have changed" if key == "vectors_crc32" else f"{key} was {before!r}"
            now = "" if key == "vectors_crc32" else f" and is now {after!r}"
            raise BuildError(
                f"{folder}: holds a build with other settings: {what}{now}. Give this one another folder, or remove it."
            )


def _check_space(folder: Path, plan: Mapping[str, Any]) -> None:
    n, d, k = plan["n"], plan["d"], plan["k"]
    copies = (plan["search"] == "ivf") + converted(plan)
    options = plan["search_options"]
    index = {
        "ivf": 2 * 4 * options.get("n_probe", 0),
        "hnsw": 4 * d + 8 * options.get("links", 0),
        "nn_descent": 4 * k,
    }
    needed = n * (4 * d * copies + index.get(plan["search"], 0) + 2 * 20 * k)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BuildError(
            f"{folder}: the build needs at least {needed / 1e9:.1f} GB of disk, and {free / 1e9:.1f} GB are free."
        )


# --- safety ---------------------------------------------------------------------------------------------------------


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other builds out. The system lets go of the lock when the process ends, however it ends."""
    with open(folder / "build.lock", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            lock.seek(0)
            owner = lock.read().strip() or "another process"
            raise BuildError(f"{folder}: another build is writing here ({owner}); wait for it, or stop it.") from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {os.uname().nodename}")
        lock.flush()
        yield


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _DISK_FULL:
            raise BuildError(
                f"{folder}: the disk is full, or a file may not grow any more ({error.strerror}). Finished parts are "
                "kept: make room and start again."
            ) from error
        raise


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed have left."""
    own = (folder.glob(f".{name}.json.*") for name in ("plan", "manifest", "timing"))
    places = itertools.chain(*own, *((folder / name).rglob(".*") for name in ("scratch", "graph", "nodes", "rows")))
    for leftover in places:
        if leftover.is_file():
            leftover.unlink(missing_ok=True)


# --- the driver -----------------------------------------------------------------------------------------------------


class _Build:
    """What happens between the blocks: it starts stages, and works out what needs all nodes."""

    def __init__(self, folder: Path, plan: dict[str, Any], engine, progress: bool):
        self.folder = folder
        self.plan = plan
        self.engine = engine
        self.job = opened(os.fspath(folder))
        self.show = progress
        self.seconds: dict[str, float] = {}
        self.resumed: dict[str, int] = {}

    def finish(self) -> dict[str, Any]:
        begun = time.perf_counter()
        with _bars(self.show) as bars:
            self.bars = bars
            self._prepare()
            self._search()
            self._stage("neighbors")
            self._between_neighbors_and_rows()
            self._stage("rows")
            self._between_rows_and_graph()
            if self.plan["builder"]["symmetrize"]:
                self._stage("transpose")
            self._stage("graph")
            with self._step("join"):
                manifest = self._join()
        own = resource.getrusage(resource.RUSAGE_SELF)
        write_json(
            self.folder / "timing.json",
            {
                "engine": self.engine.name,
                "cores": os.cpu_count(),
                "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
                "total_seconds": round(time.perf_counter() - begun, 3),
                # Of this process: it does all the work of the local engine and little of a cluster's.
                "cpu_seconds": round(own.ru_utime + own.ru_stime, 3),
                "peak_bytes": own.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
                "blocks_found_finished": self.resumed,
            },
        )
        write_json(self.folder / "manifest.json", manifest)
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        return manifest

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def _stage(self, stage: str) -> None:
        blocks = range(self.job.count(stage))
        missing = [block for block in blocks if not self.job.part(stage, block).is_file()]
        self.resumed[stage] = len(blocks) - len(missing)
        self._run(stage, run_block, stage, missing, len(blocks))

    def _run(self, name: str, function, stage: str, blocks: list[int], total: int) -> None:
        """Call `function` for some of a stage's `total` blocks, with a bar of that name."""
        bar = self.bars.add_task(name, total=total, completed=total - len(blocks))
        with self._timed(name):
            start = said = time.perf_counter()
            for done, _ in enumerate(self.engine.run(function, os.fspath(self.folder), stage, blocks), 1):
                self.bars.advance(bar)
                now = time.perf_counter()
                # A log file has no bars to redraw: a line now and then.
                if self.show and not self.bars.console.is_terminal and now - said > _QUIET_SECONDS:
                    said = now
                    left = (now - start) / done * (len(blocks) - done)
                    print(f"{name}: {done} of {len(blocks)} blocks, {left:.0f} s left", file=sys.stderr, flush=True)

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        """Work that is not cut into blocks: a bar that says no more than that it goes on."""
        bar = self.bars.add_task(name, total=None)
        with self._timed(name):
            yield
        self.bars.update(bar, total=1, completed=1)

    def _once(self, path: Path, make) -> None:
        """Make one array that belongs to no block, unless an earlier start has."""
        if not path.is_file():
            write_array(path, make())

    def _prepare(self) -> None:
        checked = [block for block, path in enumerate(self.job.parts("check")) if path.is_file()]
        if checked:
            self._run("compare", compare_block, "check", checked, len(checked))
        self._stage("check")
        if converted(self.plan) and not self.job.converted.is_file():
            with self._step("convert"):
                shape = (self.plan["n"], self.plan["d"])
                dtype = np.float64 if np.dtype(self.plan["dtype"]).itemsize == 8 else np.float32
                prepare = normalize if self.plan["builder"]["metric"] == "cosine" else as_vectors
                write_joined(self.job.converted, dtype, shape, map(prepare, _slices(self.job.source, BLOCK)))

    def _search(self) -> None:
        job, plan = self.job, self.plan
        options, seed = plan["search_options"], plan["builder"]["random_state"]
        if plan["search"] == "ivf":
            with self._step("train"):
                self._once(
                    job.scratch / "centroids.npy",
                    lambda: approximate.train_centroids(job.X, options["n_lists"], seed),
                )
            self._stage("assign")
            with self._step("order"):
                names = ("probes", "members", "first_lists", "starts")
                if not all((job.scratch / f"{name}.npy").is_file() for name in names):
                    probes = (read_part(path, "probes")[0] for path in job.parts("assign"))
                    shape = (plan["n"], options["n_probe"])
                    write_joined(job.scratch / "probes.npy", np.int32, shape, probes)
                    members, starts = approximate.file_under(job.array("probes")[:, 0], options["n_lists"])
                    write_array(job.scratch / "members.npy", members)
                    write_array(job.scratch / "first_lists.npy", _list_groups(starts, plan["block"]))
                    write_array(job.scratch / "starts.npy", starts)
            self._stage("lists")
        elif plan["search"] == "hnsw" and not (job.scratch / "index.faiss").is_file():
            with self._step("index"):
                temporary = job.scratch / ".index.faiss"
                approximate.HNSW.build(job.X, options).save(temporary)
                with open(temporary, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(temporary, job.scratch / "index.faiss")
        elif plan["search"] == "nn_descent":
            with self._step("index"):
                self._once(
                    job.scratch / "candidates.npy",
                    lambda: approximate.nn_descent_candidates(job.X, plan["k"], options["n_trees"], seed),
                )
        if plan["search"] != "exact" and not (job.scratch / "recall.json").is_file():
            with self._step("recall"):
                recall = _measure_recall(job)
                write_json(job.scratch / "recall.json", asdict(recall))
                approximate.warn_of_recall(recall, plan["search"], options)

    def _between_neighbors_and_rows(self) -> None:
        """Bandwidths that need the distances of all nodes: 8 bytes a node are held."""
        job = self.job
        rule = job.rule
        if isinstance(rule, Fixed) and rule.value == "mean_knn" and not (job.scratch / "fixed.npy").is_file():
            columns = [
                read_part(path, "distances")[0][:, : rule.k_mle][:, -1].copy() for path in job.parts("neighbors")
            ]
            mean = float(np.concatenate(columns).mean())
            if mean == 0:  # the same way out of duplicates as the rule's own
                scales = []
                for path in job.parts("neighbors"):
                    indices, distances = read_part(path, "indices", "distances")
                    scales.append(anchor(Neighbors(indices, distances), rule.k_mle))
                mean = float(np.concatenate(scales).mean())
            if mean == 0:
                mean = float(fill_constant(np.ones(1), np.ones(1, bool))[0])
            write_array(job.scratch / "fixed.npy", np.array([mean]))
        if isinstance(rule, SelfTuning) and not (job.scratch / "sigma.npy").is_file():
            found = []
            for path in job.parts("neighbors"):
                indices, distances = read_part(path, "indices", "distances")
                found.append(rule.local_sigma(Neighbors(indices, distances)))
            sigma, constant = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
            write_array(job.scratch / "sigma.npy", fill_constant(sigma, constant))

    def _between_rows_and_graph(self) -> None:
        """Nodes whose neighbours all coincide take the median bandwidth of the others, known only now.

        Their weights do not depend on it: all distances are zero.
        """
        if self.job.rule is None or (self.job.scratch / "filled.npy").is_file():
            return
        parts = [read_part(path, "sigma", "constant", "empty") for path in self.job.parts("rows")]
        warn_of_empty_rows(int(sum(part[2] for part in parts)), self.plan["n"])
        sigma, constant = (np.concatenate([part[i] for part in parts]) for i in range(2))
        write_array(self.job.scratch / "filled.npy", fill_constant(sigma, constant))

    def _join(self) -> dict[str, Any]:
        job, plan = self.job, self.plan
        n, k = plan["n"], plan["k"]
        files: dict[str, dict[str, Any]] = {}

        def join(name: str, stage: str, key: str, dtype, shape: tuple[int, ...]) -> None:
            pieces = (read_part(path, key)[0] for path in job.parts(stage))
            write_joined(self.folder / name, dtype, shape, pieces)
            files[name] = {"dtype": np.dtype(dtype).str, "shape": list(shape)}

        id_type = np.int32 if n < 2**31 else np.int64
        join("rows/indices.npy", "neighbors", "indices", id_type, (n, k))
        join("rows/distances.npy", "neighbors", "distances", np.float64, (n, k))
        join("rows/weights.npy", "graph", "weights", np.float64, (n, k))
        if job.rule is not None:
            for name in _NODE_ARRAYS:
                if name != "sigma":
                    join(f"nodes/{name}.npy", "rows", name, bool if name == "at_edge" else np.float64, (n,))
            sigma = open_array(job.scratch / "filled.npy")
            write_joined(self.folder / "nodes/sigma.npy", np.float64, (n,), [sigma])
            files["nodes/sigma.npy"] = {"dtype": "<f8", "shape": [n]}
        counts = np.concatenate([read_part(path, "counts")[0] for path in job.parts("graph")])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        edges = int(indptr[-1])
        # One dtype for both, or scipy would convert, and so read, all of them.
        index_type = np.int32 if max(edges, n) < 2**31 else np.int64
        write_array(self.folder / "graph/indptr.npy", indptr.astype(index_type))
        files["graph/indptr.npy"] = {"dtype": np.dtype(index_type).str, "shape": [n + 1]}
        join("graph/indices.npy", "graph", "columns", index_type, (edges,))
        join("graph/data.npy", "graph", "values", np.float64, (edges,))
        for name, listed in files.items():
            listed["bytes"] = (self.folder / name).stat().st_size
        repaired = sum(int(read_part(path, "repaired")[0]) for path in job.parts("neighbors"))
        recall = read_json(job.scratch / "recall.json") if plan["search"] != "exact" else None
        return {
            **plan,
            "edges": edges,
            "files": files,
            "recall": recall,
            "rows_searched_exactly": n if plan["search"] == "exact" else repaired,
        }


def _slices(array: NDArray, step: int) -> Iterator[NDArray]:
    for start in range(0, len(array), step):
        yield array[start : start + step]


def _list_groups(starts: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Cut the lists into groups of about `block` rows: the first list of each, and the number of lists."""
    firsts = [0]
    for number in range(1, len(starts) - 1):
        if starts[number + 1] - starts[firsts[-1]] > block:
            firsts.append(number)
    return np.array([*firsts, len(starts) - 1])


def _measure_recall(job: Job) -> approximate.Recall:
    n, k = job.plan["n"], job.plan["k"]
    rng = np.random.default_rng([job.plan["builder"]["random_state"], n])
    rows = np.sort(rng.choice(n, min(_SAMPLE, n), replace=False))
    found = approximate.find_rows(job.X, rows, job.index, k)[1]
    exact = approximate.exact_distances(job.X, np.ascontiguousarray(job.X[rows]), k, rows)[1]
    return approximate.recall_of(found, exact)


@contextmanager
def _bars(show: bool) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not show, speed_estimate_period=600) as bars:
        yield bars
