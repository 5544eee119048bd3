"""What a graph on disk looks like: plain ``.npy`` arrays, read as memory maps, and a manifest that describes them.

A finished folder holds::

    manifest.json                                   settings, recall, and every file's dtype, shape, size and checksum
    graph/indptr.npy  indices.npy  data.npy         the adjacency matrix as CSR
    nodes/sigma.npy   effective_rank.npy  ...       (n,): one number per node
    rows/indices.npy  distances.npy  weights.npy    (n, k): each node's candidates before symmetrising
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.checksums import first_changed, once
from asbc.neighbors.types import Neighbors
from asbc.outofcore.arrays import GraphFileError, open_array, read_json
from asbc.validation import true_or_false

FORMAT = 1  # number of the layout above; it rises when older versions could no longer read it
_CSR = ("indptr", "indices", "data")


def load_graph(path: str | os.PathLike, *, verify: bool = False) -> sparse.csr_array:
    """Open the adjacency matrix that ``asbc-build`` or ``build_graph`` has written.

    Its arrays are memory maps: weights are not read until they are used, and those of rows that are not asked for stay
    on disk. The indices are looked through once, since one that is out of range would crash what works with them.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.
    verify : bool, default=False
        Whether to compare the graph's files with the checksums that were written down when it was built. That reads
        all of them, once per process. Without it, only what could crash is looked for.

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
    >>> from asbc.build import build_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     graph = asbc.load_graph(f"{folder}/graph")
    ...     graph.shape, graph.nnz == manifest["edges"]
    ((60, 60), True)
    """
    names = [f"graph/{name}.npy" for name in _CSR]
    folder, manifest, (indptr, indices, data) = _open_files(path, verify, lambda files: names)
    n = int(manifest["n"])
    if len(indptr) != n + 1 or int(indptr[0]) != 0 or int(indptr[-1]) != len(data) or len(indices) != len(data):
        raise GraphFileError(f"{folder / 'graph'}: indptr, indices and data do not fit together; build it anew.")
    once([folder / names[0], folder / names[1]], lambda: _check_ranges(folder, n, indptr, indices), "ranges")
    graph = sparse.csr_array((n, n), dtype=data.dtype)
    # Set one by one: the constructor would look through all indices to choose their dtype.
    graph.indptr, graph.indices, graph.data = indptr, indices, data
    graph.has_sorted_indices = True
    graph.has_canonical_format = True
    return graph


def load_nodes(path: str | os.PathLike, *, verify: bool = False) -> dict[str, NDArray]:
    """Open what a build has written for every node.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.
    verify : bool, default=False
        Whether to compare the nodes' files with the checksums that were written down when it was built. That reads
        all of them, once per process. Without it, only what could crash is looked for.

    Returns
    -------
    dict
        Memory maps (n,) by name: ``sigma``, ``effective_rank``, ``slope``, ``objective`` and ``at_edge``, as
        :class:`BandwidthChoice` explains them, and ``dimension``. It is empty for uniform weights.

    See Also
    --------
    load_graph : the graph itself.
    load_rows : the neighbours of every node, and their weights before symmetrising.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> from asbc.build import build_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     sorted(asbc.load_nodes(f"{folder}/graph"))
    ['at_edge', 'dimension', 'effective_rank', 'objective', 'sigma', 'slope']
    """

    def names(files: Iterable[str]) -> list[str]:
        return [name for name in files if name.startswith("nodes/")]

    _, manifest, arrays = _open_files(path, verify, names)
    return {Path(name).stem: array for name, array in zip(names(manifest["files"]), arrays, strict=True)}


def load_rows(path: str | os.PathLike, *, verify: bool = False) -> tuple[Neighbors, NDArray[np.float64]]:
    """Open the neighbours that a build has found for every node, and their weights before symmetrising.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.
    verify : bool, default=False
        Whether to compare the rows' files with the checksums that were written down when it was built. That reads
        all of them, once per process. Without it, only what could crash is looked for.

    Returns
    -------
    neighbors : Neighbors
        The k_cand candidates of all n nodes; its arrays are memory maps.
    weights : (n, k_cand) float64
        Their weights, a memory map; every row sums to 1, or is all zeros.

    See Also
    --------
    load_graph : the graph itself.
    load_nodes : bandwidth and dimension of every node.

    Examples
    --------
    >>> import asbc, numpy as np, tempfile
    >>> from asbc.build import build_graph
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", np.random.default_rng(0).normal(size=(60, 3)))
    ...     manifest = build_graph(f"{folder}/vectors.npy", f"{folder}/graph", search="exact")
    ...     neighbors, weights = asbc.load_rows(f"{folder}/graph")
    ...     neighbors.k, weights.shape
    (30, (60, 30))
    """
    names = [f"rows/{name}.npy" for name in ("indices", "distances", "weights")]
    folder, manifest, (indices, distances, weights) = _open_files(path, verify, lambda files: names)
    if not len(indices) == int(manifest["n"]) or not indices.shape == distances.shape == weights.shape:
        raise GraphFileError(f"{folder / 'rows'}: indices, distances and weights do not fit together; build it anew.")
    once([folder / names[0]], lambda: _check_indices(folder / names[0], len(indices), indices), "range")
    recall = manifest.get("recall")
    return Neighbors(indices, distances, recall=None if recall is None else recall["value"]), weights


def _open_files(path: Any, verify: bool, names: Callable[[Iterable[str]], list[str]]) -> tuple[Path, dict, list]:
    """The folder of a finished build, its manifest, and those of its files that `names` chooses, as memory maps."""
    true_or_false(verify, "verify")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the folder of a graph that asbc-build wrote; got {type(path).__name__}.")
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    chosen = names(manifest["files"])
    arrays = [_open_listed(folder, manifest, name) for name in chosen]
    if verify:
        verify_files(folder, manifest, chosen)
    return folder, manifest, arrays


def _check_ranges(folder: Path, n: int, indptr: NDArray, indices: NDArray) -> None:
    """Refuse a graph whose rows begin out of order, or whose columns are no nodes: compiled code would crash on it."""
    if (indptr[1:] < indptr[:-1]).any():
        row = int(np.argmax(indptr[1:] < indptr[:-1]))
        raise GraphFileError(
            f"{folder / 'graph/indptr.npy'}: damaged (row {row} ends before it begins); build it anew."
        )
    _check_indices(folder / "graph/indices.npy", n, indices)


def _check_indices(path: Path, n: int, indices: NDArray) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n):
        raise GraphFileError(
            f"{path}: damaged (it refers to nodes from {indices.min()} to {indices.max()}, and there are {n}); "
            "build it anew."
        )


def read_graph_manifest(folder: str | os.PathLike) -> dict[str, Any]:
    """The manifest of a finished build, after a check that it can be true."""
    folder = Path(folder)
    path = folder / "manifest.json"
    if not path.is_file():
        if (folder / "plan.json").is_file():
            raise GraphFileError(f"{folder}: the build is not finished; start asbc-build again and it will go on.")
        raise FileNotFoundError(f"{folder}: no manifest.json here; it is not a folder that asbc-build wrote.")
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise GraphFileError(f"{path}: format {manifest.get('format')!r}; this version of asbc reads {FORMAT}.")
    n, files = manifest.get("n"), manifest.get("files")
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise GraphFileError(f"{path}: damaged ('n' must be a whole number of at least 1; got {n!r}).")
    if not isinstance(files, dict):
        raise GraphFileError(f"{path}: damaged ('files' must be an object of names; got {files!r}).")
    for name, listed in files.items():
        _check_listed(path, name, listed)
    if any("crc32" in listed for listed in files.values()):  # then it was written with a checksum of its own
        read_json(path, checked=True)
    return manifest


def has_checksums(folder: str | os.PathLike) -> bool:
    """Whether a finished build can be verified: earlier versions wrote no checksums down."""
    return all("crc32" in listed for listed in read_graph_manifest(folder)["files"].values())


def _check_listed(path: Path, name: str, listed: Any) -> None:
    """Refuse what a manifest says of a file where it cannot be true."""
    if not isinstance(listed, dict):
        raise GraphFileError(f"{path}: damaged (of {name} it says {listed!r}).")
    try:
        np.dtype(str(listed.get("dtype")))  # str, because np.dtype(None) is float64
    except (TypeError, ValueError, SyntaxError):
        raise GraphFileError(f"{path}: damaged (the dtype of {name} is {listed.get('dtype')!r}).") from None
    shape, size = listed.get("shape"), listed.get("bytes")
    if not isinstance(shape, list) or not all(type(length) is int and length >= 0 for length in shape):
        raise GraphFileError(f"{path}: damaged (the shape of {name} is {shape!r}).")
    if type(size) is not int:
        raise GraphFileError(f"{path}: damaged (the bytes of {name} are {size!r}).")
    if type(listed.get("crc32", 0)) is not int:
        raise GraphFileError(f"{path}: damaged (the checksum of {name} is {listed['crc32']!r}).")


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Open every file that a manifest lists: it must be there, with the dtype, shape, size and checksum listed."""
    for name in manifest["files"]:
        _open_listed(folder, manifest, name)
    if has_checksums(folder):
        verify_files(folder, manifest, list(manifest["files"]))


def verify_files(folder: Path, manifest: Mapping[str, Any], names: Sequence[str]) -> None:
    """Compare files with their checksums in the manifest, once per process; the error names the first that differs."""
    without = [name for name in names if "crc32" not in manifest["files"][name]]
    if without:
        raise GraphFileError(
            f"{folder / 'manifest.json'}: has no checksum of {without[0]}, as earlier versions of asbc wrote it; there "
            "is nothing to verify it by."
        )
    said = {folder / name: manifest["files"][name]["crc32"] for name in names}

    def compare() -> None:
        changed = first_changed(said)
        if changed is not None:
            raise GraphFileError(f"{changed}: damaged (its checksum is not that of what was written); build it anew.")

    once([folder / "manifest.json", *said], compare, "checksums")


def _open_listed(folder: Path, manifest: Mapping[str, Any], name: str) -> NDArray:
    """A file that the manifest lists, as a memory map; it must be what is listed."""
    listed = manifest["files"].get(name)
    if listed is None:
        raise GraphFileError(f"{folder / 'manifest.json'}: does not list {name}.")
    array = open_array(folder / name, listed["dtype"], tuple(listed["shape"]))
    size = (folder / name).stat().st_size
    if size != listed["bytes"]:
        raise GraphFileError(f"{folder / name}: {size:,} bytes, where the manifest says {listed['bytes']:,}.")
    return array
