"""Which nodes are copies of each other, exactly or nearly?"""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.dimension import levina_bickel
from asbc.learn.linkage import complete_groups, linked_pieces
from asbc.learn.source import Source, open_rows, row_blocks
from asbc.neighbors.types import Neighbors

# The default threshold. On 3,000 sentence embeddings it takes in 2% of the nodes, on 1,797 images of digits 0.1%, all
# of them with their partner's label, and it finds 98% of digits that were made a tenth brighter.
LARGEST_DEFAULT = 0.25
# In few dimensions ordinary neighbours come nearer than that. Of neighbours spread evenly over a ball in d dimensions
# a share of t^d lies within t of its radius; this is the share that the default lets through.
BY_CHANCE = 0.001
K_DIMENSION = 10  # neighbours that the dimension is read off


@dataclass(frozen=True, repr=False)
class Duplicates:
    """Groups of nodes that are nearly the same; :func:`find_duplicates` gives it.

    Attributes
    ----------
    groups : list of (m,) int64 arrays
        Nodes of each group, two or more, rising; groups in the order of their first node.
    pairs : (p, 2) int64
        All listed pairs of nodes within the threshold, the nearest first and the smaller node on the left. Pairs
        that are in no group are among them.
    ratio : (p,) float64
        Distance of each pair, divided by the smaller of both nodes' scales; 0 for exact copies.
    threshold : float
        The largest ratio that counts as a duplicate.
    n : int
        How many nodes there are.
    nearest : (n,) float64
        The smallest ratio of each node to any of its neighbours: what the threshold is compared with.
    rows : (Neighbors, (n, k) array)
        Where the pairs came from, so that another threshold needs no new search.

    See Also
    --------
    find_duplicates : looks for them.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> X[40] = X[3]
    >>> found = asbc.find_duplicates(asbc.GraphBuilder().fit(X))
    >>> found.redundant
    array([40])
    """

    groups: list[NDArray[np.int64]]
    pairs: NDArray[np.int64]
    ratio: NDArray[np.float64]
    threshold: float
    n: int
    nearest: NDArray[np.float64] = field(repr=False)
    rows: tuple[Neighbors, NDArray[np.float64]] = field(repr=False)

    @property
    def redundant(self) -> NDArray[np.int64]:
        """The nodes that can go if one node of every group, the first, is to stay; rising."""
        rest = [group[1:] for group in self.groups]
        return np.sort(np.concatenate(rest)) if rest else np.empty(0, dtype=np.int64)

    def at(self, threshold: float) -> Duplicates:
        """The groups at another threshold. Nothing is searched again; above this one, the rows are read again.

        Parameters
        ----------
        threshold : float from 0 to below 1

        Returns
        -------
        Duplicates
        """
        threshold = _check_threshold(threshold)
        if threshold > self.threshold:
            return _scan(*self.rows, threshold)
        last = int(np.searchsorted(self.ratio, threshold, side="right"))
        return _grouped(self.pairs[:last], self.ratio[:last], threshold, self.nearest, self.rows)

    def __repr__(self) -> str:
        exact = int((self.ratio == 0).sum())
        lines = [
            f"Duplicates: {len(self.groups):,} groups at threshold {self.threshold:g}, "
            f"{len(self.redundant):,} of {self.n:,} nodes could go ({exact:,} of {len(self.pairs):,} pairs are exact)"
        ]
        for group in sorted(self.groups, key=len, reverse=True)[:5]:
            shown = ", ".join(map(str, group[:8].tolist())) + (", ..." if len(group) > 8 else "")
            lines.append(f"  {len(group)} nodes: {shown}")
        return "\n".join(lines)


def find_duplicates(source: Source, threshold: float | None = None) -> Duplicates:
    """Find groups of nodes that are the same, or nearly, at the scale of their surroundings.

    A node's *scale* is the distance to the last of its k neighbours. A pair's *ratio* is its distance divided by the
    smaller of both scales, so one threshold serves dense and sparse regions and every metric. Two copies have ratio 0;
    the nearest ordinary neighbour of a sentence embedding has 0.6 in the median.

    Every two members of a group are within the threshold (complete linkage), so there are no chains in which the
    ends have little in common. Exact copies are always found. What is not in a node's list is at least at the
    distance of its scale, so that no pair below ratio 1 is missed, unless the neighbours were searched approximately.
    That bounds what can be asked: a threshold lies below 1, and of near-copies that are no exact ones, more than k
    around one node become that node's scale and are no longer told from ordinary neighbours. If you expect that many,
    build with a larger ``k_cand``. Groups of exact copies may be of any size.

    Parameters
    ----------
    source : fitted GraphBuilder, or path of a graph folder
        A folder is read block by block; memory goes with the block and with the pairs that are found.
    threshold : float from 0 to below 1 or None, default=None
        0 finds exact copies only. By default 0.25; in fewer than five dimensions less, ``0.001 ** (1 / dimension)``,
        the ratio below which one in a thousand ordinary neighbours lies by chance. The dimension is the median of
        :func:`levina_bickel`.

    Returns
    -------
    Duplicates

    See Also
    --------
    describe : counts them among other things.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> X[40] = X[3]
    >>> X[41] = X[3] + 0.01
    >>> found = asbc.find_duplicates(asbc.GraphBuilder().fit(X))
    >>> found.groups
    [array([ 3, 40, 41])]
    >>> found.at(0).groups
    [array([ 3, 40])]
    """
    neighbors, weights = open_rows(source)
    if threshold is None:
        return _scan(neighbors, weights, default_threshold(neighbors, weights))
    return _scan(neighbors, weights, _check_threshold(threshold))


def default_threshold(neighbors: Neighbors, weights: NDArray[np.float64]) -> float:
    """The ratio below which ordinary neighbours are rare; see :func:`find_duplicates`."""
    k = min(K_DIMENSION, neighbors.k)
    if k < 2:
        return 0.0
    parts = [
        levina_bickel(Neighbors(block.indices, block.distances, block.nodes.start), k)
        for block in row_blocks(neighbors, weights)
    ]
    return min(LARGEST_DEFAULT, BY_CHANCE ** (1 / float(np.median(np.concatenate(parts)))))


def _check_threshold(threshold: Any) -> float:
    if not isinstance(threshold, Real) or isinstance(threshold, bool) or not 0 <= float(threshold) < 1:
        raise ValueError(
            f"threshold must be a number from 0 to below 1, a share of the distance to the k-th neighbour; "
            f"got {threshold!r}."
        )
    return float(threshold)


def _scan(neighbors: Neighbors, weights: NDArray[np.float64], threshold: float) -> Duplicates:
    """Collect the pairs within the threshold from all rows, and group them."""
    n = neighbors.n
    scale = np.empty(n)
    for block in row_blocks(neighbors, weights):
        scale[block.nodes] = block.distances.max(axis=1)
    nearest = np.empty(n)
    keys, ratios = [], []
    for block in row_blocks(neighbors, weights):
        nodes = np.arange(block.nodes.start, block.nodes.stop)[:, None]
        smaller = np.minimum(scale[nodes], scale[block.indices])
        # Exact copies need no scale; a node whose whole list consists of them has none.
        ratio = np.divide(block.distances, smaller, out=np.where(block.distances > 0, np.inf, 0.0), where=(smaller > 0))
        nearest[block.nodes] = ratio.min(axis=1)
        near = ratio <= threshold
        row, column = np.nonzero(near)
        this, that = nodes[row, 0], block.indices[row, column]
        keys.append(np.minimum(this, that) * n + np.maximum(this, that))
        ratios.append(ratio[near])
    key, first = np.unique(np.concatenate(keys), return_index=True)  # most pairs are listed by both of their nodes
    ratio = np.concatenate(ratios)[first]
    order = np.argsort(ratio, kind="stable")
    pairs = np.stack([key // n, key % n], axis=1)[order]
    return _grouped(pairs, ratio[order], threshold, nearest, (neighbors, weights))


def _grouped(pairs, ratio, threshold, nearest, rows) -> Duplicates:
    n = len(nearest)
    # Copies of copies are copies, so exact ones are joined first, also where no list is long enough to hold them all.
    # What is near one copy is as near to the others.
    copy_of = linked_pieces(n, pairs[ratio == 0])
    rest = np.sort(copy_of[pairs[ratio > 0]], axis=1)
    _, first = np.unique(rest[:, 0] * n + rest[:, 1], return_index=True)
    member = complete_groups(n, rest[np.sort(first)])[copy_of]
    grouped = np.flatnonzero(np.bincount(member, minlength=n)[member] > 1)
    nodes = grouped[np.argsort(member[grouped], kind="stable")]
    starts = np.flatnonzero(np.diff(member[nodes])) + 1
    groups = np.split(nodes, starts) if len(nodes) else []
    return Duplicates(groups, pairs, ratio, threshold, n, nearest, rows)
