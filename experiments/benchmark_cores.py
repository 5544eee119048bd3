"""What the other cores bring: the time of each step on one thread, over that on all of them.

    python experiments/benchmark_cores.py                        some minutes
    python experiments/benchmark_cores.py --sizes 10000 --rounds 9
    python experiments/benchmark_cores.py --docs docs/benchmarks.md   write the table from the JSON

Both run in turn, in one process, on the same vectors, each right after a run that is not timed. The bare matrix product
shows what the machine has to give: cores share caches, memory and heat, so that even it does not gain the number of
cores.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numba
import numpy as np
from peers_lines import VECTORS, K, bare_product
from peers_table import put_between, write_whole
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import asbc
from asbc.rows import solve_rows

MARKS = "<!-- cores: made by experiments/benchmark_cores.py --docs -->", "<!-- end of cores -->"
HEADER = ("nodes", "step", "one thread, s", "all, s", "gain")
console = Console(width=120)


def steps(X):
    """By name, functions without arguments."""
    neighbors = asbc.search_neighbors(X, K)
    return {
        "bare product of all pairs": bare_product(X),
        "exact search": lambda: asbc.search_neighbors(X, K),
        "lists, recall .95": lambda: asbc.search_neighbors(X, K, search="ivf", recall=0.95),
        "dimension + sigma + NNK": lambda: solve_rows(
            X, neighbors, dimension=asbc.Dimension(), bandwidth=asbc.SpectralBandwidth(), weights="nnk"
        ),
        "whole graph": lambda: asbc.GraphBuilder(k_cand=K, metric="euclidean").fit(X),
    }


def seconds_of(step, threads):
    numba.set_num_threads(threads)
    with threadpool_limits(threads, "blas"):
        step()  # compiles, and wakes the cores up
        start = time.perf_counter()
        step()
        return time.perf_counter() - start


def measure(n, data, rounds):
    """One line for each step: seconds of all rounds on one thread and on all."""
    cores = numba.config.NUMBA_NUM_THREADS
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, step in steps(VECTORS[data](n)).items():
            turns = [[seconds_of(step, threads) for threads in (1, cores)] for _ in range(rounds)]
            alone, together = zip(*turns, strict=True)
            lines.append({"n": n, "step": name, "alone": alone, "together": together})
    numba.set_num_threads(cores)
    return lines


def cells(line):
    gains = np.divide(line["alone"], line["together"])
    return (
        f"{line['n']:,}",
        line["step"],
        f"{np.median(line['alone']):.3g}",
        f"{np.median(line['together']):.3g}",
        f"{np.median(gains):.2f} [{gains.min():.2f}, {gains.max():.2f}]",
    )


def write_docs(results, page: Path) -> None:
    rounds = len(results["lines"][0]["alone"])
    told = f"Medians of {rounds} rounds on {results['cores']} cores, {results['data']} vectors; ranges in brackets."
    table = ["| " + " | ".join(HEADER) + " |", "| ---: | --- | ---: | ---: | --- |"]
    table += ["| " + " | ".join(cells(line)) + " |" for line in results["lines"]]
    put_between(page, MARKS, f"{told}\n\n" + "\n".join(table))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[3_000, 10_000, 50_000])
    parser.add_argument("--data", choices=VECTORS, default="text-like")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("benchmark_cores.json"))
    parser.add_argument("--docs", type=Path, help="a page whose table is written again from the JSON")
    args = parser.parse_args()
    if args.docs:
        write_docs(json.loads(args.json.read_text()), args.docs)
        return
    results = {"cores": numba.config.NUMBA_NUM_THREADS, "data": args.data, "lines": []}
    for n in args.sizes:
        results["lines"] += measure(n, args.data, args.rounds)
        write_whole(args.json, json.dumps(results, indent=1) + "\n")
    table = Table(title=f"What the other cores bring, k = {K}")
    for column in HEADER:
        table.add_column(column, justify="left" if column in ("step", "gain") else "right")
    for line in results["lines"]:
        table.add_row(*cells(line))
    console.print(table)
    console.print(f"figures: {args.json}")


if __name__ == "__main__":
    main()
