"""Graphs on disk: plain ``.npy`` arrays that are read as memory maps, and a manifest that says what they are.

A finished folder holds::

    manifest.json                                   settings, recall, and every file's dtype, shape and size
    graph/indptr.npy  indices.npy  data.npy         the adjacency matrix as CSR
    nodes/sigma.npy   effective_rank.npy  ...       one number a node
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

from asbc.files import whole_file
from asbc.neighbors.types import Neighbors

FORMAT = 1
_CSR = ("indptr", "indices", "data")


class GraphFileError(ValueError):
    """A file that is damaged, or is not what it is said to be."""


def load_graph(path: str | os.PathLike) -> sparse.csr_array:
    """The adjacency matrix that ``asbc-build`` has written.

    Its arrays are memory maps: nothing is read until it is used, and rows that are not asked for stay on disk.

    Parameters
    ----------
    path : the folder of a finished build

    Returns
    -------
    (n, n) CSR array, read-only
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
    """What a build wrote for every node, as memory maps by name.

    ``sigma``, ``effective_rank``, ``slope``, ``objective``, ``at_edge`` and ``dimension``, (n,) each; uniform weights
    have none of them.
    """
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    names = [name for name in manifest["files"] if name.startswith("nodes/")]
    return {Path(name).stem: _open_listed(folder, manifest, name) for name in names}


def load_rows(path: str | os.PathLike) -> tuple[Neighbors, NDArray[np.float64]]:
    """The candidates of every node, and their normalised weights (n, k) before symmetrising, as memory maps."""
    folder = Path(path)
    manifest = read_graph_manifest(folder)
    indices, distances, weights = (
        _open_listed(folder, manifest, f"rows/{name}.npy") for name in ("indices", "distances", "weights")
    )
    recall = manifest.get("recall")
    return Neighbors(indices, distances, recall=None if recall is None else recall["value"]), weights


def read_graph_manifest(folder: str | os.PathLike) -> dict[str, Any]:
    """What a finished build says of itself."""
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
    """Refuse what a manifest says of a file unless it can be true."""
    if not isinstance(listed, dict):
        raise GraphFileError(f"{path}: damaged (of {name} it says {listed!r}).")
    try:
        np.dtype(str(listed.get("dtype")))  # of None itself it would make float64
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
        raise GraphFileError(f"{path}: not a readable .npy file ({error}).") from error
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
    # A plain view of the map: the memmap class makes every small slice slow.
    mapped = np.memmap(path, found_dtype, "r", start, found_shape, "F" if fortran else "C")
    return mapped.view(np.ndarray)


def write_array(path: Path, array: NDArray) -> None:
    write_joined(path, array.dtype, array.shape, [array])


def write_joined(path: Path, dtype, shape: tuple[int, ...], pieces: Iterable[NDArray]) -> None:
    """One array from `pieces` that follow each other along the first axis; only one of them is held at a time."""
    rows = 0
    with whole_file(path) as file:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for piece in pieces:
            rows += len(piece)
            file.write(np.ascontiguousarray(piece, dtype).data)  # tofile would not say why it stopped early
        if rows != shape[0]:
            raise GraphFileError(f"{path}: {rows} rows came, where {shape[0]} are expected.")


def write_part(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Some arrays in one file; it carries checksums, so that damage is noticed."""
    with whole_file(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def read_part(path: Path, *names: str) -> list[NDArray]:
    try:
        with np.load(path, allow_pickle=False) as part:
            return [part[name] for name in names]
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise GraphFileError(f"{path}: damaged ({error}); remove it and start again, and it is made anew.") from error


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    with whole_file(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        raise GraphFileError(f"{path}: damaged ({error}).") from error
    if not isinstance(content, dict):
        raise GraphFileError(f"{path}: damaged (a JSON object is expected).")
    return content
