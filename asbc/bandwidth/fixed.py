"""The simplest rules: one bandwidth for all nodes, a number or a mean or median."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.resolved import Global, OneForAll
from asbc.bandwidth.rule import fill_constant, neighbor_number
from asbc.bandwidth.spectral import SpectralBandwidth
from asbc.neighbors.types import kth_distance
from asbc.validation import positive_number, sigma_per_node


class Fixed(Global):
    """One bandwidth for all nodes: a number, a mean distance, or the median of what another rule chooses.

    Parameters
    ----------
    value : float or {"mean_knn", "median_spectral"}, default="mean_knn"
        The bandwidth itself; or ``"mean_knn"``, the mean distance to the k_mle-th neighbour; or
        ``"median_spectral"``, the median of the bandwidths that `spectral` chooses per node. The last one is the
        control that shows whether it helps to choose per node.
    k_mle : int, default=10
        The neighbour, counted from 1, whose distance ``"mean_knn"`` takes.
    spectral : SpectralBandwidth or None, default=None
        The rule of ``"median_spectral"``; None takes ``SpectralBandwidth()``.

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

    def __init__(self, value: float | str = "mean_knn", k_mle: int = 10, spectral: SpectralBandwidth | None = None):
        self.value = value
        self.k_mle = k_mle
        self.spectral = spectral

    @property
    def local(self):
        return not isinstance(self.value, str)

    @property
    def uses_dimension(self):  # type: ignore[override]
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
        self.check_parameters(neighbors.k)
        return OneForAll(float(self.value)).choose(X, neighbors, dimension)

    def summarize(self, X, neighbors, dimension):
        self.check_parameters(neighbors.k)
        if self.value == "mean_knn":
            k = int(self.k_mle)
            return {"at_k": neighbors.distances[:, k - 1].copy(), "above_zero": kth_distance(neighbors, k)}
        spectral = self._spectral()
        choice = spectral.choose(X, neighbors, dimension)
        return {"sigma": choice.sigma, "constant": spectral.constant(neighbors)}

    def one_sigma(self, summary):
        if self.value == "mean_knn":
            # Where duplicates make that mean zero, the nearest distance above zero of each node is averaged instead.
            return float(summary["at_k"].mean()) or float(summary["above_zero"].mean()), False
        return float(np.median(fill_constant(np.asarray(summary["sigma"]), np.asarray(summary["constant"])))), False
