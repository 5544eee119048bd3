"""Whether a recall that is asked for is reached, and never costs more than exact search.

    python experiments/benchmark_recall.py
    python experiments/benchmark_recall.py --vectors embeddings.npy --sizes 50000
    python experiments/benchmark_recall.py --costs                what exact search and lists cost, as asbc reckons it

For vectors of several kinds, ``search="auto"`` and exact search take turns in one process; wall and CPU time are those
of a whole call. Where exact search is chosen, the time that it takes to decide is measured by itself too, less what
exact search is spared because outlines were tried already: the search then takes that much more than exact search, and
the rest of their difference is chance. Recall is counted on all nodes.
A target counts as reached if the 95% interval of the search's own estimate, which it takes on a sample of nodes, goes
up to it. Results go to benchmark_recall.json, and the table of docs/scale.md comes from there (--docs docs/scale.md).
"""

from __future__ import annotations

import argparse
import functools
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
from scipy.optimize import nnls

import asbc
from asbc.neighbors.exact import FEW_SPARE
from asbc.neighbors.glance import draw_some, try_outlines
from asbc.neighbors.outline import best_outlining
from asbc.neighbors.products import squared_lengths
from asbc.neighbors.recall import nodes_measured
from asbc.neighbors.search import build_index, find_rows
from asbc.outofcore.driver import BLOCK_NODES

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
        decided, spared = deciding(X, target, rounds)
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
                "spared": None if lists else spared,
                "seconds": [turn[0][0] for turn in turns],
                "cpu": [turn[0][1] for turn in turns],
                "exact_seconds": [turn[1][0] for turn in turns],
                "exact_cpu": [turn[1][1] for turn in turns],
                "load": os.getloadavg()[0],
            }
        )
        print(rows[-1], flush=True)
    return rows


def deciding(X, target, rounds):
    """Seconds of every round that it takes to decide, and that exact search is then spared: it knows the outlines."""
    decided, spared = [], []
    rows = X - X.mean(axis=0)
    half = 0.5 * squared_lengths(rows)
    for _ in range(rounds):
        (_, decision), (seconds, _) = timed(lambda: build_index(X, K, "auto", {}, target))
        decided.append(seconds)
        tried = decision.outlining is not None
        spared.append(timed(lambda: best_outlining(rows, half, K + 1 + FEW_SPARE))[1][0] if tried else 0.0)
    return decided, spared


def search_blocks(X):
    """Exact search as asbc-build does it, one block after another."""
    for start in range(0, len(X), BLOCK_NODES):
        find_rows(X, np.arange(start, min(start + BLOCK_NODES, len(X))), None, K)


def measure_costs(sets, rounds):
    """The numbers of asbc.neighbors.tuning, which predict whether lists or exact search is the quicker.

    Times of both, on the sets that are given, of all rows together and in blocks, with few and many lists looked at,
    are explained by what a multiplication takes, what it takes to look at a product in exact search and in lists, what
    a row takes besides, for each of its numbers, in exact search and in lists, and what lists take for each row.
    """
    known, seconds, told = [], [], []
    for name, make in sets:
        X = make()
        n, d = X.shape
        share = min(1.0, try_outlines(*draw_some(X, K, 0)).cost)
        # A kind of search: its call; per row, the rows that it is compared with, and those of them in lists.
        kinds = [
            ("exact", functools.partial(asbc.search_neighbors, X, K), n / 2, 0),
            ("exact in blocks", functools.partial(search_blocks, X), n, 0),
        ]
        for n_probe in (4, 16, 48):
            index = build_index(X, K, "ivf", {"n_probe": n_probe})[0]
            listed = float(np.diff(index.starts)[index.probes].sum(axis=1).mean())
            lists = functools.partial(asbc.search_neighbors, X, K, search="ivf", n_probe=n_probe)
            kinds.append((f"{n_probe} lists", lists, listed + len(index.centroids) + nodes_measured(n), listed))
        for kind, call, compared, listed in kinds:
            multiplied = compared * d * (share if kind == "exact" else 1.0)
            known.append([multiplied, compared - listed, listed, d * (not listed), d * bool(listed), bool(listed)])
            known[-1] = [n * each for each in known[-1]]
            seconds.append(min(timed(call)[1][0] for _ in range(rounds)))  # what others run makes it longer only
            told.append(f"{n:,} x {d} {name}, {kind}")
    known, seconds = np.array(known, float), np.array(seconds)
    found = nnls(known / seconds[:, None], np.ones(len(seconds)))[0]
    for line, true, guess in zip(told, seconds, known @ found, strict=True):
        print(f"{line:50s} {true:7.2f} s, by the rule {guess:7.2f} s ({guess / true - 1:+.0%})")
    look, scan, prepared, filed_number, filed = found[1:] / found[0]
    print(f"LOOK {look:.0f}, SCAN {scan:.0f}, PREPARED {prepared - filed_number:.0f}, FILED {filed:.0f}")
    print(f"A multiplication takes {found[0] * 1e12:.1f} ps.")


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
        f"{(np.median(row['deciding']) - np.median(row['spared'])) / np.median(row['exact_seconds']):.3f}"
        if row["deciding"]
        else "",
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
