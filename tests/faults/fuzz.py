"""Calls of public functions with arguments that are wrong in some way, drawn at random."""

import faulthandler
import os
import random
import resource
import signal
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse

import asbc
from asbc import export
from asbc.bandwidth import KnownBandwidth
from asbc.evaluate.geometry import graph_health, local_kernels
from asbc.extras import MissingExtraError
from asbc.learn.labels import encode_partial, reveal
from asbc.learn.predict import graph_vote, loo_predict, propagate, transition
from asbc.neighbors.types import with_pairs
from asbc.outofcore import BuildError

# What a function may answer to a wrong argument. A path that leads nowhere is FileNotFoundError, as everywhere.
OURS = (TypeError, ValueError, BuildError, MissingExtraError, FileNotFoundError)
LONGEST = 60  # seconds that a call may take
MOST_MEMORY = 8 * 2**30  # bytes that all calls may take

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = np.repeat(np.arange(4), 15)
NEIGHBORS = with_pairs(X, asbc.search_neighbors(X, 12))
DIMENSION = asbc.levina_bickel(NEIGHBORS)
CHOICE = asbc.Fixed(0.9).select(X, NEIGHBORS, DIMENSION)
WEIGHTS = asbc.gaussian_weights(NEIGHBORS, 0.9)
GRAPH = asbc.to_graph(NEIGHBORS, WEIGHTS)
SHOWN = np.arange(60) % 15 < 2
BUILDER = asbc.GraphBuilder(k_cand=12, metric="euclidean").fit(X)

RULES = [
    asbc.SpectralBandwidth,
    asbc.Fixed,
    asbc.Perplexity,
    asbc.SelfTuning,
    asbc.LogLog,
    asbc.DimensionMatching,
    asbc.DensityNormalized,
]
PARAMETERS = {
    asbc.SpectralBandwidth: {"gamma": 1.0, "n_grid": 12, "k_mle": 10, "low": 0.05, "high": 3.0, "refine": False},
    asbc.Fixed: {"value": 0.5, "k_mle": 10},
    asbc.Perplexity: {"beta": 2.0},
    asbc.SelfTuning: {"k": 7},
    asbc.LogLog: {"n_grid": 12, "k_mle": 10},
    asbc.DimensionMatching: {"rule": "slope", "n_grid": 12, "k_mle": 10},
    asbc.DensityNormalized: {"base": asbc.Fixed(0.9), "alpha": 1.0},
}


def _selects(rule):
    def select(X, neighbors, dimension, **parameters):
        return rule(**parameters).select(X, neighbors, dimension)

    return select, {"X": X, "neighbors": NEIGHBORS, "dimension": DIMENSION, **PARAMETERS[rule]}


def _fit(X, neighbors, **parameters):
    return asbc.GraphBuilder(**parameters).fit(X, neighbors=neighbors)


def _classify(kind):
    def classify(X, y, queries):
        return kind(asbc.GraphBuilder(k_cand=12, metric="euclidean")).fit(X, y).predict(queries)

    return classify, {"X": X, "y": Y, "queries": X[:5]}


def _built(folder):
    asbc.load_graph(folder), asbc.load_nodes(folder), asbc.load_rows(folder)
    return asbc.describe(folder)


def _build(source, builder, search, search_options, block, engine, workers):
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(source, np.ndarray):
            np.save(Path(folder, "x.npy"), source)
            source = Path(folder, "x.npy")
        more = {"search": search, "search_options": search_options, "block": block, "engine": engine}
        return asbc.build_graph(source, Path(folder, "g"), builder, workers=workers, **more)


BUILDING = {
    "weights": "nnk", "bandwidth": "spectral", "sharpen": False, "k_cand": 12, "k_min": 6, "symmetrize": "max",
    "metric": "euclidean", "dimension": "mst", "n_rep": 2, "random_state": 0, "search": "exact", "recall": 0.9,
    "search_options": None,
}  # fmt: skip
# Every public function that takes vectors, neighbours, ids, weights, labels or graphs, with arguments that are right.
CALLS = {
    "search_neighbors": (
        asbc.search_neighbors,
        {"X": X, "k": 5, "metric": "cosine", "queries": X[:3], "search": "exact"},
    ),
    "search_neighbors, lists": (
        asbc.search_neighbors,
        {"X": X, "k": 5, "search": "ivf", "recall": 0.9, "n_lists": 4, "n_probe": 2, "seed": 0, "sample": 20},
    ),
    "search_neighbors, hnsw": (
        asbc.search_neighbors,
        {"X": X, "k": 5, "search": "hnsw", "links": 8, "ef_construction": 20, "ef_search": 20, "seed": 0},
    ),
    "dim_mst": (asbc.dim_mst, {"X": X, "neighbors": NEIGHBORS, "n_rep": 2, "seed": 0}),
    "levina_bickel": (asbc.levina_bickel, {"neighbors": NEIGHBORS, "k": 10}),
    "two_nn": (asbc.two_nn, {"neighbors": NEIGHBORS}),
    "Dimension": (
        lambda X, neighbors, seed, **more: asbc.Dimension(**more)(X, neighbors, seed),
        {"X": X, "neighbors": NEIGHBORS, "seed": 0, "estimator": "mst", "n_rep": 2, "k": 10},
    ),
    "effective_rank": (asbc.effective_rank, {"K": np.eye(4)}),
    "KnownBandwidth": (
        lambda sigma, **more: KnownBandwidth(sigma).select(**more),
        {"X": X, "neighbors": NEIGHBORS, "sigma": 0.7, "dimension": DIMENSION},
    ),
    "uniform_weights": (asbc.uniform_weights, {"neighbors": NEIGHBORS}),
    "gaussian_weights": (
        asbc.gaussian_weights,
        {"neighbors": NEIGHBORS, "sigma": CHOICE.sigma, "neighbor_sigma": CHOICE.sigma},
    ),
    "nnk_weights": (
        asbc.nnk_weights,
        {"X": X, "neighbors": NEIGHBORS, "sigma": CHOICE.sigma, "k_min": 2, "solver": "exact"},
    ),
    "row_weights": (
        asbc.row_weights,
        {
            "weights": "blend",
            "X": X,
            "neighbors": NEIGHBORS,
            "dimension": DIMENSION,
            "choice": CHOICE,
            "k_min": 2,
            "fitted": CHOICE,
        },
    ),
    "normalize_weights": (asbc.normalize_weights, {"weights": WEIGHTS}),
    "sharpen": (asbc.sharpen, {"weights": WEIGHTS, "sigma": CHOICE.sigma, "center": 1.0}),
    "normalize": (asbc.normalize, {"X": X}),
    "to_graph": (
        asbc.to_graph,
        {"neighbors": NEIGHBORS, "weights": WEIGHTS, "symmetrize": "max", "n_columns": 60},
    ),
    "Neighbors.head": (lambda neighbors, k: neighbors.head(k), {"neighbors": NEIGHBORS, "k": 3}),
    "Neighbors.rows": (lambda neighbors, start, stop: asbc.levina_bickel(neighbors.rows(start, stop)),
                       {"neighbors": NEIGHBORS, "start": 2, "stop": 9}),
    "Neighbors.to_distances": (
        lambda neighbors, **more: neighbors.to_distances(**more),
        {"neighbors": NEIGHBORS, "include_self": True, "n_columns": 60},
    ),
    "GraphBuilder.fit": (_fit, {"X": X, "neighbors": None, **BUILDING}),
    "GraphBuilder.fit, neighbours given": (_fit, {"X": X, "neighbors": NEIGHBORS, **BUILDING}),
    "GraphBuilder.transform": (BUILDER.transform, {"X": X[:3]}),
    "NeighborsTransformer": (
        lambda X, queries, **more: asbc.NeighborsTransformer(**more).fit(X).transform(queries),
        {"X": X, "queries": X[:3], "k": 5, "metric": "cosine", "search": "exact", "recall": 0.9},
    ),
    "find_label_issues": (asbc.find_label_issues, {"source": BUILDER, "labels": Y}),
    "find_duplicates": (asbc.find_duplicates, {"source": BUILDER, "threshold": 0.3}),
    "describe": (asbc.describe, {"source": BUILDER, "labels": Y, "vectors": X}),
    "GraphClassifier": _classify(asbc.GraphClassifier),
    "NeighborVote": _classify(asbc.NeighborVote),
    "loo_predict": (loo_predict, {"indices": NEIGHBORS.indices, "weights": WEIGHTS, "codes": Y}),
    "graph_vote": (graph_vote, {"graph": GRAPH, "codes": Y}),
    "transition": (transition, {"graph": GRAPH, "shown": SHOWN}),
    "propagate": (
        propagate,
        {"graph": GRAPH, "codes": Y, "shown": SHOWN, "n_classes": 4, "alpha": 0.8, "max_rounds": 9, "tol": 1e-3},
    ),
    "encode_partial": (encode_partial, {"labels": Y, "n": 60}),
    "reveal": (reveal, {"codes": Y, "per_class": 2, "seed": 0}),
    "graph_health": (graph_health, {"graph": GRAPH}),
    "local_kernels": (local_kernels, {"X": X, "neighbors": NEIGHBORS, "sigma": 0.7}),
    "to_edge_list": (export.to_edge_list, {"graph": GRAPH}),
    "load_graph": (_built, {"folder": "/nowhere"}),
    "build_graph": (
        _build,
        {"source": X, "builder": asbc.GraphBuilder(k_cand=12), "search": "exact", "search_options": None, "block": 40,
         "engine": "local", "workers": 1},
    ),
    **{f"{rule.__name__}.select": _selects(rule) for rule in RULES},
}  # fmt: skip

ODD = [
    None, "x", "", b"x", 1.5, -1, 0, 1, 2**31, 2**63, 2**64, 10**400, -(2**63), True, float("nan"), float("inf"),
    1e-300, 1e300, 1j, [], [[]], [1, 2, 3], {}, {"a": 1}, object(), int, np.float32(3.5), np.int8(3),
    np.datetime64("NaT"),
    np.zeros(0), np.zeros((0, 4)), np.zeros((60, 0)), np.zeros((3, 3, 3)), np.array(5), np.array(None),
    np.full((60, 4), np.nan), np.array([["a"] * 4] * 60), np.zeros((60, 4), complex), np.zeros((60, 4), object),
    np.ma.masked_greater(X, 0.5), sparse.csr_array(X), sparse.csr_array((60, 60)), np.arange(60), np.arange(60.0) - 30,
    np.full(60, 2**62), np.full(60, -5), np.zeros(60), np.full((60, 12), -1), np.full((60, 12), 10**6), np.eye(60),
]  # fmt: skip


def odd_neighbors(draw):
    """Neighbours with one thing wrong."""
    indices, distances, pairs = NEIGHBORS.indices.copy(), NEIGHBORS.distances.copy(), NEIGHBORS.pairs
    row, column = draw.randrange(60), draw.randrange(12)
    kind = draw.randrange(16)
    if kind < 5:
        indices[row, column] = [-1, 60, 10**6, 2**62, -(2**62)][kind]
    elif kind < 9:
        distances[row, column] = [np.nan, -1.0, np.inf, 1e9][kind - 5]
    changes = {
        9: {"indices": indices.astype(float)},
        10: {"indices": indices[:, :3]},
        11: {"indices": indices[:0], "distances": distances[:0], "pairs": None},
        12: {"pairs": draw.choice([pairs[:5], pairs[:, :7], pairs.astype(np.float32), 3, "x"])},
        13: {"first": draw.choice([-3, 1.5, "x", 2**63, 55])},
        14: {"indices": np.ma.masked_less(indices, 5)},
        15: {"distances": draw.choice([distances.astype(str), distances[:, ::-1], distances.tolist(), None])},
    }
    return replace(NEIGHBORS, **{"indices": indices, "distances": distances, "pairs": pairs, **changes.get(kind, {})})


def odd_choice(draw):
    """Bandwidths with one thing wrong."""
    sigma = draw.choice(
        [np.zeros(60), np.full(60, np.nan), np.ones(3), 0.5, None, "x", np.full(60, -1.0), np.ones((60, 2))]
    )
    return replace(CHOICE, **draw.choice([{"sigma": sigma}, {"reweight": sigma}, {"sigma": sigma, "mutual": True}]))


def draw_call(number):
    """The call of that number: its name, the function, and its arguments by name, one or two of them odd."""
    draw = random.Random(number)
    name = draw.choice(sorted(CALLS))
    function, right = CALLS[name]
    arguments = dict(right)
    for changed in draw.sample(sorted(right), min(len(right), draw.choice([1, 1, 2]))):
        if changed == "neighbors" and (name.startswith("Neighbors.") or draw.random() < 0.8):
            arguments[changed] = odd_neighbors(draw)
        elif changed in ("choice", "fitted") and draw.random() < 0.8:
            arguments[changed] = odd_choice(draw)
        elif isinstance(right[changed], np.ndarray) and draw.random() < 0.4:
            arguments[changed] = _odd_array(right[changed], draw)
        else:
            arguments[changed] = draw.choice(ODD)
    return name, function, arguments


def _odd_array(array, draw):
    """The array with one entry changed, another shape, or another dtype."""
    changed = array.astype(float) if array.dtype.kind == "f" else array.copy()
    kind = draw.randrange(8)
    if kind == 0:
        return changed[: len(changed) // 2]
    if kind == 1:
        return np.ma.masked_array(changed, draw.choice([changed > 0, False]))
    if kind == 2:
        return changed.astype(draw.choice([np.float16, np.float32, object, str, complex, np.int8]))
    if kind == 3:
        return changed[..., None]
    values = [-1, 10**6, 2**40, 7] if array.dtype.kind in "iu" else [np.nan, np.inf, -1.0, 1e300, 1e-300, 0.0]
    if array.dtype.kind in "iuf":
        changed[tuple(draw.randrange(size) for size in changed.shape)] = draw.choice(values)
    return changed


def run_calls(first, last, log):
    """Make some calls, and write down how each ended: "answered", "refused" or what is wrong with it."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    with open(log, "a", buffering=1) as file:
        for number in range(first, last):
            name, function, arguments = draw_call(number)
            file.write(f"{number}\t{name}\t")
            signal.alarm(LONGEST)
            file.write(f"{_outcome(function, arguments)}\n")
            signal.alarm(0)


def _outcome(function, arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(**arguments)
        except OURS as error:
            return "refused" if str(error) else f"wrong: {type(error).__name__} without a word"
        except BaseException as error:
            return f"wrong: {type(error).__name__}: {str(error)[:150]!r}"
    return "answered"


if __name__ == "__main__":  # python -m tests.faults.fuzz NUMBER: that call, as it is
    import sys

    name, function, arguments = draw_call(int(sys.argv[1]))
    print(os.getpid(), name, arguments)
    print(function(**arguments))
