"""Exact and near duplicates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from numbers import Real

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
        """Return the groups at another threshold, from 0 to below 1, without a new search."""
        return find_duplicates(self.rows, threshold)

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
    if threshold is not None and not (isinstance(threshold, Real) and 0 <= float(threshold) < 1):
        raise ValueError(
            f"threshold must be a number from 0 to below 1, a share of the distance to the k-th neighbour; "
            f"got {threshold!r}."
        )
    rows = open_source(source, "nnk", metric)
    n = rows.neighbors.n
    scale, dimension = scale_and_dimension(rows)
    if threshold is None:
        threshold = min(MAX_DEFAULT, CHANCE_SHARE ** (1 / float(np.median(dimension))))
    nearest = np.empty(n)
    keys, ratios = [], []
    for block in row_blocks(rows):
        nodes = np.arange(block.nodes.start, block.nodes.stop)[:, None]
        smaller = np.minimum(scale[nodes], scale[block.indices])
        # Exact copies have ratio 0 even where all neighbours are copies and the scale is 0.
        ratio = np.divide(block.distances, smaller, out=np.where(block.distances > 0, np.inf, 0.0), where=(smaller > 0))
        nearest[block.nodes] = ratio.min(axis=1)
        key = np.minimum(nodes, block.indices) * n + np.maximum(nodes, block.indices)
        keys.append(key[ratio <= threshold])
        ratios.append(ratio[ratio <= threshold])
    key, first = np.unique(np.concatenate(keys), return_index=True)  # most pairs are found from both of their nodes
    ratio = np.concatenate(ratios)[first]
    order = np.argsort(ratio, kind="stable")
    pairs, ratio = np.stack([key // n, key % n], axis=1)[order], ratio[order]
    # Exact copies are joined first, because a list of k neighbours may not hold them all.
    copy_of = linked_pieces(n, pairs[ratio == 0])
    rest = np.sort(copy_of[pairs[ratio > 0]], axis=1)
    _, first = np.unique(rest[:, 0] * n + rest[:, 1], return_index=True)
    member = complete_groups(n, rest[np.sort(first)])[copy_of]
    nodes = np.argsort(member, kind="stable")
    groups = np.split(nodes, np.flatnonzero(np.diff(member[nodes])) + 1)
    return Duplicates([group for group in groups if len(group) > 1], pairs, ratio, float(threshold), n, nearest, rows)


def scale_and_dimension(rows: GraphRows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the distance to each node's k-th neighbour, and Levina and Bickel's dimension around it: (n,) each."""
    scale, dimension = np.empty((2, rows.neighbors.n))
    for block in row_blocks(rows):
        around = Neighbors(block.indices, block.distances, block.nodes.start)
        scale[block.nodes] = block.distances[:, -1]
        dimension[block.nodes] = levina_bickel(around, min(K_DIMENSION, around.k))
    return scale, dimension


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
    near: dict[int, set[int]] = defaultdict(set)  # the nodes that each node has been paired with
    group = {node: [node] for node in np.unique(pairs).tolist()}
    for a, b in pairs.tolist():
        near[a].add(b)
        near[b].add(a)
        one, other = group[a], group[b]
        if all(near[node].issuperset(other) for node in one):
            one.extend(other)
            group.update(dict.fromkeys(other, one))
    member = np.arange(n)
    member[list(group)] = [min(nodes) for nodes in group.values()]
    return member
