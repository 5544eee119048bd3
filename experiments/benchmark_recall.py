"""Whether a recall that is asked for is reached, and never costs more than exact search.

    python experiments/benchmark_recall.py
    python experiments/benchmark_recall.py --vectors embeddings.npy --sizes 50000
    python experiments/benchmark_recall.py --costs                what exact search and lists cost, as asbc reckons it

For vectors of several kinds, ``search="auto"`` and exact search take turns in one process; wall and CPU time are those
of a whole call. Where exact search is chosen, the time that it takes to decide is measured by itself too: the search
then takes that much more than exact search, and the rest of their difference is chance. Recall is counted on all nodes.
A target counts as reached if the 95% interval of the search's own estimate, which it takes on a sample of nodes, goes
up to it. Results go to benchmark_recall.json, and the table of docs/scale.md comes from there (--docs docs/scale.md).
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from benchmark_peers import put_between, text_like, write_whole
from make_mixture import make_mixture
from rich.console import Console
from rich.table import Table
from scipy.optimize import nnls

import asbc
from asbc.neighbors.glance import draw_some, share_multiplied
from asbc.neighbors.recall import nodes_measured
from asbc.neighbors.search import build_index

K = 30
TARGETS = (0.90, 0.95, 0.98, 0.99)
COLUMNS = 384
MARKS = "<!-- recall: made by experiments/benchmark_recall.py --docs -->", "<!-- end of recall -->"
HEADER = (
    "nodes",
    "vectors",
    "asked",
    "found by",
    "recall, all nodes",
    "its estimate",
    "reached",
    "deciding / exact",
    "time / exact",
    "CPU / exact",
)


def overlapping(n):
    """Curved pieces that overlap, with noise in all columns."""
    return make_mixture(n, COLUMNS, n_pieces=100, noise=1.2, spacing=0.1)[0]


def pieces(n):
    return make_mixture(n, COLUMNS)[0]


def noise(n):
    return np.random.default_rng(0).uniform(size=(n, COLUMNS)).astype(np.float32)


MADE = {"curved pieces": pieces, "text-like": text_like, "overlapping clusters": overlapping, "uniform noise": noise}


def timed(call):
    """What a call gives, and its seconds of wall and of CPU time."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = call()
    return found, (time.perf_counter() - wall, time.process_time() - cpu)


def measure(name, X, rounds):
    """One row for each recall asked for."""
    exact = asbc.search_neighbors(X, K)
    farthest = exact.distances[:, -1:]
    rows = []
    for target in TARGETS:
        turns = []
        for number in range(rounds):
            calls = {
                "auto": lambda target=target: asbc.search_neighbors(X, K, search="auto", recall=target),
                "exact": lambda: asbc.search_neighbors(X, K),
            }
            # Each goes first in every other round.
            results = {name: timed(calls[name]) for name in sorted(calls, reverse=bool(number % 2))}
            found, ours = results["auto"]
            turns.append((ours, results["exact"][1]))
        decided = [timed(lambda target=target: build_index(X, K, "auto", {}, target))[1][0] for _ in range(rounds)]
        hits = (found.distances <= farthest).mean(axis=1)
        lists = found.recall is not None
        error = 1.96 * float(hits.std(ddof=1)) / np.sqrt(nodes_measured(len(X)))
        estimate = found.recall if lists else 1.0
        rows.append(
            {
                "n": len(X),
                "d": X.shape[1],
                "data": name,
                "target": target,
                "search": "lists" if lists else "exact",
                "recall": float(hits.mean()),
                "estimate": estimate,
                "half_width": error,
                "reached": bool(estimate + error >= target),
                "deciding": None if lists else decided,
                "seconds": [turn[0][0] for turn in turns],
                "cpu": [turn[0][1] for turn in turns],
                "exact_seconds": [turn[1][0] for turn in turns],
                "exact_cpu": [turn[1][1] for turn in turns],
                "load": os.getloadavg()[0],
            }
        )
        print(rows[-1], flush=True)
    return rows


def measure_costs(sets, rounds):
    """LOOK and FILED of asbc.neighbors.tuning, which predict whether lists or exact search is the quicker.

    Times of both, on the sets that are given, with few and many lists looked at, are explained by four numbers: what a
    multiplication takes, what it takes to look at a product, and what a row takes besides, for each of its numbers, in
    exact search and in lists.
    """
    known, seconds, told = [], [], []
    for name, make in sets:
        X = make()
        n, d = X.shape
        share = share_multiplied(*draw_some(X, K, 0))
        kinds = [("exact", {}, n / 2 * share * d, n / 2)]
        for n_probe in (4, 16, 48):
            index = build_index(X, K, "ivf", {"n_probe": n_probe})[0]
            rows = float(np.diff(index.starts)[index.probes].sum(axis=1).mean())
            compared = rows + len(index.centroids) + nodes_measured(n)
            kinds.append((f"{n_probe} lists", {"search": "ivf", "n_probe": n_probe}, compared * d, compared))
        for kind, options, multiplied, looked in kinds:
            taken = np.median(
                [timed(lambda o=options, X=X: asbc.search_neighbors(X, K, **o))[1][0] for _ in range(rounds)]
            )
            known.append([n * multiplied, n * looked, n * d * (kind == "exact"), n * d * (kind != "exact")])
            seconds.append(taken)
            told.append(f"{n:,} x {d} {name}, {kind}")
    known, seconds = np.array(known, float), np.array(seconds)
    found = nnls(known / seconds[:, None], np.ones(len(seconds)))[0]
    for line, true, guess in zip(told, seconds, known @ found, strict=True):
        print(f"{line:50s} {true:7.2f} s, by the rule {guess:7.2f} s")
    each, look, exact, lists = found
    print(f"LOOK {look / each:.0f}, FILED {(lists - exact) / each:.0f}; a multiplication takes {each * 1e12:.1f} ps")


def ratio(row, kind):
    """Median, least and largest over rounds of what a search took, where exact search took 1."""
    values = np.array(row[kind]) / row[f"exact_{kind}"]
    return f"{np.median(values):.2f} [{values.min():.2f}, {values.max():.2f}]"


def cells(row):
    estimate = f"{row['estimate']:.4f} ± {row['half_width']:.4f}" if row["search"] == "lists" else ""
    return (
        f"{row['n']:,} x {row['d']}",
        row["data"],
        f"{row['target']:.2f}",
        row["search"],
        f"{row['recall']:.4f}",
        estimate,
        "yes" if row["reached"] else "no",
        f"{np.median(row['deciding']) / np.median(row['exact_seconds']):.3f}" if row["deciding"] else "",
        ratio(row, "seconds"),
        ratio(row, "cpu"),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30_000, 60_000])
    parser.add_argument("--kinds", choices=MADE, nargs="*", default=list(MADE))
    parser.add_argument("--vectors", type=Path, nargs="*", default=[], help=".npy files of your own; all their rows")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--costs", action="store_true", help="measure what asbc.neighbors.tuning reckons with instead")
    parser.add_argument("--json", type=Path, default=Path("benchmark_recall.json"))
    parser.add_argument("--docs", type=Path, help="a page whose table is made anew from the JSON; nothing is measured")
    args = parser.parse_args()
    rows = {}
    if args.json.is_file():
        rows = {(x["data"], x["n"], x["target"]): x for x in json.loads(args.json.read_text())}
    if args.docs:
        lines = ["| " + " | ".join(HEADER) + " |", "| ---: | --- | ---: | --- | ---: | --- | --- | --- | --- | --- |"]
        loads = [row["load"] for row in rows.values()]
        told = (
            f"The load of the machine was {min(loads):.0f} to {max(loads):.0f} on {os.cpu_count()} cores. Above 2, "
            "other programs ran beside, and CPU time tells more than time."
        )
        table = "\n".join(lines + ["| " + " | ".join(cells(row)) + " |" for row in rows.values()])
        put_between(args.docs, MARKS, f"{told}\n\n{table}")
        return
    warnings.simplefilter("ignore", asbc.LowRecallWarning)
    asbc.search_neighbors(text_like(2000), K, search="ivf")  # compiles
    sets = [(path.stem, lambda path=path: asbc.normalize(np.load(path))) for path in args.vectors]
    sets += [(name, lambda name=name, n=n: MADE[name](n)) for name in args.kinds for n in args.sizes]
    if args.costs:
        measure_costs(sets, args.rounds)
        return
    for name, make in sets:
        for row in measure(name, make(), args.rounds):
            rows[row["data"], row["n"], row["target"]] = row
        write_whole(args.json, json.dumps(list(rows.values()), indent=1) + "\n")
    table = Table(title=f"Recall asked for and found, k = {K}")
    for column in HEADER:
        table.add_column(column)
    for row in rows.values():
        table.add_row(*cells(row))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
