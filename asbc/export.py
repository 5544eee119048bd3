"""How a graph goes to other libraries: as an edge list, a PyTorch Geometric or NetworkX graph, or a file.

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

from asbc.files import whole_file

NETWORKX_LIMIT = 100_000  # nodes, above which NetworkX is slow and takes gigabytes
ROWS_PER_GROUP = 65536  # rows of the matrix whose edges are written to a Parquet file together


def to_edge_list(graph: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """The edges of a graph as three arrays, as DGL takes them: ``dgl.graph((sources, targets))``.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        The graph; entry (i, j) is the weight of the edge from i to j.

    Returns
    -------
    sources, targets : (e,) int64
        The nodes of each edge, in order of source.
    weights : (e,) float64
        The weight of each edge.

    See Also
    --------
    write_parquet : writes the same three columns to a file.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_edge_list
    >>> to_edge_list(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]))
    (array([0, 1]), array([1, 0]), array([0.5, 0.5]))
    """
    graph = _csr(graph)
    sources = np.repeat(np.arange(graph.shape[0], dtype=np.int64), np.diff(graph.indptr))
    return sources, np.array(graph.indices, np.int64), np.array(graph.data, np.float64)


def to_pyg(graph: sparse.csr_array, x: Any = None, y: Any = None):
    """A graph as PyTorch Geometric's ``Data``, with ``edge_index``, ``edge_weight``, and features and labels if given.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        The graph; entry (i, j) is the weight of the edge from i to j.
    x : (n, d) array or None, default=None
        Features of the nodes, which become ``data.x``.
    y : (n,) array or None, default=None
        Labels of the nodes, which become ``data.y``.

    Returns
    -------
    torch_geometric.data.Data
        Its weights are float32.

    See Also
    --------
    to_edge_list : the same edges as NumPy arrays.
    to_networkx : for small graphs.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_pyg
    >>> data = to_pyg(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]), y=[0, 1])
    >>> data.edge_index.tolist(), data.edge_weight.tolist(), data.y.tolist()
    ([[0, 1], [1, 0]], [0.5, 0.5], [0, 1])
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError as error:
        raise ImportError("to_pyg needs PyTorch Geometric: pip install torch-geometric.") from error
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
                raise ValueError(f"{name} must have {graph.shape[0]} rows, one per node; got {len(value)}.")
            setattr(data, name, torch.as_tensor(np.array(value)))
    return data


def to_networkx(graph: sparse.csr_array):
    """A small graph as a NetworkX graph, directed unless the matrix is symmetric.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        The graph, of at most 100,000 nodes: NetworkX keeps every edge as Python objects.

    Returns
    -------
    networkx.Graph or networkx.DiGraph
        Its edges have the attribute ``weight``.

    See Also
    --------
    to_edge_list : arrays, for graphs of any size.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_networkx
    >>> to_networkx(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]])).edges(data=True)
    EdgeDataView([(0, 1, {'weight': 0.5})])
    """
    try:
        import networkx
    except ImportError as error:
        raise ImportError("to_networkx needs NetworkX: pip install networkx.") from error
    graph = _csr(graph)
    if graph.shape[0] > NETWORKX_LIMIT:
        raise ValueError(
            f"NetworkX keeps every edge as Python objects; {graph.shape[0]:,} nodes are more than the "
            f"{NETWORKX_LIMIT:,} that this is meant for. Export rows of interest, or use another form."
        )
    symmetric = abs(graph - graph.T).nnz == 0
    return networkx.from_scipy_sparse_array(graph, create_using=networkx.Graph if symmetric else networkx.DiGraph)


def write_parquet(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """Write the edges of a graph as a Parquet table with the columns ``source``, ``target`` and ``weight``.

    Some rows of the matrix are read at a time, so the graph need not fit into memory.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        The graph; entry (i, j) is the weight of the edge from i to j.
    path : str or path
        The file. It appears under its name once it is complete.

    See Also
    --------
    to_edge_list : the same columns as arrays.
    write_npz : for SciPy.

    Examples
    --------
    >>> import tempfile, pyarrow.parquet
    >>> from scipy import sparse
    >>> from asbc.export import write_parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_parquet(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]), f"{folder}/edges.parquet")
    ...     pyarrow.parquet.read_table(f"{folder}/edges.parquet").to_pylist()
    [{'source': 0, 'target': 1, 'weight': 0.5}, {'source': 1, 'target': 0, 'weight': 0.5}]
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    graph = _csr(graph)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64()), ("weight", pa.float64())])
    with whole_file(Path(path)) as file, pq.ParquetWriter(file, schema) as writer:
        for start in range(0, graph.shape[0], ROWS_PER_GROUP):
            stop = min(start + ROWS_PER_GROUP, graph.shape[0])
            first, last = graph.indptr[start], graph.indptr[stop]
            counts = np.diff(graph.indptr[start : stop + 1])
            columns = [
                np.repeat(np.arange(start, stop, dtype=np.int64), counts),
                np.asarray(graph.indices[first:last], np.int64),
                np.asarray(graph.data[first:last], np.float64),
            ]
            writer.write_table(pa.table([pa.array(column) for column in columns], schema=schema))


def write_npz(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """Write a graph that fits into memory as the file that ``scipy.sparse.load_npz`` reads.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        The graph. It is read as a whole.
    path : str or path
        The file. It appears under its name once it is complete.

    See Also
    --------
    write_parquet : for graphs of any size.

    Examples
    --------
    >>> import tempfile
    >>> from scipy import sparse
    >>> from asbc.export import write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]), f"{folder}/graph.npz")
    ...     sparse.load_npz(f"{folder}/graph.npz").toarray()
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    with whole_file(Path(path)) as file:
        sparse.save_npz(file, _csr(graph))


def _csr(graph) -> sparse.csr_array:
    if not sparse.issparse(graph):
        raise TypeError(f"graph must be a scipy sparse matrix, such as load_graph gives; got {type(graph).__name__}.")
    return graph if graph.format == "csr" else sparse.csr_array(graph)
