"""Slow, obvious NumPy twins of what asbc compiles. They follow the formulas, not the code."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls


def squared_distances(A, B):
    A, B = np.asarray(A, float), np.asarray(B, float)
    return np.array([((B - a) ** 2).sum(axis=1) for a in A])


def neighbors(X, k):
    """Indices and distances of the k nearest other rows, ties by index."""
    squared = squared_distances(X, X)
    np.fill_diagonal(squared, np.inf)
    ids = np.broadcast_to(np.arange(len(X)), squared.shape)
    order = np.lexsort((ids, squared))[:, :k]
    return order, np.sqrt(np.take_along_axis(squared, order, axis=1))


def splitmix(state):
    mask = 2**64 - 1
    state = (state + 0x9E3779B97F4A7C15) & mask
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return state, z ^ (z >> 31)


def permutation(seed, node, repetition, k):
    _, bits = splitmix(seed)
    _, bits = splitmix(bits ^ node)
    state, _ = splitmix(bits ^ repetition)
    order = list(range(k))
    for i in range(k - 1, 0, -1):
        state, bits = splitmix(state)
        j = ((bits >> 32) * (i + 1)) >> 32
        order[i], order[j] = order[j], order[i]
    return order


def tree_length(D):
    """Total edge length of the minimum spanning tree of a full distance matrix (Kruskal)."""
    n = len(D)
    component = list(range(n))
    total = 0.0
    for length, i, j in sorted((D[a, b], a, b) for a in range(n) for b in range(a)):
        if component[i] != component[j]:
            total += length
            old, new = component[i], component[j]
            component = [new if c == old else c for c in component]
    return total


def dim_mst(X, indices, sizes, n_rep=5, seed=0):
    out = []
    for node, row in enumerate(indices):
        D = np.sqrt(squared_distances(X[row], X[row]))
        y = np.zeros(len(sizes))
        for repetition in range(n_rep):
            order = permutation(seed, node, repetition, len(row))
            for s, size in enumerate(sizes):
                part = order[:size]
                y[s] += np.log(tree_length(D[np.ix_(part, part)]) / (size - 1)) / n_rep
        slope = np.polyfit(np.log(np.asarray(sizes) - 1.0), y, 1)[0]
        out.append(np.clip(-1 / slope, 1, 200) if slope < 0 else 200.0)
    return np.array(out)


def kernel(squared, sigma):
    return np.exp(-squared / (2 * sigma**2))


def effective_rank(K):
    p = np.linalg.eigvalsh(K)
    p = p[p > 0] / p.sum()
    return np.exp(-(p * np.log(p)).sum())


def slope(squared, sigma):
    K = kernel(squared, sigma)
    return (K * squared).sum() / sigma**2 / K.sum()


def spectral(X, indices, distances, dimension, gamma=1.0, n_grid=12, k_mle=10, low=0.05, high=3.0):
    """(sigma, rank, slope, objective) of every node, by solving every grid point."""
    out = []
    for row, d_row, d in zip(indices, distances, dimension, strict=True):
        squared = squared_distances(X[row], X[row])
        grid = np.geomspace(low * d_row[k_mle - 1], high * d_row[-1], n_grid)
        ranks = np.array([effective_rank(kernel(squared, s)) for s in grid])
        slopes = np.array([slope(squared, s) for s in grid])
        target = gamma * d
        J = np.abs(ranks - target) / target + (slopes.max() - slopes) / slopes.max()
        best = int(np.argmin(J))
        out.append((grid[best], ranks[best], slopes[best], J[best]))
    return np.array(out).T


def nnk_problem(X, i_row, d_row, sigma):
    return kernel(squared_distances(X[i_row], X[i_row]), sigma), kernel(d_row**2, sigma)


def nnk(K, b):
    """Non-negative least squares with a root of K; directions without weight in K are left out."""
    values, vectors = np.linalg.eigh(K)
    keep = values > 1e-13 * values.max()
    root = np.sqrt(values[keep])[:, None] * vectors[:, keep].T
    return nnls(root, (vectors[:, keep].T @ b) / np.sqrt(values[keep]))[0]


def add_nearest(b, w, k_min):
    """NNK weights `w`, filled up to `k_min` neighbours: the kernel `b` times the share that `w` leaves unexplained."""
    w, unexplained = w.copy(), max(0.0, 1.0 - b @ w)
    for r in np.flatnonzero(w == 0)[: max(0, k_min - np.count_nonzero(w))]:
        w[r] = b[r] * unexplained
    return w


def nnk_objective(K, b, w):
    return 0.5 * w @ K @ w - b @ w


def kkt_residual(K, b, w):
    g = K @ w - b
    return max(-w.min(), -g.min(), np.abs(w * g).max())


def effective_neighbors(distances, sigma):
    w = np.exp(-(distances**2) / (2 * sigma**2))
    p = w / w.sum()
    p = p[p > 0]
    return np.exp(-(p * np.log(p)).sum())


def join_nodes(A, resolution):
    """One pass of Louvain's algorithm on a dense symmetric matrix, whose diagonal holds loops."""
    n, strength = len(A), A.sum(axis=1)
    groups = np.arange(n)

    def gain(i, group):
        members = np.flatnonzero((groups == group) & (np.arange(n) != i))
        return A[i, members].sum() - resolution / strength.sum() * strength[i] * strength[members].sum()

    for i in range(n):
        candidates = [groups[i], *groups[np.flatnonzero(A[i])]]
        groups[i] = max(candidates, key=lambda group: gain(i, group))
    return groups
