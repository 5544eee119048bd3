"""What one block of a build does, stage by stage: it reads memory maps and earlier parts, and makes its own part.

Nothing here depends on the engine, on other blocks of the same stage, or on what ran before. The stages are, in order:

- ``check``: are the vectors finite?
- ``assign`` and ``lists`` (only with search "ivf"): find the list of each row, and write the lists.
- ``neighbors``: find the neighbours of each node.
- ``survey-0``, ``survey-1``, ...: what a rule that needs all nodes asks of each block, as often as it asks.
- ``rows``: dimension, bandwidth and weights of each node.
- ``transpose`` (only for symmetric graphs): sort the edges by the node that they end in.
- ``graph``: put the two directions of the edges together.
"""

from __future__ import annotations

import zlib
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.graph import to_graph
from asbc.neighbors.lists import nearest_lists, residuals
from asbc.neighbors.search import find_rows
from asbc.neighbors.types import Neighbors
from asbc.outofcore.arrays import GraphFileError, read_part, write_array, write_part
from asbc.outofcore.errors import VectorsChangedError
from asbc.outofcore.folder import BuildFolder, open_part, opened
from asbc.rows import solve_rows, survey_rows
from asbc.weights import count_empty, normalize_weights, sharpen

# An edge of the directed graph, sorted by column so that it can be found by the node that it ends in.
EDGE = np.dtype([("column", np.int64), ("row", np.int64), ("value", np.float64)])


def run_block(folder: str, stage: str, block: int) -> None:
    """Do one block of a stage and write its part, unless the part is there already. Engines call this."""
    job = opened(folder)
    path = job.part(stage, block)
    if path.is_file():
        return
    name, _, surveys = stage.partition("-")
    made = _survey(job, block, int(surveys)) if name == "survey" else _STAGES[stage](job, block)
    if isinstance(made, dict):
        write_part(path, made)
    else:
        write_array(path, made)


def _check(job: BuildFolder, block: int):
    """Refuse vectors that cannot be worked with, and keep a checksum of the others."""
    start, stop = job.nodes(block)
    vectors = job.open_source()[start:stop]
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise ValueError(f"the vectors must be finite; row {start + int(np.argmin(finite))} holds NaN or infinity.")
    if job.plan["builder"]["metric"] == "cosine":
        zero = ~vectors.any(axis=1)
        if zero.any():
            raise ValueError(f"metric='cosine' needs directions; row {start + int(np.argmax(zero))} is all zeros.")
    return {"crc32": np.array(_checksum(vectors))}


def _checksum(vectors: NDArray) -> int:
    return zlib.crc32(np.ascontiguousarray(vectors).data)


def compare_block(folder: str, stage: str, block: int) -> None:
    """Refuse vectors that have changed since they were checked: old and new must not meet in one graph."""
    job = opened(folder)
    start, stop = job.nodes(block)
    # Opened afresh: another file may have their name by now, while earlier maps still show the one before.
    if int(read_part(job.part(stage, block), "crc32")[0]) != _checksum(job.open_source()[start:stop]):
        raise VectorsChangedError(
            f"{folder}: the vectors have changed since this build began, somewhere in rows {start} to {stop - 1}. "
            "Give the new ones another folder, or remove this one."
        )


def _assign(job: BuildFolder, block: int):
    """The lists that each row will look at, nearest first."""
    start, stop = job.nodes(block)
    n_probe = job.search["options"]["n_probe"]
    return {"probes": nearest_lists(job.array("centroids"), job.X[start:stop], n_probe)}


def _lists(job: BuildFolder, block: int):
    """The residuals of one group of lists."""
    first, last = job.array("first_lists")[block : block + 2]
    starts, members = job.array("starts"), job.array("members")
    return residuals(job.X, job.array("centroids"), members[starts[first] : starts[last]], job.array("probes")[:, 0])


def _neighbors(job: BuildFolder, block: int):
    """The neighbours of each node."""
    rows = np.arange(*job.nodes(block))
    indices, distances, repaired = find_rows(job.X, rows, job.index, job.plan["k"])
    return {"indices": indices, "distances": distances, "repaired": np.array(repaired)}


def _survey(job: BuildFolder, block: int, surveys: int):
    """What the rule, after that number of earlier surveys, still needs to know of a block."""
    neighbors = job.neighbors(block)
    rule = job.rule_after(surveys)
    if not rule.uses_dimension:
        return survey_rows(job.X, neighbors, rule, None)
    dimension = _dimension_of(job, block, neighbors)
    return {**survey_rows(job.X, neighbors, rule, dimension), "dimension_of_nodes": dimension}


def _dimension_of(job: BuildFolder, block: int, neighbors: Neighbors) -> NDArray[np.float64]:
    """The dimension of a block's nodes: from the first survey that needed it, or worked out now."""
    for path in sorted(job.scratch.glob(f"survey-*/{block:06d}.npz")):
        with suppress(GraphFileError):
            return read_part(path, "dimension_of_nodes")[0]
    seed = job.plan["builder"]["random_state"]
    found = solve_rows(job.X, neighbors, dimension=job.dimension, seed=seed).dimension
    assert found is not None
    return found


def _rows(job: BuildFolder, block: int):
    """Dimension, bandwidth and weights of each node."""
    neighbors = job.neighbors(block)
    settings = job.plan["builder"]
    if not job.weighted:
        return {"weights": solve_rows(job.X, neighbors, weights=job.weights).weights}
    surveyed = any(job.scratch.glob("survey-*"))
    rows = solve_rows(
        job.X,
        neighbors,
        dimension=_dimension_of(job, block, neighbors) if surveyed else job.dimension,
        bandwidth=job.rule,
        weights=job.weights,
        seed=settings["random_state"],
        report=True,
    )
    assert rows.choice is not None and rows.weights is not None and rows.dimension is not None
    return {
        "sigma": rows.choice.sigma,
        "constant": rows.constant,
        "effective_rank": rows.choice.effective_rank,
        "slope": rows.choice.slope,
        "objective": rows.choice.objective,
        "at_edge": rows.choice.at_edge,
        "dimension": rows.dimension,
        "weights": rows.weights,
        "empty": np.array(count_empty(rows.weights)),
    }


def _directed(job: BuildFolder, block: int) -> tuple[NDArray[np.float64], sparse.csr_array]:
    """Normalised weights of a block (m, k), and its rows of the directed graph (m, n)."""
    start, stop = job.nodes(block)
    neighbors = job.neighbors(block)
    (weights,) = read_part(job.part("rows", block), "weights")
    if job.plan["builder"]["sharpen"] and job.weighted:
        weights = sharpen(weights, np.array(job.array("filled")[start:stop]), center=job.center)
    graph = to_graph(neighbors, weights, symmetrize=None, n_columns=job.plan["n"])
    weights = normalize_weights(weights)
    return weights, graph


def _transpose(job: BuildFolder, block: int):
    """The edges that start in this block, sorted by the node that they end in.

    A block of the stage ``graph`` then finds those that end in its own nodes side by side.
    """
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
            edges = open_part(path, EDGE)
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
