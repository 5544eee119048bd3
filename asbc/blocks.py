"""What one block of a build does: it reads memory maps and earlier parts, and gives the arrays of its own part.

Nothing here depends on the engine, on other blocks of the same stage, or on what ran before.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc import approximate
from asbc.bandwidth import (
    Bandwidth,
    BandwidthChoice,
    Fixed,
    Perplexity,
    SelfTuning,
    SpectralBandwidth,
    constant_nodes,
    report_at,
)
from asbc.dimension import dim_mst, levina_bickel
from asbc.engine import BuildError
from asbc.graph import local_rows, to_graph
from asbc.graphfile import GraphFileError, open_array, read_json, read_part, write_array, write_part
from asbc.neighbors import Floats, Neighbors
from asbc.weights import count_empty, normalize_weights, row_weights, sharpen

_MADE_ANEW = "Remove it and start again, and it is made anew."
_EDGE = np.dtype([("column", np.int64), ("row", np.int64), ("value", np.float64)])
# Rules that choose a node's bandwidth from its own neighbours, or from one pass over all distances.
RULES: dict[str, type[Bandwidth]] = {rule.__name__: rule for rule in (SpectralBandwidth, Perplexity, SelfTuning, Fixed)}


def rule_from_json(content: Mapping[str, Any]) -> Bandwidth:
    parameters = dict(content)
    return RULES[parameters.pop("rule")](**parameters)


def converted(plan: Mapping[str, Any]) -> bool:
    """Whether vectors must be written anew before kernels can read them from a memory map."""
    return plan["builder"]["metric"] == "cosine" or plan["fortran"] or plan["dtype"] not in ("float32", "float64")


class Job:
    """A build's folder as its blocks see it: the plan, the memory maps, and where parts are."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.scratch = folder / "scratch"
        self.converted = self.scratch / "vectors.npy"
        self.plan = read_json(folder / "plan.json")
        content = self.plan["bandwidth"]
        self.rule = None if content is None else rule_from_json(content)

    def part(self, stage: str, block: int) -> Path:
        return self.scratch / stage / f"{block:06d}.{'npy' if stage in ('lists', 'transpose') else 'npz'}"

    def parts(self, stage: str) -> list[Path]:
        return [self.part(stage, block) for block in range(self.count(stage))]

    def count(self, stage: str) -> int:
        if stage == "lists":
            return len(self.array("first_lists")) - 1
        return -(-self.plan["n"] // self.plan["block"])

    def nodes(self, block: int) -> tuple[int, int]:
        start = block * self.plan["block"]
        return start, min(start + self.plan["block"], self.plan["n"])

    def array(self, name: str) -> NDArray:
        return _open_part(self.scratch / f"{name}.npy")

    @functools.cached_property
    def source(self) -> NDArray:
        path = Path(read_json(self.scratch / "source.json")["path"])
        return open_array(path, self.plan["dtype"], (self.plan["n"], self.plan["d"]))

    @functools.cached_property
    def X(self) -> Floats:
        return open_array(self.converted) if converted(self.plan) else self.source

    @functools.cached_property
    def center(self) -> float:
        """The median bandwidth, once all are known."""
        return float(np.median(self.array("filled")))

    @functools.cached_property
    def index(self):
        search, options = self.plan["search"], self.plan["search_options"]
        if search == "ivf":
            return approximate.InvertedLists(
                self.array("centroids"),
                self.array("starts"),
                self.array("members"),
                self.array("first_lists"),
                [_open_part(path) for path in self.parts("lists")],
                self.array("probes"),
            )
        if search == "hnsw":
            path = self.scratch / "index.faiss"
            try:
                return approximate.HNSW.open(path, options["ef_search"])
            except RuntimeError as error:
                raise GraphFileError(f"{path}: damaged ({error}). {_MADE_ANEW}") from error
        if search == "nn_descent":
            return approximate.Listed(self.array("candidates"))
        return None


def _open_part(path: Path, dtype: Any = None) -> NDArray:
    try:
        return open_array(path, dtype)
    except GraphFileError as error:
        raise GraphFileError(f"{error} {_MADE_ANEW}") from error


def opened(folder: str) -> Job:
    """The job of a folder. Maps and index stay open from block to block, until the build is started again."""
    return _opened(folder, os.stat(os.path.join(folder, "scratch", "source.json")).st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _opened(folder: str, stamp: int) -> Job:
    return Job(Path(folder))  # every start writes that file anew, which the stamp tells


def run_block(folder: str, stage: str, block: int) -> None:
    """Do one block of a stage and write its part, unless it is there. Workers call this."""
    job = opened(folder)
    path = job.part(stage, block)
    if path.is_file():
        return
    made = _STAGES[stage](job, block)
    if isinstance(made, dict):
        write_part(path, made)
    else:
        write_array(path, made)


def _check(job: Job, block: int):
    start, stop = job.nodes(block)
    finite = np.isfinite(job.source[start:stop]).all(axis=1)
    if not finite.all():
        raise ValueError(f"the vectors must be finite; row {start + int(np.argmin(finite))} holds NaN or infinity.")
    if job.plan["builder"]["metric"] == "cosine":
        zero = ~job.source[start:stop].any(axis=1)
        if zero.any():
            raise ValueError(f"metric='cosine' needs directions; row {start + int(np.argmax(zero))} is all zeros.")
    return {"crc32": np.array(_checksum(job, block))}


def _checksum(job: Job, block: int) -> int:
    start, stop = job.nodes(block)
    return zlib.crc32(np.ascontiguousarray(job.source[start:stop]).data)


def compare_block(folder: str, stage: str, block: int) -> None:
    """Refuse vectors that have changed since an earlier start checked them: old and new must not meet in one graph."""
    job = opened(folder)
    if int(read_part(job.part(stage, block), "crc32")[0]) != _checksum(job, block):
        start, stop = job.nodes(block)
        raise BuildError(
            f"{folder}: the vectors have changed since this build began, somewhere in rows {start} to {stop - 1}. "
            "Give the new ones another folder, or remove this one."
        )


def _assign(job: Job, block: int):
    start, stop = job.nodes(block)
    n_probe = job.plan["search_options"]["n_probe"]
    return {"probes": approximate.nearest_lists(job.array("centroids"), job.X[start:stop], n_probe)}


def _lists(job: Job, block: int):
    first, last = job.array("first_lists")[block : block + 2]
    starts, members = job.array("starts"), job.array("members")
    return approximate.residuals(
        job.X, job.array("centroids"), members[starts[first] : starts[last]], job.array("probes")[:, 0]
    )


def _neighbors(job: Job, block: int):
    rows = np.arange(*job.nodes(block))
    indices, distances, repaired = approximate.find_rows(job.X, rows, job.index, job.plan["k"])
    return {"indices": indices, "distances": distances, "repaired": np.array(repaired)}


def _rows(job: Job, block: int):
    start, _ = job.nodes(block)
    indices, distances = read_part(job.part("neighbors", block), "indices", "distances")
    neighbors = Neighbors(indices, distances, first=start)
    kind = job.plan["builder"]["weights"]
    if job.rule is None:
        return {"weights": row_weights(kind, None, neighbors, None)}
    rule: Bandwidth = job.rule
    fitted = None
    if isinstance(rule, Fixed) and rule.value == "mean_knn":
        rule = Fixed(float(job.array("fixed")[0]))
    elif isinstance(rule, SelfTuning):
        sigma = job.array("sigma")
        rule = _Told(sigma)
        fitted = BandwidthChoice(sigma, sigma, sigma, sigma, np.zeros(0, bool), mutual=True)
    settings = job.plan["builder"]

    def dimension_of(nodes: Neighbors) -> NDArray[np.float64]:
        if settings["dimension"] == "mst":
            return dim_mst(None, nodes, n_rep=settings["n_rep"], seed=settings["random_state"])
        return levina_bickel(nodes, k=min(10, nodes.k))

    dimension, choice, weights = local_rows(job.X, neighbors, rule, dimension_of, kind, settings["k_min"], fitted)
    return {
        "sigma": choice.sigma,
        "constant": constant_nodes(rule, neighbors),
        "effective_rank": choice.effective_rank,
        "slope": choice.slope,
        "objective": choice.objective,
        "at_edge": choice.at_edge,
        "dimension": dimension,
        "weights": weights,
        "empty": np.array(count_empty(weights)),
    }


class _Told(Bandwidth):
    """Self-tuning bandwidths that a pass over all nodes has found."""

    def __init__(self, sigma: NDArray[np.float64]):
        self.sigma = sigma

    def _select(self, X, neighbors, dimension):
        own = np.array(self.sigma[neighbors.first : neighbors.first + neighbors.n])
        return report_at(None, neighbors, own, dimension, np.zeros(neighbors.n, bool), mutual=True)


def _directed(job: Job, block: int) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """Normalised weights of a block (m, k), and its rows of the directed graph (m, n)."""
    start, stop = job.nodes(block)
    indices, distances = read_part(job.part("neighbors", block), "indices", "distances")
    (weights,) = read_part(job.part("rows", block), "weights")
    if job.plan["builder"]["sharpen"] and job.rule is not None:
        weights = sharpen(weights, np.array(job.array("filled")[start:stop]), center=job.center)
    graph = to_graph(Neighbors(indices, distances, start), weights, symmetrize=None, n_columns=job.plan["n"])
    weights = normalize_weights(weights)
    return weights, graph


def _transpose(job: Job, block: int):
    """The block's edges in order of column, so that every later block finds those that end in it side by side."""
    start, _ = job.nodes(block)
    edges = _directed(job, block)[1].tocoo()
    order = np.lexsort((edges.row, edges.col))
    out = np.empty(edges.nnz, _EDGE)
    out["column"], out["row"], out["value"] = edges.col[order], edges.row[order] + start, edges.data[order]
    return out


def _graph(job: Job, block: int):
    start, stop = job.nodes(block)
    weights, graph = _directed(job, block)
    symmetrize = job.plan["builder"]["symmetrize"]
    if symmetrize:
        found = []
        for path in job.parts("transpose"):
            edges = _open_part(path, _EDGE)
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
    "check": _check,
    "assign": _assign,
    "lists": _lists,
    "neighbors": _neighbors,
    "rows": _rows,
    "transpose": _transpose,
    "graph": _graph,
}
