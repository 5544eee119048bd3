"""Weights of neighbours: functions, and the rules by which a graph is built.

Weights are (n, k) arrays in the order of ``neighbors.indices``. Rows need not sum to 1 unless a function says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from asbc.bandwidth import BandwidthChoice, Perplexity
from asbc.bandwidth.rule import find_rule, split_constant
from asbc.kernels.nnk import nnk_rows
from asbc.neighbors.types import Neighbors, check_type, neighborhoods, vectors_for
from asbc.validation import one_of, positive_number, real_array, sigma_per_node, weight_rows, whole_number

Matrix = NDArray[np.float64]

SOLVERS = ("exact", "reference")


class EmptyRowWarning(UserWarning):
    """The bandwidth of a node is so small that all its weights are zero.

    Examples
    --------
    >>> import asbc, numpy as np, warnings
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     graph = asbc.GraphBuilder("gaussian", asbc.Fixed(0.001)).fit_transform(X)
    >>> [warning.category.__name__ for warning in caught]
    ['EmptyRowWarning']
    """


def uniform_weights(neighbors: Neighbors) -> Matrix:
    """Return equal weights, those of a plain kNN graph: ones (n, k).

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
        The bandwidths of all rows of X, which include the neighbours'. If given, the weights use ``sigma_i sigma_j``
        instead of ``sigma_i^2``, as :class:`SelfTuning` does.

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
    other = sigma[:, None]
    if neighbor_sigma is not None:
        of_rows = sigma_per_node(neighbor_sigma, np.size(neighbor_sigma), "neighbor_sigma")
        other = _of_neighbors(of_rows, neighbors, "neighbor_sigma")
    return np.exp(-(neighbors.distances**2) / (2.0 * (sigma[:, None] * other)))


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
        A row with fewer positive weights than this gets its nearest neighbours too. Their weight is their kernel value
        times ``max(0, 1 - k'w)``, the share that the NNK weights w leave unexplained. It is 0 for a node with an exact
        copy: the copy keeps all the weight, and the row may have fewer than `k_min` neighbours. 0 switches this off.
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
    one_of(solver, "solver", SOLVERS)
    vectors = vectors_for(X, neighbors)
    sigma = sigma_per_node(sigma, neighbors.n)
    k_min = _check_k_min(k_min, neighbors.k)
    out = np.empty((neighbors.n, neighbors.k))
    for rows, pairs in neighborhoods(vectors, neighbors):
        squared = neighbors.distances[rows] ** 2
        out[rows] = nnk_rows(pairs, squared, sigma[rows], k_min, solver == "exact")
    return out


@dataclass(frozen=True)
class Neighborhoods:
    """A block of nodes as a :class:`Weights` rule gets it.

    Attributes
    ----------
    neighbors : Neighbors
        The neighbours of n nodes, k per node, with the distances among them if the rule has ``uses_pairs``.
    choice : BandwidthChoice or None
        The bandwidths of the n nodes, if the rule has ``uses_bandwidth``.
    dimension : (n,) array or None
        The intrinsic dimension around each node, if the rule has ``uses_dimension``.
    fitted : BandwidthChoice or None
        The bandwidths of all rows of X, in which the rule looks up those of neighbours.
    """

    neighbors: Neighbors
    choice: BandwidthChoice | None = None
    dimension: NDArray[np.float64] | None = None
    fitted: BandwidthChoice | None = None


class Weights(BaseEstimator):
    """Base class of weight rules; derive from it to add your own.

    A rule turns a block of nodes and their neighbours into rows of weights. It works in :class:`asbc.GraphBuilder`, in
    experiments and in ``asbc-build``.

    Attributes
    ----------
    uses_bandwidth : bool
        Whether the rule needs bandwidths.
    uses_dimension : bool
        Whether the rule itself needs the dimension.
    uses_pairs : bool
        Whether the rule needs the distances among a node's neighbours.
    presets : dict
        Names by which the rule can be given as a string, each with the parameters that it sets.

    See Also
    --------
    NNK, Gaussian, Blend, Uniform : the rules of asbc.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> class InverseDistance(asbc.Weights):
    ...     def rows(self, block):
    ...         return 1.0 / np.maximum(block.neighbors.distances, 1e-12)
    >>> asbc.row_weights(InverseDistance(), None, asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)).round(2)
    array([[1.  , 0.33],
           [1.  , 0.5 ],
           [0.5 , 0.33]])
    """

    uses_bandwidth: bool = False
    uses_dimension: bool = False
    uses_pairs: bool = False
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def check_parameters(self, k: int) -> None:
        """Raise an error for parameters that cannot work with k candidates per node."""

    def rows(self, block: Neighborhoods) -> Matrix:
        """Return the weights (n, k) of a block of n nodes: finite and at least 0. Rows need not sum to 1."""
        raise TypeError(f"{type(self).__name__} has no rows(); a rule for weights must define it.")


class Uniform(Weights):
    """Equal weights, those of a plain kNN graph: ``weights="uniform"``.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> asbc.GraphBuilder(asbc.Uniform(), k_cand=8).fit(X).weights_[0]
    array([0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125])
    """

    presets: ClassVar = {"uniform": {}}

    def rows(self, block):
        return uniform_weights(block.neighbors)


class Gaussian(Weights):
    """Gaussian weights at the bandwidth of each node: ``weights="gaussian"``; see :func:`gaussian_weights`.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> asbc.GraphBuilder(asbc.Gaussian(), "perplexity").fit(X).weights_.shape
    (100, 30)
    """

    uses_bandwidth = True
    presets: ClassVar = {"gaussian": {}}

    def rows(self, block):
        neighbor_sigma = block.fitted.sigma if block.choice.mutual else None
        weights = gaussian_weights(block.neighbors, block.choice.sigma, neighbor_sigma=neighbor_sigma)
        return _reweighted(weights, block)


class NNK(Weights):
    """Weights of non-negative kernel regression at the bandwidth of each node: ``weights="nnk"``.

    Parameters
    ----------
    k_min : int, default=6
        The number of neighbours up to which a row is filled with the nearest ones; see :func:`nnk_weights`.
    solver : {"exact", "reference"}, default="exact"
        See :func:`nnk_weights`.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> sparse = asbc.GraphBuilder(asbc.NNK(k_min=0)).fit(X)
    >>> bool((sparse.weights_ > 0).sum(axis=1).mean() < 15)  # of 30 candidates
    True
    """

    uses_bandwidth = True
    uses_pairs = True
    presets: ClassVar = {"nnk": {}}

    def __init__(self, k_min: int = 6, solver: str = "exact"):
        self.k_min = k_min
        self.solver = solver

    def check_parameters(self, k):
        _check_k_min(self.k_min, k)
        one_of(self.solver, "solver", SOLVERS)

    def rows(self, block):
        weights = nnk_weights(None, block.neighbors, block.choice.sigma, k_min=self.k_min, solver=self.solver)
        return _reweighted(weights, block)


class Blend(Weights):
    """Mean of NNK weights and Gaussian weights with the perplexity rule: ``weights="blend"``.

    NNK keeps the few neighbours that are needed and is best in votes. Gaussian weights with :class:`Perplexity` spread
    over more neighbours and are best in propagation. The mean of the two, each normalised, is close to the better one.

    Parameters
    ----------
    k_min : int, default=6
        Of the NNK half; see :func:`nnk_weights`.
    beta : float, default=2.0
        Of the Gaussian half: effective neighbours as a multiple of the dimension; see :class:`Perplexity`.

    See Also
    --------
    NNK, Gaussian : the two halves.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> builder = asbc.GraphBuilder(weights="blend", k_cand=10).fit(X)
    >>> builder.weights_.shape, bool(np.allclose(builder.weights_.sum(axis=1), 1))
    ((60, 10), True)
    """

    uses_bandwidth = True
    uses_dimension = True
    uses_pairs = True
    presets: ClassVar = {"blend": {}}

    def __init__(self, k_min: int = 6, beta: float = 2.0):
        self.k_min = k_min
        self.beta = beta

    def check_parameters(self, k):
        _check_k_min(self.k_min, k)
        Perplexity(self.beta).check_parameters(k)

    def rows(self, block):
        rule = Perplexity(self.beta)
        choice, _ = split_constant(rule.choose(None, block.neighbors, block.dimension), block.neighbors)
        halves = NNK(self.k_min).rows(block), gaussian_weights(block.neighbors, choice.sigma)
        return (normalize_weights(halves[0]) + normalize_weights(halves[1])) / 2.0


class FunctionWeights(Weights):
    """Weights by a function from :class:`Neighbors` to an (n, k) array."""

    def __init__(self, function: Callable[[Neighbors], Matrix]):
        self.function = function

    def rows(self, block):
        return self.function(block.neighbors)


def find_weights(weights: Any, k_min: int = 6) -> Weights:
    """Return the rule for a rule, a name or a function; `k_min` is for rules given by name."""
    if callable(weights) and not isinstance(weights, type):
        return FunctionWeights(weights)
    return find_rule(weights, Weights, "weights", k_min=k_min)


def _check_k_min(k_min: Any, k: int) -> int:
    return whole_number(k_min, "k_min", 0, k, "the candidates of a node")


def _reweighted(weights: Matrix, block: Neighborhoods) -> Matrix:
    """Multiply weights by the factors of both nodes, if the bandwidth rule has any."""
    choice, fitted = block.choice, block.fitted
    if choice is None or fitted is None or choice.reweight is None or fitted.reweight is None:
        return weights
    own = real_array(choice.reweight, "choice.reweight", (len(weights),))
    return weights * (own[:, None] * _of_neighbors(fitted.reweight, block.neighbors, "fitted.reweight"))


def _of_neighbors(values: ArrayLike, neighbors: Neighbors, name: str) -> Matrix:
    """Look up the numbers of neighbours, (n, k), in those of all rows of X."""
    of_rows = real_array(values, name, ("N",))
    last = int(neighbors.indices.max(initial=-1))
    if len(of_rows) <= last:
        raise ValueError(f"{name} must have a number for each row of X, {last + 1} or more; got {len(of_rows)}.")
    return of_rows[neighbors.indices]


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
    """Scale the rows of (n, k) weights to sum 1; a row without weight stays empty.

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
