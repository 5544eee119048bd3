"""How much each neighbour counts.

Weights are (n, k) arrays in the order of ``neighbors.indices``. Rows need not sum to 1 unless a function says so.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth.choice import BandwidthChoice
from asbc.bandwidth.perplexity import Perplexity
from asbc.kernels.nnk import nnk_rows
from asbc.neighbors.types import Neighbors, check_type, neighborhoods, vectors_for
from asbc.validation import one_of, positive_number, real_array, sigma_per_node, weight_rows, whole_number

Matrix = NDArray[np.float64]

KINDS = ("uniform", "gaussian", "nnk", "blend")


class EmptyRowWarning(UserWarning):
    """The bandwidth of a node is so small that all its weights are zero.

    See Also
    --------
    row_weights : gives it.

    Examples
    --------
    >>> import asbc, warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     graph = asbc.GraphBuilder("gaussian", asbc.Fixed(0.01), k_cand=8).fit_transform([[i] for i in range(10)])
    >>> [warning.category.__name__ for warning in caught]
    ['EmptyRowWarning']
    """


def uniform_weights(neighbors: Neighbors) -> Matrix:
    """Weights of a plain kNN graph: every neighbour counts 1.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbours of n nodes, k per node.

    Returns
    -------
    (n, k) float64
        Ones.

    See Also
    --------
    gaussian_weights : weights that fall with the distance.
    nnk_weights : weights that leave out redundant neighbours.

    Examples
    --------
    >>> import asbc
    >>> asbc.uniform_weights(asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2))
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    check_type(neighbors)
    return np.ones((neighbors.n, neighbors.k))


def gaussian_weights(neighbors: Neighbors, sigma: ArrayLike, *, neighbor_sigma: ArrayLike | None = None) -> Matrix:
    """Gaussian weights, ``exp(-d_ij^2 / (2 sigma_i^2))`` between node i and neighbour j.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbours of n nodes, k per node.
    sigma : (n,) array or float
        The bandwidth of each node, or one for all.
    neighbor_sigma : (N,) array or None, default=None
        The bandwidths of all rows of X, which neighbours are looked up in. If given, ``sigma_i sigma_j`` takes the
        place of ``sigma_i^2``, as :class:`SelfTuning` wants it.

    Returns
    -------
    (n, k) float64
        Within [0, 1].

    See Also
    --------
    nnk_weights : weights that leave out redundant neighbours.
    row_weights : the weights of a kind at a choice of bandwidths.

    Examples
    --------
    >>> import asbc
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> asbc.gaussian_weights(neighbors, sigma=1.0).round(2)
    array([[0.61, 0.01],
           [0.61, 0.14],
           [0.14, 0.01]])
    """
    check_type(neighbors)
    sigma = sigma_per_node(sigma, neighbors.n)
    if neighbor_sigma is None:
        scale = sigma[:, None] ** 2
    else:
        of_rows = real_array(neighbor_sigma, "neighbor_sigma")
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
    """Weights of non-negative kernel regression (NNK) of each node on its neighbours.

    They solve ``argmin_{w >= 0} w'Kw / 2 - k'w``, where K is the Gaussian kernel among a node's neighbours and k the
    kernel between the node and them. A neighbour behind another one, in the same direction, gets weight 0.

    Parameters
    ----------
    X : (N, d) array or None
        The vectors. None is enough if `neighbors` carries the distances within neighbourhoods (``neighbors.pairs``).
    neighbors : Neighbors
        The neighbours of n nodes, k per node.
    sigma : (n,) array or float
        The bandwidth of each node, or one for all.
    k_min : int, default=6
        A row with fewer positive weights than this gets its nearest neighbours too, with their kernel value as
        weight; 0 switches this off.
    solver : {"exact", "reference"}, default="exact"
        ``"exact"`` meets the optimality conditions to 1e-8. ``"reference"`` starts from all neighbours and only ever
        drops them, as the public NNK code does; it is there for comparison.

    Returns
    -------
    (n, k) float64
        0 or more; rows are not normalised.

    See Also
    --------
    gaussian_weights : dense weights.
    normalize_weights : rows that sum to 1.

    Examples
    --------
    From 0, the point 1.1 lies behind 1, and -1 on the other side:

    >>> import asbc
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [1.1], [-1.0]], k=3)
    >>> weights = asbc.nnk_weights([[0.0], [1.0], [1.1], [-1.0]], neighbors, sigma=1.0, k_min=0)
    >>> neighbors.indices[0], weights[0] > 0
    (array([1, 3, 2]), array([ True,  True, False]))
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
    kind : {"uniform", "gaussian", "nnk", "blend"}
        How neighbours are weighted; ``"uniform"`` ignores `choice`.
    X : (N, d) array or None
        The vectors. "nnk" and "blend" need them, unless `neighbors` carries the distances within neighbourhoods.
    neighbors : Neighbors
        The neighbours of n nodes, k per node.
    choice : BandwidthChoice or None
        The bandwidths of the n nodes, as a rule selects them; None is enough for ``"uniform"``.
    k_min : int, default=6
        The least number of positive weights per row, for ``"nnk"``; see :func:`nnk_weights`.
    fitted : BandwidthChoice or None, default=None
        The choice on all rows of X, where `neighbors` and `choice` are those of queries or of some of the rows.
        None if `choice` is that of all rows of X.

    Returns
    -------
    (n, k) float64
        0 or more; rows are not normalised.

    See Also
    --------
    uniform_weights, gaussian_weights, nnk_weights : the weights of each kind.
    to_graph : makes a graph of them.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> neighbors = asbc.search_neighbors(X, k=2)
    >>> choice = asbc.Fixed(1.0).select(X, neighbors)
    >>> asbc.row_weights("gaussian", X, neighbors, choice).round(2)
    array([[0.61, 0.01],
           [0.61, 0.14],
           [0.14, 0.01]])
    """
    one_of(kind, "kind", ("uniform", "gaussian", "nnk"))
    if kind == "uniform":
        return uniform_weights(neighbors)
    if choice is None:
        raise ValueError(f"choice is needed for {kind!r} weights: pass what a bandwidth rule selects; got None.")
    if not isinstance(choice, BandwidthChoice):
        raise TypeError(f"choice must be asbc.BandwidthChoice, as a rule selects it; got {type(choice).__name__}.")
    fitted = choice if fitted is None else fitted
    if not isinstance(fitted, BandwidthChoice):
        raise TypeError(f"fitted must be asbc.BandwidthChoice, as a rule selects it; got {type(fitted).__name__}.")
    if kind == "nnk":
        weights = nnk_weights(X, neighbors, choice.sigma, k_min=k_min)
    else:
        weights = gaussian_weights(neighbors, choice.sigma, neighbor_sigma=fitted.sigma if choice.mutual else None)
    if choice.reweight is not None and fitted.reweight is not None:
        own, others = real_array(choice.reweight, "choice.reweight"), real_array(fitted.reweight, "fitted.reweight")
        last = int(neighbors.indices.max())
        if own.shape != (neighbors.n,) or others.ndim != 1 or len(others) <= last:
            raise ValueError(
                f"choice and fitted must have one reweight per node, {neighbors.n} and more than {last}; "
                f"got shapes {own.shape} and {others.shape}."
            )
        weights *= own[:, None] * others[neighbors.indices]
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
    neighbors : Neighbors
        Of n nodes, with the distances within neighbourhoods, as ``asbc.neighbors.types.with_pairs`` adds them.
    dimension : (n,) array
        Local intrinsic dimension, for the Gaussian half.
    choice : BandwidthChoice
        The bandwidths of the NNK half.
    k_min : int, default=6
        The least number of neighbours per node that NNK keeps; see :func:`nnk_weights`.
    fitted : BandwidthChoice or None, default=None
        The choice on the rows of X, where `neighbors` and `choice` belong to queries.

    Returns
    -------
    (n, k) array
        Rows sum to 1.

    See Also
    --------
    GraphBuilder : with ``weights="blend"`` it does all the steps.
    nnk_weights, gaussian_weights : the two halves.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> builder = asbc.GraphBuilder(weights="blend", k_cand=10).fit(X)
    >>> builder.weights_.shape, bool(np.allclose(builder.weights_.sum(axis=1), 1))
    ((60, 10), True)
    """
    kernel = row_weights("nnk", None, neighbors, choice, k_min=k_min, fitted=fitted)
    sigma, _ = Perplexity().sigma(neighbors, dimension)
    return (normalize_weights(kernel) + normalize_weights(gaussian_weights(neighbors, sigma))) / 2.0


def count_empty(weights: Matrix) -> int:
    """How many rows have no weight above zero."""
    return int((weights.sum(axis=1) == 0).sum())


def warn_of_empty_rows(empty: int, n: int) -> None:
    """Warn, once for all of them, that `empty` of n nodes have no neighbours."""
    if empty:
        warnings.warn(
            f"{empty} of {n} nodes have no neighbour with weight: at their bandwidth the kernel is zero "
            "in double precision. A larger bandwidth gives them neighbours.",
            EmptyRowWarning,
            stacklevel=3,
        )


def normalize_weights(weights: Matrix) -> Matrix:
    """Scale rows to sum 1; a row without weight stays empty.

    Parameters
    ----------
    weights : (n, k) array
        Weights of 0 or more.

    Returns
    -------
    (n, k) float64
        Every row sums to 1, or is all zeros.

    See Also
    --------
    sharpen : normalises rows too, after raising them to a power.

    Examples
    --------
    >>> import asbc
    >>> asbc.normalize_weights([[1.0, 3.0], [0.0, 0.0]])
    array([[0.25, 0.75],
           [0.  , 0.  ]])
    """
    weights = weight_rows(weights)
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def sharpen(weights: ArrayLike, sigma: ArrayLike, *, center: float | None = None) -> Matrix:
    """Raise each row to a power that falls with its bandwidth, ``clip(center / sigma_i, 0.2, 2)``, and normalise it.

    Where the bandwidth is small, differences between neighbours are trusted and made larger; where it is large, they
    are levelled out. Weights of zero stay zero, and no others become zero.

    Parameters
    ----------
    weights : (n, k) array
        Weights of 0 or more.
    sigma : (n,) array or float
        The bandwidth of each node.
    center : float or None, default=None
        The bandwidth at which a row stays as it is; None takes the median of `sigma`.

    Returns
    -------
    (n, k) float64
        Every row sums to 1, or is all zeros.

    See Also
    --------
    normalize_weights : normalises rows without sharpening them.
    GraphBuilder : has it as the parameter `sharpen`.

    Examples
    --------
    The first node has half the bandwidth at the centre, so its weights are squared:

    >>> import asbc
    >>> asbc.sharpen([[1.0, 3.0], [1.0, 3.0]], sigma=[0.5, 1.0], center=1.0)
    array([[0.1 , 0.9 ],
           [0.25, 0.75]])
    """
    weights = weight_rows(weights)
    sigma = sigma_per_node(sigma, len(weights))
    center = float(np.median(sigma)) if center is None else positive_number(center, "center")
    power = np.clip(center / sigma, 0.2, 2.0)[:, None]
    # Rows are scaled by their largest entry first, so that powers neither overflow nor lose small weights.
    largest = weights.max(axis=1, keepdims=True, initial=0)
    scaled = np.divide(weights, largest, out=np.zeros_like(weights), where=largest > 0)
    return normalize_weights(np.power(scaled, power, where=scaled > 0, out=np.zeros_like(scaled)))
