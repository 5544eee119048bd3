"""Where an answer's rows come from: a fitted builder, or a graph folder that is read block by block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from asbc.builder import GraphBuilder
from asbc.neighbors.types import Neighbors
from asbc.outofcore.folder import load_rows

# Nodes whose rows are looked at together: 47 MB of indices, distances and weights at k = 30.
BLOCK_NODES = 65536

Source = GraphBuilder | str | os.PathLike


@dataclass(frozen=True)
class Block:
    """The rows of some nodes, in memory and checked.

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


def open_rows(source: Any) -> tuple[Neighbors, NDArray[np.float64]]:
    """Neighbours and normalised weights (n, k) of all nodes; those of a folder stay on disk.

    Parameters
    ----------
    source : fitted GraphBuilder, or path of a graph folder that ``asbc-build`` has finished
        A folder is verified by its checksums where it has them; damage is an error that names the file.

    Returns
    -------
    neighbors : Neighbors
    weights : (n, k) array
    """
    if isinstance(source, GraphBuilder):
        if not hasattr(source, "neighbors_"):
            raise NotFittedError("source is a GraphBuilder that is not fitted yet; call its fit(X) first.")
        neighbors, weights = source.neighbors_, source.weights_
    elif isinstance(source, str | os.PathLike):
        # All of it is read in any case, so it is also compared with its checksums, once per process.
        neighbors, weights = load_rows(source, verify=True)
    else:
        raise TypeError(
            f"source must be a fitted asbc.GraphBuilder or the path of a graph folder; got {type(source).__name__}."
        )
    if neighbors.indices.shape != weights.shape or neighbors.indices.shape != neighbors.distances.shape:
        raise ValueError(
            "source must have indices, distances and weights of one shape (n, k); got "
            f"{neighbors.indices.shape}, {neighbors.distances.shape} and {weights.shape}."
        )
    return neighbors, weights


def row_blocks(neighbors: Neighbors, weights: NDArray[np.float64], block: int = BLOCK_NODES) -> Iterator[Block]:
    """The rows of all nodes, `block` nodes at a time. Only one block is held in memory; each is checked.

    Raises
    ------
    ValueError
        If a node is its own neighbour, a neighbour is no node, or a distance or weight is negative or not finite.
    """
    n = neighbors.n
    for start in range(0, n, block):
        nodes = slice(start, min(start + block, n))
        # Copies of fixed dtypes: one compiled version serves arrays in memory and read-only maps alike.
        indices = np.array(neighbors.indices[nodes], dtype=np.int64, order="C")
        distances = np.array(neighbors.distances[nodes], dtype=np.float64, order="C")
        values = np.array(weights[nodes], dtype=np.float64, order="C")
        _check(start, n, indices, distances, values)
        yield Block(nodes, indices, distances, values)


def _check(start: int, n: int, indices, distances, weights) -> None:
    outside = (indices < 0) | (indices >= n)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(f"source has {n} nodes, but node {start + row} has {indices[row, column]} as a neighbour.")
    own = indices == np.arange(start, start + len(indices))[:, None]
    if own.any():
        raise ValueError(
            f"source must have no self loops; node {start + int(np.argmax(own.any(axis=1)))} is its own neighbour."
        )
    for name, values in (("distances", distances), ("weights", weights)):
        # A sum tells at once whether anything is not finite; the smallest value whether anything is negative.
        if values.size and not (np.isfinite(values.sum()) and values.min() >= 0):
            bad = np.argwhere(~(np.isfinite(values) & (values >= 0)))
            if len(bad):  # otherwise only the sum was too large
                row, column = bad[0]
                raise ValueError(
                    f"source must have finite {name} of at least 0; node {start + row} has {values[row, column]}."
                )
