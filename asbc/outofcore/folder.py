"""The folder of a finished graph: plain ``.npy`` arrays, opened as memory maps, and a manifest.

It holds::

    manifest.json                                   settings, recall, and every file's dtype, shape, size and checksum
    timing.json                                     seconds per stage and peak memory
    graph/indptr.npy  indices.npy  data.npy         the adjacency matrix as CSR
    nodes/sigma.npy   effective_rank.npy  ...       (n,): one value per node
    rows/indices.npy  distances.npy  weights.npy    (n, k): each node's candidates before symmetrising
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.neighbors.types import Neighbors
from asbc.storage import DamagedFileError, check_file, file_inside, open_array, read_json
from asbc.validation import true_or_false

FORMAT = 1  # version of the layout above; raised when older versions can no longer read it


def load_graph(path: str | os.PathLike, *, verify: bool = False) -> sparse.csr_array:
    """Open the adjacency matrix that ``asbc-build`` or ``build_graph`` has written.

    Its arrays are memory maps: weights are read when they are used. The indices are checked once, because compiled
    code would crash on one that is out of range.

    Parameters
    ----------
    path : str or path
        Folder of a finished build.
    verify : bool, default=False
        Whether to compare the files with their checksums, which reads all of them.

    Returns
    -------
    (n, n) scipy.sparse.csr_array
        Read-only.

    See Also
    --------
    load_nodes : bandwidth and dimension of every node.
    load_rows : the neighbours of every node, and their weights before symmetrising.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = asbc.build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     graph = asbc.load_graph(f"{folder}/graph")
    ...     graph.shape, graph.nnz == manifest["edges"]
    ((60, 60), True)
    """
    names = [f"graph/{name}.npy" for name in ("indptr", "indices", "data")]
    folder, manifest = Path(path), read_graph_manifest(path)
    indptr, indices, data = open_files(folder, manifest, names, verify)
    n = int(manifest["n"])
    ends = len(indptr) == n + 1 and int(indptr[0]) == 0 and int(indptr[-1]) == len(data) == len(indices)
    if not ends or (indptr[1:] < indptr[:-1]).any():
        raise DamagedFileError(f"{folder / names[0]}: damaged (it does not match indices and data); build it again.")
    _check_node_ids(folder / names[1], n, indices)
    graph = sparse.csr_array((n, n), dtype=data.dtype)
    # Set directly: the constructor would scan all indices to choose their dtype.
    graph.indptr, graph.indices, graph.data = indptr, indices, data
    graph.has_sorted_indices = True
    graph.has_canonical_format = True
    return graph


def load_nodes(path: str | os.PathLike, *, verify: bool = False) -> dict[str, NDArray]:
    """Open the arrays that a build has written for every node.

    Parameters
    ----------
    path : str or path
        Folder of a finished build.
    verify : bool, default=False
        Whether to compare the files with their checksums, which reads all of them.

    Returns
    -------
    dict
        Memory maps (n,) by name: ``sigma``, ``effective_rank``, ``slope``, ``objective`` and ``at_edge``, as described
        in :class:`BandwidthChoice`, and ``dimension``. Empty for uniform weights.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = asbc.build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     sorted(asbc.load_nodes(f"{folder}/graph"))
    ['at_edge', 'dimension', 'effective_rank', 'objective', 'sigma', 'slope']
    """
    folder, manifest = Path(path), read_graph_manifest(path)
    names = [name for name in manifest["files"] if name.startswith("nodes/")]
    arrays = open_files(folder, manifest, names, verify)
    return {Path(name).stem: array for name, array in zip(names, arrays, strict=True)}


def load_rows(path: str | os.PathLike, *, verify: bool = False) -> tuple[Neighbors, NDArray[np.float64]]:
    """Open the neighbours that a build has found for every node, and their weights before symmetrising.

    Parameters
    ----------
    path : str or path
        Folder of a finished build.
    verify : bool, default=False
        Whether to compare the files with their checksums, which reads all of them.

    Returns
    -------
    neighbors : Neighbors
        The k_cand candidates of all n nodes, as memory maps.
    weights : (n, k_cand) float64
        Their weights, a memory map; every row sums to 1 or is all zeros.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = asbc.build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     neighbors, weights = asbc.load_rows(f"{folder}/graph")
    ...     neighbors.k, weights.shape
    (30, (60, 30))
    """
    names = [f"rows/{name}.npy" for name in ("indices", "distances", "weights")]
    folder, manifest = Path(path), read_graph_manifest(path)
    indices, distances, weights = open_files(folder, manifest, names, verify)
    if not len(indices) == int(manifest["n"]) or not indices.shape == distances.shape == weights.shape:
        raise DamagedFileError(f"{folder / 'rows'}: indices, distances and weights do not match; build it again.")
    _check_node_ids(folder / names[0], len(indices), indices)
    recall = manifest.get("recall")
    return Neighbors(indices, distances, recall=None if recall is None else recall["value"]), weights


def read_graph_manifest(folder: str | os.PathLike) -> dict[str, Any]:
    """Return the manifest of a finished build, after a check of its structure.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from asbc.outofcore import build_graph, read_graph_manifest
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", X)
    ...     _ = build_graph(f"{folder}/vectors.npy", f"{folder}/graph", progress=False)
    ...     read_graph_manifest(f"{folder}/graph")["n"]
    50
    """
    folder = Path(folder)
    path = folder / "manifest.json"
    if not path.is_file():
        if (folder / "plan.json").is_file():
            raise DamagedFileError(f"{folder}: the build is not finished; run asbc-build again to resume it.")
        raise FileNotFoundError(f"{folder}: no manifest.json here; it is not a folder that asbc-build wrote.")
    manifest = read_json(file_inside(folder, path.name))
    if manifest.get("format") != FORMAT:
        raise DamagedFileError(f"{path}: format {manifest.get('format')!r}; this version of asbc reads {FORMAT}.")
    n, files = manifest.get("n"), manifest.get("files")
    if type(n) is not int or n < 1 or not isinstance(files, dict):
        raise DamagedFileError(f"{path}: damaged ('n' must be a whole number, and 'files' an object; got {n!r}).")
    return manifest


def open_files(folder: Path, manifest: Mapping[str, Any], names: Iterable[str], verify: bool) -> list[NDArray]:
    """Open some of the files that the manifest lists, as memory maps; `verify` compares them with their checksums."""
    verify = true_or_false(verify, "verify")
    arrays = []
    for name in names:
        path, entry = file_inside(folder, name), manifest["files"].get(name)
        try:
            dtype, shape, checksum = np.dtype(str(entry["dtype"])), tuple(map(index, entry["shape"])), entry["crc32"]
        except (KeyError, TypeError, ValueError, SyntaxError):
            raise DamagedFileError(f"{folder / 'manifest.json'}: damaged (the entry of {name} is {entry!r}).") from None
        arrays.append(open_array(path, dtype, shape))
        if verify:
            check_file(path, checksum)
    return arrays


def _check_node_ids(path: Path, n: int, indices: NDArray) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise DamagedFileError(
            f"{path}: damaged (it refers to nodes {indices.min()} to {indices.max()} of {n}); build it again."
        )
