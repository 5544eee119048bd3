"""Indexes of other libraries: faiss's small-world graph and pynndescent's nearest-neighbour descent.

Their results may hold -1, an id twice, or the node itself in any place, and their distances are in single precision. So
only the ids are used, and `asbc.neighbors.search` does the rest.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.extras import needed
from asbc.neighbors.exact import SPARE, Ids
from asbc.validation import Floats

LIBRARIES = {"hnsw": "faiss", "nn_descent": "pynndescent"}
ADDED_ROWS = 65536  # rows that are converted to single precision together


def import_library(search: str) -> Any:
    """Return the library of a search; if it is missing, the error says what to install."""
    with needed(f"search={search!r}", "scale"):
        return import_module(LIBRARIES[search])


class HNSW:
    """faiss's small-world graph, which holds all rows in memory.

    Parameters
    ----------
    content : (b,) uint8
        The graph with its rows, as :func:`hnsw_content` returns it.
    breadth : int, default=0
        Candidates per query that a search keeps; at least as many as it is asked for.
    """

    def __init__(self, content: NDArray[np.uint8], breadth: int = 0):
        self._index = import_library("hnsw").deserialize_index(content)
        self.breadth = breadth

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, None]:
        """Return ids (m, wanted + SPARE) of rows near the vectors (m, d), -1 for none, and None for distances."""
        self._index.hnsw.efSearch = max(self.breadth, wanted + SPARE)
        return self._index.search(np.ascontiguousarray(vectors, np.float32), wanted + SPARE)[1], None


def hnsw_content(X: Floats, links: int, ef_construction: int) -> NDArray[np.uint8]:
    """Return faiss's small-world graph on the rows of X, as bytes (b,)."""
    faiss = import_library("hnsw")
    index = faiss.IndexHNSWFlat(X.shape[1], links)
    index.hnsw.efConstruction = ef_construction
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # with several threads, the graph would depend on their timing
    try:
        for start in range(0, len(X), ADDED_ROWS):
            index.add(np.ascontiguousarray(X[start : start + ADDED_ROWS], np.float32))
    finally:
        faiss.omp_set_num_threads(threads)
    return faiss.serialize_index(index)


class CandidateTable:
    """Candidates that were computed for all rows of X beforehand.

    Parameters
    ----------
    ids : (n, c) integers
        The candidates of every row, -1 for none. May be a memory map.
    """

    def __init__(self, ids: NDArray[np.integer]):
        self._ids = ids

    def candidates(self, X: Floats, vectors: Floats, rows: Ids, wanted: int) -> tuple[Ids, None]:
        """Return the ids (m, c) of the candidates of `rows` (m,) of X, and None for distances."""
        return np.asarray(self._ids[rows], np.int64), None


def nn_descent_candidates(X: Floats, k: int, n_trees: int, seed: int) -> NDArray[np.int32]:
    """Return candidates (n, k + 1 + SPARE) of all rows by nearest-neighbour descent, which holds all rows in memory."""
    wanted = min(k + 1 + SPARE, len(X))
    index = import_library("nn_descent").NNDescent(
        np.ascontiguousarray(X, np.float32),
        metric="euclidean",
        n_neighbors=wanted,
        n_trees=n_trees,
        random_state=seed,
        compressed=True,
    )
    return index.neighbor_graph[0]
