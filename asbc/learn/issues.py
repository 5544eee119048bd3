"""Labels that the nodes around contradict, how many are wrong, and the way back to corrected labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.builder import GraphBuilder
from asbc.extras import needed
from asbc.kernels.vote import class_weights
from asbc.learn.labels import align_rows, decode_partial, encode_partial, is_unlabeled
from asbc.learn.ridge import LeaveOneOutRidge
from asbc.learn.source import BLOCK_NODES, Source, fit_source, open_rows, row_blocks
from asbc.neighbors.types import Neighbors
from asbc.outofcore.folder import read_graph_manifest

if TYPE_CHECKING:
    import pandas as pd

SMOOTHING = 0.15  # added to the support of both classes that are compared; chosen on clinc100 and digits
SUPPORTERS = 5  # neighbours that are listed for a suggestion
MAX_BLOCK_VALUES = 2**23  # nodes x classes whose support is in memory: 64 MB


class Evidence(NamedTuple):
    """What labels are judged by.

    Attributes
    ----------
    neighbors : Neighbors
    weights : (n, k) array
        Rows of sum 1.
    vectors : (n, d) array or None
    unit : bool
        Whether to scale the vectors to unit length.
    """

    neighbors: Neighbors
    weights: NDArray[np.float64]
    vectors: NDArray[Any] | None = None
    unit: bool = False


@dataclass(frozen=True, repr=False)
class LabelIssues:
    """How doubtful each label is; the result of :func:`find_label_issues`.

    Attributes
    ----------
    suspicion : (n,) float64
        From 0, where only the given label has support, over 0.5, where another class has as much, to 1, where only
        another class has support. NaN where a node is unlabelled.
    suggested : (n,) array
        The class with the most support: the given label unless another class has more. Marks the node as unlabelled
        (-1, "" or None) if no class has any.
    support : (n,) float64
        Support of the suggested class, from 0 to 1.
    given_support : (n,) float64
        Support of the given label; 0 where a node is unlabelled.
    supporters : (n, 5) int64
        Neighbours that have the suggested label, the heaviest first; -1 where there are no more.
    voted : (n,) array
        The class that wins the weighted vote of the neighbours, as in :func:`describe`.
    order : (m,) int64
        The labelled nodes, the most suspicious first.
    given : (n,) array
        The labels as given; -1, "" or None where a node is unlabelled.
    index : pandas.Index or None
        Index of the vectors, if they have one.

    See Also
    --------
    find_label_issues : computes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> labels = np.repeat([0, 1], 40)
    >>> labels[5] = 1
    >>> issues = asbc.find_label_issues(X, labels, metric="euclidean")
    >>> int(issues.order[0]), int(issues.suggested[5])
    (5, 0)
    """

    suspicion: NDArray[np.float64]
    suggested: NDArray[Any]
    support: NDArray[np.float64]
    given_support: NDArray[np.float64]
    supporters: NDArray[np.int64]
    voted: NDArray[Any]
    order: NDArray[np.int64]
    given: NDArray[Any]
    evidence: Evidence
    index: Any = None

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """(n,) bool: labelled nodes for which another class has more support than their own."""
        return self.suspicion > 0.5  # False for NaN

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame of all nodes, the most suspicious first and the unlabelled ones last.

        Returns
        -------
        DataFrame with the index of the vectors, or the number of the node, and the columns given, suggested, suspicion,
        given_support, support and neighbors (those that have the suggested label, by index)
        """
        with needed("to_frame", "experiments"):
            import pandas as pd
        nodes = np.concatenate([self.order, np.flatnonzero(np.isnan(self.suspicion))])
        index = pd.RangeIndex(len(self.given), name="node") if self.index is None else self.index
        names = ("given", "suggested", "suspicion", "given_support", "support")
        frame = pd.DataFrame({name: getattr(self, name)[nodes] for name in names}, index=index[nodes])
        frame["neighbors"] = [index[row[row >= 0]].tolist() for row in self.supporters[nodes]]
        return frame

    def __repr__(self) -> str:
        n, labeled = len(self.suspicion), len(self.order)
        lines = [
            f"LabelIssues: {int(self.doubtful.sum()):,} of {labeled:,} labels are doubtful"
            + (f" ({n - labeled:,} more nodes are unlabelled)" if labeled < n else "")
        ]
        lines += [
            f"  node {i}: {self.given[i]!s} -> {self.suggested[i]!s}, "
            f"suspicion {self.suspicion[i]:.3f}, support {self.support[i]:.3f}"
            for i in self.order[: min(5, int(self.doubtful.sum()))]
        ]
        return "\n".join(lines)


def find_label_issues(
    source: Source, labels: ArrayLike, *, vectors: ArrayLike | None = None, metric: str | None = None
) -> LabelIssues:
    """Find labels that the nodes around contradict.

    Every class has a *support* at every node: the weight that the class has in the node's row, averaged with the
    prediction of a linear model (ridge regression). Each of the two counts by the inverse square of its error rate. A
    node's own label never counts. With ``own``, the support of the given label, and ``other``, that of the best other
    class, ``suspicion = (1 + m) / 2``, where ``m = 1.3 (other - own) / (other + own + 0.3)``: the difference, relative
    to the support of both. Unlabelled neighbours keep their weight but vote for no class.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a builder with ``weights="blend"`` is fitted, which finds most wrong labels. A folder is read block
        by block.
    labels : (n,) array-like of integers, strings or booleans
        -1, None, NaN or "" where a node is unlabelled: it does not vote, and gets a suggestion but no suspicion. A
        pandas Series is aligned with the index of the vectors.
    vectors : (n, d) array or None, default=None
        The vectors of a graph folder, which does not hold them; a memory map is read block by block. Without them the
        support is the weight in the row alone.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.

    Returns
    -------
    LabelIssues

    See Also
    --------
    describe : reports the accuracy of the vote over all labels.
    NeighborVote : predicts labels by the votes of the neighbours.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> labels[7] = "dog"
    >>> asbc.find_label_issues(asbc.GraphBuilder("gaussian", metric="euclidean").fit(X), labels)
    LabelIssues: 1 of 100 labels are doubtful
      node 7: dog -> cat, suspicion 1.000, support 1.000
    """
    source, index = fit_source(source, "blend", metric)
    unit = False
    if isinstance(source, GraphBuilder):
        vectors = getattr(source, "vectors_", None)
    elif vectors is not None:
        unit = read_graph_manifest(source)["builder"]["metric"] == "cosine"
    neighbors, weights = open_rows(source)
    if vectors is not None and (np.ndim(vectors) != 2 or len(vectors) != neighbors.n):  # type: ignore[arg-type]
        raise ValueError(
            f"vectors must have one row per node, shape ({neighbors.n}, d); got shape {np.shape(vectors)}."
        )
    evidence = Evidence(neighbors, weights, vectors, unit)  # type: ignore[arg-type]
    return judge_labels(evidence, align_rows(labels, index, "labels"), index)


def judge_labels(evidence: Evidence, labels: ArrayLike, index: Any = None) -> LabelIssues:
    """Return what :func:`find_label_issues` does, from evidence that is checked already."""
    neighbors, weights = evidence.neighbors, evidence.weights
    n = neighbors.n
    codes, classes = encode_partial(labels, n)  # type: ignore[arg-type]
    voted = np.empty(n, dtype=np.int64)
    for block in row_blocks(neighbors, weights):
        voted[block.nodes] = class_weights(block.indices, block.weights, codes, codes[block.nodes])[2]
    size = max(1, min(BLOCK_NODES, MAX_BLOCK_VALUES // len(classes)))
    ridge, share = None, 1.0
    if evidence.vectors is not None:
        ridge = LeaveOneOutRidge(evidence.vectors, codes, len(classes), evidence.unit)
        share = _graph_share(voted, ridge, codes, size)

    own, other, support = np.zeros((3, n))
    winner = np.empty(n, dtype=np.int64)
    supporters = np.empty((n, min(SUPPORTERS, neighbors.k)), dtype=np.int64)
    for block in row_blocks(neighbors, weights, size):
        nodes = block.nodes
        scores = share * _weight_per_class(block.indices, block.weights, codes, len(classes))
        if ridge is not None:
            scores += (1.0 - share) * ridge.predict(nodes)
        own[nodes], other[nodes], winner[nodes] = _leaders(scores, codes[nodes])
        support[nodes] = np.maximum(own[nodes], other[nodes])
        agree = (codes[block.indices] == winner[nodes, None]) & (block.weights > 0)
        heaviest = np.argsort(np.where(agree, -block.weights, 1.0), axis=1, kind="stable")[:, :SUPPORTERS]
        supporters[nodes] = np.take_along_axis(np.where(agree, block.indices, -1), heaviest, axis=1)
    labeled = codes >= 0
    margin = (1.0 + 2.0 * SMOOTHING) * (other - own) / (other + own + 2.0 * SMOOTHING)
    # Rounding may carry a sum of weights slightly past 1.
    suspicion = np.where(labeled, np.clip((1.0 + margin) / 2.0, 0.0, 1.0), np.nan)
    judged = np.flatnonzero(labeled)
    return LabelIssues(
        suspicion=suspicion,
        suggested=decode_partial(winner, classes),
        support=support,
        given_support=own,
        supporters=supporters,
        voted=decode_partial(voted, classes),
        order=judged[np.argsort(-suspicion[judged], kind="stable")],
        given=decode_partial(codes, classes),
        evidence=evidence,
        index=index,
    )


def _graph_share(voted: NDArray[np.int64], ridge: LeaveOneOutRidge, codes: NDArray[np.int64], size: int) -> float:
    """Return the share of the graph in the support; that of the linear model is the rest."""
    wrong = 0
    for start in range(0, len(codes), size):
        nodes = slice(start, start + size)
        own, other, _ = _leaders(ridge.predict(nodes), codes[nodes])
        wrong += int(((own <= other) & (codes[nodes] >= 0)).sum())
    by_graph = (voted != codes)[codes >= 0].sum() + 1.0  # 1 is added for labels that all agree
    by_ridge = wrong + 1.0
    return float(by_ridge**2 / (by_graph**2 + by_ridge**2))


def _weight_per_class(indices, weights, codes: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Sum the weights (m, k) of labelled neighbours by class: (m, count)."""
    place = codes[indices] + count * np.arange(len(indices))[:, None]
    known = codes[indices] >= 0
    return np.bincount(place[known], weights[known], len(indices) * count).reshape(len(indices), count)


def _leaders(scores: NDArray[np.float64], own: NDArray[np.int64]) -> tuple[NDArray, NDArray, NDArray]:
    """Return the score of each node's own class, of the best other one, and the class with the most: -1 for none."""
    row, labeled = np.arange(len(scores)), own >= 0
    mine = np.where(labeled, scores[row, own], 0.0)
    rest = scores.copy()
    rest[row[labeled], own[labeled]] = -1.0
    best = rest.argmax(axis=1)
    other = np.maximum(rest[row, best], 0.0)
    return mine, other, np.where(other > mine, best, own)


@dataclass(frozen=True)
class ClassReport:
    """Accuracy of the neighbours' vote per class, and confused pairs; the result of :func:`judge_classes`.

    Attributes
    ----------
    classes : (c,) array
        The labels, sorted.
    size, right : (c,) int64
        Nodes of each class, and how many of them the vote predicts correctly.
    low, high : (c,) float64
        Wilson's 95% interval of the accuracy.
    pairs : (p, 2) int64
        Pairs of class codes with nodes of one that are predicted as the other; the most confused first.
    there, back : (p,) int64
        Nodes of the first class of a pair that are predicted as the second, and the reverse.
    """

    classes: NDArray[Any]
    size: NDArray[np.int64]
    right: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    pairs: NDArray[np.int64]
    there: NDArray[np.int64]
    back: NDArray[np.int64]

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """(c,) float64: the share of each class that the vote predicts correctly."""
        return self.right / self.size


def judge_classes(issues: LabelIssues) -> ClassReport:
    """Return the accuracy of the neighbours' vote per class, and the pairs of classes that it confuses.

    A node whose neighbours are all unlabelled counts as wrong, and as confused with no class.
    """
    given, classes = encode_partial(issues.given)
    c = len(classes)
    labeled = np.flatnonzero(given >= 0)
    own = given[labeled]
    voted = ~is_unlabeled(issues.voted)[labeled]
    predicted = np.zeros(len(labeled), dtype=np.int64)
    # Votes are labels that were given to some node, so each has a code.
    predicted[voted] = np.searchsorted(classes, np.asarray(issues.voted[labeled][voted], dtype=classes.dtype))
    size = np.bincount(own, minlength=c)
    right = np.bincount(own[voted & (predicted == own)], minlength=c)
    bounds = np.array([wilson_interval(int(r), int(s)) for r, s in zip(right, size, strict=True)])
    wrong = voted & (predicted != own)
    key, count = np.unique(own[wrong] * c + predicted[wrong], return_counts=True)
    first, second = np.minimum(key // c, key % c), np.maximum(key // c, key % c)
    pair, place = np.unique(first * c + second, return_inverse=True)
    forward = key // c < key % c
    there = np.bincount(place[forward], count[forward], len(pair)).astype(np.int64)
    back = np.bincount(place[~forward], count[~forward], len(pair)).astype(np.int64)
    order = np.argsort(-(there + back), kind="stable")
    pairs = np.stack([pair // c, pair % c], axis=1)[order]
    return ClassReport(classes, size, right, bounds[:, 0], bounds[:, 1], pairs, there[order], back[order])


def wilson_interval(right: int, of: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return Wilson's interval of a proportion, which stays within 0 and 1; z = 1.96 is 95%."""
    share = right / of
    center = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * np.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    # The share itself is always inside, despite rounding where all or none are right.
    return float(max(0.0, min(share, center - half))), float(min(1.0, max(share, center + half)))
