"""Local intrinsic dimension: three estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.mst import tree_lengths
from asbc.neighbors.types import Neighbors, check_type, neighborhoods, vectors_for
from asbc.validation import MOST_REPETITIONS, Floats, one_of, seed_number, whole_number

SMALLEST_TREE = 8  # neighbours that a spanning-tree dimension needs at least
ESTIMATORS = ("mst", "levina_bickel", "two_nn")
SMALLEST, LARGEST = 1.0, 200.0  # dimensions: estimates beyond are set to the nearer of the two


def subset_sizes(k: int) -> NDArray[np.int64]:
    """Return the sizes of the subsets on which trees are built: six, growing geometrically from 8 to k.

    For k = 30 they are 8, 10, 14, 18, 23 and 30. Below 16 neighbours they start at k / 2, so that a slope can be fit.
    """
    return np.unique(np.geomspace(min(8, k // 2), k, 6).round().astype(np.int64))


def dim_mst(X: ArrayLike | None, neighbors: Neighbors, *, n_rep: int = 5, seed: int = 0) -> NDArray[np.float64]:
    """Intrinsic dimension around each node, from minimum spanning trees.

    The mean edge of the tree on m points of a d-dimensional set shrinks like ``m**(-1/d)``. Trees are built on nested
    random subsets of each neighbourhood, and d is read off the slope of the log of the mean edge against the log of
    the number of edges. With 30 points the estimate saturates: dimension 20 reads as 12, dimension 50 as 21.

    Parameters
    ----------
    X : (N, d) array or None
        The vectors. None is enough if `neighbors` carries the distances within neighbourhoods (``neighbors.pairs``).
    neighbors : Neighbors
        The neighbours of n nodes, at least 8 per node.
    n_rep : int, default=5
        Random permutations per node, over which the log edges are averaged.
    seed : int, default=0
        Seeds the permutations. Those of row i of X depend on ``(seed, i)`` only, those of a query on the seed and its
        neighbours, so neither blocks nor threads nor the order of nodes change an estimate.

    Returns
    -------
    (n,) float64
        Within [1, 200]. A node whose neighbours all coincide has dimension 1.

    See Also
    --------
    levina_bickel : from the distances to the nearest few neighbours; quicker and noisier.
    two_nn : from the two nearest distances of the node and of its neighbours.
    Dimension : any of the three, with its parameters, as one object.

    Examples
    --------
    A flat sheet in ten-dimensional space has two directions:

    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2)) @ rng.normal(size=(2, 10))
    >>> neighbors = asbc.search_neighbors(X, k=30)
    >>> bool(1.5 < np.median(asbc.dim_mst(X, neighbors)) < 2.5)
    True
    """
    vectors = vectors_for(X, neighbors)
    if neighbors.k < SMALLEST_TREE:
        raise ValueError(
            f"neighbors must have k of at least {SMALLEST_TREE} for a spanning-tree dimension; got {neighbors.k}."
        )
    n_rep, seed = whole_number(n_rep, "n_rep", 1, MOST_REPETITIONS), seed_number(seed)
    sizes = subset_sizes(neighbors.k)
    nodes = _names(neighbors)
    out = np.empty(neighbors.n)
    for rows, pairs in neighborhoods(vectors, neighbors):
        lengths = tree_lengths(pairs, neighbors.k, sizes, n_rep, seed, nodes[rows])
        out[rows] = _dimension_of(lengths, np.log(sizes - 1.0))
    return out


def _names(neighbors: Neighbors) -> NDArray[np.int64]:
    """One number per node that seeds its permutations: a row's place in X; for a query, a hash of its neighbours."""
    if neighbors.first is not None:
        return np.arange(neighbors.first, neighbors.first + neighbors.n)
    factors = np.random.default_rng(0).integers(1, 2**62, neighbors.k)
    return (neighbors.indices * factors).sum(axis=1) & np.int64(2**62 - 1)


def _dimension_of(lengths, x):
    """Dimension (m,) from mean edges `lengths` (m, n_rep, s) and the logs `x` (s,) of the numbers of edges.

    Subsets of coinciding points have a mean edge of zero, which has no logarithm: they are left out of the fit.
    """
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
    """Levina and Bickel's maximum-likelihood estimate of the dimension around each node.

    It is ``(k - 1) / sum_{j<k} log(T_k / T_j)``, where `T_j` is the distance to the j-th neighbour. Neighbours at
    distance zero are left out of the sum and of the count.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbours of n nodes, at least k per node.
    k : int, default=10
        The neighbours per node that the estimate uses, at least 2; the paper's k_mle.

    Returns
    -------
    (n,) float64
        Within [1, 200]: 1 where all these neighbours coincide with the node, 200 where all are equally far.

    See Also
    --------
    dim_mst : from spanning trees on the whole neighbourhood; steadier, and the paper's choice.
    two_nn : from the two nearest distances of the node and of its neighbours.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> dimension = asbc.levina_bickel(asbc.search_neighbors(X, k=20), k=20)
    >>> bool(1.5 < np.median(dimension) < 2.5)
    True
    """
    check_type(neighbors)
    k = whole_number(k, "k", 2, neighbors.k, "the neighbours there are")
    near = neighbors.distances[:, : k - 1]
    far = neighbors.distances[:, k - 1 : k]
    usable = near > 0
    logs = np.log(np.divide(far, near, out=np.ones_like(near), where=usable))
    return _from_logs(logs.sum(axis=1), usable.sum(axis=1))


def two_nn(neighbors: Neighbors) -> NDArray[np.float64]:
    """Facco's two-nearest-neighbour estimate of the dimension around each node, by maximum likelihood.

    The ratio ``mu = r2 / r1`` of a point's two nearest distances follows a Pareto law with the dimension as exponent.
    One ratio is too noisy, so those of the node and of its neighbours are taken together: with m ratios, the estimate
    is ``m / sum log mu``.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbours of all n rows of X, at least 2 per node, because each neighbour's own distances are looked up.

    Returns
    -------
    (n,) float64
        Within [1, 200].

    See Also
    --------
    levina_bickel : from more distances of the node itself.
    dim_mst : from spanning trees on the whole neighbourhood.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> dimension = asbc.two_nn(asbc.search_neighbors(X, k=20))
    >>> bool(1.5 < np.median(dimension) < 2.5)
    True
    """
    check_type(neighbors)
    if neighbors.first != 0 or neighbors.indices.max() >= neighbors.n:
        raise ValueError(
            "neighbors must be those of all the rows of X: two_nn looks up the neighbours' own neighbours."
        )
    return _pareto_fit(neighbors, _log_ratio(neighbors))


def _log_ratio(neighbors: Neighbors) -> NDArray[np.float64]:
    """``log(r2 / r1)`` of every node (n,); NaN where the nearest neighbour coincides with the node."""
    if neighbors.k < 2:
        raise ValueError(f"neighbors must have k of at least 2; got {neighbors.k}.")
    first, second = neighbors.distances[:, 0], neighbors.distances[:, 1]
    return np.log(np.divide(second, first, out=np.full(len(first), np.nan), where=first > 0))


def _pareto_fit(neighbors: Neighbors, of_rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Dimension (m,) of nodes, from their log ratios and those of all rows of X (N,)."""
    own, near = _log_ratio(neighbors), np.asarray(of_rows[neighbors.indices])
    usable, usable_near = ~np.isnan(own), ~np.isnan(near)
    total = np.where(usable, own, 0.0) + np.where(usable_near, near, 0.0).sum(axis=1)
    return _from_logs(total, usable.astype(int) + usable_near.sum(axis=1))


def _from_logs(total, count):
    """``count / total`` within [SMALLEST, LARGEST]: the smallest where nothing counts, the largest where total is 0."""
    ratio = np.divide(count, total, out=np.full(len(total), LARGEST), where=total > 0)
    return np.where(count > 0, np.clip(ratio, SMALLEST, LARGEST), SMALLEST)


@dataclass(frozen=True)
class Dimension:
    """An estimate of the intrinsic dimension around each node, with its parameters.

    Parameters
    ----------
    estimator : {"mst", "levina_bickel", "two_nn"}, default="mst"
        The function that computes the estimate: :func:`dim_mst`, :func:`levina_bickel` or :func:`two_nn`.
    n_rep : int, default=5
        For "mst": random permutations per node.
    k : int, default=10
        For "levina_bickel": neighbours per node.
    log_ratio : (N,) array or None, default=None
        For "two_nn": ``log(r2 / r1)`` of all rows of X. :meth:`resolve` puts it here; there is no need to pass it.

    See Also
    --------
    dim_mst, levina_bickel, two_nn : the estimates as functions.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).uniform(size=(500, 2))
    >>> neighbors = asbc.search_neighbors(X, k=30)
    >>> estimate = asbc.Dimension("levina_bickel", k=20)(X, neighbors)
    >>> bool(1.5 < np.median(estimate) < 2.5)
    True
    """

    estimator: str = "mst"
    n_rep: int = 5
    k: int = 10
    log_ratio: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        one_of(self.estimator, "estimator", ESTIMATORS)
        whole_number(self.n_rep, "n_rep", 1, MOST_REPETITIONS)
        whole_number(self.k, "k", 2)

    @property
    def local(self) -> bool:
        """Whether a node's estimate follows from its own neighbours alone; "two_nn" needs its neighbours' too."""
        return self.estimator != "two_nn" or self.log_ratio is not None

    def summarize(self, neighbors: Neighbors) -> dict[str, NDArray[np.float64]]:
        """Return what an estimate that is not local needs from a block of m nodes: arrays (m,) by name."""
        return {"log_ratio": _log_ratio(neighbors)}

    def resolve(self, summary: Mapping[str, NDArray[Any]]) -> Dimension:
        """Return the same estimate as a local one, given the arrays of :meth:`summarize` for all N rows of X."""
        return replace(self, log_ratio=summary["log_ratio"])

    def __call__(self, X: Floats | None, neighbors: Neighbors, seed: int = 0) -> NDArray[np.float64]:
        """The dimension (n,) of n nodes; `X` may be None if `neighbors` carries the distances among them."""
        if self.estimator == "mst":
            return dim_mst(X, neighbors, n_rep=self.n_rep, seed=seed)
        if self.estimator == "levina_bickel":
            return levina_bickel(neighbors, k=self.k)
        return two_nn(neighbors) if self.log_ratio is None else _pareto_fit(neighbors, self.log_ratio)
