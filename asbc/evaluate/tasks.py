"""Tasks measure a method on a sample; each is an option of `conf/evaluate`.

This module has the base class and most tasks that need labels. :mod:`asbc.evaluate.noise` measures the search for wrong
labels, and :mod:`asbc.evaluate.geometry` has the tasks without labels.
"""

from __future__ import annotations

import logging
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import spectral_clustering
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from asbc.bandwidth import BandwidthChoice
from asbc.evaluate.sample import Method, Sample, key_of
from asbc.evaluate.scores import Metric, Score
from asbc.learn.clusters import GraphClusters
from asbc.learn.labels import reveal
from asbc.learn.propagation import propagate
from asbc.learn.vote import loo_predict
from asbc.rows import row_weights
from asbc.validation import whole_number
from asbc.weights import Weights

log = logging.getLogger("asbc")


@dataclass(frozen=True)
class Task(ABC):
    """Base class of tasks: a task is called with a sample and a method, and yields scores.

    Attributes
    ----------
    needs_labels : bool, default=True
        Whether the task needs labelled data.
    metrics : tuple of Metric, default=()
        Descriptions of its metrics, for those that :mod:`asbc.evaluate.scores` does not describe.

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
        start = time.perf_counter()
        nodes, right, balanced = _vote(sample, weights)
        seconds = sample.seconds(method) + time.perf_counter() - start
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
        Weight of the neighbours in a node's new value, see :func:`asbc.learn.propagation.propagate`.
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
            key = ("propagated", method.key, method.sharpen, self.alpha, self.max_rounds, self.tol, level)
            predicted, took = sample.once(key, partial(self._propagate, graph, codes, shown, len(sizes)))
            seconds = sample.seconds(method, graph=True) + took
            scored = ~shown & (codes >= 0)
            right = predicted[scored] == codes[scored]
            more = {"short_classes": int((sizes <= level).sum())}
            yield Score("lp", float(right.mean()), level, seconds, sample.nodes[scored], right, more=more)
            yield Score("lp_balanced", balanced_share(right, codes[scored]), level, seconds, more=more)
            unreached = (predicted[scored] < 0).mean()
            yield Score("lp_unreached", float(unreached), level, seconds, more=more)

    def _propagate(
        self, graph: Any, codes: NDArray[np.int64], shown: NDArray[np.bool_], classes: int
    ) -> tuple[NDArray[np.int64], float]:
        """Return the predicted classes (n,) and the seconds."""
        start = time.perf_counter()
        found = propagate(
            graph,
            codes,
            shown,
            n_classes=classes,
            alpha=self.alpha,
            max_rounds=self.max_rounds,
            tol=self.tol,
        )
        return found.predicted, time.perf_counter() - start


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

    def check(self, sizes: NDArray[np.int64]) -> None:
        if len(sizes) < 2:
            raise ValueError("clustering needs at least 2 classes to compare with; got 1")

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph, build = sample.graph(method), sample.seconds(method, graph=True)
        labeled = sample.codes >= 0
        codes, count = sample.codes[labeled], int(sample.codes.max()) + 1
        start = time.perf_counter()
        found = spectral_clusters(graph, count, sample.seed)[labeled]
        seconds = build + time.perf_counter() - start
        yield Score("nmi", float(normalized_mutual_info_score(codes, found)), sample.level, seconds)
        yield Score("ari", float(adjusted_rand_score(codes, found)), sample.level, seconds)
        if self.leiden:
            start = time.perf_counter()
            found = GraphClusters(count, graph=graph, random_state=sample.seed).fit().labels_[labeled]
            seconds = build + time.perf_counter() - start
            yield Score("leiden_ari", float(adjusted_rand_score(codes, found)), sample.level, seconds)


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
        candidates = partial(self._candidates, sample, rule, method.kind)
        tuned = sample.once(key, lambda: list(candidates()), seeded=rule.uses_dimension)
        if sample.first_time(key):
            yield from tuned
        best = max(tuned, key=lambda score: score.value)
        own, balanced = LeaveOneOut()(sample, method)
        yield own
        yield balanced
        more = {"best_scale": best.more["scale"], "best_per_node": best.more["per_node"]}
        yield Score("regret", best.value - own.value, sample.level, own.seconds, more=more)

    def _candidates(self, sample: Sample, rule: Weights, kind: str) -> Iterator[Score]:
        anchor = sample.kth_distance(self.k)
        dimension = sample.dimension() if rule.uses_dimension else None
        for per_node in (True, False):
            base = anchor if per_node else np.full_like(anchor, anchor.mean())
            for scale in self.scales:
                start = time.perf_counter()
                choice = BandwidthChoice(scale * base)
                rows = row_weights(rule, sample.X, sample.neighbors, choice, dimension=dimension)
                nodes, right, _ = _vote(sample, rows)
                yield Score(
                    "loo",
                    float(right.mean()),
                    sample.level,
                    time.perf_counter() - start,
                    nodes,
                    right,
                    method=f"tuned_{'local' if per_node else 'global'}_{kind}",
                    more={"scale": float(scale), "per_node": per_node},
                )


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
