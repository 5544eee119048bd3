"""Bandwidth rules from the literature: self-tuning, fixed, log-log slope, dimension matching, density normalisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from asbc.bandwidth.rule import (
    Bandwidth,
    BandwidthChoice,
    KnownBandwidth,
    Summary,
    check_dimension,
    neighbor_number,
)
from asbc.bandwidth.spectral import SpectralBandwidth
from asbc.neighbors.types import kth_distance
from asbc.validation import MOST_GRID, one_of, positive_number, sigma_per_node, whole_number

__all__ = ["DensityNormalized", "DimensionMatching", "Fixed", "LogLog", "SelfTuning"]

ROWS_AT_ONCE = 65536  # nodes whose distances are read together: all of them may not fit into memory


class SelfTuning(Bandwidth):
    """Zelnik-Manor and Perona's rule: ``exp(-d_ij^2 / (s_i s_j))``, where s_i is the distance to the k-th neighbour.

    Written as ``exp(-d_ij^2 / (2 sigma_i sigma_j))``, that is ``sigma_i = s_i / sqrt(2)``. Such a kernel need not be
    positive semi-definite, as NNK weights require; these use the node's own sigma for all pairs of its neighbours.

    Parameters
    ----------
    k : int, default=7
        The neighbour, counted from 1, whose distance is the scale of a node.

    See Also
    --------
    Perplexity : a rule for the same, dense weights that follows the dimension.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> choice = asbc.SelfTuning(k=1).select(X, asbc.search_neighbors(X, k=2))
    >>> choice.sigma.round(2), choice.mutual
    (array([0.71, 0.71, 1.41]), True)
    """

    uses_dimension = False
    presets: ClassVar = {"self_tuning": {}}

    def __init__(self, k: int = 7):
        self.k = k

    def check_parameters(self, k):
        neighbor_number(self.k, k, "k")

    def summarize(self, X, neighbors, dimension):
        return {"sigma": kth_distance(neighbors, int(self.k)) / np.sqrt(2.0)}

    def resolve(self, summary):
        return KnownBandwidth(np.asarray(summary["sigma"]), mutual=True)

    def choose(self, X, neighbors, dimension):  # of queries; the rows of X need each other's sigma
        return BandwidthChoice(self.summarize(X, neighbors, dimension)["sigma"], mutual=True)


class GlobalRule(Bandwidth, ABC):
    """Base class of rules that choose one bandwidth for all nodes: they define ``one_sigma``."""

    @abstractmethod
    def one_sigma(self, summary: Summary) -> tuple[float, bool]:
        """Return the bandwidth (0 if all nodes coincide), and whether it is the smallest or the largest considered."""

    def resolve(self, summary):
        return KnownBandwidth(*self.one_sigma(summary))

    def rule_for_queries(self, choice):
        return KnownBandwidth(float(choice.sigma[0]), bool(choice.at_edge[0]))


class Fixed(GlobalRule):
    """One bandwidth for all nodes: a number, a mean distance, or the median of what another rule chooses.

    Parameters
    ----------
    value : float or {"mean_knn", "median_spectral"}, default="mean_knn"
        The bandwidth itself; or ``"mean_knn"``, the mean distance to the k_mle-th neighbour; or
        ``"median_spectral"``, the median of the bandwidths that `spectral` chooses per node. The last one is the
        control that shows whether choosing per node helps.
    k_mle : int, default=10
        The neighbour, counted from 1, whose distance ``"mean_knn"`` uses.
    spectral : SpectralBandwidth or None, default=None
        The rule of ``"median_spectral"``; None for ``SpectralBandwidth()``.

    See Also
    --------
    SpectralBandwidth : a bandwidth for each node.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> neighbors = asbc.search_neighbors(X, k=2)
    >>> asbc.Fixed(0.5).select(X, neighbors).sigma
    array([0.5, 0.5, 0.5])
    >>> asbc.Fixed("mean_knn", k_mle=1).select(X, neighbors).sigma  # the mean of 1, 1 and 2
    array([1.33333333, 1.33333333, 1.33333333])
    """

    presets: ClassVar = {"fixed": {}, "median_spectral": {"value": "median_spectral", "spectral": SpectralBandwidth()}}

    def __init__(self, value: float | str = "mean_knn", k_mle: int = 10, spectral: SpectralBandwidth | None = None):
        self.value = value
        self.k_mle = k_mle
        self.spectral = spectral

    @property
    def local(self) -> bool:  # type: ignore[override]
        return not isinstance(self.value, str)

    @property
    def uses_dimension(self) -> bool:  # type: ignore[override]
        return self.value == "median_spectral"

    def check_parameters(self, k):
        if not isinstance(self.value, str):
            sigma_per_node(positive_number(self.value, "value"), 1, "value")
        elif self.value == "mean_knn":
            neighbor_number(self.k_mle, k, "k_mle")
        elif self.value == "median_spectral":
            self._spectral().check_parameters(k)
        else:
            raise ValueError(f"value must be a positive number, 'mean_knn' or 'median_spectral'; got {self.value!r}.")

    def _spectral(self) -> SpectralBandwidth:
        return SpectralBandwidth() if self.spectral is None else self.spectral

    def choose(self, X, neighbors, dimension):
        return KnownBandwidth(float(self.value)).choose(X, neighbors, dimension)

    def summarize(self, X, neighbors, dimension):
        if self.value == "mean_knn":
            k = int(self.k_mle)
            return {"at_k": neighbors.distances[:, k - 1].copy(), "above_zero": kth_distance(neighbors, k)}
        return {"sigma": self._spectral().choose(X, neighbors, dimension).sigma}

    def one_sigma(self, summary):
        if self.value == "mean_knn":
            # If duplicates make that mean zero, average the smallest positive distance of each node.
            return float(summary["at_k"].mean()) or float(summary["above_zero"].mean()), False
        sigma = np.asarray(summary["sigma"])
        return float(np.median(sigma[sigma > 0])) if sigma.any() else 0.0, False


class LogLogCurve:
    """Slope, at any sigma, of the log of the kernel's sum against log sigma.

    The sum is over all nodes and their neighbours, and each node with itself. `summary` is that of :class:`LogLog` for
    all nodes; `n_grid` is the number of bandwidths at which the slope is computed first.
    """

    def __init__(self, summary: Summary, n_grid: int):
        self.distances = summary["distances"]
        mean_low, mean_high = summary["at_k_mle"].mean(), summary["at_last"].mean()
        self.grid = np.geomspace(0.05 * mean_low, 3.0 * mean_high, n_grid)
        self.slopes = np.array([self(sigma) for sigma in self.grid])

    def __call__(self, sigma: float) -> float:
        mass, moment = float(len(self.distances)), 0.0  # each node's kernel with itself is 1
        for start in range(0, len(self.distances), ROWS_AT_ONCE):
            squared = np.asarray(self.distances[start : start + ROWS_AT_ONCE]) ** 2
            kernel = np.exp(squared * (-0.5 / sigma**2))
            mass += kernel.sum()
            moment += (kernel * squared).sum()
        return moment / sigma**2 / mass

    def steepest(self) -> tuple[float, bool]:
        """The sigma with the largest slope, and whether that is an end of the grid."""
        best = int(np.argmax(self.slopes))
        if best in (0, len(self.grid) - 1):
            return float(self.grid[best]), True
        bounds = np.log(self.grid[[best - 1, best + 1]])
        found = minimize_scalar(lambda t: -self(np.exp(t)), bounds=bounds, method="bounded")
        return float(np.exp(found.x)), False


class LogLog(GlobalRule):
    """One bandwidth for all nodes, where the log of the kernel's sum rises most steeply with log sigma.

    The rule goes back to Coifman and to Singer. The sum is over all nodes and their neighbours.

    Parameters
    ----------
    n_grid : int, default=48
        Bandwidths at which the slope is computed first; the search continues between the two next to the best one.
    k_mle : int, default=10
        The neighbour, counted from 1, that sets the smallest bandwidth: a twentieth of the mean distance to it.

    See Also
    --------
    DimensionMatching : the point of the same curve whose slope is the dimension.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = asbc.LogLog().select(X, asbc.search_neighbors(X, k=10))
    >>> len(np.unique(choice.sigma)), bool(choice.at_edge.any())
    (1, False)
    """

    uses_dimension = False
    presets: ClassVar = {"log_log": {}}

    def __init__(self, n_grid: int = 48, k_mle: int = 10):
        self.n_grid = n_grid
        self.k_mle = k_mle

    def check_parameters(self, k):
        whole_number(self.n_grid, "n_grid", 3, MOST_GRID)
        neighbor_number(self.k_mle, k, "k_mle")

    def summarize(self, X, neighbors, dimension):
        return {
            "distances": neighbors.distances,
            "at_k_mle": kth_distance(neighbors, int(self.k_mle)),
            "at_last": kth_distance(neighbors, neighbors.k),
        }

    def one_sigma(self, summary):
        return LogLogCurve(summary, int(self.n_grid)).steepest() if summary["at_last"].any() else (0.0, False)


class DimensionMatching(LogLog):
    """Lindenbaum's rules: one bandwidth for all nodes, from the dimension of the whole set.

    Parameters
    ----------
    rule : {"slope", "max_min"}, default="slope"
        ``"slope"`` is the smallest sigma at which the slope of the log of the kernel's sum against log sigma equals the
        median dimension. If the slope is always smaller, it is the steepest point, reported as ``at_edge``.
        ``"max_min"`` is the largest distance to a nearest neighbour, which is the rule
        ``2 sigma^2 = C max_i min_j d_ij^2`` with C = 2.
    n_grid : int, default=48
        Bandwidths at which the slope is computed first.
    k_mle : int, default=10
        The neighbour, counted from 1, that sets the smallest bandwidth: a twentieth of the mean distance to it.

    See Also
    --------
    LogLog : the steepest point of the same curve.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> neighbors = asbc.search_neighbors(X, k=2)
    >>> asbc.DimensionMatching("max_min").select(X, neighbors).sigma  # 3 is 2 away from its nearest neighbour
    array([2., 2., 2.])
    """

    presets: ClassVar = {"dimension_matching": {}, "max_min": {"rule": "max_min"}}

    def __init__(self, rule: str = "slope", n_grid: int = 48, k_mle: int = 10):
        super().__init__(n_grid, k_mle)
        self.rule = rule

    @property
    def uses_dimension(self) -> bool:  # type: ignore[override]
        return self.rule == "slope"

    def check_parameters(self, k):
        if one_of(self.rule, "rule", ("slope", "max_min")) == "slope":
            super().check_parameters(k)

    def summarize(self, X, neighbors, dimension):
        if self.rule == "max_min":
            return {"nearest": neighbors.distances[:, 0].copy(), "at_last": kth_distance(neighbors, neighbors.k)}
        return {"dimension": check_dimension(dimension, neighbors), **super().summarize(X, neighbors, dimension)}

    def one_sigma(self, summary):
        if self.rule == "max_min":
            widest = float(summary["nearest"].max())
            return (widest, False) if widest > 0 else (float(summary["at_last"].max()), True)
        target = float(np.median(summary["dimension"]))
        if not summary["at_last"].any():
            return 0.0, False
        curve = LogLogCurve(summary, int(self.n_grid))
        if curve.slopes[0] >= target:
            return float(curve.grid[0]), True
        above = np.flatnonzero(curve.slopes >= target)
        if not len(above):
            return curve.steepest()[0], True
        left, right = np.log(curve.grid[[above[0] - 1, above[0]]])
        return float(np.exp(brentq(lambda t: curve(np.exp(t)) - target, left, right))), False


class DensityNormalized(Bandwidth):
    """Coifman and Lafon's rule: weights are divided by ``(q_i q_j)^alpha``, where q_i is the kernel sum at node i.

    It normalises the weights; sigma comes from another rule.

    Parameters
    ----------
    base : Bandwidth or None, default=None
        The rule for sigma; None for ``Fixed("mean_knn")``.
    alpha : float, default=1.0
        How much of the sampling density is removed: all with 1, nothing with 0.

    See Also
    --------
    Fixed : the default rule for sigma.

    Examples
    --------
    The point at 5 is isolated, so its weights are lowered least:

    >>> import asbc
    >>> X = [[0.0], [0.1], [0.2], [0.3], [5.0]]
    >>> choice = asbc.DensityNormalized(asbc.Fixed(0.5)).select(X, asbc.search_neighbors(X, k=3))
    >>> choice.reweight.round(2)
    array([0.27, 0.26, 0.26, 0.27, 1.  ])
    """

    presets: ClassVar = {"density": {"base": Fixed("mean_knn")}}

    def __init__(self, base: Bandwidth | None = None, alpha: float = 1.0):
        self.base = base
        self.alpha = alpha

    def _base(self) -> Bandwidth:
        base = Fixed("mean_knn") if self.base is None else self.base
        if not isinstance(base, Bandwidth):
            raise TypeError(f"base must be a rule such as asbc.Fixed(0.5); got {base!r}.")
        return base

    def check_parameters(self, k):
        self._base().check_parameters(k)
        if not isinstance(self.alpha, Real) or not np.isfinite(self.alpha) or self.alpha < 0:
            raise ValueError(f"alpha must be a number of at least 0; got {self.alpha!r}.")

    @property
    def uses_dimension(self) -> bool:  # type: ignore[override]
        base = self._base()
        return base.local or base.uses_dimension

    def summarize(self, X, neighbors, dimension):
        base = self._base()
        if not base.local:
            return base.summarize(X, neighbors, dimension)
        choice = self.choose(X, neighbors, dimension)
        return {"sigma": choice.sigma, "at_edge": choice.at_edge, "factor": choice.reweight}

    def resolve(self, summary):
        base = self._base()
        if not base.local:
            return DensityNormalized(base.resolve(summary), self.alpha)
        sigma, at_edge, factor = (np.asarray(summary[name]) for name in ("sigma", "at_edge", "factor"))
        mutual = base.all_rows is not None and base.all_rows.mutual
        return KnownBandwidth(sigma, at_edge, mutual=mutual, reweight=factor)

    def rule_for_queries(self, choice):
        return DensityNormalized(self._base().rule_for_queries(choice), self.alpha)

    def choose(self, X, neighbors, dimension):  # of queries, and of a block if `base` is local
        choice = self._base().choose(X, neighbors, dimension)
        sigma = np.where(choice.sigma > 0, choice.sigma, 1.0)
        kernel = np.exp(-(neighbors.distances**2) / (2.0 * sigma[:, None] ** 2))
        return replace(choice, reweight=(1.0 + kernel.sum(axis=1)) ** -float(self.alpha))  # with the node itself
