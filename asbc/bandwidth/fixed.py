"""One bandwidth for all nodes: a number, or a simple statistic."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.rule import Global, OneForAll, fill_constant, neighbor_number
from asbc.bandwidth.spectral import SpectralBandwidth
from asbc.neighbors.types import kth_distance
from asbc.validation import positive_number, sigma_per_node


class Fixed(Global):
    """One bandwidth for all nodes.

    Parameters
    ----------
    value : float or {"mean_knn", "median_spectral"}, default="mean_knn"
        A number; or the mean distance to the k_mle-th neighbour; or the median of what `spectral` chooses node by
        node, the control that tells whether choosing per node is what helps.
    k_mle : int, default=10
        The neighbour of ``"mean_knn"``.
    spectral : SpectralBandwidth, optional
        For ``"median_spectral"``; the default one if None.

    See Also
    --------
    SpectralBandwidth : a bandwidth for each node.

    Examples
    --------
    >>> import asbc
    >>> asbc.GraphBuilder(weights="gaussian", bandwidth=asbc.Fixed(0.5))
    GraphBuilder(bandwidth=Fixed(value=0.5), weights='gaussian')
    """

    def __init__(self, value: float | str = "mean_knn", k_mle: int = 10, spectral: SpectralBandwidth | None = None):
        self.value = value
        self.k_mle = k_mle
        self.spectral = spectral

    @property
    def local(self):
        return not isinstance(self.value, str)

    @property
    def uses_dimension(self):
        return self.value == "median_spectral"

    def choose(self, X, neighbors, dimension):
        value = positive_number(self.value, "value")
        sigma_per_node(value, 1, "value")
        return OneForAll(value).choose(X, neighbors, dimension)

    def summarize(self, X, neighbors, dimension):
        if self.value not in ("mean_knn", "median_spectral"):
            raise ValueError(f"value must be a positive number, 'mean_knn' or 'median_spectral'; got {self.value!r}.")
        if self.value == "mean_knn":
            k = neighbor_number(self.k_mle, neighbors, "k_mle")
            return {"at_k": neighbors.distances[:, k - 1].copy(), "above_zero": kth_distance(neighbors, k)}
        spectral = SpectralBandwidth() if self.spectral is None else self.spectral
        choice = spectral.choose(X, neighbors, dimension)
        return {"sigma": choice.sigma, "constant": spectral.constant(neighbors)}

    def one_sigma(self, summary):
        if self.value == "mean_knn":
            # Where duplicates make that mean vanish, distances above zero take their place.
            return float(summary["at_k"].mean()) or float(summary["above_zero"].mean()), False
        return float(np.median(fill_constant(np.asarray(summary["sigma"]), np.asarray(summary["constant"])))), False
