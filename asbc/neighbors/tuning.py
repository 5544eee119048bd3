"""How far a search must look to find the share of neighbours that is asked for, and whether exact search costs less."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.distances import listed_distances
from asbc.neighbors.exact import exact_distances
from asbc.neighbors.glance import draw_some, share_looked_at, try_outlines
from asbc.neighbors.lists import nearest_lists
from asbc.neighbors.outline import Outlining, worth_finding
from asbc.neighbors.recall import nodes_measured, recall_of
from asbc.validation import Floats

FEWEST_TRIED, MOST_TRIED = 200, 1000  # nodes whose exact neighbours are found first: one of 200, within these limits
SIZED_ROWS_PER_LIST = 4  # rows, for each list, that tell how long the lists will be
# What a search costs is counted in multiplications, at the speed of large matrix products. These four numbers were
# fitted to measured times by experiments/benchmark_recall.py --costs; they explain most of them within a fifth.
# LOOK: to see whether a product brings two rows near each other, and to keep it if so, in exact search.
# SCAN: the same in lists, whose products are smaller.
# PREPARED: to put the rows in order before exact search, for each number of a row.
# FILED: to train lists, file rows in them and tune the number that is looked at, for each row.
LOOK = 58.0
SCAN = 158.0
PREPARED = 3070.0
FILED = 394_000.0
# Lists are trained where they are expected to cost at most this share of exact search. It leaves room for what is
# expected of the two to be off by a fifth each.
LISTS_WORTH = 0.6
EXACT_ROWS = 20_000  # up to so many rows, "auto" searches exactly: it takes seconds
# The sample's recall must exceed the one asked for by so many standard errors: then, in 19 of 20 sets, all nodes
# together reach it.
CAUTION = 1.645
BREADTHS = (64, 128, 256, 512, 1024, 2048)  # candidates that a small-world graph is tried with, in turn


@dataclass(frozen=True)
class Decision:
    """How to search.

    Attributes
    ----------
    search : {"exact", "ivf", "hnsw", "nn_descent"}
    options : mapping
        All options of that search.
    target : float or None
        The recall that they were chosen for; None if exact, or if they were given.
    outlining : Outlining or None
        What was learned of outlines, which exact search then need not find; None if it finds them itself.
    """

    search: str
    options: Mapping[str, int] = field(default_factory=dict)
    target: float | None = None
    outlining: Outlining | None = field(default=None, compare=False, repr=False)

    def written(self) -> dict[str, Any]:
        """What is kept of it in a file: all but outlines, which only a search in memory takes."""
        return {"search": self.search, "options": dict(self.options), "target": self.target}


@dataclass(frozen=True)
class Tuning:
    """What was learned from the exact neighbours of a sample of nodes.

    Attributes
    ----------
    n_probe : int
        The fewest lists per node that reach the recall asked for, with some caution, on the sample.
    recall : float
        What they reach there.
    candidates : float
        Rows that they hold, on average.
    """

    n_probe: int
    recall: float
    candidates: float


def tune_probes(
    X: Floats,
    centroids: NDArray[np.float32],
    k: int,
    recall: float,
    seed: int,
) -> Tuning:
    """The fewest lists to look at for a recall, from the exact neighbours of a sample of nodes.

    A search in lists finds a neighbour if, and only if, the list that holds it is looked at. So the place of that list
    among all lists, ordered by distance from the node, tells for every number of lists at once what it would find.

    Parameters
    ----------
    X : (n, d) array
    centroids : (L, d) array
    k : int
    recall : float
        Within (0, 1].
    seed : int
        Of the sample. It is another sample than the one that recall is measured on afterwards.
    """
    n, n_lists = len(X), len(centroids)
    rng = np.random.default_rng([seed, n, 1])
    nodes = _sample(n, rng)
    vectors = np.ascontiguousarray(X[nodes])
    neighbors = exact_distances(X, vectors, k, nodes)[0]
    near, place = np.unique(neighbors, return_inverse=True)
    holder = nearest_lists(centroids, np.ascontiguousarray(X[near]), 1)[:, 0][place].reshape(len(nodes), k)
    order = nearest_lists(centroids, vectors, n_lists)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(n_lists, dtype=order.dtype)[None, :], axis=1)
    needed = np.take_along_axis(rank, holder, axis=1)
    counts = np.zeros((len(nodes), n_lists))
    np.add.at(counts, (np.arange(len(nodes))[:, None], needed), 1 / k)
    shares = np.cumsum(counts, axis=1)  # of its neighbours that a node finds in its nearest lists
    found = shares.mean(axis=0)
    surely = found - CAUTION * shares.std(axis=0, ddof=1) / np.sqrt(len(nodes))
    n_probe = min(int(np.argmax(np.append(surely, np.inf) >= recall - 1e-12)) + 1, n_lists)
    candidates = _rows_in_lists(X, centroids, order[:, :n_probe], rng)
    return Tuning(n_probe, float(found[n_probe - 1]), candidates)


def _sample(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return np.sort(rng.choice(n, min(n, nodes_tuned_on(n)), replace=False))


def nodes_tuned_on(n: int) -> int:
    """Nodes whose exact neighbours tell how far to look: one of 200, within limits."""
    return max(FEWEST_TRIED, min(MOST_TRIED, n // 200))


def cost_of_exact(n: int, d: int, asked: int | None = None, share: float = 1.0) -> float:
    """What exact search costs, in multiplications, among the rows of X (n, d).

    Of all rows together (`asked` is None), a product serves both of its rows, and takes `share` of its d
    multiplications: outlines spare the rest. Otherwise each of the vectors asked for is multiplied with every row.
    """
    products = n * n / 2 * (share * d + LOOK) if asked is None else asked * n * (d + LOOK)
    return products + n * PREPARED * d


def cost_of_lists(n: int, d: int, n_lists: int, candidates: float, asked: int | None = None) -> float:
    """What inverted lists of the rows of X (n, d) cost, in multiplications, where they give so many candidates.

    To each of the vectors asked for, that is, which are all rows if `asked` is None. Every row is also compared with
    every centroid, and with the nodes that the recall is tuned and measured on.
    """
    compared = n_lists + nodes_tuned_on(n) + nodes_measured(n)
    scanned = (n if asked is None else asked) * candidates
    return n * compared * (d + LOOK) + scanned * (d + SCAN) + n * FILED


def decide_lists(
    X: Floats,
    k: int,
    search: str,
    settings: Mapping[str, int],
    recall: float,
    seed: int,
    centroids: Callable[[], NDArray[np.float32]],
    asked: int | None = None,
) -> Decision:
    """Whether to search exactly or by inverted lists, and how many of them each node looks at.

    Parameters
    ----------
    X : (n, d) array
    k : int
    search : {"auto", "ivf"}
    settings : mapping
        As :func:`asbc.neighbors.options.check_search` gives them; with ``n_probe`` there is nothing to decide.
    recall : float
    seed : int
    centroids : function
        Called if lists seem worth it, for their centroids.
    asked : int or None, default=None
        How many vectors exact search would compare with every row: queries, or all rows block by block. None if it
        would search all rows together, which takes half the products, or less.
    """
    if "n_probe" in settings:
        return Decision("ivf", settings)
    if search == "auto" and len(X) <= EXACT_ROWS:
        return Decision("exact")
    n, d = X.shape
    if cost_of_lists(n, d, settings["n_lists"], k, asked) > LISTS_WORTH * cost_of_exact(n, d, asked):
        return Decision("exact")  # whatever the rows are
    some, near = draw_some(X, k, seed)
    outlining = None

    def dearer(candidates, limit):
        """Whether lists cost more than so many times exact search. What outlines spare is tried only if it decides."""
        nonlocal outlining
        lists = cost_of_lists(n, d, settings["n_lists"], candidates, asked) / limit
        if asked is not None or lists > cost_of_exact(n, d):
            return lists > cost_of_exact(n, d, asked)
        if lists <= cost_of_exact(n, d, share=0.0):
            return False
        outlining = outlining or try_outlines(some, near)
        return lists > cost_of_exact(n, d, share=min(1.0, outlining.cost))

    if not dearer(n * share_looked_at(some, near, settings["n_lists"], recall, seed), LISTS_WORTH):
        tuning = tune_probes(X, centroids(), k, recall, seed)
        if not dearer(tuning.candidates, 1.0):
            return Decision("ivf", {**settings, "n_probe": tuning.n_probe}, recall)
    if asked is None and outlining is None and worth_finding(n, d):
        outlining = try_outlines(some, near)  # in less time than exact search takes to find them among all rows
    return Decision("exact", outlining=outlining)


def decide_breadth(X: Floats, k: int, settings: Mapping[str, int], recall: float, seed: int, index) -> Decision:
    """How many candidates a small-world graph must keep while searching, tried on a sample of nodes."""
    if "ef_search" in settings:
        return Decision("hnsw", settings)
    nodes = _sample(len(X), np.random.default_rng([seed, len(X), 1]))
    vectors = np.ascontiguousarray(X[nodes])
    exact = exact_distances(X, vectors, k, nodes)[1]
    for breadth in BREADTHS:
        index.breadth = breadth
        ids = np.asarray(index.candidates(X, vectors, nodes, k + 1)[0])
        found = listed_distances(X, vectors, np.where(ids == nodes[:, None], -1, ids))
        if recall_of(np.sqrt(np.sort(found, axis=1)[:, :k]), exact).value >= recall:
            break
    return Decision("hnsw", {**settings, "ef_search": breadth}, recall)


def _rows_in_lists(X, centroids, order, rng) -> float:
    """How many rows the lists of a node hold, on average, judged by some rows of X."""
    n, n_lists = len(X), len(centroids)
    rows = np.sort(rng.choice(n, min(n, SIZED_ROWS_PER_LIST * n_lists), replace=False))
    labels = nearest_lists(centroids, np.ascontiguousarray(X[rows]), 1)[:, 0]
    sizes = np.bincount(labels, minlength=n_lists) * (n / len(rows))
    return float(sizes[order].sum(axis=1).mean())
