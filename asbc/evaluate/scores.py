"""Scores: what each metric is called and how it is shown, which nodes were right, and whether A is better than B.

All methods see the same samples, so they are compared pair by pair. :func:`compare` compares two methods that were
chosen beforehand. :func:`rank_methods` ranks many, with intervals that hold for all pairs at once, because the best of
many looks better than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.validation import seed_number, whole_number

if TYPE_CHECKING:
    import pandas as pd

PER_SAMPLE = "samples per class"
PER_LABEL = "labels per class"
PER_CENT = "% of labels wrong"
# For each score, which nodes were right: m arrays (N,), or one (m, N), of 1 right, 0 wrong, -1 not scored.
Hits = Sequence[NDArray[np.int8]] | NDArray[np.int8]
# What makes two rows of results a pair: all but the method and the metric.
PAIRED_BY = ("dataset", "encoder", "samples", "level", "trial")
NODES_PER_BLOCK = 4096
MAX_CACHED_BLOCKS = 32  # of 8 MB each, with 2,000 draws


# Metrics


@dataclass(frozen=True)
class Score:
    """One measured number: a row of the results.

    Parameters
    ----------
    metric : str
        What was measured, such as "loo".
    value : float
        The number.
    level : int
        Samples per class, labels per class in propagation, or percentage of moved labels.
    seconds : float
        Time of the method alone on this sample, the measurement included.
    nodes : (m,) int array, default=None
        Rows of the data set that were scored.
    right : (m,) bool array, default=None
        Which of them were right.
    method : str, default=None
        Name of the method, if it is not the one that the task was called with.
    more : dict, default=an empty one
        Further columns of the row.

    Examples
    --------
    >>> from asbc.evaluate import Score
    >>> Score("agreement", 0.87, level=10, seconds=0.2).value
    0.87
    """

    metric: str
    value: float
    level: int
    seconds: float
    nodes: NDArray[np.int64] | None = None
    right: NDArray[np.bool_] | None = None
    method: str | None = None
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Metric:
    """Description of one metric. A metric without a description gets ``Metric(name)``.

    Parameters
    ----------
    name : str
        As in the column `metric` of the results.
    label : str, default=""
        Name in tables and axes; empty for the name with spaces.
    digits : int, default=3
        Decimals in tables.
    higher_is_better : bool or None, default=None
        None where no direction is better.
    percent : bool, default=False
        Show the value as a percentage.
    level : str, default="samples per class"
        What the column `level` counts. A metric with another unit has several levels per sample, such as labels per
        class in propagation. Its first and its last level are shown where there is room for two numbers.
    task : str, default=""
        The use of a graph that the metric measures, for "which graph for which task"; empty for none.
    by : tuple of str, default=()
        Columns that distinguish rows of the same method, level and trial, such as ("target", "estimator").
    needs_labels : bool, default=False
        Whether it can be measured only on labelled data.
    description : str, default=""
        One sentence on what is measured.

    Examples
    --------
    >>> from asbc.evaluate import Metric
    >>> Metric("edge_agreement", digits=2, higher_is_better=True).title
    'edge agreement'
    """

    name: str
    label: str = ""
    digits: int = 3
    higher_is_better: bool | None = None
    percent: bool = False
    level: str = PER_SAMPLE
    task: str = ""
    by: tuple[str, ...] = ()
    needs_labels: bool = False
    description: str = ""

    @property
    def title(self) -> str:
        """The label, or the name with spaces."""
        return self.label or self.name.replace("_", " ")


def _scored(name: str, label: str, description: str, *, digits: int = 4, better: bool = True, **more: Any) -> Metric:
    """A metric that compares predictions with labels."""
    return Metric(name, label, digits, better, needs_labels=True, description=description, **more)


_RANK_AND_DIMENSION = ("target", "estimator")
_QUARTILES = {"q25": "lower quartile of the", "median": "median", "q75": "upper quartile of the"}
_NOISE = {
    "near": "were moved to one of the three nearest classes",
    "uniform": "were moved to any other class",
    "human": "people got wrong",
}
_UNREACHED = "Share of nodes that no label reaches; they count as wrong."
_REGRET = "LOO at the best bandwidth that tuning with labels finds, less the method's own."
_SPEARMAN = "Rank correlation of the effective rank r and the intrinsic dimension d over the nodes."

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _scored("loo", "LOO", "Share of nodes whose label their neighbours vote for.", task="Vote of the neighbours"),
        _scored("loo_balanced", "LOO balanced", "Mean over classes of the leave-one-out accuracy of each class."),
        _scored("lp", "LP", "Accuracy on nodes with hidden labels.", level=PER_LABEL, task="Label propagation"),
        _scored("lp_balanced", "LP balanced", "Mean over classes of the accuracy of each class.", level=PER_LABEL),
        _scored("lp_unreached", "unreached", _UNREACHED, digits=1, better=False, percent=True, level=PER_LABEL),
        _scored("nmi", "NMI", "Normalised mutual information of spectral clusters and classes."),
        _scored("ari", "ARI", "Adjusted Rand index of spectral clusters and classes.", task="Clustering"),
        _scored("leiden_ari", "ARI, Leiden", "Adjusted Rand index of Leiden's clusters and classes."),
        _scored("regret", "regret", _REGRET, better=False),
        *(
            _scored(
                f"noise_{kind}", f"noise {kind}", f"Average precision in finding labels that {what}.", level=PER_CENT
            )
            for kind, what in _NOISE.items()
        ),
        Metric("spearman", "Spearman(r, d)", 3, True, by=_RANK_AND_DIMENSION, description=_SPEARMAN),
        Metric("slope", "slope of r on d", 3, by=_RANK_AND_DIMENSION),
        Metric("intercept", "intercept of r on d", 3, by=_RANK_AND_DIMENSION),
        Metric("components", "pieces", 0, False, description="Connected components of the graph."),
        Metric("largest", "largest piece", 1, True, percent=True, description="Share of nodes in the largest piece."),
        Metric("isolated", "isolated nodes", 0, False),
        Metric("edges", "edges", 0),
        Metric("degree_min", "fewest neighbours", 0),
        Metric("degree_median", "median neighbours", 0),
        Metric("degree_max", "most neighbours", 0),
        Metric("row_degree_median", "neighbours", 0, description="Median number of neighbours with a weight."),
        Metric("condition_median", "condition", 0, description="Median condition number of the local kernels."),
        Metric("condition_q95", "condition, 95%", 0),
        Metric("at_edge", "at edge", 1, percent=True, description="Nodes whose bandwidth is at an end of the grid."),
        Metric("sigma_median", "median σ", 3),
        Metric("rank_median", "median r", 1, by=("scale", *_RANK_AND_DIMENSION)),
        Metric("dimension_median", "median d", 1, by=_RANK_AND_DIMENSION),
        *(
            Metric(f"{name}_{q}", f"{words} {text}", 2, by=("scale",))
            for name, text in (("rank", "rank"), ("slope", "slope"), ("condition", "condition"))
            for q, words in _QUARTILES.items()
            if (name, q) not in (("rank", "median"), ("condition", "median"))
        ),
        *(
            Metric(f"chosen_{name}_{q}", f"{words} {text}", 2)
            for name, text in (("scale", "chosen σ / distance"), ("rank", "chosen rank"), ("dimension", "dimension"))
            for q, words in _QUARTILES.items()
        ),
    )
}


def describe_metric(name: str) -> Metric:
    """Return the description of a metric, a generic one if there is none."""
    return METRICS.get(name, Metric(name))


def balanced_differs(rows: pd.DataFrame, metric: str) -> bool:
    """Whether a metric differs from its class-balanced one, which it does where classes differ in size."""
    keys = ["method", "samples", "level", "trial"]
    names = (metric, f"{metric}_balanced")
    plain, balanced = (rows[rows["metric"] == name].groupby(keys)["value"].mean() for name in names)
    return bool(((plain - balanced).abs() > 1e-9).any())


# Which nodes were right


def pack_hits(nodes: NDArray[np.int64], right: NDArray[np.bool_], total: int) -> tuple[bytes, bytes]:
    """Return which of the `total` nodes of a data set were scored and which were right, one bit per node.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.scores import pack_hits, unpack_hits
    >>> bits = pack_hits(np.array([0, 3]), np.array([True, False]), 8)
    >>> unpack_hits([bits])
    array([[ 1, -1, -1,  0, -1, -1, -1, -1]], dtype=int8)
    """
    scored, correct = np.zeros(total, bool), np.zeros(total, bool)
    scored[nodes] = True
    correct[nodes[right]] = True
    return np.packbits(scored).tobytes(), np.packbits(correct).tobytes()


def unpack_hits(packed: Sequence[tuple[bytes, bytes]]) -> NDArray[np.int8]:
    """Return (m, N) numbers from m results of :func:`pack_hits`: 1 right, 0 wrong, -1 not scored.

    N is the number of rows of the data set, rounded up to whole bytes.
    """
    if len({len(bits) for pair in packed for bits in pair}) > 1:
        raise ValueError("the scores are of data sets of different sizes")
    bits = np.frombuffer(b"".join(side for pair in packed for side in pair), np.uint8).reshape(len(packed), 2, -1)
    seen, right = np.unpackbits(bits, axis=2).astype(np.int8).swapaxes(0, 1)
    return np.where(seen == 1, right, np.int8(-1))


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
        Ends of its bootstrap interval.
    p_value : float
        Wilcoxon signed-rank test over the trials, two-sided; 1 if no trial differs.
    wins, ties, losses : int
        Pairs in which a is above, equal to or below b.
    trials : int
        Number of trials.
    over : str
        What was resampled for the interval: "trials", or "trials and nodes".
    confidence : float
        Of the interval, such as 0.95.

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
    confidence: float

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
    confidence: float = 0.95,
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
    confidence : float, default=0.95
        Of the interval.
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
    _check_confidence(confidence)
    _, member = np.unique(np.arange(len(x)) if trial is None else np.asarray(trial), return_inverse=True)
    if len(member) != len(x):
        raise ValueError(f"trial must have one entry per pair: {len(x)} wanted, got {len(member)}")
    delta = x - y
    counts = np.bincount(member)
    per_trial = np.bincount(member, delta) / counts

    nodes = seen = None
    if hits_a is not None and hits_b is not None:
        right, seen = _paired([hits_a, hits_b])
        nodes = (right[0] - right[1])[None]
    means = (bootstrap or Bootstrap()).means(delta[None], member, nodes, seen)[:, 0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    close = np.isclose(x, y, rtol=0, atol=1e-12)
    changed = ~np.isclose(per_trial, 0, rtol=0, atol=1e-12)
    p_value = 1.0
    if changed.any():
        from scipy.stats import wilcoxon

        p_value = float(wilcoxon(per_trial[changed]).pvalue)
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
        over=_over(nodes),
        confidence=confidence,
    )


def compare_methods(
    table: pd.DataFrame, a: str, b: str, *, metric: str = "loo", confidence: float = 0.95
) -> Comparison:
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
    confidence : float, default=0.95
        Of the interval.

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
                "filter it to one value of every setting first"
            )
        sides.append(side)
    common = sides[0].index.intersection(sides[1].index, sort=True)
    if len(common) == 0:
        raise ValueError(f"methods {a!r} and {b!r} have no trial in common")
    left, right = (side.loc[common] for side in sides)
    frame = common.to_frame(index=False)
    trial = frame.groupby(["dataset", "encoder", "trial"], sort=True).ngroup().to_numpy()
    one = frame["dataset"].nunique() == 1  # nodes can only be paired within one data set
    return compare(
        left["value"].to_numpy(),
        right["value"].to_numpy(),
        trial=trial,
        hits_a=hits_of(left) if one else None,
        hits_b=hits_of(right) if one else None,
        confidence=confidence,
    )


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1; got {confidence}")


def _over(nodes: NDArray[np.int8] | None) -> str:
    return "trials" if nodes is None else "trials and nodes"


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

    `methods` has the best first, and `gaps` an entry for every (method, other method). `over` is what was resampled:
    "trials", or "trials and nodes". `confidence` is the probability that all intervals hold at once.
    """

    methods: list[str]
    means: dict[str, float]
    gaps: dict[tuple[str, str], Gap]
    over: str
    trials: int
    confidence: float

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
    confidence: float = 0.95,
    bootstrap: Bootstrap | None = None,
) -> Ranking:
    """Rank methods that were measured in the same trials.

    Every difference is divided by its standard error over the bootstrap draws. The largest of these ratios in each
    draw, over all pairs of methods, determines how wide the intervals must be to hold together. `values` and `hits` are
    those of :func:`compare`, by method; all methods must have scored the same nodes.

    Examples
    --------
    >>> from asbc.evaluate.scores import rank_methods
    >>> found = rank_methods({"a": [0.1, 0.2, 0.2], "b": [0.8, 0.9, 0.8], "c": [0.9, 0.8, 0.8]}, trial=[0, 1, 2])
    >>> found.methods, found.alike
    (['b', 'c', 'a'], ['c'])
    """
    names = list(values)
    table = np.array([np.asarray(values[name], float) for name in names])  # (K, m)
    if len(names) < 2 or table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"values must be finite, of at least two methods, and of one length; got {len(names)} methods")
    _check_confidence(confidence)
    nodes, seen = (None, None) if hits is None else _paired(hits[name] for name in names)
    _, member = np.unique(np.asarray(trial), return_inverse=True)
    means = (bootstrap or Bootstrap()).means(table, member, nodes, seen)  # (B, K)

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
    # Ties are broken by the order of the mapping.
    order = [names[i] for i in np.argsort(-middle, kind="stable")]
    averages = dict(zip(names, map(float, middle), strict=True))
    return Ranking(order, averages, gaps, _over(nodes), int(member.max()) + 1, confidence)
