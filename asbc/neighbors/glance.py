"""At a glance: what share of all rows inverted lists would look at, and what share of its products exact search makes.

Some rows stand for all. The k / s nearest to a node among one of s rows are about as far from it as the k nearest among
all are, so they tell as well which lists it must look at. The same rows serve to place the lists, and to count what
these hold. All products run in tiles of a fixed size on one thread each, so that threads do not change what is told.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from asbc.kernels.threads import on_threads
from asbc.neighbors.lists import check_spread
from asbc.neighbors.outline import Outlining, best_outlining
from asbc.neighbors.products import TILE, squared_lengths
from asbc.validation import Floats

FEWEST_ROWS, MOST_ROWS = 2048, 65536  # rows that stand for all, at least and at most
NEIGHBORS, FEWEST_NODES = 256, 128  # neighbours that are looked for, and nodes that they are looked for of, at least
NODES_TOGETHER = 64  # nodes that are compared with the other rows together


def draw_some(X: Floats, k: int, seed: int) -> tuple[NDArray[np.float32], int]:
    """Rows (s, d) of X (n, d) that stand for all, seen from their mean, and which of them are near: the nearest few.

    As few rows as there can be while one of a node's k neighbours, on average, is still among them. Of very many rows
    fewer are drawn; the nearest is then somewhat farther than the k-th of all, and lists seem to cost more than so.
    """
    n = len(X)
    share = max(1, min(k, n // FEWEST_ROWS), n // MOST_ROWS)
    rows = X[np.sort(np.random.default_rng([seed, n, 2]).choice(n, n // share, replace=False))]
    check_spread(rows)
    some = rows.astype(np.float32)
    some -= some.mean(axis=0)
    return some, max(1, k // share)


def share_looked_at(some: NDArray[np.float32], near: int, n_lists: int, recall: float, seed: int) -> float:
    """The share of all rows that is in the lists that a node looks at for a recall, on average.

    The place of a neighbour's list among all lists, ordered by distance from the node, is the number of lists that
    must be looked at to find it.

    Parameters
    ----------
    some : (s, d) float32, near : int
        As :func:`draw_some` gives them.
    n_lists : int
    recall : float
        Within (0, 1].
    seed : int
    """
    rng = np.random.default_rng([seed, len(some), 3])
    count = max(FEWEST_NODES, NEIGHBORS // near)
    nodes = np.sort(rng.choice(len(some), min(count, len(some)), replace=False))
    centroids = some[np.sort(rng.choice(len(some), min(n_lists, len(some)), replace=False))]
    # One round of k-means: around rows drawn at random, lists would hold far too many rows.
    labels = _nearest(some, centroids)
    ones, ends = np.ones_like(some[:, 0]), np.arange(len(some) + 1)
    members = sparse.csr_array((ones, labels, ends), shape=(len(some), len(centroids)))
    counts = np.bincount(labels, minlength=len(centroids))
    present = counts > 0
    centroids[present] = (members.T @ some)[present] / counts[present, None]
    labels = _nearest(some, centroids)
    held = np.bincount(labels, minlength=len(centroids)) / len(some)

    places, shares = np.empty((len(nodes), near), np.int64), np.empty((len(nodes), len(centroids)))
    half, half_centroids = (0.5 * squared_lengths(rows) for rows in (some, centroids))

    def look(first):
        here = slice(first, first + NODES_TOGETHER)
        own = some[nodes[here]]
        apart = half - own @ some.T
        apart[np.arange(len(own)), nodes[here]] = np.inf
        neighbors = np.argpartition(apart, near - 1, axis=1)[:, :near]
        order = np.argsort(half_centroids - own @ centroids.T, axis=1)
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(len(centroids))[None, :], axis=1)
        places[here] = np.take_along_axis(place, labels[neighbors], axis=1)
        shares[here] = np.cumsum(held[order], axis=1)

    on_threads(range(0, len(nodes), NODES_TOGETHER), look)
    wanted = int(np.ceil(recall * places.size)) - 1
    return float(shares.mean(axis=0)[np.partition(places, wanted, axis=None)[wanted]])


def _nearest(rows: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int32]:
    """The centroid (s,) that is nearest to each row (s, d)."""
    half = 0.5 * squared_lengths(centroids)
    nearest = np.empty(len(rows), np.int32)

    def assign(start):
        here = slice(start, start + TILE)
        nearest[here] = np.argmin(half - rows[here] @ centroids.T, axis=1)

    on_threads(range(0, len(rows), TILE), assign)
    return nearest


def try_outlines(some: NDArray[np.float32], near: int) -> Outlining:
    """The best outlines for exact search of all rows, judged by those that :func:`draw_some` gives."""
    return best_outlining(some, 0.5 * squared_lengths(some), near + 1)  # a row is nearest to itself
