"""Bandwidths that are known already: what rules that need all nodes become once they have seen them."""

from __future__ import annotations

import numpy as np

from asbc.bandwidth.choice import BandwidthChoice, Vector, bare_choice
from asbc.bandwidth.report import report_at
from asbc.bandwidth.rule import Bandwidth, Summary, fill_constant
from asbc.validation import positive_number


class OneForAll(Bandwidth):
    """One bandwidth for all nodes that is known already: what rules with one sigma resolve to.

    Parameters
    ----------
    sigma : float
        The bandwidth.
    at_edge : bool, default=False
        Whether it is the smallest or the largest that was considered.

    See Also
    --------
    OneEach : a bandwidth per node.
    asbc.Fixed : the rule to use for a bandwidth of one's own.

    Examples
    --------
    >>> import asbc
    >>> from asbc.bandwidth import OneForAll
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> OneForAll(0.5).select([[0.0], [1.0], [3.0]], neighbors).sigma
    array([0.5, 0.5, 0.5])
    """

    def __init__(self, sigma: float, at_edge: bool = False):
        self.sigma = sigma
        self.at_edge = at_edge

    @property
    def local(self) -> bool:
        return True

    def choose(self, X, neighbors, dimension):
        sigma = positive_number(self.sigma, "sigma")
        return report_at(X, neighbors, np.full(neighbors.n, sigma), dimension, np.full(neighbors.n, self.at_edge))


class OneEach(Bandwidth):
    """A bandwidth per row of X that is known already: what rules with many sigmas resolve to.

    Parameters
    ----------
    sigma : (N,) array
        The bandwidth of every row of X.
    mutual : bool, default=False
        Whether the kernel takes ``sigma_i sigma_j`` in place of ``sigma_i^2``; see :class:`BandwidthChoice`.

    See Also
    --------
    OneForAll : one bandwidth for all nodes.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.bandwidth import OneEach
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [3.0]], k=2)
    >>> OneEach(np.array([0.5, 1.0, 2.0])).select([[0.0], [1.0], [3.0]], neighbors).sigma
    array([0.5, 1. , 2. ])
    """

    def __init__(self, sigma: Vector, mutual: bool = False):
        self.sigma = sigma
        self.mutual = mutual

    @property
    def local(self) -> bool:
        return True

    @property
    def whole(self) -> BandwidthChoice:  # type: ignore[override]
        return bare_choice(self.sigma, mutual=self.mutual)

    def choose(self, X, neighbors, dimension):
        own = np.array(self.sigma[neighbors.first : neighbors.first + neighbors.n])
        return report_at(X, neighbors, own, dimension, mutual=self.mutual)


class Global(Bandwidth):
    """The base class of rules that need all nodes and give one bandwidth to all: they resolve to :class:`OneForAll`."""

    def resolve(self, summary):
        sigma, at_edge = self.one_sigma(summary)
        if sigma == 0:  # no distance is above zero: any bandwidth is as good
            n = len(next(iter(summary.values())))
            sigma = float(fill_constant(np.ones(n), np.ones(n, bool))[0])
        return OneForAll(sigma, at_edge)

    def one_sigma(self, summary: Summary) -> tuple[float, bool]:
        """The bandwidth (0 where all nodes coincide), and whether it is the least or the largest considered."""
        raise TypeError(f"{type(self).__name__} is not a rule by itself: use one of its subclasses.")

    def extend(self, choice, X, neighbors, dimension=None):
        return OneForAll(float(choice.sigma[0]), bool(choice.at_edge[0])).select(X, neighbors, dimension)
