"""How fast the library is, as ratios measured in one run: `make bench`.

Every row compares two times of this process on this machine, both warm, so that the figure survives a slower or a
busier one. The counts and residuals beside them say that what is fast is also exact.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.semi_supervised import LabelSpreading

import asbc
from asbc.bandwidth.rule import geometric_grid
from asbc.dimension import subset_sizes
from asbc.evaluate import compare
from asbc.kernels import criterion
from asbc.kernels.lanes import LANES
from asbc.kernels.spectrum import WORK_PER_ROW, effective_ranks
from asbc.kernels.threads import run_ranges
from asbc.learn.labels import reveal
from asbc.neighbors.types import with_pairs
from asbc.rows import solve_rows

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from benchmark_checks import checks  # noqa: E402

from tests import twins  # noqa: E402  (the plain NumPy code that the library is checked against)

BARE_IMPORTS = (
    "numpy, numba, numba.extending, scipy.sparse, scipy.optimize, sklearn.base, sklearn.utils.validation, "
    "sklearn.utils.multiclass, threadpoolctl"
)


def seconds(call, repeat=3):
    """The least time of a few calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def surface(n, d, seed=0, pieces=50):
    """Embedding-like vectors: noisy patches of curved surfaces of 3 to 12 dimensions, scaled to unit length."""
    rng = np.random.default_rng(seed)
    X = np.empty((n, d), np.float32)
    for piece, rows in enumerate(np.array_split(np.arange(n), pieces)):
        latent = rng.normal(size=(len(rows), 3 + piece % 10))
        bend = np.concatenate([latent, np.sin(latent), latent**2 / 4], axis=1)
        X[rows] = (
            bend @ rng.normal(size=(bend.shape[1], d)) / 3 + rng.normal(size=d) + 0.3 * rng.normal(size=(len(rows), d))
        )
    return asbc.normalize(X[rng.permutation(n)])


def plain_node(X, row, d_row, sizes, rng):
    """Dimension, bandwidth and NNK weights of one node, the way one would write them with NumPy and SciPy."""
    squared = twins.squared_distances(X[row], X[row])
    D = np.sqrt(squared)
    y = np.zeros(len(sizes))
    for _ in range(5):
        order = rng.permutation(len(row))
        for s, size in enumerate(sizes):
            part = order[:size]
            y[s] += np.log(minimum_spanning_tree(D[np.ix_(part, part)]).sum() / (size - 1))
    slope = np.polyfit(np.log(sizes - 1.0), y / 5, 1)[0]
    dimension = np.clip(-1 / slope, 1, 200) if slope < 0 else 200.0
    grid = np.geomspace(0.05 * d_row[9], 3.0 * d_row[-1], 12)
    ranks = np.array([twins.effective_rank(twins.kernel(squared, s)) for s in grid])
    slopes = np.array([twins.slope(squared, s) for s in grid])
    J = np.abs(ranks - dimension) / dimension + (slopes.max() - slopes) / slopes.max()
    sigma = grid[np.argmin(J)]
    return twins.nnk(twins.kernel(squared, sigma), twins.kernel(d_row**2, sigma))


def plain_dropping(K, b):
    """NNK that only drops neighbours, one LAPACK Cholesky solve per round."""
    members = np.arange(len(b))
    while True:
        w = cho_solve(cho_factor(K[np.ix_(members, members)], check_finite=False), b[members], check_finite=False)
        if (w > 0).all():
            return members, w
        members = members[w > 0]


class Report:
    """Rows of the table, and the same as plain data."""

    def __init__(self):
        self.rows = []

    def add(self, what, figure, wanted, holds, **details):
        self.rows.append({"what": what, "figure": figure, "wanted": wanted, "holds": bool(holds), **details})
        mark = "[green]yes[/]" if holds else "[red]no[/]"
        Console().print(f"  {what}: [bold]{figure}[/] (wanted: {wanted}) {mark}", highlight=False)

    def table(self):
        table = Table("what", "measured", "wanted", "holds")
        for row in self.rows:
            table.add_row(row["what"], row["figure"], row["wanted"], "[green]yes[/]" if row["holds"] else "[red]no[/]")
        return table


def exactness(report, X, neighbors, dimension):
    """Eigenproblems, the pruned search against brute force, and optimality of NNK on every node."""
    k = neighbors.k
    for n_grid, limit in ((12, 3.5), (48, 10.0)):
        grid = geometric_grid(neighbors, n_grid, 10, 0.05, 3.0)
        pruned = criterion.search_grid(neighbors.pairs, grid, dimension, k)
        ranks, slopes, _ = np.array([criterion.evaluate_at(neighbors.pairs, sigma, k) for sigma in grid.T])
        flatness = (slopes.max(axis=0) - slopes) / slopes.max(axis=0)
        brute = np.argmin(np.abs(ranks - dimension) / dimension + flatness, axis=0)
        same = np.array_equal(pruned[0], brute)
        solved = float(pruned[5].mean())
        report.add(
            f"eigenproblems per node, grid of {n_grid}",
            f"{solved:.2f} (at most {pruned[5].max()})",
            f"<= {limit}",
            solved <= limit,
            value=solved,
        )
        report.add(
            f"nodes whose sigma differs from brute force, grid of {n_grid}",
            str(int((pruned[0] != brute).sum())),
            "0",
            same,
        )
    sigma = asbc.SpectralBandwidth().select(X, neighbors, dimension).sigma
    weights = asbc.nnk_weights(X, neighbors, sigma, k_min=0)
    dropped = asbc.nnk_weights(X, neighbors, sigma, k_min=0, solver="reference")
    residual, gap, differ = 0.0, -np.inf, 0
    for i in range(neighbors.n):
        K, b = twins.nnk_problem(X, neighbors.indices[i], neighbors.distances[i], sigma[i])
        residual = max(residual, twins.kkt_residual(K, b, weights[i]))
        gap = max(gap, twins.nnk_objective(K, b, weights[i]) - twins.nnk_objective(K, b, twins.nnk(K, b)))
        differ += not np.allclose(weights[i], dropped[i], atol=1e-9)
    report.add(
        "largest KKT residual of NNK over all nodes", f"{residual:.1e}", "<= 1e-8", residual <= 1e-8, value=residual
    )
    report.add("NNK objective above scipy's nnls by at most", f"{gap:.1e}", "<= 1e-8", gap <= 1e-8, value=gap)
    share = differ / neighbors.n
    report.add("nodes where only dropping misses the optimum", f"{share:.1%}", "(for information)", True, value=share)


def against_plain_loops(report, X, neighbors):
    """The library's three steps and NNK alone, against a Python loop over nodes."""
    bare = asbc.Neighbors(neighbors.indices, neighbors.distances)

    def steps():
        shared = with_pairs(X, bare)
        dimension = asbc.dim_mst(X, shared)
        sigma = asbc.SpectralBandwidth().select(X, shared, dimension).sigma
        return asbc.nnk_weights(X, shared, sigma, k_min=0), sigma

    _, sigma = steps()
    ours = seconds(steps, 5)
    rng = np.random.default_rng(0)
    sizes = subset_sizes(neighbors.k)
    some = np.linspace(0, neighbors.n - 1, 200).astype(int)
    start = time.perf_counter()
    for i in some:
        plain_node(X, neighbors.indices[i], neighbors.distances[i], sizes, rng)
    plain = (time.perf_counter() - start) / len(some) * neighbors.n
    report.add(
        f"dimension + sigma + NNK on {neighbors.n} nodes, times faster than a plain loop",
        f"{plain / ours:.0f}x",
        ">= 100x (aim 300x)",
        plain / ours >= 100,
        value=plain / ours,
        seconds=ours,
        plain_seconds=plain,
    )
    shared = with_pairs(X, bare)
    ours = seconds(lambda: asbc.nnk_weights(X, shared, sigma, k_min=0), 5)
    problems = [twins.nnk_problem(X, neighbors.indices[i], neighbors.distances[i], sigma[i]) for i in some]
    plain = seconds(lambda: [plain_dropping(K, b) for K, b in problems], 3) / len(some) * neighbors.n
    report.add(
        "exact NNK, times faster than dropping with LAPACK",
        f"{plain / ours:.0f}x",
        ">= 10x",
        plain / ours >= 10,
        value=plain / ours,
        seconds=ours,
        plain_seconds=plain,
    )


def search_and_steps(report, n, d):
    """Exact search against the matrix products it needs; everything else against the search."""
    X = surface(n, d)
    asbc.search_neighbors(X[:2000], 30)

    def products():
        for start in range(0, n, 1024):
            X[start : start + 1024] @ X.T

    products()
    bare = seconds(products)
    search = seconds(lambda: asbc.search_neighbors(X, 30), 3)
    report.add(
        f"exact search at {n} x {d}, against its bare matrix products",
        f"{search / bare:.2f}x",
        "<= 2x",
        search / bare <= 2,
        value=search / bare,
        seconds=search,
        product_seconds=bare,
    )
    neighbors = asbc.search_neighbors(X, 30)

    def steps():
        shared = with_pairs(X, neighbors)
        dimension = asbc.dim_mst(X, shared)
        asbc.nnk_weights(X, shared, asbc.SpectralBandwidth().select(X, shared, dimension).sigma)

    rest = seconds(steps, 3)
    report.add(
        f"dimension + sigma + NNK at {n} x {d}, against the exact search",
        f"{rest / search:.2f}x",
        "<= 1x",
        rest <= search,
        value=rest / search,
        seconds=rest,
    )


@numba.njit(nogil=True)
def solve_again(first, last, kernels, k, ranks):
    """Solve groups of eigenproblems, as many side by side as there are lanes."""
    A = np.empty(kernels.shape[1])
    work = np.empty(WORK_PER_ROW * k)
    for group in range(first, last):
        A[:] = kernels[group]
        effective_ranks(A, k, work, ranks[group])


def parts_of_the_rest(report, X, neighbors):
    """Microseconds per node of dimension, sigma and NNK, and how much of it goes into eigenvalues."""
    n, k = neighbors.n, neighbors.k
    bare = asbc.Neighbors(neighbors.indices, neighbors.distances)
    shared = with_pairs(X, bare)
    dimension = asbc.dim_mst(X, shared)
    grid = geometric_grid(shared, 12, 10, 0.05, 3.0)
    found = criterion.search_grid(shared.pairs, grid, dimension, k)
    sigma = grid[np.arange(n), found[0]]
    groups = n // LANES
    kernels = np.empty((groups, k * (k + 1) // 2, LANES))
    rows, columns = np.tril_indices(k)
    place = np.where(rows > columns, rows * (rows - 1) // 2 + columns, 0)
    for lane in range(LANES):
        nodes = np.arange(lane, groups * LANES, LANES)
        values = np.exp(-0.5 * shared.pairs[nodes][:, place] / sigma[nodes, None] ** 2)
        kernels[:, :, lane] = np.where(rows > columns, values, 1.0)
    kernels = kernels.reshape(groups, -1)
    ranks = np.empty((groups, LANES))
    solve_again(0, 1, kernels, k, ranks)

    steps = {
        "distances among neighbours": lambda: with_pairs(X, bare),
        "dimension": lambda: asbc.dim_mst(X, shared),
        "sigma": lambda: criterion.search_grid(shared.pairs, grid, dimension, k),
        "NNK": lambda: asbc.nnk_weights(X, shared, sigma),
        "one eigenproblem per node": lambda: run_ranges(solve_again, groups, kernels, k, ranks),
    }
    rounds = [[seconds(step, 1) for step in steps.values()] for _ in range(5)]
    per_node = dict(zip(steps, np.median(rounds, axis=0) / n * 1e6, strict=True))
    problem = per_node.pop("one eigenproblem per node")
    total, eigenvalues = sum(per_node.values()), problem * float(found[5].mean())
    share = eigenvalues / total
    parts = ", ".join(f"{name} {value:.1f}" for name, value in per_node.items())
    report.add(
        f"dimension + sigma + NNK per node, {n} x {X.shape[1]}",
        f"{total:.1f} us ({parts})",
        "<= 57 us",
        total <= 57,
        value=total,
        parts=per_node,
    )
    report.add(
        "eigenvalues' share of it", f"{share:.0%}", "<= 50%", share <= 0.5, value=share, microseconds=eigenvalues
    )


def growth(report, small, large, d=64):
    """Time and memory of everything but the search, at two sizes, measured in turns."""

    def prepare(n):
        # A hundred points per piece at either size: twice the points on one piece would be another geometry.
        X = surface(n, d, pieces=n // 100)
        return X, asbc.search_neighbors(X, 30)

    def together(X, neighbors):  # as GraphBuilder and asbc-build work: block by block, all steps on a block
        rows = solve_rows(X, neighbors, dimension=asbc.Dimension(), bandwidth=asbc.SpectralBandwidth(), weights="nnk")
        asbc.to_graph(neighbors, rows.weights)

    def one_by_one(X, neighbors):  # as one calls the functions: step by step, all nodes at each step
        choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
        asbc.to_graph(neighbors, asbc.nnk_weights(X, neighbors, choice.sigma))

    cases = [prepare(n) for n in (small, large)]
    by = large / small
    for how, steps in (("by GraphBuilder", together), ("by separate calls", one_by_one)):
        rounds = [[seconds(lambda case=case, steps=steps: steps(*case), 1) for case in cases] for _ in range(4)]
        times = np.min(rounds, axis=0)
        peaks = []
        for case in cases:
            tracemalloc.start()
            steps(*case)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        ratio, memory = times[1] / times[0], peaks[1] / peaks[0]
        report.add(
            f"time from {small} to {large} nodes, search apart, {how}",
            f"{ratio:.1f}x",
            f"<= {1.1 * by:.0f}x",
            ratio <= 1.1 * by,
            value=ratio,
            seconds=list(times),
        )
        report.add(
            f"peak memory from {small} to {large} nodes, inputs apart, {how}",
            f"{memory:.1f}x ({peaks[1] / large / 1024:.1f} kB per node)",
            f"<= {1.1 * by:.0f}x",
            memory <= 1.1 * by,
            value=memory,
        )


def import_time(report):
    """`import asbc` against the imports of other packages that it makes, each in fresh processes, in turn."""
    clock = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"

    def fresh(modules):
        run = [sys.executable, "-c", clock.format(modules)]
        return float(subprocess.run(run, capture_output=True, text=True, check=True, cwd=ROOT).stdout)

    times = np.array([[fresh("asbc"), fresh(BARE_IMPORTS)] for _ in range(6)])[1:]
    ratio = float(np.median(times[:, 0] / times[:, 1]))
    report.add(
        "import asbc, against the packages that it imports",
        f"{ratio:.2f}x",
        "<= 1.3x",
        ratio <= 1.3,
        value=ratio,
        seconds=times.tolist(),
    )


def few_labels(report, repeat=9):
    """GraphClassifier against scikit-learn's LabelSpreading on the bundled 3,000 sentences of 100 classes, in turns."""
    with np.load(ROOT / "asbc" / "data" / "clinc100.npz") as data:
        X, classes = asbc.normalize(data["embeddings"]), np.unique(data["labels"], return_inverse=True)[1]
    models = asbc.GraphClassifier(), LabelSpreading(kernel="knn", n_neighbors=30)
    for labels in (1, 5):
        taken = np.empty((repeat + 1, 2, 2))  # of wall and of processor time
        right = np.empty((repeat + 1, 2))
        for draw in range(repeat + 1):  # the first to warm up
            shown = reveal(classes, labels, seed=draw)
            y = np.where(shown, classes, -1)
            for number, model in enumerate(models):
                start = time.perf_counter(), time.process_time()
                model.fit(X, y)
                taken[draw, number] = time.perf_counter() - start[0], time.process_time() - start[1]
                right[draw, number] = (model.transduction_ == classes)[~shown].mean()
        ours, theirs = np.median(taken[1:], axis=0)
        gain = compare(right[:, 0], right[:, 1])
        what = f"GraphClassifier, {labels} label(s) per class, against LabelSpreading(knn, 30)"
        for name, mine, other in zip(("time", "processor time"), ours, theirs, strict=True):
            report.add(f"{what}: {name}", f"{mine / other:.2f}x", "<= 1x", mine <= other, value=mine / other)
        report.add(f"{what}: accuracy, paired", str(gain), "above 0", gain.low > 0, value=gain.difference)


def first_call(report):
    """A fresh process that imports the library and builds a graph on 1,000 nodes: compiling, then from the cache."""
    code = (
        "import time; start = time.perf_counter(); import numpy as np, asbc;"
        "asbc.GraphBuilder(metric='euclidean').fit(np.random.default_rng(0).normal(size=(1000, 64)).astype('f4'));"
        "print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as cache:
        run = [sys.executable, "-c", code]
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        cold, warm = (
            float(subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        )
    report.add(
        "import and build of 1,000 nodes in a fresh process",
        f"{warm:.1f} s",
        "<= 5 s",
        warm <= 5,
        value=warm,
    )
    report.add("the same with nothing compiled yet", f"{cold:.1f} s", "<= 12 s", cold <= 12, value=cold)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--embeddings",
        type=Path,
        help=".npy, or .npz with an array 'embeddings', for the first block; made up if not given",
    )
    parser.add_argument("--nodes", type=int, default=20_000, help="size of the search benchmark (default: %(default)s)")
    parser.add_argument("--growth", type=int, nargs=2, default=(5_000, 50_000), metavar=("SMALL", "LARGE"))
    parser.add_argument("--output", type=Path, default=Path("benchmark.json"), help="JSON file (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.embeddings is None:
        X = surface(3000, 384)
    else:
        loaded = np.load(arguments.embeddings)
        X = asbc.normalize(loaded if isinstance(loaded, np.ndarray) else loaded["embeddings"])
    console = Console()
    name = arguments.embeddings.name if arguments.embeddings else "made-up surfaces"
    console.print(
        f"{len(X)} x {X.shape[1]} vectors ({name}), {numba.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}"
    )
    report = Report()
    neighbors = with_pairs(X, asbc.search_neighbors(X, 30))
    dimension = asbc.dim_mst(X, neighbors)
    exactness(report, X, neighbors, dimension)
    against_plain_loops(report, X, neighbors)
    parts_of_the_rest(report, X, neighbors)
    search_and_steps(report, arguments.nodes, 512)
    checks(report, seconds, surface(arguments.nodes, 512))
    growth(report, *arguments.growth)
    import_time(report)
    few_labels(report)
    first_call(report)
    console.print(report.table())
    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "asbc": asbc.__version__,
    }
    record = {
        "data": name,
        "shape": X.shape,
        "threads": numba.get_num_threads(),
        "load": os.getloadavg(),
        **versions,
        "rows": report.rows,
    }
    temporary = arguments.output.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=1))
    os.replace(temporary, arguments.output)
    console.print(f"Written to {arguments.output}.")


if __name__ == "__main__":
    main()
