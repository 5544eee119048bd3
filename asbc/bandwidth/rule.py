"""What all rules for the bandwidth share: the choice that they give, and how they work block by block.

A rule that looks at nodes one by one says so (``local`` is True) and has ``choose``. A rule that needs all nodes has
two methods in its place. ``summarize`` says what the rule needs of one block of nodes, as arrays with one row per node;
``resolve`` takes those arrays, joined over all blocks, and gives a rule that comes closer to being local. They are
called in turn until the rule is local. In memory and block by block on disk, that is the same work on the same numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from asbc.bandwidth.choice import BandwidthChoice, Vector
from asbc.neighbors.types import Neighbors, kth_distance, vectors_for
from asbc.validation import Floats, numbers_per_node, whole_number

Summary = Mapping[str, NDArray[Any]]


class ConstantNeighborhoodWarning(UserWarning):
    """All neighbours of a node coincide with it, so that any bandwidth gives the same kernel.

    Such nodes get the median bandwidth of the others.

    See Also
    --------
    Bandwidth.select : gives it.

    Examples
    --------
    >>> import asbc, numpy as np, warnings
    >>> X = np.concatenate([np.zeros((12, 2)), np.random.default_rng(0).normal(size=(20, 2))])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     graph = asbc.GraphBuilder(k_cand=8).fit_transform(X)
    >>> [warning.category.__name__ for warning in caught]
    ['ConstantNeighborhoodWarning']
    """


def neighbor_number(number: Any, k: int, name: str) -> int:
    """`number` as that of one of a node's k neighbours, counted from 1."""
    return whole_number(number, name, 1, k, "the candidates of a node")


def check_dimension(dimension: ArrayLike | None, neighbors: Neighbors) -> Vector:
    """The dimension of every node (n,), or an error where there is none: the rule that calls this cannot do without."""
    if dimension is None:
        raise ValueError("dimension is needed by this rule: pass asbc.dim_mst(X, neighbors), or your own estimate.")
    return numbers_per_node(dimension, neighbors.n, "dimension")


def fill_constant(sigma: Vector, constant: NDArray[np.bool_]) -> Vector:
    """Give `constant` nodes, those whose neighbours all coincide with them, the median bandwidth of the others."""
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
    """The base class of rules for the bandwidth; derive from it to add a rule of your own.

    A rule that can look at nodes one by one has ``local = True`` and the method ``choose``. A rule that needs to see
    all nodes first has ``summarize`` and ``resolve``. Either kind works in :class:`asbc.GraphBuilder`, in experiments
    and in ``asbc-build``.

    Attributes
    ----------
    local : bool
        Whether a node's bandwidth follows from its own neighbours alone.
    uses_dimension : bool
        Whether ``summarize`` looks at the dimension of the nodes. Where it does not, the dimension is not worked out
        before it is called.
    whole : BandwidthChoice or None
        The bandwidths of all rows of X, where the rule knows them and weights need those of neighbours too.

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
    >>> builder = asbc.GraphBuilder(bandwidth=ThirdNeighbor(), k_cand=8).fit([[float(i)] for i in range(20)])
    >>> float(builder.bandwidth_.sigma[0])
    3.0
    """

    uses_dimension: bool = True
    whole: BandwidthChoice | None = None

    @property
    def local(self) -> bool:
        return False

    def check_parameters(self, k: int) -> None:
        """Refuse parameters that cannot work, before there are neighbours; a rule that has any says here which.

        Parameters
        ----------
        k : int
            Neighbours per node that there will be.

        See Also
        --------
        asbc.GraphBuilder.check_parameters : calls it, before any work is done.

        Examples
        --------
        >>> import asbc
        >>> asbc.SpectralBandwidth(gamma=0).check_parameters(k=30)
        Traceback (most recent call last):
        ...
        ValueError: gamma must be a positive number; got 0.
        """

    def select(self, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None) -> BandwidthChoice:
        """Choose a bandwidth for every node.

        Parameters
        ----------
        X : (N, d) array or None
            The vectors. None is enough if `neighbors` carries the distances within neighbourhoods.
        neighbors : Neighbors
            The neighbours of n nodes; of all rows of X, unless the rule is local.
        dimension : (n,) array or None, default=None
            The intrinsic dimension around each node. Rules that do not need it work out the objective from it, and
            nothing else.

        Returns
        -------
        BandwidthChoice
            Of the n nodes.

        See Also
        --------
        Bandwidth.extend : for points that are not rows of X.

        Examples
        --------
        >>> import asbc, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> neighbors = asbc.search_neighbors(X, k=15)
        >>> choice = asbc.SpectralBandwidth().select(X, neighbors, asbc.dim_mst(X, neighbors))
        >>> choice.sigma.shape
        (100,)
        """
        vectors = vectors_for(X, neighbors)
        rule: Bandwidth = self
        while not rule.local:
            rule = rule.resolve(rule.summarize(vectors, neighbors, dimension))
        return rule.choose(vectors, neighbors, dimension)

    def extend(
        self, choice: BandwidthChoice, X: ArrayLike | None, neighbors: Neighbors, dimension: ArrayLike | None = None
    ) -> BandwidthChoice:
        """Choose a bandwidth for every query, after `choice` was made on the rows of X.

        Parameters
        ----------
        choice : BandwidthChoice
            What :meth:`select` gave for all rows of X.
        X : (N, d) array or None
            The vectors that the queries' neighbours are rows of. None is enough if `neighbors` carries the distances
            within neighbourhoods.
        neighbors : Neighbors
            The neighbours of m queries among the rows of X.
        dimension : (m,) array or None, default=None
            The intrinsic dimension around each query.

        Returns
        -------
        BandwidthChoice
            Of the m queries.

        See Also
        --------
        Bandwidth.select : the choice on the rows of X.

        Examples
        --------
        >>> import asbc, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> rule = asbc.Fixed("mean_knn")
        >>> choice = rule.select(X, asbc.search_neighbors(X, k=15))
        >>> queries = asbc.search_neighbors(X, k=15, queries=[[0.0, 0.0, 0.0]])
        >>> bool(rule.extend(choice, X, queries).sigma[0] == choice.sigma[0])
        True
        """
        return self.select(X, neighbors, dimension)

    def choose(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> BandwidthChoice:
        """Choose the bandwidths of some nodes, each from its own neighbours; only local rules have this method.

        Parameters
        ----------
        X : (N, d) array or None
            The vectors, checked; None if `neighbors` carries the distances within neighbourhoods.
        neighbors : Neighbors
            The neighbours of m nodes: all rows of X, some of them, or queries.
        dimension : (m,) array or None
            The intrinsic dimension around each node.

        Returns
        -------
        BandwidthChoice
            Of the m nodes; :func:`asbc.bandwidth.report_at` makes one from bandwidths.

        See Also
        --------
        Bandwidth.select : what to call: it checks arguments, and works for all rules.

        Examples
        --------
        >>> import asbc
        >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
        >>> asbc.Fixed(0.5).choose(asbc.validation.as_vectors([[0.0], [1.0], [3.0]]), neighbors, None).sigma
        array([0.5, 0.5, 0.5])
        """
        raise TypeError(f"{type(self).__name__} has no choose(): a local rule must say how it chooses.")

    def summarize(self, X: Floats | None, neighbors: Neighbors, dimension: ArrayLike | None) -> Summary:
        """What the rule needs to know of a block of nodes; rules that are not local have this method.

        Parameters
        ----------
        X : (N, d) array or None
            The vectors, checked; None if `neighbors` carries the distances within neighbourhoods.
        neighbors : Neighbors
            The neighbours of the m nodes of the block.
        dimension : (m,) array or None
            The intrinsic dimension around each node; None if ``uses_dimension`` is False.

        Returns
        -------
        mapping
            Arrays by name, (m,) or (m, c) each. Those of all blocks, joined, go to :meth:`resolve`.

        See Also
        --------
        Bandwidth.resolve : takes what this gives.

        Examples
        --------
        >>> import asbc
        >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
        >>> asbc.DimensionMatching("max_min").summarize(None, neighbors, None)["nearest"]
        array([1., 1., 2.])
        """
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def resolve(self, summary: Summary) -> Bandwidth:
        """The rule that this one becomes once it knows the summary of all nodes.

        Parameters
        ----------
        summary : mapping
            What :meth:`summarize` gives, for all N rows of X: arrays (N,) or (N, c) by name. They may be memory maps
            larger than memory, so read wide ones some rows at a time.

        Returns
        -------
        Bandwidth
            A local rule, or one that is asked to summarise the nodes once more.

        See Also
        --------
        Bandwidth.summarize : makes the summary.
        asbc.bandwidth.OneForAll, asbc.bandwidth.OneEach : local rules to resolve to.

        Examples
        --------
        >>> import asbc
        >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
        >>> rule = asbc.DimensionMatching("max_min")
        >>> rule.resolve(rule.summarize(None, neighbors, None))
        OneForAll(sigma=2.0)
        """
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def constant(self, neighbors: Neighbors) -> NDArray[np.bool_]:
        """Which nodes have no bandwidth of their own, because they coincide with all their neighbours.

        Parameters
        ----------
        neighbors : Neighbors
            The neighbours of n nodes.

        Returns
        -------
        (n,) bool
            All False, unless the rule is local and says otherwise.

        See Also
        --------
        ConstantNeighborhoodWarning : what is said of such nodes.

        Examples
        --------
        >>> import asbc
        >>> neighbors = asbc.search_neighbors([[0.0], [0.0], [0.0], [5.0]], k=2)
        >>> asbc.SpectralBandwidth().constant(neighbors)
        array([ True,  True,  True, False])
        """
        return np.zeros(neighbors.n, bool)


def geometric_grid(neighbors: Neighbors, n_grid: int, k_mle: int, low: float, high: float) -> NDArray[np.float64]:
    """(n, n_grid) bandwidths, geometric from ``low d_{k_mle}`` to ``high d_k``; ones where all distances are zero."""
    bottom = low * kth_distance(neighbors, k_mle)
    top = high * kth_distance(neighbors, neighbors.k)
    constant = bottom == 0
    bottom, top = np.where(constant, 1.0, bottom), np.where(constant, 1.0, top)
    return bottom[:, None] * (top / bottom)[:, None] ** (np.arange(n_grid) / (n_grid - 1))
