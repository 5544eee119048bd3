"""Exact and near duplicates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from asbc.dimension import levina_bickel
from asbc.learn.source import GraphRows, Source, open_source, row_blocks
from asbc.neighbors.types import Neighbors

# The default threshold. It selects 2% of 3,000 sentence embeddings and 0.1% of 1,797 images of digits, all with the
# label of their partner, and finds 98% of digits that were made a tenth brighter.
MAX_DEFAULT = 0.25
# In few dimensions ordinary neighbours come closer than that. Of points spread evenly over a ball in d dimensions a
# share of t^d lies within t of its radius; this is the share that the default accepts.
CHANCE_SHARE = 0.001
K_DIMENSION = 10  # neighbours used to estimate the dimension


@dataclass(frozen=True, repr=False)
class Duplicates:
    """Groups of near-duplicate nodes; the result of :func:`find_duplicates`.

    Attributes
    ----------
    groups : list of (m,) int64 arrays
        Nodes of each group, two or more, ascending; groups in the order of their first node.
    pairs : (p, 2) int64
        All pairs of neighbours within the threshold, the nearest first; includes pairs that are in no group.
    ratio : (p,) float64
        Distance of each pair, divided by the smaller of both nodes' scales; 0 for exact copies.
    threshold : float
        The largest ratio that counts as a duplicate.
    n : int
        Number of nodes.
    nearest : (n,) float64
        The smallest ratio of each node to any of its neighbours.
    rows : GraphRows
        The rows that were scanned, so that another threshold needs no new search.

    See Also
    --------
    find_duplicates : computes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> X[40] = X[3]
    >>> found = asbc.find_duplicates(X, metric="euclidean")
    >>> found.redundant
    array([40])
    """

    groups: list[NDArray[np.int64]]
    pairs: NDArray[np.int64]
    ratio: NDArray[np.float64]
    threshold: float
    n: int
    nearest: NDArray[np.float64]
    rows: GraphRows

    @property
    def redundant(self) -> NDArray[np.int64]:
        """(m,) int64: the nodes to drop in order to keep the first node of every group; ascending."""
        rest = [group[1:] for group in self.groups]
        return np.sort(np.concatenate(rest)) if rest else np.empty(0, dtype=np.int64)

    def at(self, threshold: float) -> Duplicates:
        """Return the groups at another threshold. Only a larger one reads the rows again.

        Parameters
        ----------
        threshold : float from 0 to below 1

        Returns
        -------
        Duplicates
        """
        threshold = _check_threshold(threshold)
        if threshold > self.threshold:
            return scan_duplicates(self.rows, threshold)
        last = int(np.searchsorted(self.ratio, threshold, side="right"))
        return _grouped(self.pairs[:last], self.ratio[:last], threshold, self.nearest, self.rows)

    def _repr_html_(self) -> str:
        first, *groups = repr(self).splitlines()
        return f"<p>{first}</p><ul>{''.join(f'<li>{line.strip()}</li>' for line in groups)}</ul>"

    def __repr__(self) -> str:
        exact = int((self.ratio == 0).sum())
        lines = [
            f"Duplicates: {len(self.groups):,} groups at threshold {self.threshold:g}, {self.rows.metric} metric, "
            f"{len(self.redundant):,} of {self.n:,} nodes are redundant; {exact:,} of {len(self.pairs):,} pairs exact"
        ]
        for group in sorted(self.groups, key=len, reverse=True)[:5]:
            shown = ", ".join(map(str, group[:8].tolist())) + (", ..." if len(group) > 8 else "")
            lines.append(f"  {len(group)} nodes: {shown}")
        return "\n".join(lines)


def find_duplicates(source: Source, threshold: float | None = None, *, metric: str | None = None) -> Duplicates:
    """Find groups of nodes that are equal or nearly equal, relative to the distances around them.

    A node's *scale* is the distance to the last of its k neighbours. A pair's *ratio* is its distance divided by the
    smaller of both scales, so one threshold serves dense and sparse regions and every metric. Copies have ratio 0;
    the nearest ordinary neighbour of a sentence embedding has a median of 0.6.

    All members of a group are within the threshold of each other (complete linkage). Exact copies are always found, in
    groups of any size. If a node has more than k near copies, they determine its scale and are no longer found; use a
    larger ``k_cand`` if you expect that many.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a ``GraphBuilder`` is fitted. A folder is read block by block.
    threshold : float from 0 to below 1 or None, default=None
        0 finds exact copies only. The default is 0.25 or, in fewer than five dimensions, ``0.001 ** (1 / dimension)``:
        the ratio that one in a thousand ordinary neighbours has by chance.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.

    Returns
    -------
    Duplicates

    See Also
    --------
    describe : reports their number.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> X[40] = X[3]
    >>> X[41] = X[3] + 0.01
    >>> found = asbc.find_duplicates(X, metric="euclidean")
    >>> found.groups
    [array([ 3, 40, 41])]
    >>> found.at(0).groups
    [array([ 3, 40])]
    """
    rows = open_source(source, "nnk", metric)
    return scan_duplicates(rows, _check_threshold(threshold) if threshold is not None else None)


def _check_threshold(threshold: Any) -> float:
    if not isinstance(threshold, Real) or isinstance(threshold, bool) or not 0 <= float(threshold) < 1:
        raise ValueError(
            f"threshold must be a number from 0 to below 1, a share of the distance to the k-th neighbour; "
            f"got {threshold!r}."
        )
    return float(threshold)


def scan_duplicates(rows: GraphRows, threshold: float | None = None) -> Duplicates:
    """Collect the pairs within the threshold, or the default one, from all rows, and group them."""
    n, k = rows.neighbors.n, min(K_DIMENSION, rows.neighbors.k)
    scale, dimension = np.empty(n), np.ones(n)
    for block in row_blocks(rows):
        scale[block.nodes] = block.distances.max(axis=1)
        if threshold is None and k > 1:
            around = Neighbors(block.indices, block.distances, block.nodes.start)
            dimension[block.nodes] = levina_bickel(around, k)
    if threshold is None:
        threshold = min(MAX_DEFAULT, CHANCE_SHARE ** (1 / float(np.median(dimension)))) if k > 1 else 0.0
    nearest = np.empty(n)
    keys, ratios = [], []
    for block in row_blocks(rows):
        nodes = np.arange(block.nodes.start, block.nodes.stop)[:, None]
        smaller = np.minimum(scale[nodes], scale[block.indices])
        # Exact copies have ratio 0 even where all neighbours are copies and the scale is 0.
        ratio = np.divide(block.distances, smaller, out=np.where(block.distances > 0, np.inf, 0.0), where=(smaller > 0))
        nearest[block.nodes] = ratio.min(axis=1)
        near = ratio <= threshold
        row, column = np.nonzero(near)
        this, that = nodes[row, 0], block.indices[row, column]
        keys.append(np.minimum(this, that) * n + np.maximum(this, that))
        ratios.append(ratio[near])
    key, first = np.unique(np.concatenate(keys), return_index=True)  # most pairs are found from both of their nodes
    ratio = np.concatenate(ratios)[first]
    order = np.argsort(ratio, kind="stable")
    pairs = np.stack([key // n, key % n], axis=1)[order]
    return _grouped(pairs, ratio[order], threshold, nearest, rows)


def _grouped(pairs, ratio, threshold, nearest, rows) -> Duplicates:
    n = len(nearest)
    # Exact copies are joined first, because a list of k neighbours may not hold them all.
    copy_of = linked_pieces(n, pairs[ratio == 0])
    rest = np.sort(copy_of[pairs[ratio > 0]], axis=1)
    _, first = np.unique(rest[:, 0] * n + rest[:, 1], return_index=True)
    member = complete_groups(n, rest[np.sort(first)])[copy_of]
    grouped = np.flatnonzero(np.bincount(member, minlength=n)[member] > 1)
    nodes = grouped[np.argsort(member[grouped], kind="stable")]
    starts = np.flatnonzero(np.diff(member[nodes])) + 1
    groups = np.split(nodes, starts) if len(nodes) else []
    return Duplicates(groups, pairs, ratio, threshold, n, nearest, rows)


def linked_pieces(n: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest node of each node's connected component: (n,) int64."""
    graph = sparse.coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    count, piece = connected_components(graph, directed=False)
    smallest = np.empty(count, np.int64)
    smallest[piece[::-1]] = np.arange(n)[::-1]  # of several assignments the last remains
    return smallest[piece]


def complete_groups(n: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge nodes by complete linkage: return the smallest node of each node's group, (n,) int64.

    Pairs (m, 2), each once, are read in their order, nearest first. Two groups are merged as soon as every member of
    one has been paired with every member of the other. Later pairs do not undo merges, so groups at a smaller
    threshold lie inside those at a larger one.
    """
    member = np.arange(n, dtype=np.int64)
    if not len(pairs):
        return member
    piece = linked_pieces(n, pairs)
    size = np.bincount(piece, minlength=n)
    # A component of two nodes is a group; most are of this kind.
    small = size[piece[pairs[:, 0]]] == 2
    member[pairs[small].max(axis=1)] = pairs[small].min(axis=1)

    members: dict[int, list[int]] = {}
    seen: dict[int, dict[int, int]] = defaultdict(dict)  # number of pairs seen between two groups
    for a, b in pairs[~small].tolist():
        left, right = int(member[a]), int(member[b])
        count = seen[left].get(right, 0) + 1
        one, other = members.get(left, [left]), members.get(right, [right])
        if count < len(one) * len(other):
            seen[left][right] = seen[right][left] = count
            continue
        kept, gone = min(left, right), max(left, right)
        members[kept] = one + other
        members.pop(gone, None)
        member[members[kept]] = kept
        seen[kept].pop(gone, None)
        for third, found in seen.pop(gone, {}).items():
            if third != kept:
                del seen[third][gone]
                total = seen[kept].get(third, 0) + found
                seen[kept][third] = seen[third][kept] = total
    return member
