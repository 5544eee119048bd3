"""Mean edge lengths of minimum spanning trees on nested random subsets of each neighbourhood."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from asbc.kernels.threads import share_out


@njit(inline="always")
def _mix(state):
    """One step of the SplitMix64 generator: the next state, and 64 well-mixed bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@njit(cache=True)
def shuffle(seed, node, repetition, order):
    """Fill `order` with a permutation that depends on nothing but the three numbers."""
    state = np.uint64(seed)
    state, bits = _mix(state)
    state, bits = _mix(bits ^ np.uint64(node))
    state, bits = _mix(bits ^ np.uint64(repetition))
    for i in range(order.shape[0]):
        order[i] = i
    for i in range(order.shape[0] - 1, 0, -1):
        state, bits = _mix(state)
        # 32 random bits scaled to 0..i. No probability is off from that of a fair draw by more than k / 2**32.
        j = np.int64(((bits >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@njit(inline="always")
def _tree_length(squared, order, size, waiting, reach):
    """Length of the minimum spanning tree of the first `size` points of `order`, by Prim's algorithm.

    `waiting` holds the points that are not in the tree yet, and `reach` the squared distance of each to the tree.
    """
    for i in range(size - 1):
        waiting[i] = order[i + 1]
        reach[i] = np.inf
    newest = order[0]
    length = 0.0
    for left in range(size - 1, 0, -1):
        nearest = 0
        shortest = np.inf
        for i in range(left):
            distance = min(reach[i], squared[newest, waiting[i]])
            reach[i] = distance
            if distance < shortest:
                shortest = distance
                nearest = i
        length += math.sqrt(shortest)
        newest = waiting[nearest]
        waiting[nearest] = waiting[left - 1]
        reach[nearest] = reach[left - 1]
    return length


@njit(cache=True, nogil=True, error_model="numpy")
def _trees(first, last, pairs, k, sizes, seed, nodes, out):
    squared = np.zeros((k, k))
    order = np.empty(k, np.int64)
    waiting = np.empty(k, np.int64)
    reach = np.empty(k)
    for i in range(first, last):
        t = 0
        for r in range(k):
            for c in range(r):
                squared[r, c] = pairs[i, t]
                squared[c, r] = pairs[i, t]
                t += 1
        for repetition in range(out.shape[1]):
            shuffle(seed, nodes[i], repetition, order)
            for s in range(sizes.shape[0]):
                length = _tree_length(squared, order, sizes[s], waiting, reach)
                out[i, repetition, s] = length / (sizes[s] - 1)


def tree_lengths(pairs, k, sizes, n_rep, seed, nodes):
    """Mean edge length of the tree on each of several nested subsets, for every node and permutation.

    The subset of size s is the first s neighbours of a random permutation, so that smaller subsets lie in larger ones.

    Parameters
    ----------
    pairs : (m, pair_count(k)) float64, from `neighborhood_distances`
    k : int, neighbours per node
    sizes : (s,) int64, subset sizes, at least 2 each
    n_rep : int, permutations per node
    seed : int
    nodes : (m,) int64
        Row i's permutations are seeded by ``(seed, nodes[i])``.

    Returns
    -------
    (m, n_rep, s) float64
    """
    out = np.empty((len(pairs), n_rep, len(sizes)))
    share_out(_trees, len(pairs), pairs, k, sizes, seed, nodes, out)
    return out
