"""What large builds cost, how that grew from one to a larger one, and what 100 million and 1 billion nodes would cost.

    asbc-build one_96.npy one_96 && asbc-build ten_96.npy ten_96 && asbc-build one_384.npy one_384
    python experiments/extrapolate.py one_384 --growth one_96 ten_96 --docs docs/scale.md

All numbers are read from ``timing.json`` and ``manifest.json`` of finished builds. Three Markdown tables are printed,
or put between their marks in a page: the builds; how each stage grew between the two of --growth, beside what one
would expect of it; and the first build carried on to larger sizes.

* One would expect that ``assign`` and ``neighbors`` cost n sqrt(n), since there are about 2 sqrt(n) lists, each row is
  compared with all their centroids, and lists of n / (2 sqrt(n)) rows are looked through; all else costs the same for
  every node.
* Sizes beyond are reckoned with the growth that was measured, stage by stage, where it is more than that of n.
* Core-seconds are seconds times cores: an upper bound, since a core that waited is counted too.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

from peers_table import put_between

from asbc.neighbors.lists import TRAINING_ROWS_PER_LIST
from asbc.neighbors.search import check_search

NODES, CORES = 100, 32  # machines of the cluster, cores of each
DISK = 1e9  # bytes per second that a machine reads from the shared file system
MEMORY = 256e9  # bytes of a machine, most of them free for the page cache
SEARCH = ("tune", "train", "assign", "lists", "neighbors")
GRAPH = ("transpose", "graph", "join")
GROWS_FASTER = ("assign", "neighbors")  # stages that are expected to cost n sqrt(n), where the others cost n
SERIAL = ("tune", "train", "lists", "join")  # stages that the driver of a cluster does alone
SHORT_SECONDS = 2.0  # a stage that took less in the smaller build does not tell how it grows
MARKS = {
    name: (f"<!-- {name}: made by experiments/extrapolate.py --docs -->", f"<!-- end of {name} -->")
    for name in ("builds", "growth", "larger")
}


@dataclass(frozen=True)
class Build:
    """A finished build: its size and settings, the seconds of its stages, and what it took."""

    n: int
    d: int
    k: int
    dtype: str
    stages: dict[str, float]
    total: float
    cores: int
    peak: float
    recall: dict | None
    edges: float
    options: dict

    @classmethod
    def read(cls, folder: Path) -> Build:
        timing, manifest = (json.loads((folder / name).read_text()) for name in ("timing.json", "manifest.json"))
        sizes = manifest["n"], manifest["d"], manifest["k"], manifest["dtype"]
        took = timing["seconds"], timing["total_seconds"], timing["cores"], timing["peak_bytes"] / 2**30
        edges = manifest["edges"] / manifest["n"]
        return cls(*sizes, *took, manifest["recall"], edges, manifest["search_used"]["options"])

    def seconds(self, *stages: str) -> float:
        return sum(self.stages.get(stage, 0.0) for stage in stages)


def table(header, rows):
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def table_of_builds(builds: list[Build]) -> str:
    header = [
        "vectors",
        "end to end",
        "search",
        "dimension + sigma + NNK",
        "graph",
        "peak memory",
        "recall@30",
        "lists",
    ]
    rows = []
    for b in builds:
        recall = "" if b.recall is None else f"{b.recall['value']:.4f} (asked {b.recall['target']:g})"
        lists = f"{b.options['n_probe']} of {b.options['n_lists']:,}" if "n_probe" in b.options else "exact"
        times = (b.total, b.seconds(*SEARCH), b.seconds("rows"), b.seconds(*GRAPH))
        cells = [f"{seconds:.0f} s" for seconds in times]
        rows.append([f"{b.n:,} x {b.d} {b.dtype}", *cells, f"{b.peak:.1f} GiB", recall, lists])
    return table(header, rows)


def expected_growth(stage: str, times: float) -> float:
    return times**1.5 if stage in GROWS_FASTER else times


def table_of_growth(small: Build, large: Build) -> str:
    times = large.n / small.n
    header = ["stage", f"{small.n:,}", f"{large.n:,}", "grew", "expected", "grew / expected"]
    rows = []
    for stage, before in small.stages.items():
        after = large.stages.get(stage)
        if after is None or before < SHORT_SECONDS:
            continue
        grew, expected = after / before, expected_growth(stage, times)
        cells = [f"{before:.1f} s", f"{after:.1f} s", f"{grew:.1f}", f"{expected:.1f}", f"{grew / expected:.2f}"]
        rows.append([stage, *cells])
    return table(header, rows)


def exponent(stage: str, small: Build, large: Build) -> float:
    """How the cost of a stage grows with n: measured, where that can be told, and at least as n does."""
    before, after = small.stages.get(stage, 0.0), large.stages.get(stage, 0.0)
    if before < SHORT_SECONDS or not after:
        return 1.5 if stage in GROWS_FASTER else 1.0
    return max(1.0, math.log(after / before) / math.log(large.n / small.n))


def bytes_per_node(build: Build, wide: bool, probes: int) -> dict[str, float]:
    """Before symmetrising there are about two thirds of the edges of the finished graph."""
    index = 8 if wide else 4
    k, edges = build.k, build.edges
    return {
        "vectors": 4 * build.d,
        "lists (scratch)": 4 * build.d + 8 + 2 * 4 * probes,
        "parts (scratch)": k * (16 + 8 + 8) + 24 * edges / 1.5 + 16 * edges + 49,
        "result": k * (index + 16) + 41 + (8 + index) * edges + index,
    }


def at_size(n: int, base: Build, small: Build, large: Build) -> dict[str, str]:
    stages = {
        stage: seconds * base.cores * (n / base.n) ** exponent(stage, small, large)
        for stage, seconds in base.stages.items()
        if stage != "recall"
    }
    probes = round(
        base.options["n_probe"] * (large.options["n_probe"] / small.options["n_probe"]) ** math.log10(n / base.n)
    )
    sizes = bytes_per_node(base, wide=n * base.edges >= 2**31, probes=probes)
    n_lists = check_search("ivf", n, {})["n_lists"]
    search = sum(stages.get(name, 0.0) for name in SEARCH)
    parallel = sum(value for name, value in stages.items() if name not in SERIAL)
    on_driver = sum(stages.get(name, 0.0) for name in SERIAL if name != "join") / CORES + n * sizes["result"] * 2 / DISK
    lists = n * sizes["lists (scratch)"]
    fits = lists + n * sizes["vectors"] < MEMORY * 0.9
    read = lists + n * sizes["vectors"]  # by every machine, once, if it fits into its page cache
    network = f"{short(read * NODES / 1e12)} TB, {short(read / DISK / 60)} min" if fits else "see below"
    return {
        "nodes": f"{n:,}",
        "inverted lists": f"{n_lists:,} of {n / n_lists:,.0f} rows",
        "of them scanned per node": f"{probes}",
        "vectors": f"{short(n * sizes['vectors'] / 1e9)} GB",
        "scratch at most": f"{short(n * (sizes['lists (scratch)'] + sizes['parts (scratch)']) / 1e9)} GB",
        "result": f"{short(n * sizes['result'] / 1e9)} GB",
        "memory of the driver": f"{short((n * 40 + TRAINING_ROWS_PER_LIST * n_lists * 4 * base.d) / 1e9)} GB",
        "search": f"{short(search / 3600)} core-hours",
        "dimension + sigma + NNK": f"{short(stages['rows'] / 3600)} core-hours",
        "all stages": f"{short(sum(stages.values()) / 3600)} core-hours",
        f"{NODES} x {CORES} cores, compute": f"{short(parallel / (NODES * CORES) / 60)} min",
        "steps of the driver alone": f"{short(on_driver / 60)} min",
        "lists and vectors fit a machine's memory": "yes" if fits else "no",
        "read over the network": network,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", type=Path, help="folder of the build that is carried on")
    parser.add_argument("--growth", type=Path, nargs=2, required=True, help="folders of a smaller and a larger build")
    parser.add_argument("--docs", type=Path, help="a page whose tables are written again instead of printed")
    args = parser.parse_args()
    base, small, large = map(Build.read, (args.base, *args.growth))
    columns = [at_size(n, base, small, large) for n in (base.n, 10**8, 10**9)]
    header, *rows = [[name, *(column[name] for column in columns)] for name in columns[0]]
    tables = {
        "builds": table_of_builds([base, small, large]),
        "growth": table_of_growth(small, large),
        "larger": table(header, rows),
    }
    for name, text in tables.items():
        if args.docs:
            put_between(args.docs, MARKS[name], text)
        else:
            print(f"{text}\n")


if __name__ == "__main__":
    main()
