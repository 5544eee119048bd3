"""Comparisons of scores: whether method A is better than method B, and which of many is best.

All methods see the same samples, so they are compared pair by pair. :func:`compare` compares two methods that were
chosen beforehand. :func:`rank_methods` ranks many, with intervals that hold for all pairs at once, because the best of
many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import wilcoxon

from asbc.evaluate.tasks import unpack_hits
from asbc.validation import seed_number, whole_number

if TYPE_CHECKING:
    import pandas as pd

# For each score, which nodes were right: m arrays (N,), or one (m, N), of 1 right, 0 wrong, -1 not scored.
Hits = Sequence[NDArray[np.int8]] | NDArray[np.int8]
# Columns that two rows of results must share to be compared.
PAIRED_BY = ("dataset", "encoder", "samples", "level", "trial")
SAME = 1e-12  # values that differ by less are equal
NODES_PER_BLOCK = 4096
MAX_CACHED_BLOCKS = 32  # of 8 MB each, with 2,000 draws


def hits_of(rows: pd.DataFrame) -> NDArray[np.int8] | None:
    """Return (m, N) numbers of :func:`unpack_hits` for m rows of results; None if a row does not have them."""
    if "right" not in rows or not all(isinstance(bits, bytes) for bits in rows["right"]):
        return None
    return unpack_hits(list(zip(rows["scored"], rows["right"], strict=True)))


# Bootstrap


@dataclass(frozen=True)
class Bootstrap:
    """Bootstrap draws of trials and nodes: a node is drawn a Poisson number of times, the same in every comparison."""

    n_boot: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number(self.n_boot, "n_boot", 1)
        seed_number(self.seed)

    def trials(self, count: int) -> NDArray[np.int64]:
        """Return how often each of `count` trials was drawn, (n_boot, count)."""
        return np.random.default_rng(self.seed).multinomial(count, np.full(count, 1 / count), size=self.n_boot)

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return sums over the drawn nodes, (n_boot, m), of whole numbers (N, m) per node."""
        out = np.zeros((self.n_boot, values.shape[1]), np.float32)
        for block, start in enumerate(range(0, len(values), NODES_PER_BLOCK)):
            part = values[start : start + NODES_PER_BLOCK]
            rows = np.flatnonzero(part.any(axis=1))  # most nodes do not distinguish two methods
            if len(rows):
                out += _node_counts(self, block)[:, rows].astype(np.float32) @ part[rows].astype(np.float32)
        return out.astype(np.float64)

    def means(
        self,
        values: NDArray[np.float64],
        member: NDArray[np.int64],
        nodes: NDArray[np.int8] | None = None,
        seen: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return the means of K rows of m values after trials are redrawn, (n_boot, K).

        `member` is the trial of each value. With `nodes` (K, m, N), what each node adds to a value, and `seen` (m, N),
        whether it was scored, nodes are redrawn as well, the same ones for all rows.
        """
        weight = self.trials(int(member.max()) + 1)[:, member].astype(np.float64)  # (n_boot, m)
        cells = values[None]
        if nodes is not None and seen is not None:
            sums = self.sums(nodes.reshape(-1, nodes.shape[2]).T).reshape(self.n_boot, *values.shape)
            cells = sums / np.maximum(self.sums(seen.T), 1.0)[:, None]
        return (weight[:, None] * cells).sum(axis=2) / weight.sum(axis=1)[:, None]


@lru_cache(MAX_CACHED_BLOCKS)
def _node_counts(draws: Bootstrap, block: int) -> NDArray[np.uint8]:
    """Return how often each node of a block was drawn, (n_boot, NODES_PER_BLOCK)."""
    rng = np.random.default_rng([draws.seed, block])
    return rng.poisson(1.0, (draws.n_boot, NODES_PER_BLOCK)).astype(np.uint8)


def _paired(hits: Iterable[Hits]) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
    """Return which nodes were right, (K, m, N), and which were scored, (m, N), the same ones by all methods."""
    tables = [np.asarray(each, np.int8) for each in hits]
    seen = tables[0] >= 0
    if any(table.shape != seen.shape or ((table >= 0) != seen).any() for table in tables):
        raise ValueError("hits must score the same nodes for all methods")
    return np.maximum(tables, 0), seen


# Two methods


@dataclass(frozen=True)
class Comparison:
    """Result of :func:`compare` and :func:`compare_methods`: method a against method b, measured in pairs.

    Attributes
    ----------
    mean_a, mean_b : float
        Means over the pairs.
    difference : float
        Mean of `a - b` over the pairs.
    low, high : float
        Ends of its 95% bootstrap interval.
    p_value : float
        Wilcoxon signed-rank test over the trials, two-sided; 1 if no trial differs.
    wins, ties, losses : int
        Pairs in which a is above, equal to or below b.
    trials : int
        Number of trials.
    over : str
        What was resampled for the interval: "trials", or "trials and nodes".

    Examples
    --------
    >>> from asbc.evaluate import compare
    >>> found = compare([0.91, 0.93, 0.92], [0.90, 0.91, 0.93])
    >>> found.wins, found.losses, found.verdict
    (2, 1, 'cannot tell')
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

    @property
    def verdict(self) -> str:
        """Verdict on "a is above b": "holds", "does not hold" or "cannot tell"."""
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
    bootstrap: Bootstrap | None = None,
) -> Comparison:
    """Compare two methods on the same trials.

    Whole trials are resampled, because the values of one trial at several levels share their nodes. With `hits_a` and
    `hits_b`, nodes are resampled as well, each of them in all trials at once: trials overlap, so an interval over
    trials alone would be too narrow.

    Parameters
    ----------
    a, b : (m,) arrays
        Values of the two methods, pair by pair; finite.
    trial : (m,) array, default=None
        Trial of each pair; None if every pair is its own trial.
    hits_a, hits_b : (m, N) arrays of int8, default=None
        For each pair and each node of the data set: 1 right, 0 wrong, -1 not scored.
    bootstrap : Bootstrap, default=None
        None for ``Bootstrap(n_boot=2000, seed=0)``.

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
    >>> print(found.verdict, found)
    holds +0.0167 [+0.0100, +0.0200] (3/0/0, p=0.25)
    """
    x, y = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or len(x) == 0:
        raise ValueError(f"a and b must be pairs of one shape (m,), m >= 1; got {x.shape} and {y.shape}")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("a and b must be finite")
    delta = np.where(np.isclose(x, y, rtol=0, atol=SAME), 0.0, x - y)
    _, member = np.unique(np.arange(len(x)) if trial is None else np.asarray(trial), return_inverse=True)
    counts = np.bincount(member)
    per_trial = np.bincount(member, delta) / counts
    changed = per_trial[np.abs(per_trial) > SAME]

    nodes = seen = None
    if hits_a is not None and hits_b is not None:
        right, seen = _paired([hits_a, hits_b])
        nodes = (right[0] - right[1])[None]
    means = (bootstrap or Bootstrap()).means(delta[None], member, nodes, seen)[:, 0]
    low, high = np.quantile(means, [0.025, 0.975])
    return Comparison(
        mean_a=float(x.mean()),
        mean_b=float(y.mean()),
        difference=float(delta.mean()),
        low=float(low),
        high=float(high),
        p_value=float(wilcoxon(changed).pvalue) if len(changed) else 1.0,
        wins=int((delta > 0).sum()),
        ties=int((delta == 0).sum()),
        losses=int((delta < 0).sum()),
        trials=len(counts),
        over="trials" if nodes is None else "trials and nodes",
    )


def compare_methods(table: pd.DataFrame, a: str, b: str, *, metric: str = "loo") -> Comparison:
    """Compare two methods of a results table, over all levels in it.

    Parameters
    ----------
    table : DataFrame
        Rows of ``asbc.collect(folder, per_node=True)``, filtered to one value of every setting. Without the columns
        of `per_node`, only trials are resampled.
    a, b : str
        Names in its `method` column.
    metric : str, default="loo"
        Name in its `metric` column.

    Returns
    -------
    Comparison

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
    sides = {method: side.set_index(list(PAIRED_BY)) for method, side in rows.groupby("method")}
    for method in (a, b):
        if method not in sides:
            raise ValueError(f"method {method!r} has no {metric!r} rows; those that have: {', '.join(map(str, sides))}")
        if sides[method].index.has_duplicates:
            raise ValueError(
                f"method {method!r} has several {metric!r} rows for one trial: the table mixes settings; "
                "filter it to one value of every setting first"
            )
    common = sides[a].index.intersection(sides[b].index).sort_values()
    if len(common) == 0:
        raise ValueError(f"methods {a!r} and {b!r} have no trial in common")
    left, right = sides[a].loc[common], sides[b].loc[common]
    frame = common.to_frame(index=False)
    trial = frame.groupby(["dataset", "encoder", "trial"]).ngroup().to_numpy()
    one = frame["dataset"].nunique() == 1  # nodes can only be paired within one data set
    return compare(
        left["value"].to_numpy(),
        right["value"].to_numpy(),
        trial=trial,
        hits_a=hits_of(left) if one else None,
        hits_b=hits_of(right) if one else None,
    )


# Many methods


@dataclass(frozen=True)
class Gap:
    """Mean difference between two of many methods, with an interval that holds for all pairs at once."""

    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranking:
    """Result of :func:`rank_methods`: methods by their means, and the differences between them.

    `methods` has the best first, and `gaps` an entry for every (method, other method).
    """

    methods: list[str]
    means: dict[str, float]
    gaps: dict[tuple[str, str], Gap]
    trials: int

    @property
    def alike(self) -> list[str]:
        """Methods that are statistically tied with the best one, in their order, without the best one itself."""
        best = self.methods[0]
        return [other for other in self.methods[1:] if self.gaps[best, other].low <= 0]


def rank_methods(
    values: Mapping[str, ArrayLike],
    *,
    trial: ArrayLike,
    hits: Mapping[str, Hits] | None = None,
    bootstrap: Bootstrap | None = None,
) -> Ranking:
    """Rank methods that were measured in the same trials; all intervals hold at once with a probability of 95%.

    Every difference is divided by its standard error over the bootstrap draws. The largest of these ratios in each
    draw, over all pairs of methods, determines how wide the intervals must be to hold together. `values` and `hits` are
    those of :func:`compare`, by method; all methods must have scored the same nodes.

    Examples
    --------
    >>> from asbc.evaluate.comparison import rank_methods
    >>> found = rank_methods({"a": [0.1, 0.2, 0.2], "b": [0.8, 0.9, 0.8], "c": [0.9, 0.8, 0.8]}, trial=[0, 1, 2])
    >>> found.methods, found.alike
    (['b', 'c', 'a'], ['c'])
    """
    names = list(values)
    table = np.array([np.asarray(values[name], float) for name in names])  # (K, m)
    if len(names) < 2 or table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"values must be finite, of at least two methods, and of one length; got {len(names)} methods")
    nodes, seen = (None, None) if hits is None else _paired(hits[name] for name in names)
    _, member = np.unique(np.asarray(trial), return_inverse=True)
    means = (bootstrap or Bootstrap()).means(table, member, nodes, seen)  # (B, K)

    middle = table.mean(axis=1)
    difference = middle[:, None] - middle  # (K, K)
    spread = means[:, :, None] - means[:, None]
    spread -= spread.mean(axis=0)
    error = spread.std(axis=0)
    varies = error > SAME
    largest = np.abs(spread[:, varies] / error[varies]).max(axis=1, initial=0.0)
    reach = np.quantile(largest, 0.95) * error
    gaps = {
        (a, b): Gap(*(float(ends[i, j]) for ends in (difference, difference - reach, difference + reach)))
        for i, a in enumerate(names)
        for j, b in enumerate(names)
        if i != j
    }
    # Ties are broken by the order of the mapping.
    order = [names[i] for i in np.argsort(-middle, kind="stable")]
    return Ranking(order, dict(zip(names, map(float, middle), strict=True)), gaps, int(member.max()) + 1)
