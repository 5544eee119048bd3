"""Which of many methods is best, and how sure is that?

The best of many looks better than it is, since luck took part in the choice. So the differences between all pairs of
methods get intervals that hold all at once: whichever pair is looked at afterwards, its interval can be trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.evaluate.bootstrap import Bootstrap
from asbc.evaluate.hits import Hits


@dataclass(frozen=True)
class Gap:
    """By how much one method is above another, with an interval that allows for the choice among all of them.

    Attributes
    ----------
    difference : float
        Mean over the pairs.
    low, high : float
        Ends of its simultaneous interval.
    """

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranking:
    """Methods by their means, and how sure the order is; :func:`rank_methods` gives it.

    Attributes
    ----------
    methods : list of str
        Best first.
    means : dict of float
        By method.
    gaps : dict of Gap
        By (method, other method), for every two of them.
    over : str
        What was resampled for the intervals: "trials", or "trials and nodes".
    trials : int
        How many trials there are.
    confidence : float
        That all intervals are right at once.
    """

    methods: list[str]
    means: dict[str, float]
    gaps: dict[tuple[str, str], Gap]
    over: str
    trials: int
    confidence: float

    @property
    def alike(self) -> list[str]:
        """Methods that the data cannot tell from the best one, in their order; the best one is not among them."""
        best = self.methods[0]
        return [other for other in self.methods[1:] if self.gaps[best, other].low <= 0]


def rank_methods(
    values: Mapping[str, ArrayLike],
    *,
    trial: ArrayLike,
    hits: Mapping[str, Hits] | None = None,
    confidence: float = 0.95,
    bootstrap: Bootstrap | None = None,
) -> Ranking:
    """Rank methods that were measured in the same trials.

    Every difference is divided by its standard error over the bootstrap draws, and the largest of these in each draw,
    over all pairs of methods, says how wide all intervals must be to hold together.

    Parameters
    ----------
    values : mapping of str to (m,) array
        Finite values of each method, at least two methods; entry i of all of them belongs together.
    trial : (m,) array
        Trial of each entry.
    hits : mapping of str to m arrays (N,) of int8, default=None
        For each method, entry and node: 1 right, 0 wrong, -1 not scored. All methods must have scored the same nodes.
        With them nodes are resampled too, see :func:`asbc.evaluate.compare`.
    confidence : float, default=0.95
        That all intervals are right at once.
    bootstrap : Bootstrap, default=None
        Draws to share with other comparisons.

    Returns
    -------
    Ranking

    See Also
    --------
    asbc.evaluate.compare : two methods that were chosen beforehand; its interval is narrower.

    Examples
    --------
    >>> from asbc.evaluate.ranking import rank_methods
    >>> found = rank_methods({"a": [0.1, 0.2, 0.2], "b": [0.8, 0.9, 0.8], "c": [0.9, 0.8, 0.8]}, trial=[0, 1, 2])
    >>> found.methods, found.alike
    (['b', 'c', 'a'], ['c'])
    """
    names = list(values)
    table = np.array([np.asarray(values[name], float) for name in names])  # (K, m)
    if len(names) < 2 or table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"values must be finite, of at least two methods, and of one length; got {len(names)} methods")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence}")
    draws = Bootstrap() if bootstrap is None else bootstrap
    _, member = np.unique(np.asarray(trial), return_inverse=True)
    trials = int(member.max()) + 1
    weight = draws.trials(trials)[:, member].astype(float)  # (B, m)
    if hits is None:
        cells = np.broadcast_to(table, (len(weight), *table.shape))
    else:
        cells = _redrawn(names, hits, draws, trials)
    means = np.einsum("bm,bkm->bk", weight, cells) / weight.sum(axis=1)[:, None]  # (B, K)

    first, second = np.triu_indices(len(names), 1)
    middle = table.mean(axis=1)
    difference = middle[first] - middle[second]
    spread = means[:, first] - means[:, second]
    spread = spread - spread.mean(axis=0)
    error = spread.std(axis=0)
    varies = error > 1e-12
    factor = 0.0
    if varies.any():
        factor = float(np.quantile(np.abs(spread[:, varies] / error[varies]).max(axis=1), confidence))
    gaps = {}
    for i, j, d, e in zip(first, second, difference, factor * error, strict=True):
        gaps[names[i], names[j]] = Gap(float(d), float(d - e), float(d + e))
        gaps[names[j], names[i]] = Gap(float(-d), float(-d - e), float(-d + e))
    # The order of the mapping decides between equal means.
    order = [names[i] for i in np.argsort(-middle, kind="stable")]
    over = "trials" if hits is None else "trials and nodes"
    return Ranking(order, dict(zip(names, map(float, middle), strict=True)), gaps, over, trials, confidence)


def _redrawn(names: Sequence[str], hits: Mapping[str, Hits], draws: Bootstrap, trials: int) -> NDArray[np.float64]:
    """(B, K, m) values of every method after nodes are redrawn, the same ones for all."""
    table = np.array([np.asarray(hits[name], np.int8) for name in names])  # (K, m, N)
    seen = table[0] >= 0  # (m, N)
    if ((table >= 0) != seen).any():
        raise ValueError("hits must score the same nodes for all methods")
    kept = seen.any(axis=0)
    count = np.ones(int(kept.sum()), np.int64)
    right = (table[:, :, kept] > 0).reshape(-1, len(count)).T
    sums, totals = draws.nodes(trials, count, right.astype(float), seen[:, kept].T.astype(float))
    return sums.reshape(len(sums), len(names), -1) / np.maximum(totals, 1.0)[:, None, :]
