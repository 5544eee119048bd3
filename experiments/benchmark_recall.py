"""Measure whether a target recall is reached, and what ``search="auto"`` costs compared with exact search.

    python experiments/benchmark_recall.py
    python experiments/benchmark_recall.py --vectors embeddings.npy --sizes 50000

For vectors of several kinds, ``search="auto"`` and exact search take turns in one process; wall and CPU time are those
of a whole call. If exact search is chosen, the time of the decision is measured separately, too. Recall is counted on
all nodes. A target counts as reached if it is below the upper end of the 95% interval of the search's own estimate,
which is computed on a sample of nodes. Results go to benchmark_recall.json;
``--docs docs/benchmarks.md`` writes its table.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path

import numpy as np
from make_mixture import make_mixture
from peers_lines import text_like
from peers_table import put_between, write_whole
from rich.console import Console
from rich.table import Table

import asbc
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
        decided = [timed(lambda: build_index(X, K, "auto", {}, target))[1][0] for _ in range(rounds)]  # noqa: B023
        hits = (found.distances <= farthest).mean(axis=1)
        lists = found.recall is not None
        error = 1.96 * float(hits.std(ddof=1)) / np.sqrt(max(500, min(1000, len(X) // 200)))
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
    parser.add_argument("--json", type=Path, default=Path("benchmark_recall.json"))
    parser.add_argument(
        "--docs", type=Path, help="a page whose table is written again from the JSON; nothing is measured"
    )
    args = parser.parse_args()
    rows = {}
    if args.json.is_file():
        rows = {(x["data"], x["n"], x["target"]): x for x in json.loads(args.json.read_text())}
    if args.docs:
        lines = ["| " + " | ".join(HEADER) + " |", "| ---: | --- | ---: | --- | ---: | --- | --- | --- | --- | --- |"]
        loads = [row["load"] for row in rows.values()]
        told = (
            f"The load of the machine was {min(loads):.0f} to {max(loads):.0f} on {os.cpu_count()} cores. Above 2, "
            "other programs ran at the same time, and CPU time is more reliable."
        )
        table = "\n".join(lines + ["| " + " | ".join(cells(row)) + " |" for row in rows.values()])
        put_between(args.docs, MARKS, f"{told}\n\n{table}")
        return
    warnings.simplefilter("ignore", asbc.LowRecallWarning)
    asbc.search_neighbors(text_like(2000), K, search="ivf")  # compiles
    sets = [(path.stem, lambda path=path: asbc.normalize(np.load(path))) for path in args.vectors]
    sets += [(name, lambda name=name, n=n: MADE[name](n)) for name in args.kinds for n in args.sizes]
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
