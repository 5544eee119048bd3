"""Tasks measure a method on a sample and yield scores; each is an option of `conf/evaluate`.

This module describes all metrics, and has the base class and most tasks that need labels. :mod:`asbc.evaluate.noise`
measures the search for wrong labels, and :mod:`asbc.evaluate.geometry` has the tasks without labels.
"""

from __future__ import annotations

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import spectral_clustering
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from asbc.bandwidth import BandwidthChoice
from asbc.evaluate.sample import Method, Sample, key_of, timed
from asbc.learn.clusters import GraphClusters
from asbc.learn.labels import reveal
from asbc.learn.predict import loo_predict, propagate
from asbc.rows import row_weights
from asbc.validation import whole_number
from asbc.weights import Weights

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

PER_SAMPLE = "samples per class"
PER_LABEL = "labels per class"
PER_CENT = "% of labels wrong"


# What is measured


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

    def packed(self, total: int) -> tuple[bytes | None, bytes | None]:
        """Return which of the `total` nodes of the data set were scored and which were right, one bit per node."""
        if self.nodes is None or self.right is None:
            return None, None
        return pack_hits(self.nodes, self.right, total)


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
        Metric("isolated", "isolated nodes", 0, False),
        Metric("edges", "edges", 0),
        Metric("degree_median", "median neighbours", 0),
        Metric("row_degree_median", "neighbours", 0, description="Median number of neighbours with a weight."),
        Metric("condition_median", "condition", 0, description="Median condition number of the local kernels."),
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


def balanced_differs(rows: pd.DataFrame, metric: str) -> bool:
    """Whether a metric differs from its class-balanced one, which it does where classes differ in size."""
    keys = ["method", "samples", "level", "trial"]
    names = (metric, f"{metric}_balanced")
    plain, balanced = (rows[rows["metric"] == name].groupby(keys)["value"].mean() for name in names)
    return bool(((plain - balanced).abs() > 1e-9).any())


def pack_hits(nodes: NDArray[np.int64], right: NDArray[np.bool_], total: int) -> tuple[bytes, bytes]:
    """Return which of the `total` nodes of a data set were scored and which were right, one bit per node.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.tasks import pack_hits, unpack_hits
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


# Tasks


@dataclass(frozen=True)
class Task(ABC):
    """Base class of tasks: a task is called with a sample and a method, and yields scores.

    Attributes
    ----------
    needs_labels : bool, default=True
        Whether the task needs labelled data.
    metrics : tuple of Metric, default=()
        Descriptions of its metrics, for those that `METRICS` does not describe.

    See Also
    --------
    LeaveOneOut, LabelPropagation, Clustering, LabelNoise, Health, Alignment, Regimes, Regret : asbc's tasks.

    Examples
    --------
    A custom task, for `_target_` in a YAML file of a folder `evaluate`:

    >>> from dataclasses import dataclass
    >>> from asbc.evaluate import Score, Task
    >>> @dataclass(frozen=True)
    ... class Edges(Task):
    ...     needs_labels = False
    ...     def __call__(self, sample, method):
    ...         yield Score("edge_count", sample.graph(method).nnz, sample.level, sample.seconds(method, graph=True))
    """

    needs_labels: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = ()

    def check(self, sizes: NDArray[np.int64]) -> None:  # noqa: B027  (most tasks accept any sample)
        """Raise a ValueError for a sample that the task cannot use, with these labelled nodes of each class (c,)."""

    @abstractmethod
    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        """Yield the scores of one method on one sample."""


@dataclass(frozen=True)
class LeaveOneOut(Task):
    """Leave-one-out accuracy: a node is predicted by the weighted vote of its neighbours. Metric `loo`.

    The vote uses the node's own row, before the graph is symmetrised. Nodes without a label neither vote nor are
    scored. The only node of a class counts as wrong. The metric `loo_balanced` is the mean over classes of each class's
    accuracy.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import LeaveOneOut, Method, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, np.repeat([0, 1], 20), search=partial(asbc.search_neighbors, k=5))
    >>> [(score.metric, score.value) for score in LeaveOneOut()(sample, Method("uniform"))]
    [('loo', 1.0), ('loo_balanced', 1.0)]
    """

    def check(self, sizes: NDArray[np.int64]) -> None:
        if sizes.max() < 2:
            raise ValueError("leave-one-out needs at least 2 samples per class; got samples_per_class of 1")

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        weights = sample.weights(method)
        (nodes, right, balanced), took = timed(lambda: _vote(sample, weights))
        seconds = sample.seconds(method) + took
        yield Score("loo", float(right.mean()), sample.level, seconds, nodes, right)
        yield Score("loo_balanced", balanced, sample.level, seconds)


@dataclass(frozen=True)
class LabelPropagation(Task):
    """Accuracy on unlabelled nodes of labels that propagate from a few labelled nodes per class: metric `lp`.

    `lp_balanced` is the mean over classes of each class's accuracy. `lp_unreached` is the share of nodes that no label
    reaches; they count as wrong. A class with at most as many samples as labels reveals all of them and is not scored;
    the column `short_classes` counts such classes. A level at which no class can be scored is skipped.

    Parameters
    ----------
    labels : sequence of int, default=(1, 2, 5, 10, 15, 20)
        Labels per class that are revealed; each is a level.
    alpha : float, default=0.85
        Weight of the neighbours in a node's new value, see :func:`asbc.learn.predict.propagate`.
    max_rounds : int, default=200
        Maximum number of rounds.
    tol : float, default=1e-6
        Propagation stops when no value changes by more than this.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import LabelPropagation, Method, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, np.repeat([0, 1], 20), search=partial(asbc.search_neighbors, k=5))
    >>> [(s.metric, s.level, s.value) for s in LabelPropagation(labels=[1])(sample, Method("uniform"))]
    [('lp', 1, 1.0), ('lp_balanced', 1, 1.0), ('lp_unreached', 1, 0.0)]
    """

    labels: Sequence[int] = (1, 2, 5, 10, 15, 20)
    alpha: float = 0.85
    max_rounds: int = 200
    tol: float = 1e-6

    def check(self, sizes: NDArray[np.int64]) -> None:
        most = int(sizes.max())
        if min(self.labels) >= most:
            raise ValueError(
                f"label propagation with {min(self.labels)} labels per class needs a class with more than "
                f"{min(self.labels)} samples; the largest has {most}"
            )
        gone = [level for level in self.labels if level >= most]
        if gone:
            log.warning("lp: %s labels per class skipped: no class has more than %d samples", gone, most)

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph = sample.graph(method)
        codes = sample.codes
        sizes = np.bincount(codes[codes >= 0])
        for level in (level for level in self.labels if level < sizes.max()):
            shown = reveal(codes, level, seed=[sample.seed, sample.trial])
            options: dict[str, Any] = {"alpha": self.alpha, "max_rounds": self.max_rounds, "tol": self.tol}
            found, took = timed(partial(propagate, graph, codes, shown, n_classes=len(sizes), **options))
            seconds, predicted = sample.seconds(method, graph=True) + took, found.predicted
            scored = ~shown & (codes >= 0)
            right = predicted[scored] == codes[scored]
            more = {"short_classes": int((sizes <= level).sum())}
            yield Score("lp", float(right.mean()), level, seconds, sample.nodes[scored], right, more=more)
            yield Score("lp_balanced", balanced_share(right, codes[scored]), level, seconds, more=more)
            unreached = (predicted[scored] < 0).mean()
            yield Score("lp_unreached", float(unreached), level, seconds, more=more)


@dataclass(frozen=True)
class Clustering(Task):
    """Agreement of clusters of the graph with the classes: metrics `nmi` and `ari` of spectral clusters.

    Parameters
    ----------
    leiden : bool, default=False
        Whether :class:`asbc.GraphClusters` also clusters the graph: metric `leiden_ari`. Needs asbc[cluster].

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Clustering, Method, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, np.repeat([0, 1], 20), search=partial(asbc.search_neighbors, k=5))
    >>> [(score.metric, score.value) for score in Clustering()(sample, Method("uniform"))]
    [('nmi', 1.0), ('ari', 1.0)]
    """

    leiden: bool = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph, build = sample.graph(method), sample.seconds(method, graph=True)
        labeled = sample.codes >= 0
        codes, count = sample.codes[labeled], int(sample.codes.max()) + 1
        found, took = timed(lambda: spectral_clusters(graph, count, sample.seed)[labeled])
        yield Score("nmi", float(normalized_mutual_info_score(codes, found)), sample.level, build + took)
        yield Score("ari", float(adjusted_rand_score(codes, found)), sample.level, build + took)
        if self.leiden:
            clusters, took = timed(GraphClusters(count, graph=graph, random_state=sample.seed).fit)
            ari = adjusted_rand_score(codes, clusters.labels_[labeled])
            yield Score("leiden_ari", float(ari), sample.level, build + took)


def spectral_clusters(graph: Any, count: int, seed: int = 0) -> NDArray[np.int64]:
    """Return the cluster of each node, (n,), by a spectral cut of the graph.

    Parameters
    ----------
    graph : (n, n) sparse array, entries 0 or more
        A graph that is not symmetric is replaced by the mean of itself and its transpose.
    count : int
        Number of clusters, at least 2.
    seed : int, default=0
        Of the vector that the search for eigenvectors starts from.

    See Also
    --------
    asbc.evaluate.Clustering : the task that compares these clusters with the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from asbc.evaluate.tasks import spectral_clusters
    >>> found = spectral_clusters(sparse.block_diag([np.ones((3, 3)), np.ones((2, 2))]), 2)
    >>> bool(found[0] == found[1] == found[2] != found[3] == found[4])
    True
    """
    seed = whole_number(seed, "seed", 0, 2**32 - 1)  # what NumPy's RandomState takes
    W = sparse.csr_matrix(graph, dtype=np.float64)
    W = sparse.csr_matrix((W + W.T) * 0.5)
    W.indices, W.indptr = W.indices.astype(np.int32), W.indptr.astype(np.int32)  # scikit-learn takes no others
    count = whole_number(count, "count", 2, W.shape[0])
    if count == W.shape[0]:
        return np.arange(count)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Graph is not fully connected")
        return spectral_clustering(W, n_clusters=count, random_state=seed, assign_labels="cluster_qr")


@dataclass(frozen=True)
class Regret(Task):
    """Difference from the best bandwidth that tuning with labels finds: metric `regret`.

    The candidates are `sigma_i = scale x d_{i,k}` (per node) and `sigma = scale x mean d_{i,k}` (one for all), with the
    method's kind of weights. The best one is picked by the score itself, which no rule without labels can do. Scores of
    the candidates are rows of the results too, of methods named `tuned_local_...` and `tuned_global_...`.

    Parameters
    ----------
    scales : sequence of float, default=(0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0)
        Multiples of the distance to the k-th neighbour.
    k : int, default=10
        Neighbour whose distance is the unit of the scale.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Method, Regret, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, np.repeat([0, 1], 20), search=partial(asbc.search_neighbors, k=12))
    >>> *_, last = Regret(scales=[0.5, 1.0])(sample, Method("nnk", asbc.SpectralBandwidth()))
    >>> last.metric, last.value
    ('regret', 0.0)
    """

    scales: Sequence[float] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0)
    k: int = 10

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        rule = method.weight_rule(sample.k_min)
        if not rule.uses_bandwidth:
            raise ValueError(f"regret is defined for weights with a bandwidth; {method.kind} weights have none")
        key = ("tuned", tuple(self.scales), self.k, key_of(rule))
        tuned = sample.once(key, lambda: list(self._candidates(sample, rule, method.kind)), seeded=rule.uses_dimension)
        if sample.first_time(key):
            yield from tuned
        best = max(tuned, key=lambda score: score.value)
        own, balanced = LeaveOneOut()(sample, method)
        yield from (own, balanced)
        more = {"best_scale": best.more["scale"], "best_per_node": best.more["per_node"]}
        yield Score("regret", best.value - own.value, sample.level, own.seconds, more=more)

    def _candidates(self, sample: Sample, rule: Weights, kind: str) -> Iterator[Score]:
        anchor = sample.kth_distance(self.k)
        dimension = sample.dimension() if rule.uses_dimension else None
        for per_node in (True, False):
            base = anchor if per_node else np.full_like(anchor, anchor.mean())
            for scale in self.scales:
                choice = BandwidthChoice(scale * base)
                work = partial(row_weights, rule, sample.X, sample.neighbors, choice, dimension=dimension)
                rows, seconds = timed(work)
                nodes, right, _ = _vote(sample, rows)
                name = f"tuned_{'local' if per_node else 'global'}_{kind}"
                more = {"scale": float(scale), "per_node": per_node}
                yield Score("loo", float(right.mean()), sample.level, seconds, nodes, right, name, more)


def balanced_share(right: NDArray[np.bool_], codes: NDArray[np.int64]) -> float:
    """Return the mean over classes of the share of right nodes in each class."""
    sizes = np.bincount(codes)
    return float((np.bincount(codes, weights=right)[sizes > 0] / sizes[sizes > 0]).mean())


def _vote(sample: Sample, weights: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_], float]:
    """Return the labelled nodes, which of them the vote of their neighbours predicts, and the balanced accuracy."""
    codes = sample.codes
    labeled = codes >= 0
    right = (loo_predict(sample.neighbors.indices, weights, codes) == codes)[labeled]
    return sample.nodes[labeled], right, balanced_share(right, codes[labeled])
