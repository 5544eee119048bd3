"""Export a graph to other libraries: edge list, PyTorch Geometric, NetworkX, igraph, AnnData, UMAP, Parquet, npz.

All functions accept any scipy sparse matrix (n, n), also one that :func:`asbc.load_graph` opened. Entry (i, j) is the
weight of the edge from i to j. An edge of a symmetric graph appears in both directions, as those libraries expect.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from asbc.builder import GraphBuilder
from asbc.extras import needed
from asbc.storage import atomic_file
from asbc.validation import as_vectors, whole_number

ROWS_PER_GROUP = 65536  # rows of the matrix whose edges are written to a Parquet file together


def to_edge_list(graph: sparse.csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges of a graph as three arrays, as DGL takes them: ``dgl.graph((sources, targets))``.

    Returns
    -------
    sources, targets : (e,) int64
        The nodes of each edge, sorted by source.
    weights : (e,) float64
        The weight of each edge.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_edge_list
    >>> to_edge_list(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]))
    (array([0, 1]), array([1, 0]), array([0.5, 0.5]))
    """
    edges = _csr(graph).tocoo()
    return edges.row.astype(np.int64), edges.col.astype(np.int64), edges.data.astype(np.float64)


def to_pyg(graph: sparse.csr_array, x: Any = None, y: Any = None):
    """Return a graph as PyTorch Geometric's ``Data``, with ``edge_index`` and float32 ``edge_weight``.

    Parameters
    ----------
    graph : (n, n) sparse matrix
    x : (n, d) array or None, default=None
        Features of the nodes: ``data.x``.
    y : (n,) array or None, default=None
        Labels of the nodes: ``data.y``.

    Returns
    -------
    torch_geometric.data.Data

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_pyg
    >>> to_pyg(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]), y=[3, 4])
    Data(edge_index=[2, 2], edge_weight=[2], num_nodes=2, y=[2])
    """
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
                raise ValueError(f"{name} must have {graph.shape[0]} rows, one per node; got {len(value)}.")
            setattr(data, name, torch.as_tensor(np.array(value)))
    return data


def to_networkx(graph: sparse.csr_array):
    """Return a graph as a NetworkX graph, directed unless the matrix is symmetric; edges have a ``weight``.

    NetworkX keeps every edge as Python objects: above 100,000 nodes it is slow and takes gigabytes.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_networkx
    >>> print(to_networkx(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]])))
    Graph with 2 nodes and 1 edges
    """
    with needed("to_networkx", "peers"):
        import networkx
    graph = _csr(graph)
    kind = networkx.Graph if _symmetric(graph) else networkx.DiGraph
    return networkx.from_scipy_sparse_array(graph, create_using=kind)


def to_igraph(graph: sparse.csr_array):
    """Return a graph as igraph's ``Graph``, undirected if the matrix is symmetric; edges have a ``weight``.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.export import to_igraph
    >>> to_igraph(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]])).es["weight"]
    [0.5]
    """
    with needed("to_igraph", "peers"):
        import igraph
    graph = _csr(graph)
    symmetric = _symmetric(graph)
    sources, targets, weights = to_edge_list(sparse.csr_array(sparse.triu(graph)) if symmetric else graph)
    exported = igraph.Graph(n=graph.shape[0], edges=np.stack([sources, targets], axis=1), directed=not symmetric)
    exported.es["weight"] = weights.tolist()
    return exported


def to_anndata(builder: GraphBuilder, adata: Any = None):
    """Store a fitted builder's graph where scanpy looks for one, so that ``scanpy.tl.leiden`` runs on it.

    Parameters
    ----------
    builder : GraphBuilder
        A fitted one.
    adata : AnnData or None, default=None
        Gets ``obsp["distances"]``, ``obsp["connectivities"]`` and ``uns["neighbors"]``; None for a new one with the
        fitted vectors as ``X``.

    Returns
    -------
    anndata.AnnData
        Distances are those of all candidates; connectivities are the weights of the graph.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.export import to_anndata
    >>> X = np.random.default_rng(0).normal(size=(50, 8))
    >>> adata = to_anndata(asbc.GraphBuilder(k_cand=10).fit(X))
    >>> adata.obsp["distances"].shape, adata.uns["neighbors"]["params"]["n_neighbors"]
    ((50, 50), 10)
    """
    with needed("to_anndata", "h5ad"):
        import anndata
    check_is_fitted(builder)
    if adata is None:
        adata = anndata.AnnData(X=np.array(builder.vectors_))
    elif adata.n_obs != builder.neighbors_.n:
        raise ValueError(f"adata must have {builder.neighbors_.n} observations, one per node; got {adata.n_obs}.")
    adata.obsp["distances"] = sparse.csr_matrix(builder.neighbors_.to_distances())
    adata.obsp["connectivities"] = sparse.csr_matrix(builder.graph_)
    adata.uns["neighbors"] = {
        "connectivities_key": "connectivities",
        "distances_key": "distances",
        "params": {"n_neighbors": builder.neighbors_.k, "method": "asbc", "metric": builder.metric},
    }
    return adata


def umap_layout(
    graph: sparse.csr_array,
    X: Any,
    *,
    n_components: int = 2,
    seed: int = 0,
) -> NDArray[np.float32]:
    """Return UMAP's layout of this graph, with UMAP's default settings.

    Parameters
    ----------
    graph : (n, n) sparse matrix
        A symmetric graph.
    X : (n, d) array
        The vectors, by which disconnected components of the graph are placed.
    n_components : int, default=2
        Dimensions of the layout.
    seed : int, default=0
        The same seed gives the same layout.

    Returns
    -------
    (n, n_components) float32
        The position of every node.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> A = asbc.GraphBuilder(k_cand=15).fit_transform(X)
    >>> asbc.export.umap_layout(A, X).shape  # doctest: +SKIP
    (60, 2)
    """
    with needed("umap_layout", "peers"):
        from umap.umap_ import find_ab_params, simplicial_set_embedding
    graph = sparse.coo_matrix(_csr(graph), dtype=np.float32)
    vectors = as_vectors(X)
    if len(vectors) != graph.shape[0]:
        raise ValueError(f"X must have {graph.shape[0]} rows, one per node; got {len(vectors)}.")
    a, b = find_ab_params(1.0, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about disconnected components, which are legal here
        layout, _ = simplicial_set_embedding(
            vectors,
            graph,
            n_components,
            initial_alpha=1.0,
            a=a,
            b=b,
            gamma=1.0,
            negative_sample_rate=5,
            n_epochs=None,
            init="spectral",
            random_state=np.random.RandomState(whole_number(seed, "seed", 0, 2**32 - 1)),
            metric="euclidean",
            metric_kwds={},
            densmap=False,
            densmap_kwds={},
            output_dens=False,
            tqdm_kwds={"disable": True},
        )
    return layout


def write_parquet(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """Write the edges of a graph as a Parquet table with the columns ``source``, ``target`` and ``weight``.

    Some rows of the matrix are read at a time, so the graph need not fit into memory. The file is written atomically.

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
    with needed("write_parquet", "experiments"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    graph = _csr(graph)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64()), ("weight", pa.float64())])
    with atomic_file(Path(path)) as file, pq.ParquetWriter(file, schema, write_page_checksum=True) as writer:
        for start in range(0, graph.shape[0], ROWS_PER_GROUP):
            sources, targets, weights = to_edge_list(graph[start : start + ROWS_PER_GROUP])
            writer.write_table(pa.table([sources + start, targets, weights], schema=schema))


def write_npz(graph: sparse.csr_array, path: str | os.PathLike) -> None:
    """Write a graph that fits into memory as a file for ``scipy.sparse.load_npz``, atomically.

    Examples
    --------
    >>> import tempfile
    >>> from scipy import sparse
    >>> from asbc.export import write_npz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_npz(sparse.csr_array([[0.0, 0.5], [0.5, 0.0]]), f"{folder}/graph.npz")
    ...     sparse.load_npz(f"{folder}/graph.npz").nnz
    2
    """
    with atomic_file(Path(path)) as file:
        sparse.save_npz(file, _csr(graph))


def _csr(graph) -> sparse.csr_array:
    if not sparse.issparse(graph):
        raise TypeError(f"graph must be a scipy sparse matrix, such as load_graph gives; got {type(graph).__name__}.")
    return graph if graph.format == "csr" else sparse.csr_array(graph)


def _symmetric(graph: sparse.csr_array) -> bool:
    return abs(graph - graph.T).nnz == 0
