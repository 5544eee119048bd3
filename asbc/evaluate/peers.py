"""How other libraries weight the same neighbours, for comparison: arrays in, (n, k) row weights out.

Only the weights are theirs. Normalising and symmetrising are ours for all methods, so that a difference in
score is a difference in weights.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asbc.neighbors.types import Neighbors

Matrix = NDArray[np.float64]


def umap_weights(neighbors: Neighbors) -> Matrix:
    """UMAP's fuzzy membership: `exp(-max(0, d - rho_i) / s_i)`, with rho_i the smallest distance above 0.

    s_i is such that the row sums to log2(k + 1), and not log2(k): UMAP counts the node itself among its neighbours,
    though it adds nothing to the sum.

    Examples
    --------
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import umap_weights
    >>> neighbors = asbc.search_neighbors(np.random.default_rng(0).normal(size=(20, 3)), 7)
    >>> umap_weights(neighbors).sum(axis=1).round(6)[:2]
    array([3., 3.])
    """
    distance = neighbors.distances
    positive = np.where(distance > 0, distance, np.inf).min(axis=1)
    beyond = np.maximum(distance - np.where(np.isfinite(positive), positive, 0.0)[:, None], 0.0)
    target = np.log2(neighbors.k + 1)
    low = np.zeros(neighbors.n)
    high = np.full(neighbors.n, np.inf)
    scale = np.ones(neighbors.n)
    for _ in range(64):
        total = np.exp(-beyond / scale[:, None]).sum(axis=1)
        low, high = np.where(total > target, low, scale), np.where(total > target, scale, high)
        scale = np.where(np.isinf(high), 2.0 * scale, (low + high) / 2.0)
    # UMAP's floor: a thousandth of the mean distance (the node itself counted), of the row or else of all.
    count = neighbors.k + 1
    mean = np.where(np.isfinite(positive), distance.sum(axis=1) / count, distance.sum() / (neighbors.n * count))
    scale = np.maximum(np.maximum(scale, 1e-3 * mean), np.finfo(float).tiny)
    return np.exp(-beyond / scale[:, None])


def cosine_weights(neighbors: Neighbors, temperature: float = 0.07) -> Matrix:
    """Weights that solo-learn's vote of neighbours takes: `exp(cos / temperature)`, on unit vectors.

    Rows are scaled so that their largest weight is 1, which changes no vote and cannot overflow.

    Parameters
    ----------
    neighbors : Neighbors
        Of n nodes, k each, found on vectors of unit length: the cosine is read off the euclidean distance.
    temperature : float, default=0.07
        Above 0; the smaller it is, the more the nearest neighbours count.

    Examples
    --------
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import cosine_weights
    >>> X = asbc.normalize(np.random.default_rng(0).normal(size=(20, 3)))
    >>> float(cosine_weights(asbc.search_neighbors(X, 5)).max())
    1.0
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0; got {temperature}")
    cosine = 1.0 - neighbors.distances**2 / 2.0
    return np.exp((cosine - cosine[:, :1]) / temperature)


def graph_learning_weights(neighbors: Neighbors) -> Matrix:
    """GraphLearning's Gaussian weights: `exp(-4 d^2 / d_k^2)`, with d_k the distance to the last neighbour.

    Examples
    --------
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import graph_learning_weights
    >>> neighbors = asbc.search_neighbors(np.random.default_rng(0).normal(size=(20, 3)), 5)
    >>> bool(np.allclose(graph_learning_weights(neighbors)[:, -1], np.exp(-4)))
    True
    """
    last = neighbors.distances[:, -1:]
    return np.exp(-4.0 * (neighbors.distances / np.where(last > 0, last, 1.0)) ** 2)
