"""Beside what a user would pick instead: one table, the last part of `make bench`.

    python experiments/benchmark_peers.py              3,000, 20,000 and 100,000 vectors of 384 numbers
    python experiments/benchmark_peers.py --full       also 1,000,000
    python experiments/benchmark_peers.py --sizes 20000 --columns 512 --lines "product|exact|flat" --rounds 9

Every contestant has a process of its own, which loads the same vectors and warms up. Then they take turns, one run each
in every round, so that whatever else the machine does falls on all of them; a line of the table shows the median over
rounds of the ratio to the line that it is compared with, and the least and largest ratio. An index is built anew in
every run. Approximate searches are tuned to a recall beforehand, untimed, except ours, whose tuning is part of what is
timed. Results go to benchmark_peers.json, where the lines that were run take the place of earlier ones and others stay;
the plot of time against recall goes to the folder of --output, and the table of docs/scale.md comes from the JSON
(--docs docs/scale.md).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

K = 30
SAMPLE = 1000  # nodes that recall is measured on
TARGETS = (0.90, 0.95, 0.98, 0.99)
# Seconds before each run: threads of BLAS and OpenMP go on spinning for a while after their work is done, and whoever
# came next would have to share a core with them.
PAUSE = 0.3
MARKS = "<!-- peers: made by experiments/benchmark_peers.py --docs -->", "<!-- end of peers -->"
console = Console(width=150)


# --- vectors --------------------------------------------------------------------------------------------------------


def unit(X):
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def text_like(n, d=384, seed=0):
    """A spectrum that decays like that of sentence embeddings, around a hundred topics."""
    rng = np.random.default_rng(seed)
    scales = np.arange(1, d + 1) ** -0.5
    topics = rng.normal(size=(100, d)) * scales
    return unit(topics[rng.integers(0, 100, n)] + rng.normal(size=(n, d)) * scales)


def clusters(n, d=384, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(100, d))
    return unit(centers[rng.integers(0, 100, n)] + 0.5 * rng.normal(size=(n, d)))


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


def set_breadth(index, kind, breadth):
    """How far a search looks: lists of an inverted file, candidates of a small-world graph."""
    if kind == "ivf":
        index.nprobe = breadth
    elif kind == "hnsw":
        index.hnsw.efSearch = breadth


def faiss_search(X, kind, breadth=None):
    def run():
        index = faiss_index(X, kind)
        set_breadth(index, kind, breadth)
        return index.search(X, K + 1)[1]

    return run


def pynndescent_search(X):
    from pynndescent import NNDescent

    return lambda: NNDescent(X, n_neighbors=K + 1, random_state=0).neighbor_graph[0]


def graph_of(X, name):
    from benchmark_scale import PEERS

    return lambda: PEERS[name](X)


def contestants(n):
    """Name, group, what it is compared with, and how it is made, of all that run at n vectors."""
    rows = [
        ("bare product of all pairs", "search", "asbc exact", (bare_product, {})),
        ("asbc exact", "search", None, (asbc_search, {})),
        ("faiss flat", "search", "asbc exact", (faiss_search, {"kind": "flat"})),
        ("scikit-learn brute", "search", "asbc exact", (sklearn_search, {})),
    ]
    if n > 200_000:
        rows = []
    if n >= 20_000:
        rows.append(("pynndescent", "search", "asbc lists .98", (pynndescent_search, {})))
        for target in TARGETS:
            ours = f"asbc lists {target:.2f}".replace("0.", ".")
            rows.append((ours, "search", None, (asbc_search, {"search": "ivf", "recall": target})))
            for kind in ("ivf", "hnsw"):
                name = f"faiss {kind.upper()} {target:.2f}".replace("0.", ".")
                rows.append((name, "search", ours, (faiss_search, {"kind": kind, "target": target})))
    ours = "asbc NNK-sigma"
    others = ("NNK by dropping (PyNNK's algorithm)", "UMAP fuzzy_simplicial_set", "GraphLearning weightmatrix.knn")
    if n <= 100_000:
        rows.append((ours, "graph", None, (graph_of, {"name": ours})))
        rows += [(name, "graph", ours, (graph_of, {"name": name})) for name in others]
    return rows


# --- one contestant's process -----------------------------------------------------------------------------------------


def recall_of(found, exact):
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / K)


def tuned(X, kind, target, sample, exact):
    """The least breadth in a ladder at which faiss reaches the recall on the sample; untimed."""
    index = faiss_index(X, kind)
    breadth = 1 if kind == "ivf" else 32
    while breadth < 4096:
        set_breadth(index, kind, breadth)
        if recall_of(index.search(X[sample], K + 1)[1], exact) >= target:
            break
        breadth = max(breadth + 1, int(breadth * 1.1))
    return breadth


def umap_neighbors(X):
    """The neighbours that UMAP's graph is made of, found once more, for their recall."""
    from umap.umap_ import nearest_neighbors

    return nearest_neighbors(X, K + 1, "euclidean", {}, False, np.random.RandomState(0))[0]


def work(number: int, folder: Path) -> None:
    """Answer "run" with the seconds of one run and "recall" with the recall of the last one, until there is no more."""
    warnings.simplefilter("ignore")
    X = np.load(folder / "vectors.npy")
    make, options = contestants(len(X))[number][3]
    sample, exact = np.load(folder / "sample.npy"), np.load(folder / "exact.npy")
    if "target" in options:
        target = options.pop("target")
        options["breadth"] = tuned(X, options["kind"], target, sample, exact)
    small = dict(options, breadth=8) if "breadth" in options else options
    make(X[:3000], **small)()  # imports and compiles
    run = make(X, **options)
    print(json.dumps({"ready": options if "breadth" in options else {}}), flush=True)
    found = None
    for line in sys.stdin:
        if line.strip() == "run":
            cpu, wall = time.process_time(), time.perf_counter()
            found = run()
            answer = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        else:
            if options.get("name", "").startswith("UMAP"):
                found = umap_neighbors(X)
            known = isinstance(found, np.ndarray)
            answer = {"recall": recall_of(found[sample], exact) if known else None}
        print(json.dumps(answer), flush=True)


class Contestant:
    def __init__(self, number, folder):
        command = [sys.executable, __file__, "--work", str(number), "--folder", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.settings = json.loads(self._process.stdout.readline())["ready"]

    def run(self):
        time.sleep(PAUSE)
        return self.ask("run")

    def ask(self, what):
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self):
        self._process.stdin.close()
        self._process.wait()


# --- all of them ------------------------------------------------------------------------------------------------------


def compete(n, d, data, rounds, lines=""):
    """Rows of the table for n vectors of one kind, of d columns; `lines` is a pattern that their names match."""
    import asbc

    everything = contestants(n)
    numbers = [number for number, row in enumerate(everything) if re.search(lines, row[0])]
    rows = [everything[number] for number in numbers]
    if not rows:
        return []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        X = VECTORS[data](n, d)
        sample = np.sort(np.random.default_rng(1).choice(n, min(n, SAMPLE), replace=False))
        near = asbc.search_neighbors(X, K + 1, queries=X[sample]).indices
        exact = np.array([row[row != node][:K] for row, node in zip(near, sample, strict=True)])
        for name, array in (("vectors", X), ("sample", sample), ("exact", exact)):
            np.save(folder / f"{name}.npy", array)
        del X, near
        everyone = [Contestant(number, folder) for number in numbers]
        runs = [[one.run() for one in everyone] for _ in range(rounds)]
        recalls = [one.ask("recall")["recall"] for one in everyone]
        for one in everyone:
            one.end()
    names = [row[0] for row in rows]
    results = []
    for number, (name, group, other, _) in enumerate(rows):
        line = {"n": n, "d": d, "data": data, "group": group, "name": name, "recall": recalls[number], "against": other}
        for unit_ in ("seconds", "cpu"):
            line[unit_] = [turn[number][unit_] for turn in runs]
            if other in names:
                line[f"{unit_}_ratio"] = [turn[number][unit_] / turn[names.index(other)][unit_] for turn in runs]
        results.append({**line, "settings": everyone[number].settings, "load": os.getloadavg()[0]})
    return results


def merged(before, now):
    """All lines, those of this run in place of earlier ones of the same name, in order of size and kind of vectors."""
    place = {name: number for number, name in enumerate(row[0] for row in [*contestants(20_000), *contestants(10**6)])}
    lines = {(x["n"], x["d"], list(VECTORS).index(x["data"]), place[x["name"]]): x for x in [*before, *now]}
    return [lines[key] for key in sorted(lines)]


def ratio(line, kind="seconds"):
    """Median, least and largest of a line's ratios, in words."""
    values = line.get(f"{kind}_ratio")
    return "" if not values else f"{np.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]"


HEADER = ("nodes", "vectors", "what", "seconds", "CPU s", "recall", "time / that of", "ratio", "CPU ratio")


def cells(line):
    recall = "" if line["recall"] is None else f"{line['recall']:.3f}"
    return (
        f"{line['n']:,} x {line['d']}",
        line["data"],
        f"{line['group']}: {line['name']}",
        f"{np.median(line['seconds']):.3g}",
        f"{np.median(line['cpu']):.3g}",
        recall,
        line["against"] or "",
        ratio(line),
        ratio(line, "cpu"),
    )


def as_markdown(results):
    lines = ["| " + " | ".join(HEADER) + " |", "| ---: | --- | --- | ---: | ---: | ---: | --- | --- | --- |"]
    return "\n".join(lines + ["| " + " | ".join(cells(line)) + " |" for line in results["lines"]])


def write_docs(results, page: Path) -> None:
    """Put the table between its two marks in the page."""
    rounds = [len(line["seconds"]) for line in results["lines"]]
    several = str(max(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    told = (
        f"Medians of {several} rounds on {results['cores']} cores; a ratio above 1 is slower "
        "than the line that it is compared with, its range over rounds in brackets."
    )
    put_between(page, MARKS, f"{told}\n\n{as_markdown(results)}")


def put_between(page: Path, marks: tuple[str, str], text: str) -> None:
    """Replace what stands between two marks of a page."""
    before, rest = page.read_text().split(marks[0])
    write_whole(page, f"{before}{marks[0]}\n\n{text}\n\n{marks[1]}{rest.split(marks[1])[1]}")


def write_whole(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


FAMILIES = ("asbc lists", "faiss IVF", "faiss HNSW", "pynndescent", "asbc exact", "faiss flat")


def draw(results, path: Path) -> None:
    """Seconds against recall, a row of panels for each size and one panel for each kind of vectors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    searches = [line for line in results["lines"] if line["group"] == "search" and line["recall"]]
    shapes = sorted({(line["n"], line["d"]) for line in searches if line["name"].startswith("asbc lists")})
    if not shapes:
        return
    size = 4.2 * len(VECTORS), 3.3 * len(shapes)
    figure, axes = plt.subplots(len(shapes), len(VECTORS), figsize=size, constrained_layout=True, squeeze=False)
    for row, (n, d) in zip(axes, shapes, strict=True):
        for axis, data in zip(row, VECTORS, strict=True):
            lines = [line for line in searches if (line["n"], line["d"], line["data"]) == (n, d, data)]
            for number, family in enumerate(FAMILIES):
                runs = {}  # by recall: of two that were asked for, the same breadth may reach both
                for line in lines:
                    if line["name"].startswith(family):
                        runs.setdefault(line["recall"], []).extend(line["seconds"])
                if runs:
                    reached = sorted(runs)
                    seconds = [np.median(runs[recall]) for recall in reached]
                    axis.plot(reached, seconds, "o-", color=f"C{number}", label=family)
            axis.set(yscale="log", title=f"{n:,} x {d}, {data}")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            axis.grid(alpha=0.3, which="both")
        row[0].set_ylabel("seconds, index included")
    for axis in axes[-1]:
        axis.set_xlabel(f"recall@{K}")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1,000,000 vectors too")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of vectors in place of the usual ones")
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--data", choices=VECTORS, nargs="+", default=list(VECTORS))
    parser.add_argument("--lines", default="", help="a regular expression: only lines whose names match it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmark_peers.json"))
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark_peers"), help="folder of the plot")
    parser.add_argument(
        "--docs",
        type=Path,
        help="a page whose table, and the plot beside it, are made anew from the JSON; nothing is measured",
    )
    parser.add_argument("--work", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        work(args.work, args.folder)
        return
    if args.docs:
        results = json.loads(args.json.read_text())
        write_docs(results, args.docs)
        draw(results, args.docs.parent / "recall.png")
        return
    args.output.mkdir(parents=True, exist_ok=True)
    before = json.loads(args.json.read_text())["lines"] if args.json.is_file() else []
    results = {"cores": os.cpu_count(), "lines": before}
    for n in args.sizes or [3_000, 20_000, 100_000, *([1_000_000] if args.full else [])]:
        for data in args.data:
            now = compete(n, args.columns, data, args.rounds, args.lines)
            results["lines"] = merged(results["lines"], now)
            write_whole(args.json, json.dumps(results, indent=1) + "\n")
    table = Table(title=f"Beside others, k = {K}")
    for column in HEADER:
        table.add_column(column, justify="right" if column in ("nodes", "seconds", "CPU s", "recall") else "left")
    for line in results["lines"]:
        table.add_row(*cells(line))
    console.print(table)
    draw(results, args.output / "recall.png")
    console.print(f"figures: {args.json}, {args.output / 'recall.png'}")


if __name__ == "__main__":
    main()
