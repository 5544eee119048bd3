"""Join the nodes of a graph into groups by modularity."""

from __future__ import annotations

import numpy as np

from asbc.kernels.compiled import kernel


@kernel
def _join(indptr, indices, data, strength, penalty):
    n = len(strength)
    groups, volume = np.arange(n), strength.copy()
    shared = np.zeros(n)  # weight between the current node and each group
    for i in range(n):
        neighbors = indices[indptr[i] : indptr[i + 1]]
        volume[groups[i]] -= strength[i]
        for e in range(indptr[i], indptr[i + 1]):
            if indices[e] != i:
                shared[groups[indices[e]]] += data[e]
        best = groups[i]
        for j in neighbors:
            group = groups[j]
            gain = shared[group] - penalty * strength[i] * volume[group]
            if gain > shared[best] - penalty * strength[i] * volume[best]:
                best = group
        for j in neighbors:
            shared[groups[j]] = 0.0
        groups[i] = best
        volume[best] += strength[i]
    return groups


def join_nodes(graph, resolution):
    """Return groups of nodes: one pass in which each node in turn joins the group that raises modularity most.

    This is the first pass of Louvain's algorithm, in the order of the nodes. Of two equal gains, the group of the
    neighbour that comes first in the node's row wins.

    Parameters
    ----------
    graph : (n, n) symmetric csr_array, weights on the diagonal count as loops
    resolution : float
        A higher one gives smaller groups.

    Returns
    -------
    (n,) int64, each group is named after one of its nodes
    """
    strength = graph.sum(axis=1)
    penalty = resolution / max(strength.sum(), np.finfo(float).tiny)
    return _join(graph.indptr, graph.indices, graph.data, strength, penalty)
