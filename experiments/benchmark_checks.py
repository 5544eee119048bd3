"""What the checks cost that keep damage and mistakes from going unseen, as shares of the work they belong to.

Part of `make bench`; alone: ``python experiments/benchmark_checks.py``.
"""

from __future__ import annotations

import tempfile
import threading
import time
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import asbc
from asbc.neighbors.types import check_neighbors, check_type
from asbc.storage import read_table, write_table
from asbc.validation import as_vectors, weight_rows

MOST = 0.02  # of the work that a check belongs to


@contextmanager
def time_in_checksums():
    """A list that holds, at its end, the seconds spent in ``zlib.crc32`` by all threads."""
    spent, plain, lock = [0.0], zlib.crc32, threading.Lock()

    def timed(*arguments):
        start = time.perf_counter()
        found = plain(*arguments)
        with lock:
            spent[0] += time.perf_counter() - start
        return found

    zlib.crc32 = timed
    try:
        yield spent
    finally:
        zlib.crc32 = plain


def checks(report, seconds, X):
    """Add a row per kind of check; `seconds` times a call, the least of a few."""

    def add(what, check, work, **details):
        share = check / work
        report.add(what, f"{share:.2%}", f"<= {MOST:.0%}", share <= MOST, value=share, seconds=[check, work], **details)

    n, d = X.shape
    found = asbc.search_neighbors(X, 30)
    weights = asbc.uniform_weights(found)

    def door():  # an object of its own each time, since each is looked through once
        neighbors = asbc.Neighbors(found.indices, found.distances)
        check_type(neighbors)
        check_neighbors(as_vectors(X), neighbors)
        weight_rows(weights, found.indices.shape)

    def graph():
        dimension = asbc.dim_mst(X, found)
        sigma = asbc.SpectralBandwidth().select(X, found, dimension).sigma
        asbc.to_graph(found, asbc.nnk_weights(X, found, sigma))

    add(
        f"arguments looked through at {n} x {d}, against dimension + sigma + NNK + graph", seconds(door), seconds(graph)
    )
    search = seconds(lambda: asbc.search_neighbors(X, 30))
    add(f"vectors looked through at {n} x {d}, against the exact search", seconds(lambda: as_vectors(X)), search)

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", X)
        best = (1.0, np.inf)
        for number in range(3):
            start = time.perf_counter()
            with time_in_checksums() as spent:
                asbc.build_graph(
                    f"{folder}/x.npy", f"{folder}/{number}", asbc.GraphBuilder(metric="euclidean"), search="exact"
                )
            best = min(best, (spent[0], time.perf_counter() - start), key=lambda pair: pair[1])
        add(f"checksums while asbc-build builds {n} x {d}", *best)
        place = f"{folder}/0"

        def opened(verify):
            asbc.load_graph(place, verify=verify), asbc.load_nodes(place, verify=verify)
            asbc.load_rows(place, verify=verify)

        add(
            "a finished graph opened, indices looked through, against its build",
            seconds(lambda: opened(False)),
            best[1],
        )
        add("a finished graph opened with verify=True, against its build", seconds(lambda: opened(True)), best[1])

        rng = np.random.default_rng(0)
        rows = pd.DataFrame({"method": rng.choice(["knn", "nnk"], 500), "value": rng.random(500)})
        table, path = pa.Table.from_pandas(rows), Path(folder, "rows.parquet")

        def checked():
            read_table(path, write_table(path, rows))

        def plain():
            pq.write_table(table, path, compression="zstd")
            pq.read_table(path).to_pandas()

        extra = max(0.0, seconds(checked, 9) - seconds(plain, 9))
        unit = seconds(lambda: asbc.GraphBuilder(metric="euclidean").fit(X[:3000]))
        add("rows of a unit written and read with checksums, against a graph of 3,000 nodes", extra, unit)


if __name__ == "__main__":
    from benchmark import Report, seconds, surface

    report = Report()
    checks(report, seconds, surface(20_000, 512))
