"""What a graph on disk looks like: plain ``.npy`` arrays, read as memory maps, and a manifest that describes them.

A finished folder holds::

    manifest.json                                   settings, recall, and every file's dtype, shape and size
    graph/indptr.npy  indices.npy  data.npy         the adjacency matrix as CSR
    nodes/sigma.npy   effective_rank.npy  ...       (n,): one number per node
    rows/indices.npy  distances.npy  weights.npy    (n, k): each node's candidates before symmetrising
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.files import misnamed, whole_file
from asbc.neighbors.types import Neighbors

FORMAT = 1  # number of the layout above; it rises when older versions could no longer read it
_CSR = ("indptr", "indices", "data")


class GraphFileError(ValueError):
    """A file that is damaged, or is not what it is said to be."""


def load_graph(path: str | os.PathLike) -> sparse.csr_array:
    """Open the adjacency matrix that ``asbc-build`` or ``build_graph`` has written.

    Its arrays are memory maps: nothing is read until it is used, and rows that are not asked for stay on disk.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.

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
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    indptr, indices, data = (_open_listed(folder, manifest, f"graph/{name}.npy") for name in _CSR)
    n = int(manifest["n"])
    if len(indptr) != n + 1 or int(indptr[0]) != 0 or int(indptr[-1]) != len(data) or len(indices) != len(data):
        raise GraphFileError(f"{folder / 'graph'}: indptr, indices and data do not fit together; build it anew.")
    graph = sparse.csr_array((n, n), dtype=data.dtype)
    # Set one by one: the constructor would look through all indices to choose their dtype.
    graph.indptr, graph.indices, graph.data = indptr, indices, data
    graph.has_sorted_indices = True
    graph.has_canonical_format = True
    return graph


def load_nodes(path: str | os.PathLike) -> dict[str, NDArray]:
    """Open what a build has written for every node.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.

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
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    names = [name for name in manifest["files"] if name.startswith("nodes/")]
    return {Path(name).stem: _open_listed(folder, manifest, name) for name in names}


def load_rows(path: str | os.PathLike) -> tuple[Neighbors, NDArray[np.float64]]:
    """Open the neighbours that a build has found for every node, and their weights before symmetrising.

    Parameters
    ----------
    path : str or path
        The folder of a finished build.

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
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    indices, distances, weights = (
        _open_listed(folder, manifest, f"rows/{name}.npy") for name in ("indices", "distances", "weights")
    )
    recall = manifest.get("recall")
    return Neighbors(indices, distances, recall=None if recall is None else recall["value"]), weights


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
    return manifest


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


def check_files(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Open every file that a manifest lists: it must be there, with the dtype, shape and size that are listed."""
    for name in manifest["files"]:
        _open_listed(folder, manifest, name)


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


def open_array(path: Path, dtype: Any = None, shape: tuple[int, ...] | None = None) -> NDArray:
    """An ``.npy`` file as a read-only memory map, after a check that it is whole and what is expected."""
    try:
        with open(path, "rb") as file:
            version = np.lib.format.read_magic(file)
            reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            if version not in reader:
                raise ValueError(f"version {version} of the format")
            found_shape, fortran, found_dtype = reader[version](file)
            start = file.tell()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file.") from None
    except ValueError as error:
        raise GraphFileError(misnamed(path) or f"{path}: not a readable .npy file ({error}).") from error
    if found_dtype.hasobject:
        raise GraphFileError(f"{path}: holds Python objects; plain numbers are wanted.")
    size = path.stat().st_size
    wanted = start + int(np.prod(found_shape, dtype=object)) * found_dtype.itemsize
    if size < wanted:
        raise GraphFileError(f"{path}: ends early, {size:,} bytes of {wanted:,}.")
    if size > wanted:
        raise GraphFileError(f"{path}: goes on after its end, {size:,} bytes where {wanted:,} are expected.")
    if dtype is not None and np.dtype(dtype) != found_dtype:
        raise GraphFileError(f"{path}: dtype {found_dtype}, where {np.dtype(dtype)} is expected.")
    if shape is not None and tuple(shape) != found_shape:
        raise GraphFileError(f"{path}: shape {found_shape}, where {tuple(shape)} is expected.")
    if 0 in found_shape:
        return np.empty(found_shape, found_dtype)
    # As a plain array: small slices of NumPy's memmap class are slow.
    mapped = np.memmap(path, found_dtype, "r", start, found_shape, "F" if fortran else "C")
    return mapped.view(np.ndarray)


def write_array(path: Path, array: NDArray) -> None:
    """Write one array as an ``.npy`` file."""
    write_joined(path, array.dtype, array.shape, [array])


def write_joined(path: Path, dtype, shape: tuple[int, ...], pieces: Iterable[NDArray]) -> None:
    """Write one array from `pieces` that follow each other along the first axis; one of them is held at a time."""
    rows = 0
    with whole_file(path) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            rows += len(piece)
            file.write(np.ascontiguousarray(piece, dtype).data)  # tofile's error would not say that the disk is full
        if rows != shape[0]:
            raise GraphFileError(f"{path}: {rows} rows came, where {shape[0]} are expected.")


def write_part(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write some arrays, by name, to one file; it carries checksums, so that damage is noticed."""
    with whole_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_part(path: Path, *names: str) -> list[NDArray]:
    """The arrays of those names in a file that :func:`write_part` has written."""
    try:
        with np.load(path, allow_pickle=False) as part:
            return [part[name] for name in names]
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise GraphFileError(f"{path}: damaged ({error}); remove it and start again, and it is made anew.") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    with whole_file(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or an error that names the file."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise GraphFileError(f"{path}: damaged ({error}).") from error
    if not isinstance(content, dict):
        raise GraphFileError(f"{path}: damaged (a JSON object is expected).")
    return content
