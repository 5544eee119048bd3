"""Labels that a node's neighbours contradict, and the accuracy of the neighbours' vote per class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.extras import needed
from asbc.kernels.vote import class_weights
from asbc.learn.labels import align_rows, decode_partial, encode_partial
from asbc.learn.source import Source, fit_source, open_rows, row_blocks
from asbc.neighbors.types import Neighbors

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class LabelIssues:
    """How much the neighbours of each node contradict its label; the result of :func:`find_label_issues`.

    Attributes
    ----------
    suspicion : (n,) float64
        From 0, where all neighbours have the same label, over 0.5, where they are undecided, to 1, where all have
        another one. NaN where a node is unlabelled.
    suggested : (n,) array
        The class with the largest weight among the neighbours. It is the given label where no neighbour votes, and
        marks the node as unlabelled (-1, "" or None) if there is none.
    weight : (n,) float64
        The share of the row's weight that the suggested class has.
    order : (m,) int64
        The labelled nodes, the most suspicious first.
    given : (n,) array
        The labels as given; -1, "" or None where a node is unlabelled.

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
    weight: NDArray[np.float64]
    order: NDArray[np.int64]
    given: NDArray[Any] = field(repr=False)

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """(n,) bool: labelled nodes for which another class weighs more than their own."""
        return self.suspicion > 0.5  # False for NaN

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame of all nodes, the most suspicious first and the unlabelled ones last.

        Returns
        -------
        DataFrame with the node's number as its index and the columns given, suggested, suspicion and weight
        """
        with needed("to_frame", "experiments"):
            import pandas as pd
        nodes = np.concatenate([self.order, np.flatnonzero(np.isnan(self.suspicion))])
        columns = {name: getattr(self, name)[nodes] for name in ("given", "suggested", "suspicion", "weight")}
        return pd.DataFrame(columns, index=pd.Index(nodes, name="node"))

    def __repr__(self) -> str:
        n, labeled = len(self.suspicion), len(self.order)
        lines = [
            f"LabelIssues: {int(self.doubtful.sum()):,} of {labeled:,} labels are doubtful"
            + (f" ({n - labeled:,} more nodes are unlabelled)" if labeled < n else "")
        ]
        lines += [
            f"  node {i}: {self.given[i]!s} -> {self.suggested[i]!s}, "
            f"suspicion {self.suspicion[i]:.3f}, weight {self.weight[i]:.3f}"
            for i in self.order[: min(5, int(self.doubtful.sum()))]
        ]
        return "\n".join(lines)


def find_label_issues(source: Source, labels: ArrayLike, *, metric: str | None = None) -> LabelIssues:
    """Find labels that a node's neighbours contradict.

    The weights of a node's row are summed per class. The *margin* is the largest weight of another class minus the
    weight of the node's own class; a row sums to 1, so it lies between -1 and 1, and ``suspicion = (1 + margin) / 2``.
    Unlabelled neighbours keep their weight but vote for no class. A node's own label does not count.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a builder with ``weights="blend"`` is fitted, which finds most wrong labels. A folder is read block
        by block.
    labels : (n,) array-like of integers, strings or booleans
        -1, None, NaN or "" where a node is unlabelled: it does not vote, and gets a suggestion but no suspicion. A
        pandas Series is aligned with the index of the vectors.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.

    Returns
    -------
    LabelIssues

    See Also
    --------
    describe : reports the accuracy of the vote over all labels.
    NeighborVote : predicts labels by the same votes.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> labels[7] = "dog"
    >>> asbc.find_label_issues(asbc.GraphBuilder("gaussian", metric="euclidean").fit(X), labels)
    LabelIssues: 1 of 100 labels are doubtful
      node 7: dog -> cat, suspicion 1.000, weight 1.000
    """
    source, index = fit_source(source, "blend", metric)
    return judge_labels(*open_rows(source), align_rows(labels, index, "labels"))


def judge_labels(neighbors: Neighbors, weights: NDArray[np.float64], labels: ArrayLike) -> LabelIssues:
    """Return what :func:`find_label_issues` does, from given neighbours and their weights (n, k) with rows of sum 1."""
    codes, classes = encode_partial(labels, neighbors.n)  # type: ignore[arg-type]
    margin, share = np.empty(neighbors.n), np.empty(neighbors.n)
    winner = np.empty(neighbors.n, dtype=np.int64)
    for block in row_blocks(neighbors, weights):
        nodes = block.nodes
        own, other, winner[nodes], share[nodes] = class_weights(block.indices, block.weights, codes, codes[nodes])
        margin[nodes] = other - own
    labeled = codes >= 0
    # Rounding may carry a sum of weights slightly past 1.
    suspicion = np.where(labeled, np.clip((1.0 + margin) / 2.0, 0.0, 1.0), np.nan)
    judged = np.flatnonzero(labeled)
    order = judged[np.argsort(-suspicion[judged], kind="stable")]
    suggested = decode_partial(np.where(winner < 0, codes, winner), classes)
    return LabelIssues(suspicion, suggested, share, order, decode_partial(codes, classes))


def supporting_neighbors(
    source: Source, issues: LabelIssues, nodes: ArrayLike, most: int = 5
) -> list[NDArray[np.int64]]:
    """Return, for each of `nodes`, at most `most` neighbours that have its suggested label, the heaviest first."""
    neighbors, weights = open_rows(source)
    found = []
    for node in np.asarray(nodes, dtype=np.int64):
        around, weight = np.array(neighbors.indices[node], np.int64), np.array(weights[node])
        agree = (issues.given[around] == issues.suggested[node]) & (weight > 0)
        around, weight = around[agree], weight[agree]
        found.append(around[np.argsort(-weight, kind="stable")[:most]])
    return found


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
    voted = issues.weight[labeled] > 0
    # Suggestions are labels that were given to some node, so each has a code.
    predicted = np.searchsorted(classes, np.asarray(issues.suggested[labeled], dtype=classes.dtype))
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
