"""What every rule for the bandwidth shares: what it gives, how it reports on it, and how it works block by block.

A rule that looks at nodes one by one says so (``local`` is True) and has ``choose``. A rule that needs all nodes has
two methods in its place. ``summarize`` says what the rule needs of one block of nodes, as arrays with one row per node;
``resolve`` takes those arrays, joined over all blocks, and gives a rule that comes closer to being local. They are
called in turn until the rule is local. In memory and block by block on disk, that is the same work on the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from asbc.kernels import criterion
from asbc.neighbors.types import Neighbors, kth_distance, neighborhoods, vectors_for
from asbc.validation import Floats, numbers_per_node, positive_number, sigma_per_node, whole_number

Vector = NDArray[np.float64]
Summary = Mapping[str, NDArray[Any]]


class ConstantNeighborhoodWarning(UserWarning):
    """All neighbours of a node coincide with it, so that any bandwidth gives the same kernel."""


@dataclass(frozen=True)
class BandwidthChoice:
    """Bandwidths of n nodes, and what the kernel on each node's neighbours looks like there.

    Attributes
    ----------
    sigma : (n,)
    effective_rank : (n,)
        Within [1, k].
    slope : (n,)
        Derivative of the log kernel sum by log sigma.
    objective : (n,)
        The criterion J with gamma = 1 (the rule's own gamma for :class:`SpectralBandwidth`); NaN if no dimension
        was given.
    at_edge : (n,) bool
        Whether sigma is the smallest or the largest that the rule would have considered.
    mutual : bool, default=False
        The Gaussian kernel between nodes i and j takes ``sigma_i sigma_j`` in place of ``sigma_i^2``.
    reweight : (n,) or None
        Factors f: a weight between i and j is multiplied by ``f_i f_j``.
    solved : (n,) int or None
        Eigenproblems that the search on the grid solved.

    See Also
    --------
    Bandwidth.select : gives it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = asbc.Fixed(0.5).select(X, asbc.search_neighbors(X, k=10))
    >>> choice.sigma.shape, float(choice.sigma[0])
    ((100,), 0.5)
    """

    sigma: Vector
    effective_rank: Vector
    slope: Vector
    objective: Vector
    at_edge: NDArray[np.bool_]
    mutual: bool = False
    reweight: Vector | None = None
    solved: NDArray[np.int64] | None = None


def bare_choice(sigma: Vector, *, mutual: bool = False, reweight: Vector | None = None) -> BandwidthChoice:
    """A choice without the report, which is all that neighbours are asked for."""
    none = np.empty(0)
    return BandwidthChoice(sigma, none, none, none, np.empty(0, bool), mutual=mutual, reweight=reweight)


def joined(choices: Sequence[BandwidthChoice]) -> BandwidthChoice:
    """The choices of blocks of nodes that follow each other, as one."""
    arrays: dict[str, Any] = {}
    for field in fields(BandwidthChoice):
        parts = [getattr(choice, field.name) for choice in choices]
        arrays[field.name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]
    return BandwidthChoice(**arrays)


def effective_rank(K: ArrayLike) -> float:
    """How many directions a kernel matrix resolves: ``exp`` of the entropy of its normalised eigenvalues.

    Parameters
    ----------
    K : (k, k) array, symmetric and positive semi-definite

    Returns
    -------
    float within [1, k]

    See Also
    --------
    SpectralBandwidth : chooses the bandwidth by it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> round(asbc.effective_rank(np.eye(5)), 6)  # all separate
    5.0
    >>> round(asbc.effective_rank(np.ones((5, 5))), 6)  # all alike
    1.0
    """
    K = np.asarray(K, float)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not len(K):
        raise ValueError(f"K must be a square matrix; got shape {K.shape}.")
    if not np.isfinite(K).all():
        raise ValueError("K must be finite; it holds NaN or infinity.")
    values = np.clip(np.linalg.eigvalsh(K), 0.0, None)
    if values.sum() <= 0:
        raise ValueError("K must have a positive trace; its eigenvalues are all zero.")
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def neighbor_number(k: Any, neighbors: Neighbors, name: str) -> int:
    """`k` as the number of one of a node's neighbours, counted from 1."""
    return whole_number(k, name, 1, neighbors.k, "the candidates of a node")


def check_dimension(dimension: ArrayLike | None, neighbors: Neighbors) -> Vector:
    """The dimension of every node, which this rule cannot do without."""
    if dimension is None:
        raise ValueError("dimension is needed by this rule: pass asbc.dim_mst(X, neighbors), or your own estimate.")
    return numbers_per_node(dimension, neighbors.n, "dimension")


def fill_constant(sigma: Vector, constant: NDArray[np.bool_]) -> Vector:
    """Give nodes whose neighbours all coincide with them the median bandwidth of the others."""
    if not constant.any():
        return sigma
    others = sigma[~constant]
    value = float(np.median(others)) if len(others) else 1.0
    warnings.warn(
        f"{constant.sum()} of {len(sigma)} nodes coincide with all their neighbours; their bandwidth is set to "
        f"{value:.6g}" + (", the median of the others." if len(others) else "."),
        ConstantNeighborhoodWarning,
        stacklevel=4,
    )
    return np.where(constant, value, sigma)


class Bandwidth(BaseEstimator):
    """A rule for the bandwidth. Derive from it to add one of your own.

    A rule of one's own has ``local = True`` and ``choose``, if it can look at nodes one by one; or ``summarize`` and
    ``resolve``, if it needs to see all nodes first. Either works in :class:`asbc.GraphBuilder`, in experiments and in
    ``asbc-build``.

    Attributes
    ----------
    local : bool
        Whether a node's bandwidth follows from its own neighbours.
    uses_dimension : bool
        Whether ``summarize`` looks at the dimension of the nodes; where it does not, nobody works it out for it.
    whole : BandwidthChoice or None
        The bandwidths of all rows of X, where the rule has been told them and neighbours must look them up.

    See Also
    --------
    SpectralBandwidth : the rule of the paper.

    Examples
    --------
    >>> import asbc
    >>> from asbc.bandwidth import report_at
    >>> class ThirdNeighbor(asbc.Bandwidth):
    ...     local = True
    ...     def choose(self, X, neighbors, dimension):
    ...         return report_at(X, neighbors, neighbors.distances[:, 2], dimension)
    >>> asbc.GraphBuilder(bandwidth=ThirdNeighbor())
    GraphBuilder(bandwidth=ThirdNeighbor())
    """

    uses_dimension: bool = True
    whole: BandwidthChoice | None = None

    @property
    def local(self) -> bool:
        return False

    def select(self, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None) -> BandwidthChoice:
        """Choose a bandwidth for every node.

        Parameters
        ----------
        X : (n, d) array, or None if `neighbors` carries the distances within neighbourhoods
        neighbors : Neighbors
        dimension : (n,) array, optional
            Local intrinsic dimension. Rules that do not need it use it for the report only.

        Returns
        -------
        BandwidthChoice of n nodes
        """
        vectors = vectors_for(X, neighbors)
        rule: Bandwidth = self
        while not rule.local:
            rule = rule.resolve(rule.summarize(vectors, neighbors, dimension))
        return rule.choose(vectors, neighbors, dimension)

    def extend(
        self, choice: BandwidthChoice, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None
    ) -> BandwidthChoice:
        """Bandwidths for queries, whose neighbours among the rows of X are given, after `choice` was made on X."""
        return self.select(X, neighbors, dimension)

    def choose(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> BandwidthChoice:
        """Bandwidths of some nodes, one by one. Only local rules have it."""
        raise TypeError(f"{type(self).__name__} has no choose(): a local rule must say how it chooses.")

    def summarize(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> Summary:
        """What the rule needs of a block of m nodes: arrays by name, (m,) or (m, c) each."""
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def resolve(self, summary: Summary) -> Bandwidth:
        """The rule that this one becomes once it knows the summary of all n nodes: arrays (n,) or (n, c) by name.

        They may be memory maps: look at them a part at a time where they are wide.
        """
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def constant(self, neighbors: Neighbors) -> NDArray[np.bool_]:
        """Nodes that a local rule cannot tell a bandwidth of, because they coincide with all their neighbours."""
        return np.zeros(neighbors.n, bool)


class OneForAll(Bandwidth):
    """One bandwidth for all nodes, as it was found.

    Parameters
    ----------
    sigma : float
    at_edge : bool, default=False
        Whether it lies at the edge of what was considered.
    """

    def __init__(self, sigma: float, at_edge: bool = False):
        self.sigma = sigma
        self.at_edge = at_edge

    @property
    def local(self) -> bool:
        return True

    def choose(self, X, neighbors, dimension):
        sigma = positive_number(self.sigma, "sigma")
        return report_at(X, neighbors, np.full(neighbors.n, sigma), dimension, np.full(neighbors.n, self.at_edge))


class OneEach(Bandwidth):
    """The bandwidth of every row of X, as they were found.

    Parameters
    ----------
    sigma : (N,) array, N the rows of X
    mutual : bool, default=False
        See :class:`BandwidthChoice`.
    """

    def __init__(self, sigma: Vector, mutual: bool = False):
        self.sigma = sigma
        self.mutual = mutual

    @property
    def local(self) -> bool:
        return True

    @property
    def whole(self) -> BandwidthChoice:  # type: ignore[override]
        return bare_choice(self.sigma, mutual=self.mutual)

    def choose(self, X, neighbors, dimension):
        own = np.array(self.sigma[neighbors.first : neighbors.first + neighbors.n])
        return report_at(X, neighbors, own, dimension, mutual=self.mutual)


class Global(Bandwidth):
    """Rules that give one bandwidth to all nodes: they resolve to :class:`OneForAll`."""

    def resolve(self, summary):
        sigma, at_edge = self.one_sigma(summary)
        if sigma == 0:  # no distance is above zero: any bandwidth is as good
            n = len(next(iter(summary.values())))
            sigma = float(fill_constant(np.ones(n), np.ones(n, bool))[0])
        return OneForAll(sigma, at_edge)

    def one_sigma(self, summary: Summary) -> tuple[float, bool]:
        """The bandwidth, 0 where all nodes coincide, and whether it lies at the edge of what was considered."""
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def extend(self, choice, X, neighbors, dimension=None):
        return OneForAll(float(choice.sigma[0]), bool(choice.at_edge[0])).select(X, neighbors, dimension)


def report_at(
    X: Floats | None,
    neighbors: Neighbors,
    sigma: ArrayLike,
    dimension: ArrayLike | None = None,
    at_edge: NDArray[np.bool_] | None = None,
    *,
    mutual: bool = False,
) -> BandwidthChoice:
    """Rank, slope and J (gamma = 1, default grid) at bandwidths that some rule has chosen.

    Parameters
    ----------
    X : (N, d) array, or None if `neighbors` carries the distances within neighbourhoods
    neighbors : Neighbors of n nodes
    sigma : (n,) array or float
    dimension : (n,) array, optional
        Without it J is NaN.
    at_edge : (n,) bool array, optional
        None means nowhere.
    mutual : bool, default=False
        See :class:`BandwidthChoice`.
    """
    sigma = sigma_per_node(sigma, neighbors.n)
    at_edge = np.zeros(neighbors.n, bool) if at_edge is None else at_edge
    target = np.full(neighbors.n, np.nan) if dimension is None else check_dimension(dimension, neighbors)
    ranks, slopes, steepest = np.empty((3, neighbors.n))
    grid = geometric_grid(neighbors, 12, min(10, neighbors.k), 0.05, 3.0)
    for rows, pairs in neighborhoods(X, neighbors):
        ranks[rows], slopes[rows] = criterion.evaluate_at(pairs, sigma[rows], neighbors.k)
        steepest[rows] = criterion.grid_slopes(pairs, grid[rows], neighbors.k)
    # Between grid points a slope may be above the largest on the grid; it is then as steep as can be.
    flatness = np.divide(np.maximum(steepest - slopes, 0), steepest, out=np.zeros_like(slopes), where=steepest > 0)
    objective = np.abs(ranks - target) / target + flatness
    return BandwidthChoice(sigma, ranks, slopes, objective, at_edge, mutual=mutual)


def geometric_grid(neighbors: Neighbors, n_grid: int, k_mle: int, low: float, high: float) -> NDArray[np.float64]:
    """(n, n_grid) bandwidths, geometric from ``low d_{k_mle}`` to ``high d_k``; ones where all distances are zero."""
    bottom = low * kth_distance(neighbors, k_mle)
    top = high * kth_distance(neighbors, neighbors.k)
    constant = bottom == 0
    bottom, top = np.where(constant, 1.0, bottom), np.where(constant, 1.0, top)
    return bottom[:, None] * (top / bottom)[:, None] ** (np.arange(n_grid) / (n_grid - 1))
