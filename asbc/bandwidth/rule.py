"""The protocol of bandwidth rules, and the choice that they return.

A *local* rule computes the bandwidth of a node from the node's own neighbours; it has ``choose``. Any other rule needs
all nodes first. ``summarize`` returns what it needs from one block of nodes, as arrays with one row per node.
``resolve`` takes these arrays, concatenated over all blocks, and returns a rule that is closer to being local. Both are
called in turn until the rule is local, in memory and block by block on disk alike.

A rule returns bandwidth 0 for a node that coincides with all its neighbours: such a node has no scale of its own. Once
all nodes are known, :func:`fill_constant` gives these nodes the median of the others, and warns.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from asbc.kernels import criterion
from asbc.neighbors.types import Neighbors, kth_distance, neighborhoods, vectors_for
from asbc.validation import Floats, numbers_per_node, real_array, sigma_per_node, whole_number

__all__ = ["Bandwidth", "BandwidthChoice", "ConstantNeighborhoodWarning", "KnownBandwidth"]

Vector = NDArray[np.float64]
Summary = Mapping[str, NDArray[Any]]
Kernels = tuple[Vector, Vector, Vector]  # effective rank, slope and objective of every node


class ConstantNeighborhoodWarning(UserWarning):
    """All neighbours of a node coincide with it, so that any bandwidth gives the same kernel.

    Such nodes get the median bandwidth of the others.

    See Also
    --------
    Bandwidth.select : issues this warning.

    Examples
    --------
    >>> import asbc, numpy as np, warnings
    >>> X = np.concatenate([np.ones((12, 2)), np.random.default_rng(0).normal(size=(20, 2))])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     graph = asbc.GraphBuilder(k_cand=8).fit_transform(X)
    >>> [warning.category.__name__ for warning in caught]
    ['ConstantNeighborhoodWarning']
    """


@dataclass(frozen=True, eq=False)
class BandwidthChoice:
    """Bandwidths of n nodes, and properties of the kernel among each node's neighbours at that bandwidth.

    Parameters
    ----------
    sigma : (n,) float64
        The bandwidths.
    at_edge : (n,) bool or None, default=None
        Whether sigma is the smallest or the largest value that the rule considered; None means that none is.
    mutual : bool, default=False
        Whether the Gaussian kernel between nodes i and j uses ``sigma_i sigma_j`` instead of ``sigma_i^2``.
    reweight : (n,) float64 or None, default=None
        Factors f. The weight between i and j is multiplied by ``f_i f_j``.
    solved : (n,) int64 or None, default=None
        Eigenproblems per node that the grid search solved.
    kernels : tuple of three (n,) arrays, callable or None, default=None
        The three attributes below, or a function that computes them on first use. A rule leaves it out.

    Attributes
    ----------
    effective_rank : (n,) float64
        Effective rank of the kernel among a node's neighbours, within [1, k]; see :func:`effective_rank`.
    slope : (n,) float64
        Slope of the log of that kernel's sum against log sigma.
    objective : (n,) float64
        The criterion J of :class:`SpectralBandwidth`, with gamma = 1 for all other rules; NaN without a dimension.

    See Also
    --------
    Bandwidth.select : returns it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = asbc.Fixed(1e-3).select(X, asbc.search_neighbors(X, k=10))
    >>> float(choice.sigma[0])
    0.001
    >>> choice.effective_rank[:2].round(6)  # so narrow a kernel separates all ten neighbours
    array([10., 10.])
    """

    sigma: Vector
    at_edge: NDArray[np.bool_] | None = None
    mutual: bool = False
    reweight: Vector | None = None
    solved: NDArray[np.int64] | None = None
    kernels: Kernels | Callable[[], Kernels] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.at_edge is None:
            object.__setattr__(self, "at_edge", np.zeros(np.shape(self.sigma), bool))

    @cached_property
    def _computed(self) -> Kernels:
        if self.kernels is None:
            raise ValueError("this choice does not know its neighbours; one that rule.select(...) returns does.")
        return self.kernels if isinstance(self.kernels, tuple) else self.kernels()

    @property
    def effective_rank(self) -> Vector:
        return self._computed[0]

    @property
    def slope(self) -> Vector:
        return self._computed[1]

    @property
    def objective(self) -> Vector:
        return self._computed[2]


def evaluate_kernels(X: Floats | None, neighbors: Neighbors, sigma: Vector, dimension: Vector | None) -> Kernels:
    """Return rank, slope and objective at given bandwidths: an eigenproblem per node.

    `X` may be None if `neighbors` carries the distances within neighbourhoods; `dimension` may be None.
    """
    ranks, slopes, steepest = np.empty((3, neighbors.n))
    grid = geometric_grid(neighbors, 12, min(10, neighbors.k), 0.05, 3.0)
    for rows, pairs in neighborhoods(X, neighbors):
        ranks[rows], slopes[rows], _ = criterion.evaluate_at(pairs, sigma[rows], neighbors.k)
        steepest[rows] = criterion.grid_slopes(pairs, grid[rows], neighbors.k)
    return ranks, slopes, criterion.objective_of(ranks, np.nan if dimension is None else dimension, slopes, steepest)


class Bandwidth(BaseEstimator):
    """Base class of bandwidth rules; derive from it to add your own.

    A rule that needs only a node's own neighbours has ``local = True`` and ``choose``. A rule that needs all nodes has
    ``summarize`` and ``resolve``. Both kinds work in :class:`asbc.GraphBuilder`, in experiments and in ``asbc-build``.

    Attributes
    ----------
    local : bool
        Whether a node's bandwidth follows from its own neighbours alone.
    uses_dimension : bool
        Whether ``summarize`` needs the dimension of the nodes. If not, it is not estimated before that call.
    presets : dict
        Names by which the rule can be given as a string, each with the parameters that it sets.
    all_rows : BandwidthChoice or None
        The bandwidths of all rows of X, if the rule knows them and weights need those of neighbours too.

    See Also
    --------
    SpectralBandwidth : the rule of the paper.

    Examples
    --------
    >>> import asbc
    >>> class ThirdNeighbor(asbc.Bandwidth):
    ...     local = True
    ...     def choose(self, X, neighbors, dimension):
    ...         return asbc.BandwidthChoice(neighbors.distances[:, 2])
    >>> X = [[float(i)] for i in range(20)]
    >>> float(ThirdNeighbor().select(X, asbc.search_neighbors(X, k=8)).sigma[0])
    3.0
    """

    local: bool = False
    uses_dimension: bool = True
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    all_rows: BandwidthChoice | None = None

    def check_parameters(self, k: int) -> None:
        """Raise an error for parameters that cannot work with k candidates per node."""

    def select(self, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None) -> BandwidthChoice:
        """Choose a bandwidth for every node.

        Parameters
        ----------
        X : (N, d) array or None
            The vectors. None is allowed if `neighbors` carries the distances within neighbourhoods.
        neighbors : Neighbors
            The neighbours of n nodes; of all rows of X, unless the rule is local.
        dimension : (n,) array or None, default=None
            The intrinsic dimension around each node. Rules that do not need it use it for the objective only.

        Returns
        -------
        BandwidthChoice
            Of the n nodes.
        """
        vectors = vectors_for(X, neighbors)
        self.check_parameters(neighbors.k)
        rule: Bandwidth = self
        while not rule.local:
            rule = rule.resolve(rule.summarize(vectors, neighbors, dimension))
        choice, constant = split_constant(rule.choose(vectors, neighbors, dimension), neighbors)
        choice = replace(choice, sigma=fill_constant(choice.sigma, constant))
        return with_kernels(choice, vectors, neighbors, dimension)

    def rule_for_queries(self, choice: BandwidthChoice) -> Bandwidth:
        """Return the rule whose ``choose`` serves queries, given the `choice` on the rows of X: by default this one."""
        return self

    def choose(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> BandwidthChoice:
        """Choose the bandwidths of m nodes, each from its own neighbours. Only local rules have this method.

        `X` is None if `neighbors` carries the distances within neighbourhoods; `dimension` is (m,) or None. The
        bandwidth of a node that coincides with all its neighbours may be 0.
        """
        raise TypeError(f"{type(self).__name__} has no choose(); a local rule must define it.")

    def summarize(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> Summary:
        """Return what the rule needs from a block of m nodes: arrays (m,) or (m, c) by name.

        The arguments are those of :meth:`choose`; `dimension` is None if ``uses_dimension`` is False.
        """
        raise TypeError(f"{type(self).__name__} has no summarize(); a rule that is not local must define it.")

    def resolve(self, summary: Summary) -> Bandwidth:
        """Return a rule that knows the summary of all nodes: a local one, or one that summarises the nodes once more.

        The arrays are those of :meth:`summarize`, for all N rows of X. They may be memory maps larger than memory, so
        read wide ones some rows at a time. :class:`asbc.bandwidth.KnownBandwidth` is a local rule to return.
        """
        raise TypeError(f"{type(self).__name__} has no resolve(); a rule that is not local must define it.")


class KnownBandwidth(Bandwidth):
    """Bandwidths that are known already. Rules that need all nodes resolve to this one.

    Parameters
    ----------
    sigma : float or (N,) array
        The bandwidth of all nodes, or of every row of X. 0 marks nodes that coincide with all their neighbours.
    at_edge : bool or (N,) bool array, default=False
        Whether sigma is the smallest or the largest value that was considered.
    mutual : bool, default=False
        Whether the kernel uses ``sigma_i sigma_j`` instead of ``sigma_i^2``; see :class:`BandwidthChoice`.
    reweight : (N,) array or None, default=None
        Factors of the weights; see :class:`BandwidthChoice`.

    See Also
    --------
    asbc.Fixed : the rule to use for a bandwidth of your own.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.bandwidth import KnownBandwidth
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> KnownBandwidth(np.array([0.5, 1.0, 2.0])).select([[0.0], [1.0], [3.0]], neighbors).sigma
    array([0.5, 1. , 2. ])
    """

    local = True

    def __init__(
        self,
        sigma: float | Vector,
        at_edge: bool | NDArray[np.bool_] = False,
        mutual: bool = False,
        reweight: Vector | None = None,
    ):
        self.sigma = sigma
        self.at_edge = at_edge
        self.mutual = mutual
        self.reweight = reweight

    @property
    def all_rows(self) -> BandwidthChoice | None:  # type: ignore[override]
        if np.ndim(self.sigma) == 0:
            return None
        sigma = np.asarray(self.sigma)
        return BandwidthChoice(_filled(sigma, sigma == 0), mutual=self.mutual, reweight=self.reweight)

    def choose(self, X, neighbors, dimension):
        def own(values):  # a copy, because `values` may be a memory map
            if np.ndim(values) == 0:
                return np.full(neighbors.n, values)
            return np.array(values[neighbors.first : neighbors.first + neighbors.n])

        reweight = None if self.reweight is None else own(self.reweight)
        return BandwidthChoice(own(self.sigma), own(self.at_edge), self.mutual, reweight)


def fill_constant(sigma: Vector, constant: NDArray[np.bool_]) -> Vector:
    """Give `constant` nodes the median bandwidth of the others, and warn. Call it once, when all nodes are known."""
    if not constant.any():
        return sigma
    filled = _filled(sigma, constant)
    source = ", the median of the others." if not constant.all() else "."
    warnings.warn(
        f"{constant.sum()} of {len(sigma)} nodes coincide with all their neighbours; their bandwidth is set to "
        f"{filled[constant][0]:.6g}{source}",
        ConstantNeighborhoodWarning,
        stacklevel=4,
    )
    return filled


def _filled(sigma: Vector, constant: NDArray[np.bool_]) -> Vector:
    """Return `sigma` with the median of the others at `constant` nodes; 1 if all nodes are constant."""
    if not constant.any():
        return sigma
    return np.where(constant, 1.0 if constant.all() else np.median(sigma[~constant]), sigma)


def split_constant(choice: BandwidthChoice, neighbors: Neighbors) -> tuple[BandwidthChoice, NDArray[np.bool_]]:
    """Check the bandwidths of a rule, and return which nodes have none because all their distances are zero.

    Their bandwidth becomes 1: weights do not depend on it.
    """
    sigma = real_array(choice.sigma, "sigma")
    if sigma.shape != (neighbors.n,):
        raise ValueError(f"sigma must have shape ({neighbors.n},), one number per node; got {sigma.shape}.")
    constant = (sigma == 0) & (neighbors.distances[:, -1] == 0)
    return replace(choice, sigma=sigma_per_node(np.where(constant, 1.0, sigma), neighbors.n)), constant


def with_kernels(
    choice: BandwidthChoice, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None
) -> BandwidthChoice:
    """Let a choice compute rank, slope and objective when one of them is first read, unless the rule computed them."""
    if choice.kernels is not None:
        return choice
    values = None if dimension is None else check_dimension(dimension, neighbors)
    return replace(choice, kernels=partial(evaluate_kernels, X, neighbors, choice.sigma, values))


def join_choices(choices: Sequence[BandwidthChoice]) -> BandwidthChoice:
    """Concatenate the choices of consecutive blocks of nodes."""

    def joined(name: str):
        parts = [getattr(choice, name) for choice in choices]
        return None if parts[0] is None else np.concatenate(parts)

    kernels: Any = [choice.kernels for choice in choices]
    known = all(isinstance(part, tuple) for part in kernels)
    return BandwidthChoice(
        joined("sigma"),
        joined("at_edge"),
        choices[0].mutual,
        joined("reweight"),
        joined("solved"),
        tuple(map(np.concatenate, zip(*kernels, strict=True))) if known else None,  # type: ignore[arg-type]
    )


def neighbor_number(number: Any, k: int, name: str) -> int:
    """`number` as that of one of a node's k neighbours, counted from 1."""
    return whole_number(number, name, 1, k, "the candidates of a node")


def check_dimension(dimension: ArrayLike | None, neighbors: Neighbors) -> Vector:
    """The dimension of every node (n,), or an error if there is none."""
    if dimension is None:
        raise ValueError("dimension is needed by this rule: pass asbc.dim_mst(X, neighbors), or your own estimate.")
    return numbers_per_node(dimension, neighbors.n, "dimension")


def geometric_grid(neighbors: Neighbors, n_grid: int, k_mle: int, low: float, high: float) -> Vector:
    """(n, n_grid) bandwidths, geometric from ``low d_{k_mle}`` to ``high d_k``; ones where all distances are zero."""
    bottom = low * kth_distance(neighbors, k_mle)
    top = high * kth_distance(neighbors, neighbors.k)
    constant = bottom == 0
    bottom, top = np.where(constant, 1.0, bottom), np.where(constant, 1.0, top)
    return bottom[:, None] * (top / bottom)[:, None] ** (np.arange(n_grid) / (n_grid - 1))


def named_rules(base: type) -> dict[str, tuple[type, Mapping[str, Any]]]:
    """The subclasses of `base` by the names in their ``presets``, each with the parameters of that name."""
    found: dict[str, tuple[type, Mapping[str, Any]]] = {}
    kind: type
    for kind in base.__subclasses__():
        found |= {name: (kind, parameters) for name, parameters in vars(kind).get("presets", {}).items()}
        found |= named_rules(kind)
    return found


def find_rule(value: Any, base: type, what: str, **wanted: Any) -> Any:
    """Return `value` if it is a rule, an instance of `base`, or the rule that has this name.

    `wanted` are parameters for a rule given by name; those that it does not have are left out. A `k_mle` is lowered to
    ``wanted["k"]``, the number of candidates, if that is smaller.
    """
    if isinstance(value, base):
        return value
    known = named_rules(base)
    names = ", ".join(map(repr, sorted(known)))
    if not isinstance(value, str):
        raise TypeError(f"{what} must be {names}, or a rule, an instance of asbc.{base.__name__}; got {value!r}.")
    if value not in known:
        close = difflib.get_close_matches(value, known, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{what} must be {names}, or a rule; got {value!r}.{hint}")
    kind, parameters = known[value]
    rule = kind(**{name: clone(setting, safe=False) for name, setting in parameters.items()})
    k = wanted.pop("k", None)
    there = rule.get_params(deep=True)
    capped = {name: min(there[name], int(k)) for name in there if k is not None and name.split("__")[-1] == "k_mle"}
    return rule.set_params(**capped, **{name: setting for name, setting in wanted.items() if name in there})
