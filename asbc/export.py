"""A graph in the forms that other libraries read.

All functions take any scipy sparse matrix, also one that :func:`asbc.load_graph` has opened. An edge of a symmetric
graph appears in both directions, as those libraries expect.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.extras import needed
from asbc.files import whole_file

NETWORKX_LIMIT = 100_000
_ROWS = 65536  # of the matrix, written together


def to_edge_list(graph: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Sources, targets and weights of all edges, as DGL takes them: ``dgl.graph((sources, targets))``."""
    graph = _csr(graph)
    sources = np.repeat(np.arange(graph.shape[0], dtype=np.int64), np.diff(graph.indptr))
    return sources, np.array(graph.indices, np.int64), np.array(graph.data, np.float64)


def to_pyg(graph: sparse.csr_array, x: Any = None, y: Any = None):
    """PyTorch Geometric ``Data`` with ``edge_index`` and ``edge_weight``, and node features and labels if given."""
    with needed("to_pyg", "embed,peers"):
        import torch
        from torch_geometric.data import Data
    graph = _csr(graph)
    sources, targets, weights = to_edge_list(graph)
    data = Data(
        edge_index=torch.from_numpy(np.stack([sources, targets])),
        edge_weight=torch.from_numpy(weights.astype(np.float32)),
        num_nodes=graph.shape[0],
    )
    for name, value in (("x", x), ("y", y)):
        if value is not None:
            if len(value) != graph.shape[0]:
                raise ValueError(f"{name} must have {graph.shape[0]} rows, one a node; got {len(value)}.")
            setattr(data, name, torch.as_tensor(np.array(value)))
    return data


def to_networkx(graph: sparse.csr_array):
    """NetworkX graph with ``weight`` on its edges, directed unless the matrix is symmetric. For small graphs only."""
    with needed("to_networkx", "peers"):
        import networkx
    graph = _csr(graph)
    if graph.shape[0] > NETWORKX_LIMIT:
        raise ValueError(
            f"NetworkX keeps every edge as Python objects; {graph.shape[0]:,} nodes are more than the "
            f"{NETWORKX_LIMIT:,} that this is meant for. Export rows of interest, or use another form."
        )
    symmetric = abs(graph - graph.T).nnz == 0
    return networkx.from_scipy_sparse_array(graph, create_using=networkx.Graph if symmetric else networkx.DiGraph)


def write_parquet(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """Edges as a Parquet table ``source, target, weight``, written a group of rows at a time."""
    with needed("write_parquet", "experiments"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    graph = _csr(graph)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64()), ("weight", pa.float64())])
    with whole_file(Path(path)) as file, pq.ParquetWriter(file, schema) as writer:
        for start in range(0, graph.shape[0], _ROWS):
            stop = min(start + _ROWS, graph.shape[0])
            first, last = graph.indptr[start], graph.indptr[stop]
            counts = np.diff(graph.indptr[start : stop + 1])
            columns = [
                np.repeat(np.arange(start, stop, dtype=np.int64), counts),
                np.asarray(graph.indices[first:last], np.int64),
                np.asarray(graph.data[first:last], np.float64),
            ]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))


def write_npz(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """The file that ``scipy.sparse.load_npz`` reads. It is compressed in memory: for graphs that fit there."""
    with whole_file(Path(path)) as file:
        sparse.save_npz(file, _csr(graph))


def _csr(graph) -> sparse.csr_array:
    if not sparse.issparse(graph):
        raise TypeError(f"graph must be a scipy sparse matrix, such as load_graph gives; got {type(graph).__name__}.")
    return graph if graph.format == "csr" else sparse.csr_array(graph)
