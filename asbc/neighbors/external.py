"""Who is near whom, by the indexes of other libraries: faiss's small-world graph, pynndescent's descent.

They return -1 where they ran out of candidates, the same id twice, the node itself anywhere in the row or nowhere, and
distances in single precision. So only their ids are taken: `asbc.neighbors.search` works out distances itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asbc.extras import needed
from asbc.files import DISK_FULL
from asbc.neighbors.exact import TILE_ROWS, Ids
from asbc.validation import Floats

SPARE = 8  # candidates asked for beyond those wanted: single precision may misplace the last few


def import_faiss():
    with needed("search='hnsw'", "scale"):
        import faiss
    return faiss


def _import_pynndescent():
    with needed("search='nn_descent'", "scale"):
        import pynndescent
    return pynndescent


class HNSW:
    """A navigable small-world graph. It holds all rows in memory."""

    def __init__(self, index, ef_search: int):
        self._index = index
        self._index.hnsw.efSearch = ef_search

    @classmethod
    def build(cls, X: Floats, settings: Mapping[str, int]) -> HNSW:
        faiss = import_faiss()
        index = faiss.IndexHNSWFlat(X.shape[1], settings["links"])
        index.hnsw.efConstruction = settings["ef_construction"]
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(1)  # with more, the graph depends on which of them comes first
        try:
            for start in range(0, len(X), TILE_ROWS):
                index.add(np.ascontiguousarray(X[start : start + TILE_ROWS], np.float32))
        finally:
            faiss.omp_set_num_threads(threads)
        return cls(index, settings["ef_search"])

    def candidates(self, X: Floats, vectors: Floats, rows: Ids | None, wanted: int) -> tuple[Ids, None]:
        self._index.hnsw.efSearch = max(self._index.hnsw.efSearch, wanted + SPARE)
        return self._index.search(np.ascontiguousarray(vectors, np.float32), wanted + SPARE)[1], None

    def save(self, path: Path) -> None:
        try:
            import_faiss().write_index(self._index, os.fspath(path))
        except RuntimeError as error:
            path.unlink(missing_ok=True)
            for number in DISK_FULL:  # which faiss gives as text
                if os.strerror(number) in str(error):
                    raise OSError(number, os.strerror(number), os.fspath(path)) from error
            raise

    @classmethod
    def open(cls, path: Path, ef_search: int) -> HNSW:
        return cls(import_faiss().read_index(os.fspath(path)), ef_search)


class Listed:
    """Candidates that were worked out for all rows beforehand: (n, c), possibly a memory map."""

    def __init__(self, ids: NDArray[np.integer]):
        self._ids = ids

    def candidates(self, X: Floats, vectors: Floats, rows: Ids, wanted: int) -> tuple[Ids, None]:
        return np.asarray(self._ids[rows], np.int64), None


def nn_descent_candidates(X: Floats, k: int, n_trees: int, seed: int) -> NDArray[np.int32]:
    """Candidates of all rows by nearest-neighbour descent: (n, k + 1 + spare). It holds all rows in memory."""
    pynndescent = _import_pynndescent()
    wanted = min(k + 1 + SPARE, len(X))
    index = pynndescent.NNDescent(
        np.ascontiguousarray(X, np.float32),
        metric="euclidean",
        n_neighbors=wanted,
        n_trees=n_trees,
        random_state=seed,
        compressed=True,
    )
    return index.neighbor_graph[0]
