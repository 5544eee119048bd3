"""What the kernel around each node looks like at given bandwidths: rank, slope and objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth.choice import BandwidthChoice, Kernels, LateChoice, Vector, joined
from asbc.bandwidth.rule import check_dimension, geometric_grid
from asbc.kernels import criterion
from asbc.neighbors.types import Neighbors, neighborhoods, vectors_for
from asbc.validation import Floats, real_array, sigma_per_node


def effective_rank(K: ArrayLike) -> float:
    """How many directions a kernel matrix resolves: ``exp`` of the entropy of its normalised eigenvalues.

    Parameters
    ----------
    K : (k, k) array
        A symmetric, positive semi-definite matrix.

    Returns
    -------
    float
        Within [1, k].

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
    K = real_array(K, "K")
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


def report_at(
    X: Floats | None,
    neighbors: Neighbors,
    sigma: ArrayLike,
    dimension: ArrayLike | None = None,
    at_edge: NDArray[np.bool_] | None = None,
    *,
    mutual: bool = False,
) -> BandwidthChoice:
    """A choice of given bandwidths: rank, slope and objective at them are worked out when they are first asked for.

    The objective is the criterion J of :class:`SpectralBandwidth` with that rule's default parameters.

    Parameters
    ----------
    X : (N, d) array or None
        The vectors. None is enough if `neighbors` carries the distances within neighbourhoods.
    neighbors : Neighbors
        The neighbours of n nodes.
    sigma : (n,) array or float
        The bandwidth of each node, or one for all.
    dimension : (n,) array or None, default=None
        The intrinsic dimension around each node; without it the objective is NaN.
    at_edge : (n,) bool array or None, default=None
        Whether each bandwidth is the smallest or the largest that was considered; None means that none is.
    mutual : bool, default=False
        Whether the kernel takes ``sigma_i sigma_j`` in place of ``sigma_i^2``; see :class:`BandwidthChoice`.

    Returns
    -------
    BandwidthChoice
        Of the n nodes.

    See Also
    --------
    Bandwidth : its ``choose`` may end with this.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.bandwidth import report_at
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = report_at(X, asbc.search_neighbors(X, k=10), sigma=1e-3)
    >>> choice.effective_rank[:2].round(6)  # so narrow a kernel sees ten separate neighbours
    array([10., 10.])
    """
    X = vectors_for(X, neighbors)
    sigma = sigma_per_node(sigma, neighbors.n)
    at_edge = np.zeros(neighbors.n, bool) if at_edge is None else at_edge
    target = np.full(neighbors.n, np.nan) if dimension is None else check_dimension(dimension, neighbors)
    kernels = KernelsAt(X, neighbors, sigma, target)
    return LateChoice.of(kernels, sigma=sigma, at_edge=at_edge, mutual=mutual)


@dataclass(frozen=True)
class KernelsAt:
    """What the kernels of n nodes look like at given bandwidths: call it to have it worked out.

    Attributes
    ----------
    X : (N, d) array, or None if `neighbors` carries the distances within neighbourhoods
    neighbors : Neighbors
    sigma, target : (n,) float64
        The bandwidths, and the ranks that the objective wants.
    """

    X: Floats | None
    neighbors: Neighbors
    sigma: Vector
    target: Vector

    def __call__(self) -> Kernels:
        neighbors = self.neighbors
        ranks, slopes, steepest = np.empty((3, neighbors.n))
        grid = geometric_grid(neighbors, 12, min(10, neighbors.k), 0.05, 3.0)
        for rows, pairs in neighborhoods(self.X, neighbors):
            ranks[rows], slopes[rows] = criterion.evaluate_at(pairs, self.sigma[rows], neighbors.k)
            steepest[rows] = criterion.grid_slopes(pairs, grid[rows], neighbors.k)
        # Between grid points a slope may exceed the largest slope on the grid: its flatness is then 0, not negative.
        flatness = np.divide(np.maximum(steepest - slopes, 0), steepest, out=np.zeros_like(slopes), where=steepest > 0)
        return ranks, slopes, np.abs(ranks - self.target) / self.target + flatness


def held_by(choice: BandwidthChoice, X: Floats | None, block: Neighbors) -> BandwidthChoice:
    """The same choice, which looks at `X` and `block` where its kernels are asked for later.

    The block that it was chosen on carries the distances among neighbours, and they are too many to be kept.
    """
    kernels = vars(choice).get("kernels")
    if isinstance(kernels, KernelsAt):
        vars(choice)["kernels"] = replace(kernels, X=X, neighbors=block)
    return choice


def gathered(choices: Sequence[BandwidthChoice], X: Floats | None, neighbors: Neighbors) -> BandwidthChoice:
    """The choices of blocks that make up `neighbors`, as one; late if all of them are."""
    late = [kernels for choice in choices if isinstance(kernels := vars(choice).get("kernels"), KernelsAt)]
    if len(late) < len(choices):
        return joined(choices)
    sigma, target = (np.concatenate([getattr(kernels, name) for kernels in late]) for name in ("sigma", "target"))
    return joined(choices, KernelsAt(X, neighbors, sigma, target))
