"""What is shown of the figures of benchmark_peers.py: its table, and its plot of time against recall."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from rich.table import Table

MARKS = "<!-- peers: made by experiments/benchmark_peers.py --docs -->", "<!-- end of peers -->"


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


def as_table(results, title):
    """The table for a terminal."""
    table = Table(title=title)
    for column in HEADER:
        table.add_column(column, justify="right" if column in ("nodes", "seconds", "CPU s", "recall") else "left")
    for line in results["lines"]:
        table.add_row(*cells(line))
    return table


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


def draw(results, k: int, path: Path) -> None:
    """Seconds against recall, a row of panels for each size and one panel for each kind of vectors."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    searches = [line for line in results["lines"] if line["group"] == "search" and line["recall"]]
    shapes = sorted({(line["n"], line["d"]) for line in searches if line["name"].startswith("asbc lists")})
    if not shapes:
        return
    kinds = list(dict.fromkeys(line["data"] for line in searches))
    size = 4.2 * len(kinds), 3.3 * len(shapes)
    figure, axes = plt.subplots(len(shapes), len(kinds), figsize=size, constrained_layout=True, squeeze=False)
    for row, (n, d) in zip(axes, shapes, strict=True):
        for axis, data in zip(row, kinds, strict=True):
            lines = [line for line in searches if (line["n"], line["d"], line["data"]) == (n, d, data)]
            axis.set_visible(bool(lines))  # a kind of vectors that was not measured at this size has no panel
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
        axis.set_xlabel(f"recall@{k}")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


GRAPHS = ("asbc NNK-sigma", "UMAP fuzzy_simplicial_set", "GraphLearning weightmatrix.knn")
SEARCHES = ("asbc lists .98", "faiss IVF .98", "faiss HNSW .98", "pynndescent")


def draw_speed(page: Path, path: Path, data: str = "text-like") -> None:
    """Draw seconds against nodes for whole graphs and for searches, from the table of the page."""
    from matplotlib.figure import Figure

    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.read_text().splitlines()]
    times = {(row[2], row[0]): float(row[3]) for row in rows if len(row) == len(HEADER) and row[1] == data}
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axis, group, names in zip(figure.subplots(1, 2), ("graph", "search"), (GRAPHS, SEARCHES), strict=True):
        for name in names:
            points = [
                (int(n.split()[0].replace(",", "")), s) for (what, n), s in times.items() if what == f"{group}: {name}"
            ]
            if points:
                axis.plot(*zip(*sorted(points), strict=True), "o-", label=name)
        title = "whole graph" if group == "graph" else "search, recall 0.98"
        axis.set(xscale="log", yscale="log", xlabel="nodes", title=title)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
        axis.yaxis.set_major_formatter("{x:g}")
    figure.axes[0].set_ylabel("seconds")
    figure.savefig(path, dpi=110)
