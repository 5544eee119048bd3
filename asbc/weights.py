"""How much each neighbour counts.

All functions give (n, k) arrays that stand beside ``neighbors.indices``, rows as solved, not normalised.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth.perplexity import Perplexity
from asbc.bandwidth.rule import BandwidthChoice
from asbc.kernels.nnk import nnk_rows
from asbc.neighbors.types import Neighbors, check_type, neighborhoods, vectors_for
from asbc.validation import one_of, positive_number, sigma_per_node, whole_number

Matrix = NDArray[np.float64]

KINDS = ("uniform", "gaussian", "nnk", "blend")


class EmptyRowWarning(UserWarning):
    """The bandwidth of a node is so small that all its weights are zero."""


def uniform_weights(neighbors: Neighbors) -> Matrix:
    """Every neighbour counts 1."""
    check_type(neighbors)
    return np.ones((neighbors.n, neighbors.k))


def gaussian_weights(neighbors: Neighbors, sigma: ArrayLike, *, neighbor_sigma: ArrayLike | None = None) -> Matrix:
    """``exp(-d_ij^2 / (2 sigma_i^2))``.

    Parameters
    ----------
    sigma : (n,) array or float
    neighbor_sigma : (N,) array, optional
        Bandwidths of the rows of X that neighbours point to. If given, ``sigma_i sigma_j`` takes the place of
        ``sigma_i^2``.
    """
    check_type(neighbors)
    sigma = sigma_per_node(sigma, neighbors.n)
    if neighbor_sigma is None:
        scale = sigma[:, None] ** 2
    else:
        of_rows = np.asarray(neighbor_sigma, float)
        last = int(neighbors.indices.max(initial=-1))
        if of_rows.ndim != 1 or len(of_rows) <= last:
            raise ValueError(
                f"neighbor_sigma must have one number for each row of X, {last + 1} or more; got shape {of_rows.shape}."
            )
        # Only the bandwidths of these nodes' neighbours are checked: a check of all rows of X, repeated for every
        # block of nodes, would cost more than the weights.
        near = of_rows[neighbors.indices]
        if not (np.isfinite(near) & (near > 0)).all():
            row = int(neighbors.indices[~(np.isfinite(near) & (near > 0))][0])
            raise ValueError(f"neighbor_sigma must be positive and finite; row {row} of X has {of_rows[row]}.")
        scale = sigma[:, None] * near
    return np.exp(-(neighbors.distances**2) / (2.0 * scale))


def nnk_weights(
    X: ArrayLike | None, neighbors: Neighbors, sigma: ArrayLike, *, k_min: int = 6, solver: str = "exact"
) -> Matrix:
    """Non-negative kernel regression of each node on its neighbours, ``argmin_{w >= 0} w'Kw / 2 - k'w``.

    Parameters
    ----------
    X : (n, d) array, or None if `neighbors` carries the distances within neighbourhoods
    sigma : (n,) array or float
    k_min : int
        A row with fewer neighbours of positive weight gets its nearest ones too, with their kernel value as weight;
        0 switches this off.
    solver : {"exact", "reference"}
        ``"exact"`` meets the optimality conditions to rounding error. ``"reference"`` starts from all neighbours
        and only ever drops them, as the public NNK code does: for comparison.
    """
    one_of(solver, "solver", ("exact", "reference"))
    vectors = vectors_for(X, neighbors)
    sigma = sigma_per_node(sigma, neighbors.n)
    k_min = whole_number(k_min, "k_min", 0, neighbors.k, "the candidates of a node")
    out = np.empty((neighbors.n, neighbors.k))
    for rows, pairs in neighborhoods(vectors, neighbors):
        squared = neighbors.distances[rows] ** 2
        out[rows] = nnk_rows(pairs, squared, sigma[rows], k_min, solver == "exact")
    return out


def row_weights(
    kind: str,
    X: ArrayLike | None,
    neighbors: Neighbors,
    choice: BandwidthChoice | None,
    *,
    k_min: int = 6,
    fitted: BandwidthChoice | None = None,
) -> Matrix:
    """Weights of one kind at a choice of bandwidths, with whatever reweighting the choice asks for.

    Parameters
    ----------
    kind : {"uniform", "gaussian", "nnk"}
        ``"uniform"`` ignores `choice`.
    fitted : BandwidthChoice, optional
        The choice on the rows of X, where `neighbors` and `choice` belong to queries.
    """
    one_of(kind, "kind", ("uniform", "gaussian", "nnk"))
    if kind == "uniform":
        return uniform_weights(neighbors)
    if choice is None:
        raise ValueError(f"choice is needed for {kind!r} weights: pass what a bandwidth rule selects.")
    if not isinstance(choice, BandwidthChoice):
        raise TypeError(f"choice must be asbc.BandwidthChoice, as a rule selects it; got {type(choice).__name__}.")
    fitted = choice if fitted is None else fitted
    if kind == "nnk":
        weights = nnk_weights(X, neighbors, choice.sigma, k_min=k_min)
    else:
        weights = gaussian_weights(neighbors, choice.sigma, neighbor_sigma=fitted.sigma if choice.mutual else None)
    if choice.reweight is not None and fitted.reweight is not None:
        weights *= choice.reweight[:, None] * fitted.reweight[neighbors.indices]
    warn_of_empty_rows(count_empty(weights), neighbors.n)
    return weights


def blend_weights(
    neighbors: Neighbors,
    dimension: ArrayLike | None,
    choice: BandwidthChoice,
    *,
    k_min: int = 6,
    fitted: BandwidthChoice | None = None,
) -> Matrix:
    """Half NNK weights at the bandwidth chosen, half Gaussian ones that count as twice the dimension in neighbours.

    NNK keeps the few neighbours that are needed and is best in votes; Gaussian weights with :class:`Perplexity` spread
    over more of them and carry few labels further. The mean of the two, each normalised, is never far from the better.

    Parameters
    ----------
    neighbors : Neighbors that carry the distances among them
    dimension : (n,) array
        Local intrinsic dimension, for the Gaussian half.
    choice : BandwidthChoice
        For the NNK half.
    k_min, fitted
        See :func:`row_weights`.

    Returns
    -------
    (n, k) array, rows normalised
    """
    kernel = row_weights("nnk", None, neighbors, choice, k_min=k_min, fitted=fitted)
    sigma, _ = Perplexity().sigma(neighbors, dimension)
    return (normalize_weights(kernel) + normalize_weights(gaussian_weights(neighbors, sigma))) / 2.0


def count_empty(weights: Matrix) -> int:
    return int((weights.sum(axis=1) == 0).sum())


def warn_of_empty_rows(empty: int, n: int) -> None:
    if empty:
        warnings.warn(
            f"{empty} of {n} nodes have no neighbour with weight: at their bandwidth the kernel is zero "
            "in double precision. A larger bandwidth gives them neighbours.",
            EmptyRowWarning,
            stacklevel=3,
        )


def normalize_weights(weights: Matrix) -> Matrix:
    """Rows that sum to 1; a row without weight stays empty."""
    weights = np.asarray(weights, float)
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def sharpen(weights: ArrayLike, sigma: ArrayLike, *, center: float | None = None) -> Matrix:
    """Raise rows to the power ``clip(center / sigma_i, 0.2, 2)`` and normalise them; the support stays as it is.

    Where the bandwidth is small, differences between neighbours are trusted and made larger; where it is large, they
    are levelled out. `center` is the median of sigma by default.
    """
    weights = np.asarray(weights, float)
    sigma = sigma_per_node(sigma, len(weights))
    center = float(np.median(sigma)) if center is None else positive_number(center, "center")
    power = np.clip(center / sigma, 0.2, 2.0)[:, None]
    # Rows are scaled by their largest entry first, so that powers neither overflow nor lose small weights.
    largest = weights.max(axis=1, keepdims=True)
    scaled = np.divide(weights, largest, out=np.zeros_like(weights), where=largest > 0)
    return normalize_weights(np.power(scaled, power, where=scaled > 0, out=np.zeros_like(scaled)))
