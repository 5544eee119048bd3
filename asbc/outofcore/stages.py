"""The work of one block in each stage of a build, and where its files are.

A block reads memory maps and the parts of earlier stages, and writes its own part. It depends on nothing else: not on
the engine, not on other blocks of the same stage. The stages are, in order:

- ``assign`` (only with search "ivf"): find the inverted lists that each row scans.
- ``neighbors``: find the neighbours of each node.
- ``survey-0``, ``survey-1``, ...: compute what a rule that needs all nodes asks of each block.
- ``rows``: dimension, bandwidth and weights of each node.
- ``transpose`` (only for symmetric graphs): sort the edges by the node that they end in.
- ``graph``: combine the two directions of each edge.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.bandwidth import Bandwidth
from asbc.builder import GraphBuilder
from asbc.dimension import Dimension
from asbc.graph import to_graph
from asbc.neighbors.lists import Blocks, Keep, nearest_lists, one_block
from asbc.neighbors.search import Decision, find_rows, open_index
from asbc.neighbors.types import Neighbors
from asbc.outofcore.plan import needs_conversion, open_vectors, rule_from_json
from asbc.rows import solve_rows, survey_rows
from asbc.storage import (
    DamagedFileError,
    atomic_path,
    file_checksum,
    open_array,
    read_json,
    write_array_blocks,
    write_atomic,
)
from asbc.validation import Floats
from asbc.weights import Weights, count_empty, normalize_weights, sharpen

# An edge of the directed graph. Sorted by column, edges can be found by the node that they end in.
EDGE = np.dtype([("column", np.int64), ("row", np.int64), ("value", np.float64)])


class BuildFolder:
    """Folder of a build in progress: the plan, the memory maps, and the part of each stage and block.

    Parameters
    ----------
    folder : Path
        The build's folder, in which ``plan.json`` is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.scratch = folder / "scratch"
        self.plan = read_json(folder / "plan.json")
        self._rules: list[Bandwidth] = []  # the bandwidth rule of the plan, and after each survey

    @property
    def weighted(self) -> bool:
        """Whether there is a bandwidth; uniform weights have none."""
        return self.plan["bandwidth"] is not None

    @property
    def count(self) -> int:
        """Number of blocks of a stage."""
        return -(-self.plan["n"] // self.plan["block"])

    def part(self, stage: str, block: int) -> Path:
        """Path of the file that a block of a stage writes."""
        return self.scratch / stage / f"{block:06d}.{'npy' if stage == 'transpose' else 'npz'}"

    def parts(self, stage: str) -> list[Path]:
        return [self.part(stage, block) for block in range(self.count)]

    def column(self, stage: str, name: str) -> Iterator[NDArray]:
        """Yield an array of each block's part, in order: one at a time, because all may not fit into memory."""
        return (read_part(path, name)[name] for path in self.parts(stage))

    def joined(self, stage: str, name: str) -> Blocks:
        """An array of all nodes, from the parts of all blocks."""
        first = read_part(self.part(stage, 0), name)[name]
        return first.dtype, (self.plan["n"], *first.shape[1:]), self.column(stage, name)

    def nodes(self, block: int) -> tuple[int, int]:
        """The first node of a block, and the node after its last."""
        start = block * self.plan["block"]
        return start, min(start + self.plan["block"], self.plan["n"])

    def keep(self, name: str, compute: Callable[[], Blocks]) -> NDArray:
        """Compute a scratch array that belongs to no block, unless it is there, and return its memory map."""
        path = self.scratch / f"{name}.npy"
        if not path.is_file():
            write_scratch(path, *compute())
        return open_array(path)

    def array(self, name: str) -> NDArray:
        """Memory map of such an array that is there."""
        return open_array(self.scratch / f"{name}.npy")

    @property
    def source(self) -> Path:
        """The file of the vectors as given."""
        return Path(read_json(self.scratch / "source.json")["path"])

    def open_source(self) -> NDArray:
        """Return a new memory map of the vectors as given (n, d)."""
        return open_vectors(self.source, self.plan)

    @functools.cached_property
    def X(self) -> Floats:
        """The vectors as kernels read them (n, d): float32 or float64, of unit length if the metric is cosine."""
        return self.array("vectors") if needs_conversion(self.plan) else self.open_source()

    @functools.cached_property
    def center(self) -> float:
        """The median bandwidth, known after the stage ``rows``."""
        return float(np.median(self.array("filled")))

    @functools.cached_property
    def search(self) -> dict[str, Any]:
        """The kind of search, its options, and the recall that they were chosen for."""
        return read_json(self.scratch / "search.json")

    def rule_after(self, surveys: int) -> Bandwidth:
        """The bandwidth rule after a number of surveys.

        Every process resolves it from the joined surveys: a file that holds a resolved rule could name any class.
        """
        if not self._rules:
            self._rules.append(rule_from_json(self.plan["bandwidth"]))
        while len(self._rules) <= surveys:
            joined = sorted((self.scratch / f"survey-{len(self._rules) - 1}").glob("*.npy"))
            self._rules.append(self._rules[-1].resolve({path.stem: open_array(path) for path in joined}))
        return self._rules[surveys]

    @functools.cached_property
    def rule(self) -> Bandwidth:
        """The bandwidth rule, resolved to a local one."""
        return next(rule for rule in map(self.rule_after, itertools.count()) if rule.local)

    @functools.cached_property
    def weights(self) -> Weights:
        """The rule of the weights."""
        return rule_from_json(self.plan["weights"])

    @functools.cached_property
    def dimension(self) -> Dimension:
        """The estimator of dimension, resolved to a local one."""
        estimate = GraphBuilder(**self.plan["builder"]).dimension_estimate()
        if estimate.local:
            return estimate
        ratios = (estimate.summarize(self.neighbors(block))["log_ratio"] for block in range(self.count))
        return estimate.resolve({"log_ratio": self.keep("log_ratio", lambda: (float, (self.plan["n"],), ratios))})

    def surveyed_dimension(self, block: int) -> NDArray[np.float64] | None:
        """The dimension of a block's nodes, if a survey needed it."""
        for path in sorted(self.scratch.glob("survey-*/dimension_of_nodes.npy")):
            return np.array(open_array(path)[slice(*self.nodes(block))])
        return None

    def neighbors(self, block: int) -> Neighbors:
        """The neighbours that were found for a block."""
        part = read_part(self.part("neighbors", block), "indices", "distances")
        return Neighbors(part["indices"], part["distances"], first=self.nodes(block)[0])

    @functools.cached_property
    def index(self):
        """The index that proposes candidates; None for exact search."""
        return self.open_index(self.keep)

    def open_index(self, keep: Keep) -> Any:
        """Open the index, or build it with `keep`, which writes what is missing."""
        plan = self.plan
        return open_index(self.X, plan["k"], Decision(**self.search), plan["builder"]["random_state"], keep)

    def close(self) -> None:
        """Drop the memory maps, so that Windows lets their files be removed. Nothing can be read afterwards."""
        vars(self).clear()


def open_folder(folder: str) -> BuildFolder:
    """Return a build's folder, with its maps and its index kept open from block to block.

    Every start of a build writes ``source.json`` again. A Dask worker that outlives one start and serves the next
    notices its new time, and opens the folder again.
    """
    return _open_folder(folder, os.stat(os.path.join(folder, "scratch", "source.json")).st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _open_folder(folder: str, time_written: int) -> BuildFolder:
    return BuildFolder(Path(folder))


def close_folder() -> None:
    """Close the folder that :func:`open_folder` keeps open in this process."""
    _open_folder.cache_clear()


# Scratch files


def write_scratch(path: Path, dtype: Any, shape: tuple[int, ...], blocks: Iterator[NDArray]) -> None:
    """Write consecutive blocks of rows as one scratch array, and its checksum next to it."""
    _note_checksum(path, write_array_blocks(path, dtype, shape, blocks))


def _note_checksum(path: Path, checksum: int) -> None:
    write_atomic(path.with_name(f"{path.name}.crc32"), str(checksum))


def check_scratch(scratch: Path) -> None:
    """Compare the scratch files of an earlier start with their checksums."""
    for note in sorted(scratch.rglob("*.crc32")):
        path = note.with_name(note.name.removesuffix(".crc32"))
        text = note.read_bytes()
        if path.is_file() and (not text.isdigit() or file_checksum(path) != int(text)):
            raise DamagedFileError(
                f"{path}: damaged (its checksum differs). Remove it and run the same command again to recompute it."
            )


def read_part(path: Path, *names: str) -> dict[str, NDArray]:
    """Return some arrays of a part by name, or all."""
    with np.load(path) as part:
        return {name: part[name] for name in names or part.files}


# Stages


def run_block(folder: str, stage: str, block: int) -> None:
    """Run one block of a stage and write its part, unless the part exists. Engines call this."""
    job = open_folder(folder)
    path = job.part(stage, block)
    if path.is_file():
        return
    name, _, surveys = stage.partition("-")
    result = _survey(job, block, int(surveys)) if name == "survey" else _STAGES[stage](job, block)
    if isinstance(result, dict):
        with atomic_path(path) as temporary:
            with temporary.open("wb") as file:
                np.savez(file, **result)
            _note_checksum(path, file_checksum(temporary))
    else:
        write_scratch(path, *one_block(result))


def _assign(job: BuildFolder, block: int):
    """The lists that each row probes, nearest first."""
    start, stop = job.nodes(block)
    n_probe = job.search["options"]["n_probe"]
    return {"probes": nearest_lists(job.array("centroids"), job.X[start:stop], n_probe)}


def _neighbors(job: BuildFolder, block: int):
    indices, distances = find_rows(job.X, np.arange(*job.nodes(block)), job.index, job.plan["k"])
    return {"indices": indices, "distances": distances}


def _survey(job: BuildFolder, block: int, surveys: int):
    """What the rule asks of a block after a number of earlier surveys."""
    neighbors = job.neighbors(block)
    rule = job.rule_after(surveys)
    if not rule.uses_dimension:
        return survey_rows(job.X, neighbors, rule, None)
    dimension = job.surveyed_dimension(block)
    if dimension is None:
        seed = job.plan["builder"]["random_state"]
        dimension = solve_rows(job.X, neighbors, dimension=job.dimension, seed=seed).dimension
    return {**survey_rows(job.X, neighbors, rule, dimension), "dimension_of_nodes": dimension}


def _rows(job: BuildFolder, block: int):
    neighbors = job.neighbors(block)
    if not job.weighted:
        return {"weights": solve_rows(job.X, neighbors, weights=job.weights).weights}
    known = job.surveyed_dimension(block)
    rows = solve_rows(
        job.X,
        neighbors,
        dimension=job.dimension if known is None else known,
        bandwidth=job.rule,
        weights=job.weights,
        seed=job.plan["builder"]["random_state"],
        report=True,
    )
    assert rows.weights is not None
    names = ("sigma", "effective_rank", "slope", "objective", "at_edge")
    return {name: getattr(rows.choice, name) for name in names} | {
        "constant": rows.constant,
        "dimension": rows.dimension,
        "weights": rows.weights,
        "empty": np.array(count_empty(rows.weights)),
    }


def _directed(job: BuildFolder, block: int) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """Normalised weights of a block (m, k), and its rows of the directed graph (m, n)."""
    start, stop = job.nodes(block)
    neighbors = job.neighbors(block)
    weights = read_part(job.part("rows", block), "weights")["weights"]
    if job.plan["builder"]["sharpen"] and job.weighted:
        weights = sharpen(weights, np.array(job.array("filled")[start:stop]), center=job.center)
    graph = to_graph(neighbors, weights, symmetrize=None, n_columns=job.plan["n"])
    return normalize_weights(weights), graph


def _transpose(job: BuildFolder, block: int):
    """The edges that start in this block, sorted by the node that they end in."""
    start, _ = job.nodes(block)
    edges = _directed(job, block)[1].tocoo()
    order = np.lexsort((edges.row, edges.col))
    out = np.empty(edges.nnz, EDGE)
    out["column"], out["row"], out["value"] = edges.col[order], edges.row[order] + start, edges.data[order]
    return out


def _graph(job: BuildFolder, block: int):
    """The block's rows of the finished graph."""
    start, stop = job.nodes(block)
    weights, graph = _directed(job, block)
    symmetrize = job.plan["builder"]["symmetrize"]
    if symmetrize:
        found = []
        for path in job.parts("transpose"):
            edges = open_array(path, EDGE)
            first, last = np.searchsorted(edges["column"], [start, stop])
            found.append(np.array(edges[first:last]))
        back = np.concatenate(found)
        coordinates = back["column"] - start, back["row"]
        transposed = sparse.csr_array(sparse.coo_array((back["value"], coordinates), shape=graph.shape))
        graph = graph.maximum(transposed) if symmetrize == "max" else (graph + transposed) / 2
        graph = sparse.csr_array(graph)
    graph.sort_indices()
    return {"weights": weights, "counts": np.diff(graph.indptr), "columns": graph.indices, "values": graph.data}


_STAGES = {
    "assign": _assign,
    "neighbors": _neighbors,
    "rows": _rows,
    "transpose": _transpose,
    "graph": _graph,
}
