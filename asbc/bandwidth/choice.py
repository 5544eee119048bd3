"""What a rule gives: the bandwidths of nodes, and what the kernels look like there, at once or when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Kernels = tuple[Vector, Vector, Vector]  # effective rank, slope and objective of every node
LATE = ("effective_rank", "slope", "objective")


@dataclass(frozen=True)
class BandwidthChoice:
    """Bandwidths of n nodes, and what the kernel on each node's neighbours looks like there.

    Attributes
    ----------
    sigma : (n,) float64
        The bandwidths.
    effective_rank : (n,) float64
        How many directions the kernel among a node's neighbours resolves, within [1, k]; see :func:`effective_rank`.
    slope : (n,) float64
        Slope of the log of that kernel's sum against log sigma.
    objective : (n,) float64
        The criterion J of :class:`SpectralBandwidth`, with that rule's own gamma, or with gamma = 1 for other rules;
        NaN if no dimension was given.
    at_edge : (n,) bool
        Whether sigma is the smallest or the largest that the rule considered.
    mutual : bool, default=False
        Whether the Gaussian kernel between nodes i and j takes ``sigma_i sigma_j`` in place of ``sigma_i^2``.
    reweight : (n,) float64 or None, default=None
        Factors f, by which the weight between i and j is multiplied as ``f_i f_j``.
    solved : (n,) int64 or None, default=None
        Eigenproblems per node that the search on the grid has solved.

    See Also
    --------
    Bandwidth.select : gives it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> choice = asbc.Fixed(0.5).select(X, asbc.search_neighbors(X, k=10))
    >>> choice.sigma.shape, float(choice.sigma[0])
    ((100,), 0.5)
    """

    sigma: Vector
    effective_rank: Vector
    slope: Vector
    objective: Vector
    at_edge: NDArray[np.bool_]
    mutual: bool = False
    reweight: Vector | None = None
    solved: NDArray[np.int64] | None = None


def bare_choice(sigma: Vector, *, mutual: bool = False, reweight: Vector | None = None) -> BandwidthChoice:
    """A choice without rank, slope and objective: all that is needed of the nodes that are looked up as neighbours."""
    none = np.empty(0)
    return BandwidthChoice(sigma, none, none, none, np.empty(0, bool), mutual=mutual, reweight=reweight)


class LateChoice(BandwidthChoice):
    """A choice whose rank, slope and objective are worked out when one of them is first asked for.

    They need an eigenproblem per node, and weights do not depend on them.
    """

    @classmethod
    def of(cls, kernels: Callable[[], Kernels], **known: Any) -> LateChoice:
        """A choice of which all but rank, slope and objective is `known`; ``kernels()`` works these out."""
        choice = object.__new__(cls)
        vars(choice).update({"mutual": False, "reweight": None, "solved": None, **known, "kernels": kernels})
        return choice

    def __getattr__(self, name: str) -> Vector:
        if name not in LATE or "kernels" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        vars(self).update(zip(LATE, vars(self).pop("kernels")(), strict=True))
        return vars(self)[name]


def changed(choice: BandwidthChoice, **values: Any) -> BandwidthChoice:
    """The same choice but for some values; what is to be worked out later stays so."""
    waiting = {name: value for name, value in vars(choice).items() if name not in values}
    if "kernels" in waiting:
        return LateChoice.of(waiting.pop("kernels"), **waiting, **values)
    return BandwidthChoice(**waiting, **values)


def joined(choices: Sequence[BandwidthChoice], kernels: Callable[[], Kernels] | None = None) -> BandwidthChoice:
    """The choices of blocks of nodes that follow each other, as one; with `kernels`, a late one."""
    arrays: dict[str, Any] = {}
    for field in fields(BandwidthChoice):
        if kernels is None or field.name not in LATE:
            parts = [getattr(choice, field.name) for choice in choices]
            arrays[field.name] = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else parts[0]
    return BandwidthChoice(**arrays) if kernels is None else LateChoice.of(kernels, **arrays)
