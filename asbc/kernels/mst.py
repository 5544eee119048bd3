"""Mean edge lengths of minimum spanning trees on nested random subsets of each neighbourhood."""

from __future__ import annotations

import numpy as np
from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, gather, load, smaller, splat, sqrt, store, where_less
from asbc.kernels.threads import run_ranges


@njit(inline="always")
def _mix(state):
    """One step of the SplitMix64 generator: return the next state and 64 random bits."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, z ^ (z >> np.uint64(31))


@kernel
def shuffle(seed, node, repetition, order):
    """Fill `order` with a permutation that depends only on the three numbers."""
    state = np.uint64(seed)
    state, bits = _mix(state)
    state, bits = _mix(bits ^ np.uint64(node))
    state, bits = _mix(bits ^ np.uint64(repetition))
    for i in range(order.shape[0]):
        order[i] = i
    for i in range(order.shape[0] - 1, 0, -1):
        state, bits = _mix(state)
        # Scale 32 random bits to 0..i. Probabilities differ from a fair draw by at most k / 2**32.
        j = np.int64(((bits >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        order[i], order[j] = order[j], order[i]


@njit(inline="always")
def _tree_lengths(squared, starts, k, orders, size, waiting, reach, place, length):
    """Compute the length of the minimum spanning tree of the first `size` points of each lane's order.

    Prim's algorithm. Lane t's squared distances are the (k, k) numbers of `squared` from ``starts[t]`` on. Row i of
    `waiting` and `reach` holds, per lane, a point that is not in the tree yet and its squared distance to the tree.
    """
    rows = np.empty(LANES, np.int64)
    for i in range(1, size):
        for lane in range(LANES):
            waiting[(i - 1) * LANES + lane] = orders[lane, i]
        store(reach, (i - 1) * LANES, splat(np.inf))
    for lane in range(LANES):
        rows[lane] = starts[lane] + orders[lane, 0] * k
    total = splat(0.0)
    for left in range(size - 1, 0, -1):
        nearest = splat(0.0)
        shortest = splat(np.inf)
        for i in range(left):
            distance = smaller(load(reach, i * LANES), gather(squared, rows, waiting, i * LANES))
            store(reach, i * LANES, distance)
            nearest = where_less(distance, shortest, splat(float(i)), nearest)
            shortest = smaller(shortest, distance)
        total = total + sqrt(shortest)
        store(place, 0, nearest)
        last = (left - 1) * LANES
        for lane in range(LANES):
            chosen = np.int64(place[lane]) * LANES + lane
            rows[lane] = starts[lane] + waiting[chosen] * k
            waiting[chosen] = waiting[last + lane]
            reach[chosen] = reach[last + lane]
    store(length, 0, total)


@kernel
def _trees(first, last, pairs, k, sizes, seed, nodes, out):
    # Eight trees are processed at a time, one per lane, in the order of nodes and then permutations. `squared` has room
    # for the distances of all nodes that eight consecutive trees can belong to.
    n_rep = out.shape[1]
    held = (LANES + n_rep - 2) // n_rep + 1
    squared = np.zeros(held * k * k)
    orders = np.empty((LANES, k), np.int64)
    starts = np.empty(LANES, np.int64)
    waiting = np.empty(k * LANES, np.int64)
    reach = np.empty(k * LANES)
    place = np.empty(LANES)
    length = np.empty(LANES)
    for lane in range(LANES):
        starts[lane] = 0
        for j in range(k):
            orders[lane, j] = 0
    filled = first
    for start in range(first * n_rep, last * n_rep, LANES):
        count = min(last * n_rep - start, LANES)
        for lane in range(count):
            i, repetition = divmod(start + lane, n_rep)
            starts[lane] = i % held * k * k
            if i >= filled:
                filled = i + 1
                t = 0
                for r in range(k):
                    for c in range(r):
                        squared[starts[lane] + r * k + c] = pairs[i, t]
                        squared[starts[lane] + c * k + r] = pairs[i, t]
                        t += 1
            shuffle(seed, nodes[i], repetition, orders[lane])
        for s in range(sizes.shape[0]):
            _tree_lengths(squared, starts, k, orders, sizes[s], waiting, reach, place, length)
            for lane in range(count):
                i, repetition = divmod(start + lane, n_rep)
                out[i, repetition, s] = length[lane] / (sizes[s] - 1)


def tree_lengths(pairs, k, sizes, n_rep, seed, nodes):
    """Return the mean edge length of the tree on each of several nested subsets, for every node and permutation.

    The subset of size s holds the first s neighbours of a random permutation.

    `pairs` (m, pair_count(k)) come from `neighborhood_distances`; `sizes` (s,) are at least 2 each; row i's `n_rep`
    permutations are seeded by ``(seed, nodes[i])``. Returns (m, n_rep, s) float64.
    """
    out = np.empty((len(pairs), n_rep, len(sizes)))
    run_ranges(_trees, len(pairs), pairs, k, sizes, seed, nodes, out)
    return out
