"""Groups in which every two members are a pair: complete linkage on a list of pairs."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from asbc.kernels.components import join_edges, piece_names


def linked_pieces(n: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest node of the piece that each node is in, if every pair joins its two nodes: (n,) int64."""
    parent = np.arange(n, dtype=np.int64)
    join_edges(parent, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
    return piece_names(parent)


def complete_groups(n: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Merge nodes along pairs, from the first pair on, but only ever into groups whose members are all paired.

    Pairs are gone through in their order, nearest first. Two groups are merged as soon as every member of the one has
    been paired with every member of the other. That is complete linkage, and it needs only the pairs that are near.
    Since the pairs still to come do not change what has been merged, leaving out the last ones of the list only
    undoes the merges that they brought: groups at a smaller threshold lie inside those at a larger one.

    Parameters
    ----------
    n : int
    pairs : (m, 2) int64, each pair of nodes once

    Returns
    -------
    member : (n,) int64, the smallest node of the group that a node is in
    """
    member = np.arange(n, dtype=np.int64)
    if not len(pairs):
        return member
    piece = linked_pieces(n, pairs)
    size = np.bincount(piece, minlength=n)
    # Two nodes that hang together with nobody else are a group already; most pieces are of this kind.
    small = size[piece[pairs[:, 0]]] == 2
    member[pairs[small].max(axis=1)] = pairs[small].min(axis=1)

    members: dict[int, list[int]] = {}
    seen: dict[int, dict[int, int]] = defaultdict(dict)  # of two groups, how many of their pairs have come
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
