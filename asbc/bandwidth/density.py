"""How weights are freed of the sampling density: Coifman and Lafon's normalisation, on top of another rule."""

from __future__ import annotations

from numbers import Real

import numpy as np

from asbc.bandwidth.choice import BandwidthChoice, Vector, bare_choice, changed
from asbc.bandwidth.fixed import Fixed
from asbc.bandwidth.rule import Bandwidth
from asbc.neighbors.types import Neighbors


class DensityNormalized(Bandwidth):
    """Coifman and Lafon's rule: weights are divided by ``(q_i q_j)^alpha``, where q_i is the kernel sum at node i.

    It is a normalisation rather than a choice of sigma, which it takes from another rule.

    Parameters
    ----------
    base : Bandwidth or None, default=None
        The rule for sigma; None takes ``Fixed("mean_knn")``.
    alpha : float, default=1.0
        How much of the sampling density is removed: all with 1, nothing with 0.

    See Also
    --------
    Fixed : the rule that it takes its bandwidth from by default.

    Examples
    --------
    The point at 5 lies alone, so its weights are lowered least:

    >>> import asbc
    >>> X = [[0.0], [0.1], [0.2], [0.3], [5.0]]
    >>> choice = asbc.DensityNormalized(asbc.Fixed(0.5)).select(X, asbc.search_neighbors(X, k=3))
    >>> choice.reweight.round(2)
    array([0.27, 0.26, 0.26, 0.27, 1.  ])
    """

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
        check_alpha(self.alpha)

    @property
    def uses_dimension(self):  # type: ignore[override]
        base = self._base()
        return base.local or base.uses_dimension

    def summarize(self, X, neighbors, dimension):
        base = self._base()
        if not base.local:
            return base.summarize(X, neighbors, dimension)
        choice = base.choose(X, neighbors, dimension)
        return {"sigma": choice.sigma, "factor": density_factor(neighbors, choice.sigma, self.alpha)}

    def resolve(self, summary):
        base = self._base()
        if not base.local:
            return DensityNormalized(base.resolve(summary), self.alpha)
        return Reweighted(base, np.asarray(summary["sigma"]), np.asarray(summary["factor"]))

    def extend(self, choice, X, neighbors, dimension=None):
        extended = self._base().extend(choice, X, neighbors, dimension)
        return changed(extended, reweight=density_factor(neighbors, extended.sigma, self.alpha))


class Reweighted(Bandwidth):
    """What :class:`DensityNormalized` becomes once all nodes are known: a local rule, and a factor per row of X.

    Parameters
    ----------
    base : Bandwidth
        The local rule that sigma comes from.
    sigma : (N,) array
        The bandwidth of every row of X.
    factor : (N,) array
        What the weights of every row of X are multiplied by, as a node and as a neighbour.
    """

    def __init__(self, base: Bandwidth, sigma: Vector, factor: Vector):
        self.base = base
        self.sigma = sigma
        self.factor = factor

    @property
    def local(self) -> bool:
        return True

    @property
    def whole(self) -> BandwidthChoice:  # type: ignore[override]
        mutual = self.base.whole is not None and self.base.whole.mutual
        return bare_choice(self.sigma, mutual=mutual, reweight=self.factor)

    def constant(self, neighbors):
        return self.base.constant(neighbors)

    def choose(self, X, neighbors, dimension):
        own = np.array(self.factor[neighbors.first : neighbors.first + neighbors.n])
        return changed(self.base.choose(X, neighbors, dimension), reweight=own)


def check_alpha(alpha: float) -> None:
    """Refuse what is no share of the density to remove: none is 0."""
    if not isinstance(alpha, Real) or not np.isfinite(alpha) or alpha < 0:
        raise ValueError(f"alpha must be a number of at least 0; got {alpha!r}.")


def density_factor(neighbors: Neighbors, sigma: Vector, alpha: float) -> Vector:
    """``q_i^-alpha`` of every node, where q_i is the sum of its Gaussian kernel with its neighbours and itself."""
    check_alpha(alpha)
    kernel = np.exp(-(neighbors.distances**2) / (2.0 * sigma[:, None] ** 2))
    return (1.0 + kernel.sum(axis=1)) ** -alpha
