"""Beside what a user would pick instead: one table, the last part of `make bench`.

    python experiments/benchmark_peers.py              3,000, 20,000 and 100,000 vectors of 384 numbers
    python experiments/benchmark_peers.py --full       also 1,000,000
    python experiments/benchmark_peers.py --sizes 20000 --columns 512 --lines "product|exact|flat" --rounds 9

Every contestant has a process of its own, which maps the same vectors and warms up. Then they take turns, one run each
in every round, so that whatever else the machine does falls on all of them; a line of the table shows the median over
rounds of the ratio to the line that it is compared with, and the least and largest ratio. An index is rebuilt in
every round. An inverted file or small-world graph of faiss serves all its lines in that round: the time of a line is
that of the build and of its own search, and where two recalls take the same breadth, one search serves both. These are
tuned to their recalls on the index of the first round, untimed; the tuning of ours is part of what is timed.
Results go to benchmark_peers.json after every run, where the lines that were run take the place of earlier ones and
others stay; the plot of time against recall goes to the folder of --output, and --docs
docs/benchmarks.md writes the table and the plots of that page from the JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
from peers_lines import LINES, MANY, VECTORS, K, contestants, faiss_index, faiss_search
from peers_table import as_table, draw, draw_speed, write_docs, write_whole
from rich.console import Console

SAMPLE = 1000  # nodes that recall is measured on
# Seconds before each run: threads of BLAS and OpenMP go on spinning for a while after their work is done, and whoever
# came next would have to share a core with them.
PAUSE = 0.3


# --- one contestant's process -----------------------------------------------------------------------------------------


def timed(call):
    """What it gives, and what it takes."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = call()
    return result, {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def recall_of(found, exact):
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact, strict=True)]) / K)


def usual_rounds(n):
    """One of a million vectors takes long."""
    return 1 if n > MANY else 5


def rows_to_warm_up(n):
    """So many, where there is one round, that our search takes lists as it will then: nothing is left to compile."""
    return 50_000 if usual_rounds(n) == 1 else 3_000


def one_line(X, line, sample, exact):
    """A round of a line that has its process to itself: what it answers, in a list of one."""
    line.make(X[: rows_to_warm_up(len(X))], **line.options)()  # imports and compiles
    call = line.make(X, **line.options)

    def run():
        found, spent = timed(call)
        recall = recall_of(found[sample], exact) if isinstance(found, np.ndarray) else None
        return [{**spent, "recall": recall, "settings": {}}]

    return run


def set_breadth(index, kind, breadth):
    """How far a search looks: lists of an inverted file, candidates of a small-world graph."""
    if kind == "ivf":
        index.nprobe = breadth
    else:
        index.hnsw.efSearch = breadth


def tuned(index, kind, targets, queries, exact):
    """The least breadths in a ladder at which faiss reaches the recalls, which ascend, on a sample."""
    breadth, breadths = 1 if kind == "ivf" else 32, []
    for target in targets:
        while breadth < 4096:
            set_breadth(index, kind, breadth)
            if recall_of(index.search(queries, K + 1)[1], exact) >= target:
                break
            breadth = max(breadth + 1, int(breadth * 1.1))
        breadths.append(breadth)
    return breadths


def one_index(X, kind, targets, sample, exact):
    """A round of all lines of a kind of index: built once, it is searched as each line wants it.

    What a line takes is the build and its own search. The first round tunes after the build, which is not timed.
    """
    faiss_search(X[:3000], kind)()  # imports
    breadths = []

    def run():
        index, build = timed(lambda: faiss_index(X, kind))
        if not breadths:
            breadths.extend(tuned(index, kind, targets, X[sample], exact))
        answers = {}
        for breadth in sorted(set(breadths)):
            set_breadth(index, kind, breadth)
            found, search = timed(lambda: index.search(X, K + 1)[1])
            spent = {of: build[of] + search[of] for of in build}
            settings = {"kind": kind, "breadth": breadth, "build_seconds": build["seconds"]}
            answers[breadth] = {**spent, "recall": recall_of(found[sample], exact), "settings": settings}
        return [answers[breadth] for breadth in breadths]

    return run


def requests():
    """What is asked for on standard input. When that is closed the process ends, in the middle of a run as well."""
    asked = queue.SimpleQueue()

    def listen():
        for request in sys.stdin:
            asked.put(request.strip())
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    return iter(asked.get, None)


def work(names, folder: Path) -> None:
    """Answer every request with a round of these lines, which are one process's."""
    warnings.simplefilter("ignore")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    asked = requests()
    # All processes share the pages of the file; copy on write, because some libraries compile again for what they must
    # not write to.
    X = np.asarray(np.load(folder / "vectors.npy", mmap_mode="c"))
    X.max()  # so that no run is the first to read it
    sample, exact = np.load(folder / "sample.npy"), np.load(folder / "exact.npy")
    lines = [LINES[name] for name in names]
    if lines[0].target is None:
        run = one_line(X, lines[0], sample, exact)
    else:
        run = one_index(X, lines[0].options["kind"], [line.target for line in lines], sample, exact)
    print("ready", file=output, flush=True)
    for _ in asked:
        print(json.dumps(run()), file=output, flush=True)


class Contestant:
    """A process that runs the lines of these names."""

    def __init__(self, names, folder):
        self.names = names
        command = [sys.executable, __file__, "--folder", str(folder), "--work", *names]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _answer(self):
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process of {', '.join(self.names)} ended before it answered")
        return answer

    def wait(self):
        """Until it is warm."""
        self._answer()

    def run(self):
        """One round: for each name, what was spent and found."""
        time.sleep(PAUSE)
        self._process.stdin.write("run\n")
        self._process.stdin.flush()
        return dict(zip(self.names, json.loads(self._answer()), strict=True))

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


# --- all of them ------------------------------------------------------------------------------------------------------


def write_vectors(folder: Path, n, d, data):
    """The vectors, and a sample of them with its exact neighbours, which all processes read."""
    import asbc

    X = VECTORS[data](n, d)
    sample = np.sort(np.random.default_rng(1).choice(n, min(n, SAMPLE), replace=False))
    near = asbc.search_neighbors(X, K + 1, queries=X[sample]).indices
    exact = np.array([row[row != node][:K] for row, node in zip(near, sample, strict=True)])
    for name, array in (("vectors", X), ("sample", sample), ("exact", exact)):
        np.save(folder / f"{name}.npy", array)


def compete(n, d, data, rounds, rows):
    """Lines of the table for n vectors of one kind, of d columns: those run so far, written after every run."""
    names = {}
    for row in rows:
        names.setdefault(row.process, []).append(row.name)
    answers = {row.name: [] for row in rows}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        write_vectors(Path(temporary), n, d, data)
        everyone = []
        for shared in names.values():
            everyone.append(stack.enter_context(closing(Contestant(shared, Path(temporary)))))
            everyone[-1].wait()  # one by one: each of them warms up on all cores
        for _ in range(rounds):
            for one in everyone:
                for name, answer in one.run().items():
                    answers[name].append(answer)
                    print(f"{n:,} x {d} {data}: {name}, {answer['seconds']:.3g} s", file=sys.stderr, flush=True)
                yield [table_line(row, answers, n=n, d=d, data=data) for row in rows if answers[row.name]]


def table_line(row, answers, **known):
    """A line with all rounds that it has, and the ratios of those that the line beside it has too."""
    mine, theirs = answers[row.name], answers.get(row.against, [])
    line = {**known, "group": row.group, "name": row.name, "recall": mine[-1]["recall"], "against": row.against}
    for of in ("seconds", "cpu"):
        line[of] = [answer[of] for answer in mine]
        if theirs:
            line[f"{of}_ratio"] = [a[of] / b[of] for a, b in zip(mine, theirs, strict=False)]
    return {**line, "settings": mine[-1]["settings"], "load": os.getloadavg()[0]}


def merged(before, now):
    """All lines, those of this run instead of earlier ones of the same name, in order of size and kind of vectors."""
    place = {name: number for number, name in enumerate(LINES)}
    lines = {(x["n"], x["d"], list(VECTORS).index(x["data"]), place[x["name"]]): x for x in [*before, *now]}
    return [lines[key] for key in sorted(lines)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="1,000,000 vectors too")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of vectors instead of the usual ones")
    parser.add_argument("--columns", type=int, default=384)
    parser.add_argument("--data", choices=VECTORS, nargs="+", default=list(VECTORS))
    parser.add_argument("--lines", default="", help="a regular expression: only lines whose names match it")
    parser.add_argument("--rounds", type=int, help=f"5 unless given, and 1 beyond {MANY:,} vectors")
    parser.add_argument("--json", type=Path, default=Path("benchmark_peers.json"))
    parser.add_argument("--output", type=Path, default=Path("outputs/benchmark_peers"), help="folder of the plot")
    parser.add_argument(
        "--docs",
        type=Path,
        help="a page whose table, and the plot next to it, are written again from the JSON; nothing is measured",
    )
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work is not None:
        work(args.work, args.folder)
        return
    if args.docs:
        results = json.loads(args.json.read_text())
        write_docs(results, args.docs)
        draw(results, K, args.docs.parent / "recall.png")
        draw_speed(args.docs, args.docs.parent / "speed.png")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the vectors on disk are removed
    args.output.mkdir(parents=True, exist_ok=True)
    before = json.loads(args.json.read_text())["lines"] if args.json.is_file() else []
    results = {"cores": os.cpu_count(), "lines": before}
    for n in args.sizes or [3_000, 20_000, 100_000, *([1_000_000] if args.full else [])]:
        rounds = args.rounds or usual_rounds(n)
        rows = contestants(n, args.lines)
        for data in args.data if rows else ():
            for now in compete(n, args.columns, data, rounds, rows):
                results["lines"] = merged(results["lines"], now)
                write_whole(args.json, json.dumps(results, indent=1) + "\n")
    console = Console(width=150)
    console.print(as_table(results, f"asbc and other libraries, k = {K}"))
    draw(results, K, args.output / "recall.png")
    console.print(f"figures: {args.json}, {args.output / 'recall.png'}")


if __name__ == "__main__":
    main()
