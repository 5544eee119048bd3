"""The rows of a fitted builder or of a graph folder, read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE
from asbc.neighbors.types import Neighbors
from asbc.outofcore.folder import load_graph, load_nodes, load_rows, read_graph_manifest
from asbc.validation import as_vectors, row_index, square_graph

# Nodes whose rows are read together: 47 MB of indices, distances and weights at k = 30.
BLOCK_NODES = 65536

Source = Any  # (n, d) array-like, GraphBuilder, the path of a graph folder, or GraphRows


@dataclass(frozen=True)
class Block:
    """The rows of some nodes, in memory.

    Attributes
    ----------
    nodes : slice
        Which nodes these are.
    indices : (m, k) int64
    distances, weights : (m, k) float64
    """

    nodes: slice
    indices: NDArray[np.int64]
    distances: NDArray[np.float64]
    weights: NDArray[np.float64]


def limit_candidates(builder: GraphBuilder, n: int) -> GraphBuilder:
    """Reduce `k_cand` of a builder that is not fitted yet, so that n nodes suffice."""
    return builder.set_params(k_cand=max(SMALLEST_TREE, min(int(builder.k_cand), n - 1)))


@dataclass(frozen=True)
class GraphRows:
    """The rows of all nodes, and what else is known of them.

    Attributes
    ----------
    neighbors : Neighbors
        Those of a folder stay on disk.
    weights : (n, k) array
        Rows of sum 1.
    vectors : (n, d) array or None
    metric : str or None
    unit : bool
        Whether the vectors still have to be scaled to unit length.
    index : pandas.Index or None
        Of the vectors.
    source : fitted GraphBuilder, path of a graph folder, or None
    """

    neighbors: Neighbors
    weights: NDArray[np.float64]
    vectors: NDArray[Any] | None = None
    metric: str | None = None
    unit: bool = False
    index: Any = None
    source: Any = None

    def graph(self) -> sparse.csr_array:
        """Return the graph of a builder or folder."""
        built = isinstance(self.source, GraphBuilder)
        return self.source.graph_ if built else load_graph(self.source, verify=True)

    def node_values(self, *names: str) -> dict[str, NDArray]:
        """Return those of the arrays ``dimension``, ``sigma`` and ``effective_rank``, (n,) each, that the graph has."""
        if isinstance(self.source, GraphBuilder):
            choice = self.source.bandwidth_
            values: Any = {name: getattr(choice, name, None) for name in names} | {"dimension": self.source.dimension_}
        else:
            values = load_nodes(self.source, verify=True)
        return {name: np.array(values[name]) for name in names if values.get(name) is not None}


def open_source(
    source: Source, weights: str, metric: str | None = None, vectors: Any = None, seed: int = 0
) -> GraphRows:
    """Open the rows of a fitted builder or a graph folder, or fit a builder to vectors.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder that ``asbc-build`` has finished
        The files of a folder are compared with their checksums. A `GraphRows` is returned as it is.
    weights, metric, seed
        Of the builder that is fitted to vectors. Without a metric, it is cosine; a graph has its own.
    vectors : (n, d) array or None, default=None
        The vectors of a graph folder, which does not hold them.
    """
    if isinstance(source, GraphRows):
        return source
    if metric is not None and isinstance(source, GraphBuilder | str | os.PathLike):
        raise ValueError("metric applies to vectors; the source is a graph, which has its own.")
    if isinstance(source, str | os.PathLike):
        neighbors, values = load_rows(source, verify=True)
        metric = read_graph_manifest(source)["builder"]["metric"]
        shape = np.shape(vectors)
        if vectors is not None and (len(shape) != 2 or shape[0] != neighbors.n):
            raise ValueError(f"vectors must have one row per node, shape ({neighbors.n}, d); got shape {shape}.")
        return GraphRows(neighbors, values, vectors, metric, metric == "cosine", source=source)
    index = getattr(source, "index_", None)
    if not isinstance(source, GraphBuilder):
        index, array = row_index(source), as_vectors(source, "source")
        builder = GraphBuilder(weights, metric=metric or "cosine", random_state=seed)
        source = limit_candidates(builder, len(array)).fit(array)
    check_is_fitted(source)
    return GraphRows(source.neighbors_, source.weights_, source.vectors_, source.metric, False, index, source)


def row_blocks(rows: GraphRows, size: int = BLOCK_NODES) -> Iterator[Block]:
    """Yield the rows of all nodes, `size` nodes at a time."""
    neighbors, n = rows.neighbors, rows.neighbors.n
    for start in range(0, n, size):
        nodes = slice(start, min(start + size, n))
        # Fixed dtypes, so that one compiled version serves arrays in memory and read-only maps.
        indices = np.array(neighbors.indices[nodes], np.int64)
        yield Block(nodes, indices, np.array(neighbors.distances[nodes]), np.array(rows.weights[nodes]))


def fit_copy(builder: Any, default: GraphBuilder, metric: str | None, vectors: NDArray[np.floating]) -> GraphBuilder:
    """Fit a copy of `builder`, or `default` with the given metric and at most as many candidates as there are nodes.

    Parameters
    ----------
    builder : GraphBuilder or None
    default : GraphBuilder
    metric : str or None
        None is cosine for the default builder.
    vectors : (n, d) array
    """
    if builder is None:
        default.set_params(metric="cosine" if metric is None else metric)
        return limit_candidates(default, len(vectors)).fit(vectors)
    if not isinstance(builder, GraphBuilder):
        raise TypeError(f"builder must be an asbc.GraphBuilder or None; got {type(builder).__name__}.")
    if metric not in (None, builder.metric):
        raise ValueError(f"metric={metric!r} differs from the builder's, {builder.metric!r}.")
    return clone(builder).fit(vectors)


def given_graph(estimator: Any) -> sparse.csr_array:
    """Return an estimator's `graph`, the path of a folder or a sparse matrix, as a checked CSR array (n, n)."""
    graph = estimator.graph
    if estimator.builder is not None:
        raise ValueError("builder and graph were both given; pass one of them.")
    estimator.__dict__.pop("builder_", None)  # of an earlier fit
    if isinstance(graph, str | os.PathLike):
        return load_graph(graph, verify=True)
    matrix = square_graph(graph)
    if matrix.diagonal().any():
        raise ValueError("graph must have no self loops; clear them with graph.setdiag(0).")
    return matrix
