"""Who takes part in benchmark_peers.py, and on which vectors."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

K = 30
TARGETS = (0.90, 0.95, 0.98, 0.99)
FEW, MANY = 20_000, 200_000  # vectors: approximate searches take part from the first on, exact ones up to the second


# --- vectors --------------------------------------------------------------------------------------------------------


def unit(X):
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def around(centers, scales, n, rng, rows=65_536):
    """n unit vectors, each at one of the centers and off it by chance; some rows at a time, to spare memory."""
    which = rng.integers(0, len(centers), n)
    X = np.empty((n, centers.shape[1]), np.float32)
    for start in range(0, n, rows):
        chosen = centers[which[start : start + rows]]
        X[start : start + rows] = unit(chosen + rng.normal(size=chosen.shape) * scales)
    return X


def text_like(n, d=384, seed=0):
    """A spectrum that decays like that of sentence embeddings, around a hundred topics."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, d + 1) ** -0.5
    return around(rng.normal(size=(100, d)) * scales, scales, n, rng)


def clusters(n, d=384, seed=0):
    rng = np.random.default_rng(seed)
    return around(rng.normal(size=(100, d)), 0.5, n, rng)


VECTORS = {"text-like": text_like, "clusters": clusters}


# --- contestants: each is made of the vectors, and called to do the whole work once -----------------------------------


def bare_product(X):
    def run():
        for start in range(0, len(X), 1024):
            for first in range(0, len(X), 8192):
                X[start : start + 1024] @ X[first : first + 8192].T

    return run


def asbc_search(X, **options):
    import asbc

    return lambda: asbc.search_neighbors(X, K, **options).indices


def sklearn_search(X):
    from sklearn.neighbors import NearestNeighbors

    return lambda: NearestNeighbors(n_neighbors=K, algorithm="brute").fit(X).kneighbors(return_distance=False)


def faiss_index(X, kind):
    import faiss

    n, d = X.shape
    faiss.omp_set_num_threads(os.cpu_count())
    if kind == "flat":
        index = faiss.IndexFlatL2(d)
    elif kind == "hnsw":
        index = faiss.IndexHNSWFlat(d, 32)
        index.hnsw.efConstruction = 100
    else:
        lists = int(2 ** round(np.log2(2 * np.sqrt(n))))
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(d), d, lists)
        index.cp.min_points_per_centroid = 1
        index.cp.max_points_per_centroid = 32
        index.cp.niter = 8
        index.train(X)
    index.add(X)
    return index


def faiss_search(X, kind):
    return lambda: faiss_index(X, kind).search(X, K + 1)[1]


def pynndescent_search(X):
    from pynndescent import NNDescent

    return lambda: NNDescent(X, n_neighbors=K + 1, random_state=0).neighbor_graph[0]


def graph_of(X, name):
    from benchmark_scale import PEERS

    return lambda: PEERS[name](X)


def umap_of(X):
    """UMAP's graph, in its own two steps: the first gives the neighbours whose recall is shown."""
    from benchmark_scale import umap_graph, umap_neighbors

    def run():
        found = umap_neighbors(X)
        umap_graph(X, found)
        return found[0]

    return run


class Line(NamedTuple):
    """A line of the table, and from how many to how many vectors it is in there."""

    name: str
    group: str
    against: str | None  # the line that it is compared with
    make: Callable
    options: dict[str, Any]
    least: float = 0
    most: float = math.inf
    target: float | None = None  # the recall that a search of faiss is tuned to

    @property
    def process(self) -> str:
        """What names its process: searches of one kind of index that are to be tuned share one."""
        return self.name if self.target is None else self.options["kind"]


def all_lines():
    """In the order of the table."""
    exact = [
        ("bare product of all pairs", "asbc exact", bare_product, {}),
        ("asbc exact", None, asbc_search, {}),
        ("faiss flat", "asbc exact", faiss_search, {"kind": "flat"}),
        ("scikit-learn brute", "asbc exact", sklearn_search, {}),
    ]
    for name, other, make, options in exact:
        yield Line(name, "search", other, make, options, most=MANY)
    yield Line("pynndescent", "search", "asbc lists .98", pynndescent_search, {}, FEW)
    for target in TARGETS:
        told = f"{target:.2f}".removeprefix("0")
        ours = f"asbc lists {told}"
        yield Line(ours, "search", None, asbc_search, {"search": "ivf", "recall": target}, FEW)
        for kind in ("ivf", "hnsw"):
            # The slowest of them at 100,000 vectors; of a million, one search of all must do.
            most = MANY if kind == "hnsw" and target != 0.98 else math.inf
            name = f"faiss {kind.upper()} {told}"
            yield Line(name, "search", ours, faiss_search, {"kind": kind}, FEW, most, target)
    ours = "asbc NNK-sigma"
    yield Line(ours, "graph", None, graph_of, {"name": ours})
    name = "NNK by dropping (PyNNK's algorithm)"
    yield Line(name, "graph", ours, graph_of, {"name": name})
    yield Line("UMAP fuzzy_simplicial_set", "graph", ours, umap_of, {})
    name = "GraphLearning weightmatrix.knn"
    yield Line(name, "graph", ours, graph_of, {"name": name})


LINES = {line.name: line for line in all_lines()}


def contestants(n, pattern=""):
    """The lines of n vectors whose names match a pattern."""
    return [line for line in LINES.values() if line.least <= n <= line.most and re.search(pattern, line.name)]
