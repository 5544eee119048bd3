"""How the library compares with its peers, and how its cost grows: the second half of `make bench`.

    python experiments/benchmark_scale.py             peers, scaling curves, builds of up to 100,000 nodes; some minutes
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
from benchmark import Report
from block_memory import bytes_per_node
from make_mixture import make_mixture, write_mixture
from rich.console import Console
from rich.table import Table
from scipy import sparse

import asbc
from asbc.evaluate.comparison import compare
from asbc.learn.labels import encode_partial
from asbc.learn.predict import propagate
from asbc.neighbors.types import with_pairs
from asbc.rows import solve_rows

K = 30
LABELS_PER_CLASS = 5
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
    return asbc.GraphBuilder(k_cand=K, metric="euclidean").fit_transform(X)


def our_neighbors(X):
    """For peers without a search of their own. GraphBuilder takes the same one, so that it makes no difference."""
    return asbc.search_neighbors(X, K, search="auto")


def our_perplexity(X):
    return asbc.GraphBuilder("gaussian", "perplexity", k_cand=K, metric="euclidean").fit_transform(X)


def our_nnk_approximate(X):
    neighbors = with_pairs(X, asbc.search_neighbors(X, K, search="ivf"))
    choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
    return asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, choice.sigma))


def nnk_by_dropping(X):
    """PyNNK's algorithm: one bandwidth, and a solver that drops neighbours and never takes one back."""
    neighbors = our_neighbors(X)
    sigma = float(neighbors.distances[:, 9].mean())
    return asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, sigma, k_min=0, solver="reference"))


def umap_neighbors(X):
    """Ids and distances, the node itself first, as UMAP finds them when it is given none."""
    from umap.umap_ import nearest_neighbors

    return nearest_neighbors(X, K + 1, "euclidean", {}, False, np.random.RandomState(0))[:2]


def umap_graph(X, found=None):
    from umap.umap_ import fuzzy_simplicial_set

    ids, distances = found or umap_neighbors(X)
    return fuzzy_simplicial_set(X, K + 1, None, "euclidean", knn_indices=ids, knn_dists=distances)[0]


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

    neighbors = our_neighbors(X)
    indices = np.column_stack([np.arange(len(X)), neighbors.indices])
    distances = np.column_stack([np.zeros(len(X)), neighbors.distances])
    return graphlearning.weightmatrix.knn(X, K + 1, knn_data=(indices, distances))


def union_of(indices, n):
    rows = np.repeat(np.arange(n), indices.shape[1])
    graph = sparse.csr_array((np.ones(indices.size), (rows, indices.ravel())), shape=(n, n))
    graph.setdiag(0)
    graph.eliminate_zeros()
    return graph.maximum(graph.T)


KNN = "scikit-learn kneighbors_graph"
PEERS = {
    "asbc NNK-sigma": our_nnk,
    "asbc NNK-sigma, ivf": our_nnk_approximate,
    "asbc gaussian, perplexity": our_perplexity,
    "NNK by dropping (PyNNK's algorithm)": nnk_by_dropping,
    "UMAP fuzzy_simplicial_set": umap_graph,
    "pynndescent, weights 1": pynndescent_graph,
    KNN: sklearn_graph,
    "GraphLearning weightmatrix.knn": graphlearning_graph,
}


def leave_one_out(graph, labels):
    """Which nodes the weighted vote of their row in the graph gets right (n,): the same rule for all peers."""
    votes = graph @ np.eye(labels.max() + 1)[labels]
    return ((votes.max(axis=1) > 0) & (votes.argmax(axis=1) == labels)).astype(np.int8)


def label_propagation(graph, labels):
    """One array (n,) per trial: 1 right, 0 wrong, -1 for nodes whose label was shown, the same nodes for all peers."""
    trials, codes = [], encode_partial(labels)[0]
    for trial in range(TRIALS):
        rng = np.random.default_rng(trial)
        shown = np.zeros(len(labels), bool)
        for label in np.unique(labels):
            shown[rng.choice(np.flatnonzero(labels == label), LABELS_PER_CLASS, replace=False)] = True
        trials.append(np.where(shown, -1, propagate(graph, codes, shown).predicted == codes).astype(np.int8))
    return trials


def accuracies(hits):
    return [float(trial[trial >= 0].mean()) for trial in hits]


def against(base, hits):
    """The difference in accuracy from the plain kNN graph, paired by trial and node, with its 95% interval."""
    found = compare(accuracies(hits), accuracies(base), hits_a=hits, hits_b=base)
    return {"difference": found.difference, "low": found.low, "high": found.high}


def compare_peers(name, X, labels):
    rows, hits = [], {}
    for method, call in PEERS.items():
        try:
            graph, seconds = clock(lambda call=call: call(X))
        except ImportError as error:
            console.print(f"{method}: left out, {error}")
            continue
        graph = sparse.csr_array(graph, dtype=float)
        graph.setdiag(0)
        graph.eliminate_zeros()
        hits[method] = {"loo": [leave_one_out(graph, labels)], "lp": label_propagation(graph, labels)}
        rows.append({"data": name, "method": method, "seconds": seconds, "edges_per_node": graph.nnz / len(X)})
    for row in rows:
        for task, found in hits[row["method"]].items():
            row[task] = float(np.mean(accuracies(found)))
            row[f"{task}_trials"] = accuracies(found)
            row[f"{task}_from_knn"] = against(hits[KNN][task], found)
    table = Table(
        title=f"Peers on {name}: {X.shape[0]:,} x {X.shape[1]}, k = {K}; LP with {LABELS_PER_CLASS} labels per class; "
        "in brackets the 95% interval of the difference from plain kNN"
    )
    for column in ("method", "seconds", "edges per node", "LOO", "LP"):
        table.add_column(column)
    for row in rows:
        scores = []
        for task in ("loo", "lp"):
            gap = row[f"{task}_from_knn"]
            scores.append(f"{row[task]:.4f}" + (f" [{gap['low']:+.4f}, {gap['high']:+.4f}]" * (row["method"] != KNN)))
        table.add_row(row["method"], f"{row['seconds']:.2f}", f"{row['edges_per_node']:.1f}", *scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", asbc.LowRecallWarning)
        recall = asbc.search_neighbors(X, K, search="ivf").recall
    table.caption = f"ivf, with its default of 8 probes, finds {recall:.1%} of the neighbours here"
    for row in rows:
        if row["method"].endswith("ivf"):
            row["recall"] = recall
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
    from asbc.neighbors.search import check_search

    exact, seconds = clock(lambda: asbc.search_neighbors(X, K))
    rows = [{"search": "exact", "seconds": seconds, "recall": 1.0}]
    for search in ("ivf", "hnsw", "nn_descent"):
        found, seconds = clock(lambda search=search: asbc.search_neighbors(X, K, search=search, sample=1))
        rows.append({"search": search, "seconds": seconds, "recall": share_found(found.indices, exact.indices)})
    options = check_search("ivf", len(X), {"n_probe": 8})
    found, seconds = clock(lambda: faiss_lists(X, **options))
    rows.append({"search": "faiss IVF, same lists", "seconds": seconds, "recall": share_found(found, exact.indices)})
    table = Table(title=f"Search: {X.shape[0]:,} x {X.shape[1]}, k = {K}, lists and probes {tuple(options.values())}")
    for column in ("search", "seconds", f"recall@{K}"):
        table.add_column(column)
    for row in rows:
        table.add_row(row["search"], f"{row['seconds']:.2f}", f"{row['recall']:.4f}")
    console.print(table)
    return rows


def memory_of_a_block(X):
    """Bytes per node that the list search of one block takes at its peak, by the number of threads."""
    with tempfile.TemporaryDirectory() as temporary:
        vectors = Path(temporary) / "vectors.npy"
        np.save(vectors, X)
        found = {threads: bytes_per_node(vectors, threads) for threads in sorted({1, os.cpu_count() or 1, 32})}
    told = ", ".join(f"{count:,.0f} on {threads} thread(s)" for threads, count in found.items())
    console.print(f"list search of a block, bytes per node: {told}")
    return {str(threads): count for threads, count in found.items()}


def share_found(found, exact):
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / exact.shape[1])


# --- scaling --------------------------------------------------------------------------------------------------------


def steps(X, k=K, n_grid=12, repeat=3):
    """Seconds of the search, and of dimension, bandwidth and weights together: the least of a few turns."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        neighbors = asbc.search_neighbors(X, k, search="ivf", sample=1)
        middle = time.perf_counter()
        rule = asbc.SpectralBandwidth(n_grid=n_grid)
        solve_rows(X, neighbors, dimension=asbc.Dimension(), bandwidth=rule, weights="nnk")
        times.append((middle - start, time.perf_counter() - middle))
    return tuple(np.min(times, axis=0).tolist())


def scaling_curves(X, folder):
    steps(X[:2000], repeat=1)  # compiles
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
    from matplotlib.ticker import LogLocator

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
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
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

SEARCH = ("train", "assign", "lists", "neighbors")


def build_command(vectors, folder, *more):
    return [sys.executable, "-m", "asbc.outofcore.command", str(vectors), str(folder), "--k", str(K), "--quiet", *more]


def run_build(vectors, folder, *more):
    """One `asbc-build` in a process of its own, and what it says of itself."""
    shutil.rmtree(folder, ignore_errors=True)
    load = os.getloadavg()[0]
    start = time.perf_counter()
    subprocess.run(build_command(vectors, folder, *more), check=True)
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
        "edges_per_node": manifest["edges"] / manifest["n"],
        "load_before": load,
    }


def same_files(first, second):
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*.npy"))
    others = sorted(str(path.relative_to(second)) for path in second.rglob("*.npy"))
    return names == others and all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


def started(vectors, folder, stage, *more):
    """A build in a process of its own that has finished the first block of a stage, and is not done yet."""
    process = subprocess.Popen(build_command(vectors, folder, *more))
    while not (folder / "scratch" / stage / "000000.npz").is_file():
        if process.poll() is not None:
            raise RuntimeError(f"the build ended before stage {stage!r} began")
        time.sleep(0.02)
    return process


def killed_build(vectors, folder):
    """kill -9 of the whole build in the search and again in what follows it; then it is left to finish."""
    shutil.rmtree(folder, ignore_errors=True)
    for stage in ("neighbors", "rows"):
        process = started(vectors, folder, stage)
        process.kill()
        process.wait()
    subprocess.run(build_command(vectors, folder), check=True)


def killed_worker(vectors, folder):
    """kill -9 of one of two Dask workers, the busiest process below the build, in the middle of the search."""
    import psutil

    shutil.rmtree(folder, ignore_errors=True)
    process = started(vectors, folder, "neighbors", "--engine", "dask", "--workers", "2")
    below = psutil.Process(process.pid).children(recursive=True)
    max(below, key=lambda child: child.cpu_times().user).kill()
    if process.wait():
        raise RuntimeError("the build did not survive the loss of a worker")


def vectors_of(n, scratch):
    vectors = scratch / f"mixture_{n}.npy"
    if not vectors.is_file():
        write_mixture(vectors, n)
    return vectors


def builds(sizes, dask_size, scratch):
    """Builds of two sizes, the second twice the first; both engines on a third; and what a kill -9 leaves."""
    rows = []
    for n in sizes:
        rows.append(run_build(vectors_of(n, scratch), scratch / f"graph_{n}"))
        shutil.rmtree(scratch / f"graph_{n}")
    half, whole = rows
    vectors = vectors_of(dask_size, scratch)
    local, dask = (
        run_build(vectors, scratch / engine, "--engine", engine, "--workers", "2") for engine in ("local", "dask")
    )
    rows += [local, dask]
    killed_build(vectors, scratch / "killed")
    killed_worker(vectors, scratch / "widowed")
    report = Report()
    recall = whole["recall"]
    error = 1.96 * recall["standard_error"]
    growth = whole["rows_seconds"] / half["rows_seconds"]
    share = whole["rows_seconds"] / whole["search_seconds"]
    ratio = dask["wall_seconds"] / local["wall_seconds"]
    name, many = f"{whole['n']:,}", f"{dask_size:,}"
    found = same_files(scratch / "local", scratch / "dask")
    after_build = same_files(scratch / "local", scratch / "killed")
    after_worker = same_files(scratch / "local", scratch / "widowed")
    wall, peak = whole["wall_seconds"], whole["peak_gib"]
    report.add(f"{name} nodes, end to end", f"{wall:.0f} s", "<= 900 s (aim 600 s)", wall <= 900, value=wall)
    report.add(f"{name} nodes, peak memory", f"{peak:.1f} GiB", "<= 8 GiB", peak <= 8, value=peak)
    report.add(
        f"{name} nodes, recall@{K}",
        f"{recall['value']:.4f} ± {error:.4f}",
        ">= 0.98",
        recall["value"] >= 0.98,
        value=recall["value"],
    )
    report.add(
        f"{name} nodes, dimension + sigma + NNK against the search", f"{share:.2f}x", "<= 1x", share <= 1, value=share
    )
    report.add(
        f"dimension + sigma + NNK from {half['n']:,} to {name} nodes",
        f"{growth:.2f}x",
        "<= 2.2x",
        growth <= 2.2,
        value=growth,
    )
    report.add(f"Dask, 2 workers, {many} nodes: the same bytes", "yes" if found else "no", "yes", found)
    report.add(
        f"Dask, 2 workers, {many} nodes, against the local engine",
        f"{ratio:.2f}x",
        "<= 1.3x",
        ratio <= 1.3,
        value=ratio,
    )
    report.add("kill -9 of the build, twice: the same bytes", "yes" if after_build else "no", "yes", after_build)
    report.add("kill -9 of a Dask worker: the same bytes", "yes" if after_worker else "no", "yes", after_worker)
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
    console.print(report.table())
    return {"builds": rows, "checks": report.rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="builds of up to 1,000,000 nodes")
    parser.add_argument("--only", choices=("peers", "searches", "curves", "builds"), help="one part")
    parser.add_argument(
        "--embeddings", type=Path, help="peers on these too: .npz with arrays 'embeddings' and 'labels'"
    )
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
        # Pieces that overlap, so that there is something to tell methods apart by.
        X, labels = make_mixture(10_000, n_pieces=100, noise=1.2, spacing=0.1)
        results["peers"] += compare_peers("curved pieces", X, labels)
        if args.embeddings:
            with np.load(args.embeddings) as data:
                X, labels = asbc.normalize(data["embeddings"]), np.unique(data["labels"], return_inverse=True)[1]
            results["peers"] += compare_peers(args.embeddings.stem, X, labels)
    if args.only in (None, "searches"):
        X = make_mixture(20_000)[0]
        results["searches"] = compare_searches(X)
        results["block_bytes_per_node"] = memory_of_a_block(X)
    if args.only in (None, "curves"):
        results["curves"] = scaling_curves(make_mixture(args.n)[0], args.output)
        console.print(f"scaling curves: {args.output / 'scaling.png'}")
    if args.only in (None, "builds"):
        with tempfile.TemporaryDirectory() as temporary:
            scratch = args.scratch or Path(temporary)
            scratch.mkdir(parents=True, exist_ok=True)
            sizes, dask_size = ([500_000, 1_000_000], 200_000) if args.full else ([50_000, 100_000], 100_000)
            results |= builds(sizes, dask_size, scratch)
    temporary = args.json.with_suffix(".tmp")
    temporary.write_text(json.dumps(results, indent=2) + "\n")
    os.replace(temporary, args.json)
    console.print(f"figures: {args.json}")


if __name__ == "__main__":
    main()
