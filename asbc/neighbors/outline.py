"""Rows in a few coordinates: enough to tell of most pairs of rows that they are not near each other.

Seen from their mean, most embeddings lie mostly along a few directions. The outline of a row x is its coordinates along
m of them, and one more number, the length of what these leave out. The product of two outlines is never less than that
of the rows, because the parts that are left out have at most the product of their lengths. So where the outlines'
product is too small for two rows to be near, the rows' is too; and it takes m + 1 multiplications in place of d. Only
for the few pairs that are left are the rows themselves multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.threads import on_threads, products_alone

LADDER = (16, 32, 48, 64, 96, 128)  # numbers of directions that are tried
SUBSPACE_ROUNDS = 3  # of a power iteration; more would find directions that are hardly better
FEWEST_PRODUCTS = 2e10  # multiplications, by rows themselves, below which finding directions is not worth its time
DIRECTION_ROWS = 2048  # rows that the directions are found from, and that outlines are tried against
TRIED_ROWS = 64  # rows whose near ones are counted with outlines of every length
# What the product of two rows costs, alone, where one of the same length in a matrix product costs 1: about 6. Either
# row may call for it, and more pairs are left while the nearest rows so far are not yet the nearest of all.
ALONE = 16.0
OUTLINES_WORTH = 0.8  # outlines are used where they cost at most this share of the rows' own products
OUTLINED_ROWS = 512  # rows whose outlines are worked out together
TRIED_COLUMNS, TRIED_TOGETHER = 4096, 8  # rows that are compared with those tried, and rows tried, in one task


@dataclass(frozen=True)
class Outlining:
    """A way to outline rows, and what it costs.

    Attributes
    ----------
    directions : (d, m) float64 or None
        None where rows are too short, or too few, to be outlined.
    cost : float
        Of the products, where those of whole rows cost 1.
    """

    directions: NDArray[np.float64] | None = None
    cost: float = 1.0


def find_directions(
    rows: NDArray[Any], half: NDArray[Any], kept: int, known: Outlining | None = None
) -> NDArray[np.float64] | None:
    """The directions (d, m) that make finding the `kept` nearest of each row the quickest; None for no outlines.

    Parameters
    ----------
    rows : (n, d), half : (n,)
        The rows, seen from about their mean, and half their squared lengths.
    kept : int
    known : Outlining or None, default=None
        The best one, if it has been found before.

    Returns
    -------
    (d, m) float64, or None
        Chosen on samples. It decides how long the search takes, and nothing else.
    """
    n, d = rows.shape
    if known is None:
        if not worth_finding(n, d):
            return None
        known = best_outlining(rows, half, kept)
    return known.directions if known.cost < OUTLINES_WORTH else None


def worth_finding(n: int, d: int) -> bool:
    """Whether n rows of d numbers have so many products that exact search looks for outlines."""
    return float(n) * n * d >= FEWEST_PRODUCTS


def best_outlining(rows: NDArray[Any], half: NDArray[Any], kept: int) -> Outlining:
    """The directions whose outlines cost the least. The parameters are those of :func:`find_directions`."""
    n, d = rows.shape
    lengths = [m for m in LADDER if m <= d // 2]
    if kept >= n or not lengths:
        return Outlining()
    rng = np.random.default_rng(0)
    seen, tried = (np.sort(rng.choice(n, min(n, count), replace=False)) for count in (DIRECTION_ROWS, TRIED_ROWS))
    limits = _kth_distances(rows, half, tried, kept)[:, None]
    with products_alone():
        directions = _main_directions(rows[seen], lengths[-1], rng)
    own, other = outlines(rows[tried], directions), outlines(rows[seen], directions)
    costs = [0.0] * len(lengths)

    def judge(place):
        m = lengths[place]
        products = own[:, :m] @ other[:, :m].T + _left_out(own, m)[:, None] * _left_out(other, m)
        possible = half[tried, None] + half[seen] - products < limits
        costs[place] = (m + 1) / d + ALONE * float(possible.mean())

    on_threads(range(len(lengths)), judge)
    best = int(np.argmin(costs))
    return Outlining(np.ascontiguousarray(directions[:, : lengths[best]]), costs[best])


def _kth_distances(rows: NDArray[Any], half: NDArray[Any], tried: NDArray[np.int64], k: int) -> NDArray[Any]:
    """Half the squared distance (t,) from each row that is tried to the k-th nearest one."""
    own, limits = rows[tried], np.empty(len(tried), half.dtype)
    distances = np.empty((len(tried), len(rows)), half.dtype)

    def compare(start):
        there = slice(start, start + TRIED_COLUMNS)
        distances[:, there] = half[tried, None] + half[there] - own @ rows[there].T

    def choose(start):
        here = slice(start, start + TRIED_TOGETHER)
        limits[here] = np.partition(distances[here], k - 1, axis=1)[:, k - 1]

    on_threads(range(0, len(rows), TRIED_COLUMNS), compare)
    on_threads(range(0, len(tried), TRIED_TOGETHER), choose)
    return limits


def _main_directions(rows: NDArray[Any], m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Directions (d, m), at right angles, along which the rows (n, d) are about the longest, the main one first."""
    gram = (rows.T @ rows).astype(np.float64)
    basis = rng.normal(size=(len(gram), m))
    for _ in range(SUBSPACE_ROUNDS):
        basis = np.linalg.qr(gram @ basis)[0]
    _, within = np.linalg.eigh(basis.T @ gram @ basis)
    return np.linalg.qr(basis @ within[:, ::-1])[0]


def _left_out(made: NDArray[np.float32], m: int) -> NDArray[np.float32]:
    """The lengths (n,) of what the first m numbers of outlines leave out."""
    return np.sqrt(np.square(made[:, m:]).sum(axis=1))


def outlines(vectors: NDArray[Any], directions: NDArray[np.float64]) -> NDArray[np.float32]:
    """The outlines (n, m + 1) of vectors (n, d).

    In double precision, so that their rounding to single is all that a bound on errors has to reckon with.
    """
    out = np.empty((len(vectors), directions.shape[1] + 1), np.float32)

    def work_out(start):
        some = slice(start, start + OUTLINED_ROWS)
        part = vectors[some].astype(np.float64)
        along = part @ directions
        left_out = np.einsum("ij,ij->i", part, part) - np.einsum("ij,ij->i", along, along)
        out[some, :-1] = along
        out[some, -1] = np.sqrt(np.maximum(left_out, 0.0))

    on_threads(range(0, len(vectors), OUTLINED_ROWS), work_out)
    return out
