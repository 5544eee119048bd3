"""How wide the kernel is: one class a rule.

Every rule has ``select(X, neighbors, dimension)``, which gives a :class:`BandwidthChoice`, and
``extend(choice, X, neighbors, dimension)``, which carries a choice made on X over to unseen points.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize_scalar
from sklearn.base import BaseEstimator

from asbc.kernels import criterion
from asbc.kernels.perplexity import match_neighbors
from asbc.neighbors import Floats, Neighbors, as_vectors, neighborhoods, vectors_for, whole_number

Vector = NDArray[np.float64]

SMALLEST, LARGEST = 1e-150, 1e150  # bandwidths whose squares are numbers


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
    mutual : bool
        The Gaussian kernel between nodes i and j takes ``sigma_i sigma_j`` in place of ``sigma_i^2``.
    reweight : (n,) or None
        Factors f: a weight between i and j is multiplied by ``f_i f_j``.
    solved : (n,) int or None
        Eigenproblems that the search on the grid solved.
    """

    sigma: Vector
    effective_rank: Vector
    slope: Vector
    objective: Vector
    at_edge: NDArray[np.bool_]
    mutual: bool = False
    reweight: Vector | None = None
    solved: NDArray[np.int64] | None = None


def joined(choices: Sequence[BandwidthChoice]) -> BandwidthChoice:
    """The choices of blocks of nodes that follow each other, as one."""
    arrays: dict[str, Any] = {}
    for field in fields(BandwidthChoice):
        parts = [getattr(choice, field.name) for choice in choices]
        arrays[field.name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]
    return BandwidthChoice(**arrays)


def effective_rank(K: ArrayLike) -> float:
    """``exp`` of the entropy of the normalised eigenvalues of one symmetric positive semi-definite matrix (k, k)."""
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


def check_positive(value: float, name: str) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not np.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def _check_rank_in_row(k: int, neighbors: Neighbors, name: str) -> int:
    return whole_number(k, name, 1, neighbors.k, "the candidates of a node")


def check_dimension(dimension: ArrayLike | None, neighbors: Neighbors) -> Vector:
    if dimension is None:
        raise ValueError("dimension is needed by this rule: pass asbc.dim_mst(X, neighbors), or your own estimate.")
    values = np.asarray(dimension, float)
    if values.shape != (neighbors.n,):
        raise ValueError(f"dimension must have shape ({neighbors.n},), one number a node; got {values.shape}.")
    good = np.isfinite(values) & (values > 0)
    if not good.all():
        bad = int(np.argmin(good))
        raise ValueError(f"dimension must be positive and finite; node {bad} has {values[bad]}.")
    return values


def anchor(neighbors: Neighbors, k: int) -> Vector:
    """Distance to the k-th neighbour; where duplicates make that zero, the smallest above zero, if there is one."""
    distances = neighbors.distances
    positive = np.where(distances > 0, distances, np.inf).min(axis=1)
    at_k = distances[:, k - 1]
    return np.where(at_k > 0, at_k, np.where(np.isfinite(positive), positive, 0.0))


def constant_nodes(rule: Bandwidth, neighbors: Neighbors) -> NDArray[np.bool_]:
    """Nodes that `rule` cannot tell a bandwidth of one by one, because they coincide with all their neighbours."""
    if isinstance(rule, SpectralBandwidth | Perplexity):
        return neighbors.distances[:, -1] == 0
    return np.zeros(neighbors.n, bool)


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
    """What all rules share: checks, and the report on the kernels that a choice leads to."""

    @property
    def local(self) -> bool:
        """Whether a node's bandwidth follows from its own neighbours, so that nodes can be worked on in blocks."""
        return False

    def select(self, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None) -> BandwidthChoice:
        """Choose a bandwidth for every node.

        Parameters
        ----------
        X : (n, d) array, or None if `neighbors` carries the distances within neighbourhoods
        neighbors : Neighbors
        dimension : (n,) array, optional
            Local intrinsic dimension. Rules that do not need it use it for the report only.
        """
        return self._select(vectors_for(X, neighbors), neighbors, dimension)

    def extend(
        self, choice: BandwidthChoice, X: ArrayLike, neighbors: Neighbors, dimension: ArrayLike | None = None
    ) -> BandwidthChoice:
        """Bandwidths for queries, whose neighbours among the rows of X are given, after `choice` was made on X."""
        return self.select(X, neighbors, dimension)

    def _select(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> BandwidthChoice:
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")


def report_at(X, neighbors, sigma, dimension, at_edge, **more) -> BandwidthChoice:
    """Rank, slope and J (gamma = 1, default grid) at bandwidths that some other rule has chosen."""
    target = np.full(neighbors.n, np.nan) if dimension is None else check_dimension(dimension, neighbors)
    ranks, slopes, steepest = np.empty((3, neighbors.n))
    grid = _grid(neighbors, 12, min(10, neighbors.k), 0.05, 3.0)
    for rows, pairs in neighborhoods(X, neighbors):
        ranks[rows], slopes[rows] = criterion.evaluate_at(pairs, sigma[rows], neighbors.k)
        steepest[rows] = criterion.grid_slopes(pairs, grid[rows], neighbors.k)
    # Between grid points a slope may be above the largest on the grid; it is then as steep as can be.
    flatness = np.divide(np.maximum(steepest - slopes, 0), steepest, out=np.zeros_like(slopes), where=steepest > 0)
    return BandwidthChoice(sigma, ranks, slopes, np.abs(ranks - target) / target + flatness, at_edge, **more)


def _grid(neighbors, n_grid, k_mle, low, high):
    """(n, n_grid) bandwidths, geometric from ``low d_{k_mle}`` to ``high d_k``; ones where all distances are zero."""
    bottom = low * anchor(neighbors, k_mle)
    top = high * anchor(neighbors, neighbors.k)
    constant = bottom == 0
    bottom, top = np.where(constant, 1.0, bottom), np.where(constant, 1.0, top)
    return bottom[:, None] * (top / bottom)[:, None] ** (np.arange(n_grid) / (n_grid - 1))


class SpectralBandwidth(Bandwidth):
    """Per node, the bandwidth whose kernel resolves as many directions as the neighbourhood has.

    Minimises ``J = |r - gamma d| / (gamma d) + (l_max - l) / l_max`` over a geometric grid, with the effective rank r
    and the log-log slope l of the kernel among the node's neighbours and the intrinsic dimension d. The minimum is
    that of the whole grid, though few of its points need an eigenproblem; the smaller bandwidth wins a tie.

    Parameters
    ----------
    gamma : float
        The rank wanted is ``gamma d``.
    n_grid : int
    k_mle : int
        The grid starts at ``low`` times the distance to this neighbour, ...
    low, high : float
        ... and ends at ``high`` times the distance to the last one.
    refine : bool
        Search on between the two grid points beside the best one. A coarse grid lets r jump by a third between points.
    """

    def __init__(
        self,
        gamma: float = 1.0,
        n_grid: int = 12,
        k_mle: int = 10,
        low: float = 0.05,
        high: float = 3.0,
        refine: bool = False,
    ):
        self.gamma = gamma
        self.n_grid = n_grid
        self.k_mle = k_mle
        self.low = low
        self.high = high
        self.refine = refine

    @property
    def local(self):
        return True

    def _select(self, X, neighbors, dimension):
        gamma = check_positive(self.gamma, "gamma")
        n_grid = whole_number(self.n_grid, "n_grid", 2)
        low, high = check_positive(self.low, "low"), check_positive(self.high, "high")
        if low >= high:
            raise ValueError(f"low must be below high; got low={low} and high={high}.")
        if not isinstance(self.refine, bool | np.bool_):
            raise TypeError(f"refine must be True or False; got {self.refine!r}.")
        k = neighbors.k
        if k < 2:
            raise ValueError(f"neighbors must have k of at least 2: one neighbour has no kernel to speak of; got {k}.")
        k_mle = _check_rank_in_row(self.k_mle, neighbors, "k_mle")
        target = gamma * check_dimension(dimension, neighbors)
        grid = _grid(neighbors, n_grid, k_mle, low, high)
        n = neighbors.n
        sigma, rank, slope, objective = np.empty((4, n))
        at_edge = np.empty(n, bool)
        solved = np.empty(n, np.int64)
        for rows, pairs in neighborhoods(X, neighbors):
            points = grid[rows]
            column, rank[rows], slope[rows], objective[rows], steepest, solved[rows] = criterion.search_grid(
                pairs, points, target[rows], k, True
            )
            at_edge[rows] = (column == 0) | (column == points.shape[1] - 1)
            each = np.arange(len(points))
            sigma[rows] = points[each, column]
            if self.refine:
                left = points[each, np.maximum(column - 1, 0)]
                right = points[each, np.minimum(column + 1, points.shape[1] - 1)]
                found = criterion.refine(pairs, left, right, target[rows], steepest, k)
                better = found[3] < objective[rows]
                for array, new in zip((sigma, rank, slope, objective), found, strict=True):
                    array[rows] = np.where(better, new, array[rows])
        sigma = fill_constant(sigma, anchor(neighbors, k) == 0)
        return BandwidthChoice(sigma, rank, slope, objective, at_edge, solved=solved)


class Perplexity(Bandwidth):
    """Per node, the bandwidth at which its Gaussian weights count as ``beta d`` neighbours.

    The effective number of neighbours is ``exp`` of the entropy of the node's normalised weights; it is capped at
    0.9 k, and rises with the bandwidth, so bisection finds it.
    """

    def __init__(self, beta: float = 2.0):
        self.beta = beta

    @property
    def local(self):
        return True

    def _select(self, X, neighbors, dimension):
        beta = check_positive(self.beta, "beta")
        target = np.clip(beta * check_dimension(dimension, neighbors), 1.0, max(1.0, 0.9 * neighbors.k))
        nearest = anchor(neighbors, 1)
        constant = nearest == 0
        low = np.where(constant, 1.0, 0.05 * nearest)
        high = np.where(constant, 1.0, 100.0 * anchor(neighbors, neighbors.k))
        sigma = match_neighbors(neighbors.distances**2, target, low, high)
        at_edge = (sigma <= low * (1 + 1e-9)) | (sigma >= high * (1 - 1e-9))
        return report_at(X, neighbors, fill_constant(sigma, constant), dimension, at_edge)


class SelfTuning(Bandwidth):
    """Zelnik-Manor and Perona: ``exp(-d_ij^2 / (s_i s_j))`` with s_i the distance to the k-th neighbour.

    In terms of ``exp(-d^2 / (2 sigma_i sigma_j))``, ``sigma_i = s_i / sqrt(2)``. That kernel need not be positive
    semi-definite, so NNK weights take a node's own sigma on its whole neighbourhood.
    """

    def __init__(self, k: int = 7):
        self.k = k

    def local_sigma(self, neighbors: Neighbors) -> tuple[Vector, NDArray[np.bool_]]:
        """Bandwidths (n,), and the nodes that have none of their own because all their neighbours coincide."""
        scale = anchor(neighbors, _check_rank_in_row(self.k, neighbors, "k"))
        return np.where(scale > 0, scale, 1.0) / np.sqrt(2.0), scale == 0

    def _select(self, X, neighbors, dimension):
        sigma = fill_constant(*self.local_sigma(neighbors))
        return report_at(X, neighbors, sigma, dimension, np.zeros(neighbors.n, bool), mutual=True)


class _Global(Bandwidth):
    """Rules that give one bandwidth to all nodes."""

    def _sigma(self, X, neighbors, dimension) -> tuple[float, bool]:
        """The bandwidth, and whether it lies at the edge of what was considered."""
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def _select(self, X, neighbors, dimension):
        n = neighbors.n
        sigma, at_edge = self._sigma(X, neighbors, dimension)
        if sigma == 0:  # no distance is above zero: any bandwidth is as good
            sigma = float(fill_constant(np.ones(n), np.ones(n, bool))[0])
        return report_at(X, neighbors, np.full(n, sigma), dimension, np.full(n, at_edge))

    def extend(self, choice, X, neighbors, dimension=None):
        n = neighbors.n
        at_edge = np.full(n, choice.at_edge[0])
        return report_at(as_vectors(X), neighbors, np.full(n, choice.sigma[0]), dimension, at_edge)


class Fixed(_Global):
    """One bandwidth for all nodes.

    Parameters
    ----------
    value : float or {"mean_knn", "median_spectral"}
        A number; or the mean distance to the k_mle-th neighbour; or the median of what `spectral` chooses node by
        node, the control that tells whether choosing per node is what helps.
    k_mle : int
    spectral : SpectralBandwidth, optional
        For ``"median_spectral"``; the default one if None.
    """

    def __init__(self, value: float | str = "mean_knn", k_mle: int = 10, spectral: SpectralBandwidth | None = None):
        self.value = value
        self.k_mle = k_mle
        self.spectral = spectral

    @property
    def local(self):
        return not isinstance(self.value, str)

    def _sigma(self, X, neighbors, dimension):
        if not isinstance(self.value, str):
            value = check_positive(self.value, "value")
            if not SMALLEST <= value <= LARGEST:
                raise ValueError(
                    f"value must lie between {SMALLEST:g} and {LARGEST:g}, where its square is a number; got {value}."
                )
            return value, False
        if self.value == "mean_knn":
            k = _check_rank_in_row(self.k_mle, neighbors, "k_mle")
            # Where duplicates make that mean vanish, distances above zero take their place.
            return float(neighbors.distances[:, k - 1].mean()) or float(anchor(neighbors, k).mean()), False
        if self.value == "median_spectral":
            spectral = SpectralBandwidth() if self.spectral is None else self.spectral
            return float(np.median(spectral._select(X, neighbors, dimension).sigma)), False
        raise ValueError(f"value must be a positive number, 'mean_knn' or 'median_spectral'; got {self.value!r}.")


class _LogLogCurve:
    """Slope of the log sum of the whole neighbour kernel, the diagonal included, against log sigma."""

    def __init__(self, neighbors: Neighbors, n_grid: int, k_mle: int):
        self.squared = neighbors.distances**2
        self.n = neighbors.n
        mean_low, mean_high = anchor(neighbors, k_mle).mean(), anchor(neighbors, neighbors.k).mean()
        self.grid = np.geomspace(0.05 * mean_low, 3.0 * mean_high, n_grid)
        self.slopes = np.array([self(sigma) for sigma in self.grid])

    def __call__(self, sigma: float) -> float:
        mass, moment = float(self.n), 0.0
        for start in range(0, self.n, 65536):
            squared = self.squared[start : start + 65536]
            kernel = np.exp(squared * (-0.5 / sigma**2))
            mass += kernel.sum()
            moment += (kernel * squared).sum()
        return moment / sigma**2 / mass

    def steepest(self) -> tuple[float, bool]:
        """Where the slope is largest, and whether that is an end of the grid."""
        best = int(np.argmax(self.slopes))
        if best in (0, len(self.grid) - 1):
            return float(self.grid[best]), True
        bounds = np.log(self.grid[[best - 1, best + 1]])
        found = minimize_scalar(lambda t: -self(np.exp(t)), bounds=bounds, method="bounded")
        return float(np.exp(found.x)), False


class LogLog(_Global):
    """One bandwidth, where the log-log curve of the whole neighbour kernel's sum is steepest (Coifman; Singer)."""

    def __init__(self, n_grid: int = 48, k_mle: int = 10):
        self.n_grid = n_grid
        self.k_mle = k_mle

    def _sigma(self, X, neighbors, dimension):
        k_mle, n_grid = _check_rank_in_row(self.k_mle, neighbors, "k_mle"), whole_number(self.n_grid, "n_grid", 3)
        if not neighbors.distances.any():
            return 0.0, False
        return _LogLogCurve(neighbors, n_grid, k_mle).steepest()


class DimensionMatching(_Global):
    """One bandwidth, from the dimension of the whole set (Lindenbaum).

    Parameters
    ----------
    rule : {"slope", "max_min"}
        ``"slope"``: where the rising log-log curve has the median dimension as slope; where it is steepest if it
        never gets there, which counts as an edge. ``"max_min"``: the largest distance to a nearest neighbour, which
        is the rule ``2 sigma^2 = C max_i min_j d_ij^2`` with C = 2.
    """

    def __init__(self, rule: str = "slope", n_grid: int = 48, k_mle: int = 10):
        self.rule = rule
        self.n_grid = n_grid
        self.k_mle = k_mle

    def _sigma(self, X, neighbors, dimension):
        if self.rule == "max_min":
            widest = float(neighbors.distances[:, 0].max())
            return (widest, False) if widest > 0 else (float(anchor(neighbors, neighbors.k).max()), True)
        if self.rule != "slope":
            raise ValueError(f"rule must be 'slope' or 'max_min'; got {self.rule!r}.")
        target = float(np.median(check_dimension(dimension, neighbors)))
        k_mle, n_grid = _check_rank_in_row(self.k_mle, neighbors, "k_mle"), whole_number(self.n_grid, "n_grid", 3)
        if not neighbors.distances.any():
            return 0.0, False
        curve = _LogLogCurve(neighbors, n_grid, k_mle)
        if curve.slopes[0] >= target:
            return float(curve.grid[0]), True
        above = np.flatnonzero(curve.slopes >= target)
        if not len(above):
            return curve.steepest()[0], True
        left, right = np.log(curve.grid[[above[0] - 1, above[0]]])
        return float(np.exp(brentq(lambda t: curve(np.exp(t)) - target, left, right))), False


class DensityNormalised(Bandwidth):
    """Coifman and Lafon: weights divided by ``(q_i q_j)^alpha``, q the kernel sum at a node.

    It is a normalisation rather than a choice of sigma, which it takes from another rule.

    Parameters
    ----------
    base : Bandwidth, optional
        The rule for sigma; ``Fixed("mean_knn")`` if None.
    alpha : float
        1 removes the sampling density, 0 leaves the weights alone.
    """

    def __init__(self, base: Bandwidth | None = None, alpha: float = 1.0):
        self.base = base
        self.alpha = alpha

    def _base(self) -> Bandwidth:
        base = Fixed("mean_knn") if self.base is None else self.base
        if not isinstance(base, Bandwidth):
            raise TypeError(f"base must be a rule such as asbc.Fixed(0.5); got {base!r}.")
        return base

    def _reweighted(self, choice, neighbors):
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha < 0:
            raise ValueError(f"alpha must be a number of at least 0; got {self.alpha!r}.")
        kernel = np.exp(-(neighbors.distances**2) / (2.0 * choice.sigma[:, None] ** 2))
        return replace(choice, reweight=(1.0 + kernel.sum(axis=1)) ** -self.alpha)

    def _select(self, X, neighbors, dimension):
        return self._reweighted(self._base()._select(X, neighbors, dimension), neighbors)

    def extend(self, choice, X, neighbors, dimension=None):
        return self._reweighted(self._base().extend(choice, X, neighbors, dimension), neighbors)
