"""How the library compares with its peers, and how its cost grows: the second half of `make bench`.

    python experiments/benchmark_scale.py             peers, scaling curves, a build of 50,000 nodes; some minutes
    python experiments/benchmark_scale.py --full      also builds of 500,000 and 1,000,000 nodes and 200,000 on Dask

Peers run in one process on the same vectors, both cores, warm, each with its own search where it has one. Speed is
shown beside quality: leave-one-out and label propagation on the graph that each method gives. Results go to
benchmark_scale.json and figures to the folder of --output.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numba
import numpy as np
from make_mixture import make_mixture, write_mixture
from rich.console import Console
from rich.table import Table
from scipy import sparse

import asbc
from asbc.evaluate.propagation import propagation_hits
from asbc.neighbors import with_pairs

K = 30
LABELS_A_CLASS = 5
TRIALS = 5
console = Console(width=150)


def clock(call):
    """What `call` gives and the seconds it takes, after one call that pays for compiling."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        start = time.perf_counter()
        result = call()
    return result, time.perf_counter() - start


# --- peers ----------------------------------------------------------------------------------------------------------


def our_nnk(X):
    return asbc.GraphBuilder(k_cand=K).fit_transform(X)


def our_perplexity(X):
    return asbc.GraphBuilder(k_cand=K, weights="gaussian", bandwidth=asbc.Perplexity()).fit_transform(X)


def our_nnk_approximate(X):
    neighbors = with_pairs(X, asbc.search_neighbors(X, K, search="ivf"))
    choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
    return asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, choice.sigma))


def nnk_by_dropping(X):
    """PyNNK's algorithm: one bandwidth, and a solver that drops neighbours and never takes one back."""
    neighbors = asbc.search_neighbors(X, K)
    sigma = float(neighbors.distances[:, 9].mean())
    return asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, sigma, k_min=0, solver="reference"))


def umap_graph(X):
    from umap.umap_ import fuzzy_simplicial_set

    graph, _, _ = fuzzy_simplicial_set(X, K + 1, np.random.RandomState(0), "euclidean")
    return graph


def pynndescent_graph(X):
    from pynndescent import NNDescent

    indices, _ = NNDescent(X, n_neighbors=K + 1, random_state=0).neighbor_graph
    return union_of(indices, len(X))


def sklearn_graph(X):
    from sklearn.neighbors import kneighbors_graph

    graph = kneighbors_graph(X, K, n_jobs=-1)
    return graph.maximum(graph.T)


def graphlearning_graph(X):
    """GraphLearning's own search needs annoy, which has no wheels; it takes neighbours, the node itself first."""
    import graphlearning

    neighbors = asbc.search_neighbors(X, K)
    indices = np.column_stack([np.arange(len(X)), neighbors.indices])
    distances = np.column_stack([np.zeros(len(X)), neighbors.distances])
    return graphlearning.weightmatrix.knn(X, K + 1, knn_data=(indices, distances))


def union_of(indices, n):
    rows = np.repeat(np.arange(n), indices.shape[1])
    graph = sparse.csr_array((np.ones(indices.size), (rows, indices.ravel())), shape=(n, n))
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph.maximum(graph.T)


PEERS = {
    "asbc NNK-sigma": our_nnk,
    "asbc NNK-sigma, ivf": our_nnk_approximate,
    "asbc gaussian, perplexity": our_perplexity,
    "NNK by dropping (PyNNK's algorithm)": nnk_by_dropping,
    "UMAP fuzzy_simplicial_set": umap_graph,
    "pynndescent, weights 1": pynndescent_graph,
    "scikit-learn kneighbors_graph": sklearn_graph,
    "GraphLearning weightmatrix.knn": graphlearning_graph,
}


def leave_one_out(graph, labels):
    """Share of nodes that the weighted vote of their row in the graph gets right: the same rule for all peers."""
    votes = graph @ np.eye(labels.max() + 1)[labels]
    return float(((votes.max(axis=1) > 0) & (votes.argmax(axis=1) == labels)).mean())


def label_propagation(graph, labels):
    """Accuracy on unlabelled nodes, one figure a trial."""
    accuracies = []
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        shown = np.zeros(len(labels), bool)
        for label in np.unique(labels):
            shown[rng.choice(np.flatnonzero(labels == label), LABELS_A_CLASS, replace=False)] = True
        accuracies.append(float(propagation_hits(graph, labels, shown)[0][~shown].mean()))
    return accuracies


def compare_peers(name, X, labels):
    rows = []
    for method, call in PEERS.items():
        try:
            graph, seconds = clock(lambda call=call: call(X))
        except ImportError as error:
            console.print(f"{method}: left out, {error}")
            continue
        graph = sparse.csr_array(graph, dtype=float)
        graph.setdiag(0)
        graph.eliminate_zeros()
        accuracies = label_propagation(graph, labels)
        rows.append(
            {
                "data": name,
                "method": method,
                "seconds": seconds,
                "edges_a_node": graph.nnz / len(X),
                "loo": leave_one_out(graph, labels),
                "lp": float(np.mean(accuracies)),
                "lp_trials": accuracies,
            }
        )
    table = Table(title=f"Peers on {name}: {X.shape[0]:,} x {X.shape[1]}, k = {K}")
    for column in ("method", "seconds", "edges a node", "LOO", f"LP, {LABELS_A_CLASS} labels a class (± sd of trials)"):
        table.add_column(column)
    for row in rows:
        spread = np.std(row["lp_trials"], ddof=1)
        table.add_row(
            row["method"],
            f"{row['seconds']:.2f}",
            f"{row['edges_a_node']:.1f}",
            f"{row['loo']:.4f}",
            f"{row['lp']:.4f} ± {spread:.4f}",
        )
    console.print(table)
    return rows


def faiss_lists(X, n_lists, n_probe):
    import faiss

    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(X.shape[1]), X.shape[1], n_lists)
    index.cp.min_points_per_centroid = 1
    index.cp.max_points_per_centroid = 32
    index.cp.niter = 8
    index.train(X)
    index.add(X)
    index.nprobe = n_probe
    return index.search(X, K + 1)[1]


def compare_searches(X):
    """Seconds, index included, and recall of every kind of search, and of faiss's inverted lists beside ours."""
    from asbc.approximate import check_search

    exact, seconds = clock(lambda: asbc.search_neighbors(X, K))
    rows = [{"search": "exact", "seconds": seconds, "recall": 1.0}]
    for search in ("ivf", "hnsw", "nn_descent"):
        found, seconds = clock(lambda search=search: asbc.search_neighbors(X, K, search=search, sample=1))
        rows.append({"search": search, "seconds": seconds, "recall": share_found(found.indices, exact.indices)})
    options = check_search("ivf", len(X), {})
    found, seconds = clock(lambda: faiss_lists(X, **options))
    rows.append({"search": "faiss IVF, same lists", "seconds": seconds, "recall": share_found(found, exact.indices)})
    table = Table(title=f"Search: {X.shape[0]:,} x {X.shape[1]}, k = {K}, lists and probes {tuple(options.values())}")
    for column in ("search", "seconds", f"recall@{K}"):
        table.add_column(column)
    for row in rows:
        table.add_row(row["search"], f"{row['seconds']:.2f}", f"{row['recall']:.4f}")
    console.print(table)
    return rows


def share_found(found, exact):
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / exact.shape[1])


# --- scaling --------------------------------------------------------------------------------------------------------


def steps(X, k=K, n_grid=12):
    """Seconds of the search, and of dimension, bandwidth and weights together."""
    start = time.perf_counter()
    neighbors = asbc.search_neighbors(X, k, search="ivf", sample=1)
    middle = time.perf_counter()
    neighbors = with_pairs(X, neighbors)
    dimension = asbc.dim_mst(X, neighbors)
    choice = asbc.SpectralBandwidth(n_grid=n_grid).select(X, neighbors, dimension)
    asbc.nnk_weights(X, neighbors, choice.sigma)
    return middle - start, time.perf_counter() - middle


def scaling_curves(X, folder):
    steps(X[:2000])
    steps(X[:2000], k=60)
    largest = len(X)
    base = X[: largest // 4]
    cores = numba.config.NUMBA_NUM_THREADS
    curves = {
        "n": {n: steps(X[:n]) for n in (largest // 8, largest // 4, largest // 2, largest)},
        "k_cand": {k: steps(base, k=k) for k in (15, 30, 45, 60)},
        "n_grid": {g: steps(base, n_grid=g) for g in (6, 12, 24, 48)},
        "cores": {},
    }
    for count in sorted({1, cores}):
        numba.set_num_threads(count)
        from threadpoolctl import threadpool_limits

        with threadpool_limits(count, "blas"):
            curves["cores"][count] = steps(base)
    numba.set_num_threads(cores)
    draw_curves(curves, len(base), folder)
    return {name: {str(x): list(times) for x, times in curve.items()} for name, curve in curves.items()}


def draw_curves(curves, base, folder):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    titles = {"n": "nodes", "k_cand": "k_cand", "n_grid": "grid points", "cores": "cores"}
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.4), constrained_layout=True)
    for axis, (name, curve) in zip(axes, curves.items(), strict=True):
        x = np.array(list(curve))
        times = np.array(list(curve.values()))
        axis.plot(x, times[:, 0], "o-", label="search (ivf)")
        axis.plot(x, times[:, 1], "s-", label="dimension + sigma + NNK")
        if name == "n":
            axis.plot(x, times[0, 1] * x / x[0], ":", color="grey", label="linear")
            axis.set(xscale="log", yscale="log")
        axis.set(xlabel=titles[name], xticks=x, title="" if name == "n" else f"{base:,} nodes")
        axis.set_xticklabels([f"{v:,}" for v in x])
        axis.minorticks_off()
        axis.set_ylim(bottom=None if name == "n" else 0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("seconds")
    axes[0].legend(frameon=False, fontsize=8)
    for suffix in ("png", "pdf"):
        figure.savefig(folder / f"scaling.{suffix}", dpi=150)
    plt.close(figure)


# --- builds ---------------------------------------------------------------------------------------------------------

SEARCH = ("train", "assign", "order", "lists", "neighbors")


def run_build(vectors, folder, *more):
    """One `asbc-build` in a process of its own, and what it says of itself."""
    shutil.rmtree(folder, ignore_errors=True)
    load = os.getloadavg()[0]
    start = time.perf_counter()
    command = [sys.executable, "-m", "asbc.build_cli", str(vectors), str(folder), "--k", str(K), "--quiet", *more]
    subprocess.run(command, check=True)
    wall = time.perf_counter() - start
    timing = json.loads((folder / "timing.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())
    seconds = timing["seconds"]
    return {
        "n": manifest["n"],
        "engine": timing["engine"],
        "wall_seconds": wall,
        "search_seconds": sum(seconds.get(stage, 0.0) for stage in SEARCH),
        "rows_seconds": seconds["rows"],
        "graph_seconds": seconds.get("transpose", 0.0) + seconds["graph"] + seconds["join"],
        "stages": seconds,
        "peak_gib": timing["peak_bytes"] / 2**30,
        "recall": manifest["recall"],
        "edges_a_node": manifest["edges"] / manifest["n"],
        "load_before": load,
    }


def same_files(first, second):
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*.npy"))
    others = sorted(str(path.relative_to(second)) for path in second.rglob("*.npy"))
    return names == others and all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def builds(sizes, dask_size, scratch):
    rows, checks = [], {}
    for n in sizes:
        vectors = scratch / f"mixture_{n}.npy"
        if not vectors.is_file():
            write_mixture(vectors, n)
        rows.append(run_build(vectors, scratch / f"graph_{n}"))
        shutil.rmtree(scratch / f"graph_{n}")
    vectors = scratch / f"mixture_{dask_size}.npy"
    if not vectors.is_file():
        write_mixture(vectors, dask_size)
    pair = [run_build(vectors, scratch / engine, "--engine", engine, "--workers", "2") for engine in ("local", "dask")]
    rows += pair
    checks["dask_identical"] = same_files(scratch / "local", scratch / "dask")
    checks["dask_over_local"] = pair[1]["wall_seconds"] / pair[0]["wall_seconds"]
    if len(sizes) > 1:
        checks["rows_growth"] = rows[len(sizes) - 1]["rows_seconds"] / rows[0]["rows_seconds"]
        checks["nodes_growth"] = sizes[-1] / sizes[0]
    largest = rows[len(sizes) - 1]
    checks["rows_over_search"] = largest["rows_seconds"] / largest["search_seconds"]
    table = Table(title="asbc-build, NNK-sigma, ivf")
    for column in (
        "nodes",
        "engine",
        "wall s",
        "search s",
        "dim+sigma+NNK s",
        "graph s",
        "peak GiB",
        "recall@30",
        "load",
    ):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            f"{row['n']:,}",
            row["engine"],
            *(f"{row[name]:.1f}" for name in ("wall_seconds", "search_seconds", "rows_seconds", "graph_seconds")),
            f"{row['peak_gib']:.2f}",
            f"{row['recall']['value']:.4f}",
            f"{row['load_before']:.1f}",
        )
    console.print(table)
    console.print(checks)
    return {"builds": rows, "checks": checks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="builds of up to 1,000,000 nodes")
    parser.add_argument("--only", choices=("peers", "searches", "curves", "builds"), help="one part")
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark_scale"), help="folder of the figures")
    parser.add_argument("--json", type=Path, default=Path("benchmark_scale.json"))
    parser.add_argument("--scratch", type=Path, help="where large files go (by default a temporary folder)")
    parser.add_argument("--n", type=int, default=40_000, help="nodes at the end of the scaling curve")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    results = json.loads(args.json.read_text()) if args.only and args.json.is_file() else {}
    results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version(), "asbc": asbc.__version__}
    if args.only in (None, "peers"):
        from sklearn.datasets import load_digits

        digits = load_digits()
        results["peers"] = compare_peers("digits", asbc.normalize(digits.data.astype(np.float32)), digits.target)
        X, labels = make_mixture(10_000, n_pieces=100, noise=0.6)
        results["peers"] += compare_peers("curved pieces", X, labels)
    if args.only in (None, "searches"):
        results["searches"] = compare_searches(make_mixture(20_000)[0])
    if args.only in (None, "curves"):
        results["curves"] = scaling_curves(make_mixture(args.n)[0], args.output)
        console.print(f"scaling curves: {args.output / 'scaling.png'}")
    if args.only in (None, "builds"):
        with tempfile.TemporaryDirectory() as temporary:
            scratch = args.scratch or Path(temporary)
            scratch.mkdir(parents=True, exist_ok=True)
            sizes, dask_size = ([500_000, 1_000_000], 200_000) if args.full else ([25_000, 50_000], 25_000)
            results |= builds(sizes, dask_size, scratch)
    args.json.write_text(json.dumps(results, indent=2) + "\n")
    console.print(f"figures: {args.json}")


if __name__ == "__main__":
    main()
