"""From the parts of all blocks to the files of a finished graph, and the manifest that lists them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from asbc.outofcore.arrays import GraphFileError, open_array, read_json, read_part, write_array, write_joined
from asbc.outofcore.errors import BuildError
from asbc.outofcore.folder import BuildFolder
from asbc.outofcore.storage import check_files, read_graph_manifest

NODE_ARRAYS = ("sigma", "effective_rank", "slope", "objective", "at_edge", "dimension")


def join_parts(job: BuildFolder) -> dict[str, Any]:
    """Join the parts of all blocks into the files of the finished graph; returns the manifest."""
    plan = job.plan
    n, k = plan["n"], plan["k"]
    files: dict[str, dict[str, Any]] = {}

    def join(name: str, stage: str, key: str, dtype, shape: tuple[int, ...]) -> None:
        pieces = (read_part(path, key)[0] for path in job.parts(stage))
        crc32 = write_joined(job.folder / name, dtype, shape, pieces, noted=False)
        files[name] = {"dtype": np.dtype(dtype).str, "shape": list(shape), "crc32": crc32}

    id_type = np.int32 if n < 2**31 else np.int64
    join("rows/indices.npy", "neighbors", "indices", id_type, (n, k))
    join("rows/distances.npy", "neighbors", "distances", np.float64, (n, k))
    join("rows/weights.npy", "graph", "weights", np.float64, (n, k))
    if job.weighted:
        for name in NODE_ARRAYS:
            if name != "sigma":
                join(f"nodes/{name}.npy", "rows", name, bool if name == "at_edge" else np.float64, (n,))
        sigma = open_array(job.scratch / "filled.npy")
        crc32 = write_joined(job.folder / "nodes/sigma.npy", np.float64, (n,), [sigma], noted=False)
        files["nodes/sigma.npy"] = {"dtype": "<f8", "shape": [n], "crc32": crc32}
    counts = np.concatenate([read_part(path, "counts")[0] for path in job.parts("graph")])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    edges = int(indptr[-1])
    # indptr and indices have one dtype: scipy converts them otherwise, and so would read the whole file.
    index_type = np.int32 if max(edges, n) < 2**31 else np.int64
    crc32 = write_array(job.folder / "graph/indptr.npy", indptr.astype(index_type), noted=False)
    files["graph/indptr.npy"] = {"dtype": np.dtype(index_type).str, "shape": [n + 1], "crc32": crc32}
    join("graph/indices.npy", "graph", "columns", index_type, (edges,))
    join("graph/data.npy", "graph", "values", np.float64, (edges,))
    for name, listed in files.items():
        listed["bytes"] = (job.folder / name).stat().st_size
    repaired = sum(int(read_part(path, "repaired")[0]) for path in job.parts("neighbors"))
    exact = job.search["search"] == "exact"
    return {
        **plan,
        "search_used": dict(job.search),
        "edges": edges,
        "files": files,
        "recall": None if exact else read_json(job.scratch / "recall.json", checked=True),
        "rows_searched_exactly": n if exact else repaired,
    }


def finished_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished build, after a check that its files are there and as they were written."""
    try:
        manifest = read_graph_manifest(folder)
        check_files(folder, manifest)
    except (GraphFileError, FileNotFoundError) as error:
        raise BuildError(
            f"{error} The build had finished, and its parts are gone: remove {folder} and build it anew."
        ) from error
    shutil.rmtree(folder / "scratch", ignore_errors=True)  # still there if the build was killed at its very end
    return manifest
