"""Carry the measured cost of a build on to 100 million and 1 billion nodes.

    python experiments/extrapolate.py benchmark_scale.json

Reads the largest local build in the benchmark's file and prints a Markdown table. The rules it uses:

* ``rows``, ``lists``, ``check``, ``transpose``, ``graph`` and ``join`` cost the same for every node.
* With ``2 sqrt(n)`` lists, choosing lists takes n sqrt(n) products of length d, and so does looking through them: the
  cost of ``assign`` and ``neighbors`` per node grows like the root of n. So do the rounds of ``train`` per list, whose
  total grows like n.
* Recall at a fixed number of probes falls slowly with n. Beyond the measured size, twice the probes are taken, and
  the whole of ``neighbors`` is counted twice.
* Core-seconds are seconds times cores: an upper bound, since a core that waited is counted too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from asbc.neighbors.lists import TRAINING_ROWS_PER_LIST
from asbc.neighbors.search import check_search

D, K, NODES, CORES = 384, 30, 100, 32  # columns, neighbours, machines of the cluster, cores of each
MEASURED_PROBES, PROBES = 8, 16  # lists that a row looks at: in the measured build, and beyond its size
DISK = 1e9  # bytes per second that a machine reads from the shared file system
MEMORY = 256e9  # bytes of a machine, most of them free for the page cache


def core_seconds(build: dict, cores: int, n: float) -> dict[str, float]:
    """Of each stage at n nodes."""
    growth = n / build["n"]
    linear = {"check", "lists", "order", "rows", "transpose", "graph", "join", "train"}
    stages = {name: value for name, value in build["stages"].items() if name != "recall"}
    found = {name: value * cores * growth * (1.0 if name in linear else growth**0.5) for name, value in stages.items()}
    if growth > 1:
        found["neighbors"] *= PROBES / MEASURED_PROBES
    return found


def bytes_per_node(edges: float, wide: bool, probes: int) -> dict[str, float]:
    """`edges` are those of the finished graph; before symmetrising there are about as many as NNK keeps."""
    index = 8 if wide else 4
    return {
        "vectors": 4 * D,
        "lists (scratch)": 4 * D + 8 + 2 * 4 * probes,
        "parts (scratch)": K * (16 + 8 + 8) + 24 * edges / 1.5 + 16 * edges + 49,
        "result": K * (index + 16) + 41 + (8 + index) * edges + index,
    }


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def describe(build: dict, cores: int, n: int) -> dict[str, str]:
    stages = core_seconds(build, cores, n)
    probes = MEASURED_PROBES if n == build["n"] else PROBES
    sizes = bytes_per_node(build["edges_per_node"], wide=n * build["edges_per_node"] >= 2**31, probes=probes)
    n_lists = check_search("ivf", n, {})["n_lists"]
    total = sum(stages.values())
    search = sum(stages.get(name, 0.0) for name in ("train", "assign", "order", "lists", "neighbors"))
    serial = {"train", "order", "join"}
    parallel = sum(value for name, value in stages.items() if name not in serial)
    on_driver = sum(stages.get(name, 0.0) for name in serial - {"join"}) / CORES + n * sizes["result"] * 2 / DISK
    lists = n * sizes["lists (scratch)"]
    fits = lists + n * sizes["vectors"] < MEMORY * 0.9
    hours = 3600.0
    # Every machine reads all lists and all vectors once if they fit into its page cache.
    read = (lists + n * sizes["vectors"]) * NODES
    text = {
        "nodes": f"{n:,}",
        "inverted lists": f"{n_lists:,} of {n / n_lists:,.0f} rows",
        "vectors": f"{short(n * sizes['vectors'] / 1e9)} GB",
        "scratch at most": f"{short(n * (sizes['lists (scratch)'] + sizes['parts (scratch)']) / 1e9)} GB",
        "result": f"{short(n * sizes['result'] / 1e9)} GB",
        "memory of the driver": f"{short((n * 40 + TRAINING_ROWS_PER_LIST * n_lists * 4 * D) / 1e9)} GB",
        "search": f"{short(search / hours)} core-hours",
        "dimension + sigma + NNK": f"{short(stages['rows'] / hours)} core-hours",
        "all stages": f"{short(total / hours)} core-hours",
        f"{NODES} x {CORES} cores, compute": f"{short(parallel / (NODES * CORES) / 60)} min",
        "steps of the driver alone": f"{short(on_driver / 60)} min",
        "lists and vectors fit a machine's memory": "yes" if fits else "no",
        "read over the network": f"{short(read / 1e12)} TB, {short(read / NODES / DISK / 60)} min"
        if fits
        else "see below",
    }
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, nargs="?", default=Path("benchmark_scale.json"))
    results = json.loads(parser.parse_args().json.read_text())
    build = max((b for b in results["builds"] if b["engine"] == "local"), key=lambda b: b["n"])
    columns = [describe(build, results["machine"]["cores"], n) for n in (build["n"], 10**8, 10**9)]
    rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    print("| " + " | ".join(rows[0]) + " |")
    print("| --- " + "| ---: " * len(columns) + "|")
    for row in rows[1:]:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
