"""Comparison: is A better than B, by how much, and how sure is that?

Both methods saw the same subsamples, so they are compared pair by pair. Every "A beats B" of the project is
made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.evaluate.bootstrap import Bootstrap
from asbc.evaluate.hits import Hits, unpack_hits
from asbc.evaluate.signed_rank import signed_rank_p

if TYPE_CHECKING:
    import pandas as pd

# What makes two rows of results a pair: all but the method and what is measured.
PAIRED_BY = ("dataset", "encoder", "samples", "level", "trial")


@dataclass(frozen=True)
class Comparison:
    """Method a against method b, measured in pairs; :func:`compare` and :func:`compare_methods` give it.

    Attributes
    ----------
    mean_a, mean_b : float
        Mean over the pairs of either side.
    difference : float
        Mean of `a - b` over the pairs.
    low, high : float
        Ends of its bootstrap interval.
    p_value : float
        Wilcoxon signed-rank test over the trials, two-sided; 1 where no trial differs.
    wins, ties, losses : int
        Pairs in which a is above, equal to, below b.
    trials : int
        How many trials the pairs belong to.
    over : str
        What was resampled for the interval: "trials", or "trials and nodes".
    confidence : float
        Of the interval, such as 0.95.

    See Also
    --------
    compare, compare_methods : what gives it.

    Examples
    --------
    >>> from asbc.evaluate import compare
    >>> print(compare([0.5, 0.75], [0.25, 0.5]))
    +0.2500 [+0.2500, +0.2500] (2/0/0, p=0.5)
    """

    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p_value: float
    wins: int
    ties: int
    losses: int
    trials: int
    over: str
    confidence: float

    @property
    def verdict(self) -> str:
        """What the interval says of the claim "a is above b": "holds", "does not hold" or "cannot tell"."""
        if self.low > 0:
            return "holds"
        return "does not hold" if self.high < 0 else "cannot tell"

    def __str__(self) -> str:
        return (
            f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}] "
            f"({self.wins}/{self.ties}/{self.losses}, p={self.p_value:.3g})"
        )


def compare(
    a: ArrayLike,
    b: ArrayLike,
    *,
    trial: ArrayLike | None = None,
    hits_a: Hits | None = None,
    hits_b: Hits | None = None,
    confidence: float = 0.95,
    n_boot: int = 2000,
    seed: int = 0,
    bootstrap: Bootstrap | None = None,
) -> Comparison:
    """Compare two methods on the same trials.

    The interval says how far the difference could be off by the luck of the draw. Whole trials are resampled,
    because the values of one trial at several levels share their nodes and so are not independent. Where it is
    known which nodes were right (`hits_a`, `hits_b`), nodes are resampled as well, each of them in all trials at
    once: trials overlap, and coincide where a sample is the whole data set, so an interval over trials alone would
    be too narrow.

    Parameters
    ----------
    a, b : (m,) arrays
        Values of the two methods, pair by pair; finite.
    trial : (m,) array, default=None
        Trial that each pair belongs to; None where every pair is a trial of its own.
    hits_a, hits_b : sequences of m arrays (N,) of int8, default=None
        For each pair and each of the N nodes of the data set: 1 right, 0 wrong, -1 not scored.
    confidence : float, default=0.95
        Of the interval.
    n_boot : int, default=2000
        Bootstrap draws.
    seed : int, default=0
        Of the draws.
    bootstrap : Bootstrap, default=None
        Draws that several comparisons share, in place of `n_boot` and `seed`; the numbers are those that each would
        have drawn by itself.

    Returns
    -------
    Comparison

    See Also
    --------
    compare_methods : the same from a table of results.

    Examples
    --------
    >>> from asbc.evaluate import compare
    >>> found = compare([0.91, 0.93, 0.92], [0.90, 0.91, 0.90])
    >>> print(found.verdict, found.wins, found.losses, f"{found.difference:.3f}")
    holds 3 0 0.017
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) == 0:
        raise ValueError(f"a and b must be pairs of one shape (m,), m >= 1; got {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("a and b must be finite")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence}")
    _, member = np.unique(np.arange(len(x)) if trial is None else np.asarray(trial), return_inverse=True)
    member = member.reshape(-1)
    if len(member) != len(x):
        raise ValueError(f"trial must have one entry per pair: {len(x)} wanted, got {len(member)}")
    delta = x - y
    counts = np.bincount(member)
    per_trial = np.bincount(member, delta) / counts

    draws = Bootstrap(n_boot, seed) if bootstrap is None else bootstrap
    picks = draws.trials(len(counts))  # (B, T)
    if hits_a is not None and hits_b is not None:
        cells = _resample_nodes(hits_a, hits_b, draws, len(counts))  # (B, m)
        over = "trials and nodes"
    else:
        cells = np.broadcast_to(delta, (len(picks), len(delta)))
        over = "trials"
    weight = picks[:, member].astype(np.float64)  # (B, m)
    means = (weight * cells).sum(axis=1) / weight.sum(axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    close = np.isclose(x, y, rtol=0, atol=1e-12)
    changed = ~np.isclose(per_trial, 0, rtol=0, atol=1e-12)
    p_value = signed_rank_p(per_trial[changed]) if changed.any() else 1.0
    return Comparison(
        mean_a=float(x.mean()),
        mean_b=float(y.mean()),
        difference=float(delta.mean()),
        low=float(low),
        high=float(high),
        p_value=p_value,
        wins=int(((delta > 0) & ~close).sum()),
        ties=int(close.sum()),
        losses=int(((delta < 0) & ~close).sum()),
        trials=len(counts),
        over=over,
        confidence=confidence,
    )


def compare_methods(
    table: pd.DataFrame, a: str, b: str, *, metric: str = "loo", confidence: float = 0.95, seed: int = 0
) -> Comparison:
    """Compare two methods of a results table, over all levels in it.

    Parameters
    ----------
    table : DataFrame
        Rows as :func:`asbc.collect` returns them, filtered to one value of every setting.
    a, b : str
        Names in its `method` column.
    metric : str, default="loo"
        Name in its `metric` column.
    confidence : float, default=0.95
        Of the interval.
    seed : int, default=0
        Of the bootstrap.

    Returns
    -------
    Comparison

    See Also
    --------
    compare : the same from two arrays.

    Examples
    --------
    >>> import pandas as pd
    >>> from asbc.evaluate import compare_methods
    >>> pair = {"dataset": "mine", "encoder": "files", "samples": 20, "level": 20, "metric": "loo"}
    >>> values = {"knn": [0.90, 0.91, 0.90], "nnk_sigma": [0.91, 0.93, 0.92]}
    >>> rows = [{**pair, "method": m, "trial": t, "value": v} for m in values for t, v in enumerate(values[m])]
    >>> compare_methods(pd.DataFrame(rows), "nnk_sigma", "knn").verdict
    'holds'
    """
    known = sorted(table["metric"].unique())
    if metric not in known:
        raise ValueError(f"metric {metric!r} is not in the table; it has: {', '.join(known)}")
    rows = table[table["metric"] == metric]
    sides = []
    for method in (a, b):
        side = rows[rows["method"] == method].set_index(list(PAIRED_BY)).sort_index()
        if side.empty:
            raise ValueError(
                f"method {method!r} has no {metric!r} rows; those that have: "
                f"{', '.join(sorted(rows['method'].unique()))}"
            )
        if side.index.has_duplicates:
            raise ValueError(
                f"method {method!r} has several {metric!r} rows for one trial: the table mixes settings; "
                "filter it to one value of every hyperparameter first"
            )
        sides.append(side)
    common = sides[0].index.intersection(sides[1].index, sort=True)
    if len(common) == 0:
        raise ValueError(f"methods {a!r} and {b!r} have no trial in common")
    left, right = (side.loc[common] for side in sides)
    frame = common.to_frame(index=False)
    trial = frame.groupby(["dataset", "encoder", "trial"], sort=True).ngroup().to_numpy()
    hits: list[list[NDArray[np.int8]] | None] = [None, None]
    # Nodes are only the same nodes within one data set.
    if frame["dataset"].nunique() == 1 and "right" in left and left["right"].notna().all():
        hits = [
            [unpack_hits(s, r) for s, r in zip(side["scored"], side["right"], strict=True)] for side in (left, right)
        ]
    return compare(
        left["value"].to_numpy(),
        right["value"].to_numpy(),
        trial=trial,
        hits_a=hits[0],
        hits_b=hits[1],
        confidence=confidence,
        seed=seed,
    )


def _resample_nodes(
    hits_a: Hits,
    hits_b: Hits,
    draws: Bootstrap,
    trials: int,
) -> NDArray[np.float64]:
    """(B, m) differences of every pair after nodes are redrawn; a redrawn node counts equally in all pairs."""
    first, second = np.asarray(hits_a, np.int8), np.asarray(hits_b, np.int8)
    if first.shape != second.shape or ((first < 0) != (second < 0)).any():
        raise ValueError("hits_a and hits_b must score the same nodes in every pair")
    seen = first >= 0  # (m, N)
    # Most nodes have the same history as many others: only how many of each kind are drawn matters.
    history = np.where(seen, first - second, np.int8(2)).T[seen.any(axis=0)]
    _, kind, count = np.unique(_in_order(history), return_index=True, return_counts=True)
    scored = (history[kind] != 2).astype(np.float64)  # (kinds, m)
    gain = np.where(scored > 0, history[kind], 0.0)
    # Poisson counts in place of draws of exactly n: the same bootstrap, several times faster.
    gains, totals = draws.nodes(trials, count, gain, scored)
    return gains / np.maximum(totals, 1.0)


def _in_order(history: NDArray[np.int8]) -> NDArray[Any]:
    """One value per row of 0, 1, 2 and -1, which sort in this order: two bits each where they fit into a number."""
    rows, m = history.shape
    if m > 32:
        return np.ascontiguousarray(history).view(f"V{m}").ravel()
    out = np.zeros(rows, np.uint64)
    for column in (history & 3).T.astype(np.uint64):
        out = out << np.uint64(2) | column
    return out
