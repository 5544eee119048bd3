"""What is asked of a method on a subsample: each task turns the two into scores, and is one leaf of `conf/evaluate`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asbc.dimension import ESTIMATORS, Dimension
from asbc.evaluate.alignment import align
from asbc.evaluate.clustering import cluster
from asbc.evaluate.health import graph_health, kernel_condition
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.kernels.criterion import evaluate_at
from asbc.learn.labels import encode_labels, reveal
from asbc.learn.propagation import propagation_hits
from asbc.learn.vote import loo_hits
from asbc.neighbors.types import neighborhoods
from asbc.weights import gaussian_weights, nnk_weights


@dataclass(frozen=True)
class Score:
    """One measured number.

    Attributes
    ----------
    metric : str
    value : float
    level : int
        Samples a class, or labels a class in propagation.
    seconds : float
        What the method took on this subsample had it been alone, and the measuring.
    nodes, right : (m,) arrays, optional
        Rows of the data set that were scored, and which of them were right.
    method : str, optional
        Where it is not the method that was asked about.
    more : dict
        Further columns.
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
class Task(ABC):
    """What all tasks share."""

    needs_labels: ClassVar[bool] = True

    def check(self, samples: int) -> None:  # noqa: B027  (most tasks can use any number)
        """Refuse, before any work, a number of samples a class that the task cannot use."""

    @abstractmethod
    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        """The scores of one method on one subsample."""


@dataclass(frozen=True)
class LeaveOneOut(Task):
    """Share of nodes whose label the weighted vote of their own row gives: metric `loo`."""

    def check(self, samples: int) -> None:
        if samples < 2:
            raise ValueError(f"leave-one-out needs at least 2 samples a class; got samples_per_class of {samples}")

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        weights = sample.weights(method)
        start = time.perf_counter()
        right = loo_hits(sample.neighbors.indices, weights, _labels(sample))
        seconds = sample.seconds(method) + time.perf_counter() - start
        yield Score("loo", float(right.mean()), sample.level, seconds, sample.nodes, right)


@dataclass(frozen=True)
class LabelPropagation(Task):
    """Share of unlabelled nodes that a few labels a class reach rightly: metric `lp`; `lp_unreached` beside it.

    Parameters
    ----------
    labels : sequence of int
        Labels a class; each is a level.
    alpha, max_rounds, tol
        See :func:`asbc.learn.propagation.propagate`.
    """

    labels: Sequence[int] = (1, 2, 5, 10, 15, 20)
    alpha: float = 0.85
    max_rounds: int = 200
    tol: float = 1e-6

    def check(self, samples: int) -> None:
        if max(self.labels) >= samples:
            raise ValueError(
                f"label propagation with {max(self.labels)} labels a class needs more than {max(self.labels)} "
                f"samples a class; got samples_per_class of {samples}"
            )

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph = sample.graph(method)
        codes, _ = encode_labels(_labels(sample))
        for level in self.labels:
            shown = reveal(codes, level, seed=[sample.seed, sample.trial])
            start = time.perf_counter()
            hits, result = propagation_hits(
                graph, codes, shown, alpha=self.alpha, max_rounds=self.max_rounds, tol=self.tol
            )
            seconds = sample.seconds(method, graph=True) + time.perf_counter() - start
            right = hits[~shown]
            yield Score("lp", float(right.mean()), level, seconds, sample.nodes[~shown], right)
            unreached = (result.predicted[~shown] < 0).mean()
            yield Score("lp_unreached", float(unreached), level, seconds)


@dataclass(frozen=True)
class Clustering(Task):
    """Agreement of spectral clusters with the classes: metrics `nmi` and `ari`."""

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph = sample.graph(method)
        start = time.perf_counter()
        result = cluster(graph, _labels(sample), seed=sample.seed)
        seconds = sample.seconds(method, graph=True) + time.perf_counter() - start
        yield Score("nmi", result.nmi, sample.level, seconds)
        yield Score("ari", result.ari, sample.level, seconds)


@dataclass(frozen=True)
class Health(Task):
    """The graph's pieces, edges and degrees; and where there is a bandwidth: its kernels' condition and rank."""

    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph = sample.graph(method)
        seconds = sample.seconds(method, graph=True)
        values: dict[str, float] = asdict(graph_health(graph))
        values["row_degree_median"] = float(np.median((sample.weights(method) > 0).sum(axis=1)))
        if method.bandwidth is not None:
            choice = sample.choice(method.bandwidth)
            condition = kernel_condition(sample.X, sample.neighbors.indices, choice.sigma)
            values["condition_median"] = float(np.median(condition))
            values["condition_q95"] = float(np.quantile(condition, 0.95))
            values["at_edge"] = float(choice.at_edge.mean())
            values["sigma_median"] = float(np.median(choice.sigma))
            values["rank_median"] = float(np.median(choice.effective_rank))
            values["dimension_median"] = float(np.median(sample.dimension()))
        for name, value in values.items():
            yield Score(name, float(value), sample.level, seconds)


@dataclass(frozen=True)
class Alignment(Task):
    """Effective rank against intrinsic dimension: metrics `spearman`, `slope`, `intercept`, `rank_median`.

    r is chosen to match its target, so its agreement with that target is no evidence by itself: each estimator
    takes its turn as the target, and r is compared with all of them each time.

    Parameters
    ----------
    targets, estimators : sequences of "mst", "levina_bickel", "two_nn"
    """

    targets: Sequence[str] = ESTIMATORS
    estimators: Sequence[str] = ESTIMATORS
    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        if method.bandwidth is None:
            raise ValueError("alignment needs a method with a bandwidth; this one has none")
        for target in self.targets:
            choice = sample.choice(method.bandwidth, _estimator(sample, target))
            for name in self.estimators:
                d = sample.dimension(_estimator(sample, name))
                result = align(choice.effective_rank, d)
                more = {"target": target, "estimator": name}
                seconds = sample.seconds(method)
                for metric in ("spearman", "slope", "intercept"):
                    yield Score(metric, getattr(result, metric), sample.level, seconds, more=more)
                median = float(np.median(choice.effective_rank))
                yield Score("rank_median", median, sample.level, seconds, more=more)
                yield Score("dimension_median", float(np.median(d)), sample.level, seconds, more=more)


@dataclass(frozen=True)
class Regimes(Task):
    """How local kernels change from all-separate to all-alike as sigma grows.

    At sigma = scale x d_{i,k}: quartiles over the nodes of the effective rank (`rank_q25`, `rank_median`, ...),
    the log-log slope, and the condition number; and at the bandwidth that the method chooses, its `scale`.

    Parameters
    ----------
    low, high : float
        Ends of the scales.
    n_scales : int
    k : int
    """

    low: float = 0.05
    high: float = 5.0
    n_scales: int = 25
    k: int = 10
    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        if method.bandwidth is None:
            raise ValueError("regimes needs a method with a bandwidth; this one has none")
        neighbors = sample.neighbors
        anchor = _kth_distance(sample, self.k)
        for scale in np.geomspace(self.low, self.high, self.n_scales):
            start = time.perf_counter()
            rank, slope = np.empty((2, neighbors.n))
            for rows, pairs in neighborhoods(sample.X, neighbors):
                rank[rows], slope[rows] = evaluate_at(pairs, scale * anchor[rows], neighbors.k)
            condition = kernel_condition(sample.X, neighbors.indices, scale * anchor)
            seconds = time.perf_counter() - start
            for name, values in (("rank", rank), ("slope", slope), ("condition", condition)):
                for suffix, q in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
                    value = float(np.quantile(values, q))
                    yield Score(f"{name}_{suffix}", value, sample.level, seconds, more={"scale": float(scale)})
        choice = sample.choice(method.bandwidth)
        seconds = sample.seconds(method)
        for suffix, q in (("q25", 0.25), ("median", 0.5), ("q75", 0.75)):
            yield Score(f"chosen_scale_{suffix}", float(np.quantile(choice.sigma / anchor, q)), sample.level, seconds)
            yield Score(f"chosen_rank_{suffix}", float(np.quantile(choice.effective_rank, q)), sample.level, seconds)
            yield Score(f"chosen_dimension_{suffix}", float(np.quantile(sample.dimension(), q)), sample.level, seconds)


@dataclass(frozen=True)
class Regret(Task):
    """How far a method is from the best bandwidth that labels could have tuned: metric `regret`.

    The candidates are `sigma_i = scale x d_{i,k}` (each node its own) and `sigma = scale x mean d_{i,k}` (one for
    all), with the method's own kind of weights. The best is picked by the score itself, so it is an upper bound
    and no method. The candidates' scores are rows too, of methods named `tuned_...`.

    Parameters
    ----------
    scales : sequence of float
    k : int
    """

    scales: Sequence[float] = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2, 1.6, 2.0)
    k: int = 10

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        if method.weights not in ("gaussian", "nnk"):
            raise ValueError(f"regret is defined for gaussian and nnk weights; got {method.kind}")
        kind = str(method.weights)
        key = ("tuned", self, kind)
        first = not sample.has(key)
        tuned = sample.once(key, lambda: list(self._candidates(sample, kind)))
        if first:
            yield from tuned
        best = max(tuned, key=lambda score: score.value)
        (own,) = LeaveOneOut()(sample, method)
        yield own
        more = {"best_scale": best.more["scale"], "best_per_node": best.more["per_node"]}
        yield Score("regret", best.value - own.value, sample.level, own.seconds, more=more)

    def _candidates(self, sample: Sample, kind: str) -> Iterator[Score]:
        anchor = _kth_distance(sample, self.k)
        for per_node in (True, False):
            base = anchor if per_node else np.full_like(anchor, anchor.mean())
            for scale in self.scales:
                start = time.perf_counter()
                if kind == "nnk":
                    rows = nnk_weights(sample.X, sample.neighbors, scale * base, k_min=sample.k_min)
                else:
                    rows = gaussian_weights(sample.neighbors, scale * base)
                right = loo_hits(sample.neighbors.indices, rows, _labels(sample))
                yield Score(
                    "loo",
                    float(right.mean()),
                    sample.level,
                    time.perf_counter() - start,
                    sample.nodes,
                    right,
                    method=f"tuned_{'local' if per_node else 'global'}_{kind}",
                    more={"scale": float(scale), "per_node": per_node},
                )


def _labels(sample: Sample) -> NDArray[Any]:
    if sample.labels is None:
        raise ValueError("labels is None; this evaluation needs one label a node")
    return sample.labels


def _estimator(sample: Sample, name: str) -> Dimension:
    return Dimension(name, n_rep=sample.target.n_rep, k=sample.target.k)


def _kth_distance(sample: Sample, k: int) -> NDArray[np.float64]:
    """Distance to the k-th neighbour; where duplicates make it 0, the mean of the others."""
    if not 1 <= k <= sample.neighbors.k:
        raise ValueError(f"k must lie between 1 and {sample.neighbors.k}, the neighbours there are; got {k}")
    distance = sample.neighbors.distances[:, k - 1]
    if not distance.any():
        raise ValueError(f"all nodes coincide with their {k} nearest neighbours; there is no scale to tune")
    return np.where(distance > 0, distance, distance[distance > 0].mean())
