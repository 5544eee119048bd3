"""How many directions there are around each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.mst import tree_lengths
from asbc.neighbors.types import Neighbors, check_type, neighborhoods, vectors_for
from asbc.validation import LARGEST_SEED, Floats, one_of, whole_number

ESTIMATORS = ("mst", "levina_bickel", "two_nn")
SMALLEST, LARGEST = 1.0, 200.0  # no estimate leaves this range


def subset_sizes(k: int) -> NDArray[np.int64]:
    """Six sizes that grow geometrically from 8 to k: 8, 10, 14, 18, 23, 30 for k = 30.

    Below 16 neighbours the ladder starts at k / 2, so that a slope can still be fitted.
    """
    return np.unique(np.geomspace(min(8, k // 2), k, 6).round().astype(np.int64))


def dim_mst(X: ArrayLike | None, neighbors: Neighbors, *, n_rep: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Intrinsic dimension from minimum spanning trees.

    The mean edge of the tree on m points of a d-dimensional set shrinks like ``m**(-1/d)``. The tree is built on
    nested random subsets of each neighbourhood, and d is read off the slope of log mean edge against log edges.
    With 30 points it saturates: dimension 20 reads as 12, 50 as 21.

    Parameters
    ----------
    X : (n, d) array, or None if `neighbors` carries the distances within neighbourhoods
    neighbors : Neighbors
        At least 8 neighbours a node.
    n_rep : int
        Permutations a node, over which log edges are averaged.
    seed : int
        Node i draws from ``(seed, i)``, a query from ``(seed, its neighbours)``: neither blocks nor threads nor
        order change an estimate.

    Returns
    -------
    (n,) float64 within [1, 200]. Neighbours that all coincide have dimension 1.
    """
    vectors = vectors_for(X, neighbors)
    if neighbors.k < 8:
        raise ValueError(f"neighbors must have k of at least 8 for a spanning-tree dimension; got {neighbors.k}.")
    n_rep, seed = whole_number(n_rep, "n_rep", 1), whole_number(seed, "seed", 0, LARGEST_SEED)
    sizes = subset_sizes(neighbors.k)
    nodes = _names(neighbors)
    out = np.empty(neighbors.n)
    for rows, pairs in neighborhoods(vectors, neighbors):
        lengths = tree_lengths(pairs, neighbors.k, sizes, n_rep, seed, nodes[rows])
        out[rows] = _dimension_of(lengths, np.log(sizes - 1.0))
    return out


def _names(neighbors: Neighbors) -> NDArray[np.int64]:
    """What permutations are seeded by: a row's place in X; for a query, which has none, a hash of its neighbours."""
    if neighbors.first is not None:
        return np.arange(neighbors.first, neighbors.first + neighbors.n)
    factors = np.random.default_rng(0).integers(1, 2**62, neighbors.k)
    return (neighbors.indices * factors).sum(axis=1) & np.int64(2**62 - 1)


def _dimension_of(lengths, x):
    """Dimension from mean edges (m, n_rep, s); subsets of coinciding points, which have no logarithm, are left out."""
    positive = lengths > 0
    logs = np.log(lengths, where=positive, out=np.zeros_like(lengths))
    counts = positive.sum(axis=1)
    y = logs.sum(axis=1) / np.maximum(counts, 1)
    weight = (counts > 0).astype(float)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1.0)
    dx = weight * (x - (weight * x).sum(axis=1, keepdims=True) / total)
    spread = (dx * x).sum(axis=1)
    usable = spread > 0
    slope = np.divide((dx * y).sum(axis=1), spread, out=np.zeros(len(y)), where=usable)
    falling = slope < 0
    dimension = np.divide(-1.0, slope, out=np.full(len(y), LARGEST), where=falling)
    return np.where(usable, np.clip(dimension, SMALLEST, LARGEST), SMALLEST)


def levina_bickel(neighbors: Neighbors, k: int = 10) -> NDArray[np.float64]:
    """Levina and Bickel's maximum-likelihood dimension, ``(k - 1) / sum_{j<k} log(T_k / T_j)``.

    `T_j` is the distance to the j-th neighbour. Distances of zero say nothing and are left out; a node with fewer
    than two different distances has dimension 1.

    Returns
    -------
    (n,) float64 within [1, 200]
    """
    check_type(neighbors)
    k = whole_number(k, "k", 2, neighbors.k, "the neighbours there are")
    near = neighbors.distances[:, : k - 1]
    far = neighbors.distances[:, k - 1 : k]
    usable = near > 0
    logs = np.log(np.divide(far, near, out=np.ones_like(near), where=usable))
    return _from_logs(logs.sum(axis=1), usable.sum(axis=1))


def two_nn(neighbors: Neighbors) -> NDArray[np.float64]:
    """Facco's two-nearest-neighbour dimension over each neighbourhood, by maximum likelihood.

    The ratio ``mu = r2 / r1`` of a point's two nearest distances follows a Pareto law with the dimension as
    exponent. One ratio is too noisy, so those of the node and of its neighbours are taken together: ``m / sum log mu``.

    Parameters
    ----------
    neighbors : Neighbors of the rows of X, all of them

    Returns
    -------
    (n,) float64 within [1, 200]
    """
    check_type(neighbors)
    if neighbors.first != 0 or neighbors.indices.max() >= neighbors.n:
        raise ValueError(
            "neighbors must be those of all the rows of X: two_nn looks up the neighbours' own neighbours."
        )
    return _pareto_fit(neighbors, _log_ratio(neighbors), _log_ratio(neighbors))


def _log_ratio(neighbors: Neighbors) -> NDArray[np.float64]:
    """``log(r2 / r1)`` of every node; NaN where the nearest neighbour coincides with it and says nothing."""
    if neighbors.k < 2:
        raise ValueError(f"neighbors must have k of at least 2; got {neighbors.k}.")
    first, second = neighbors.distances[:, 0], neighbors.distances[:, 1]
    return np.log(np.divide(second, first, out=np.full(len(first), np.nan), where=first > 0))


def _pareto_fit(neighbors: Neighbors, own, of_rows) -> NDArray[np.float64]:
    """Dimension from the log ratios of nodes (m,) and of the rows of X that are their neighbours (n,)."""
    near = np.asarray(of_rows[neighbors.indices])
    usable, usable_near = ~np.isnan(own), ~np.isnan(near)
    total = np.where(usable, own, 0.0) + np.where(usable_near, near, 0.0).sum(axis=1)
    return _from_logs(total, usable.astype(int) + usable_near.sum(axis=1))


def _from_logs(total, count):
    """``count / total``, clipped; nothing to go by is dimension 1, equal distances are the largest one."""
    ratio = np.divide(count, total, out=np.full(len(total), LARGEST), where=total > 0)
    return np.where(count > 0, np.clip(ratio, SMALLEST, LARGEST), SMALLEST)


@dataclass(frozen=True)
class Dimension:
    """An estimate of the intrinsic dimension around each node, with its parameters.

    Parameters
    ----------
    estimator : {"mst", "levina_bickel", "two_nn"}, default="mst"
    n_rep : int, default=5
        Permutations per node, for "mst".
    k : int, default=10
        Neighbours, for "levina_bickel".
    log_ratio : (N,) array, optional
        For "two_nn": ``log(r2 / r1)`` of all rows of X, once they are known; see :meth:`resolve`.

    See Also
    --------
    dim_mst, levina_bickel, two_nn : the estimates as functions.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> neighbors = asbc.search_neighbors(X, k=30)
    >>> estimate = asbc.Dimension("levina_bickel", k=20)(X, neighbors)
    >>> 1.5 < np.median(estimate) < 2.5
    True
    """

    estimator: str = "mst"
    n_rep: int = 5
    k: int = 10
    log_ratio: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        one_of(self.estimator, "estimator", ESTIMATORS)
        whole_number(self.n_rep, "n_rep", 1)
        whole_number(self.k, "k", 2)

    @property
    def local(self) -> bool:
        """Whether a node's estimate follows from its own neighbours; "two_nn" asks the neighbours' neighbours."""
        return self.estimator != "two_nn" or self.log_ratio is not None

    def summarize(self, neighbors: Neighbors) -> dict[str, NDArray[np.float64]]:
        """What a block of nodes must tell before an estimate that is not local can be made."""
        return {"log_ratio": _log_ratio(neighbors)}

    def resolve(self, summary: Mapping[str, NDArray[Any]]) -> Dimension:
        """The estimate that can look at nodes one by one, given the summary of all rows of X."""
        return replace(self, log_ratio=summary["log_ratio"])

    def __call__(self, X: Floats | None, neighbors: Neighbors, seed: int = 0) -> NDArray[np.float64]:
        """The dimension (n,) of nodes; `X` may be None if `neighbors` carries the distances among them."""
        if self.estimator == "mst":
            return dim_mst(X, neighbors, n_rep=self.n_rep, seed=seed)
        if self.estimator == "levina_bickel":
            return levina_bickel(neighbors, k=self.k)
        if self.log_ratio is None:
            return two_nn(neighbors)
        return _pareto_fit(neighbors, _log_ratio(neighbors), self.log_ratio)
