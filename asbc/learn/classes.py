"""How does each class fare with its neighbours, and which classes are mistaken for each other?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.learn.describe import wilson_interval
from asbc.learn.issues import LabelIssues
from asbc.learn.labels import encode_partial


@dataclass(frozen=True)
class ClassReport:
    """What neighbours say of every class; :func:`judge_classes` gives it.

    Attributes
    ----------
    classes : (c,) array
        The labels, sorted.
    size, right : (c,) int64
        Nodes of each class, and how many of them their neighbours' vote gives back.
    low, high : (c,) float64
        Wilson's 95% interval of the share that is right.
    pairs : (p, 2) int64
        Pairs of classes, by their number, with nodes of one that are taken for the other; most often confused first.
    there, back : (p,) int64
        Nodes of the first class of a pair that are taken for the second, and the other way round.

    See Also
    --------
    judge_classes : makes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.learn.classes import judge_classes
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> report = judge_classes(asbc.find_label_issues(asbc.GraphBuilder().fit(X), np.repeat(["ant", "bee"], 40)))
    >>> report.accuracy, len(report.pairs)
    (array([1., 1.]), 0)
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
        """(c,) float64: the share of each class that its neighbours' vote gives back."""
        return self.right / self.size


def judge_classes(issues: LabelIssues) -> ClassReport:
    """Accuracy of the neighbours' vote per class, and the pairs of classes that it confuses.

    A node whose neighbours do not vote, because they are unlabelled, counts as wrong and as confused with no class.

    Parameters
    ----------
    issues : LabelIssues
        What the neighbours of each node say; from :func:`find_label_issues`.

    Returns
    -------
    ClassReport

    See Also
    --------
    asbc.describe : the accuracy of all classes together.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.learn.classes import judge_classes
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> labels = np.repeat(["ant", "bee"], 40)
    >>> labels[:3] = "bee"
    >>> report = judge_classes(asbc.find_label_issues(asbc.GraphBuilder().fit(X), labels))
    >>> report.size, report.right, report.pairs, report.there, report.back
    (array([37, 43]), array([37, 40]), array([[0, 1]]), array([0]), array([3]))
    """
    given, classes = encode_partial(issues.given)
    c = len(classes)
    labeled = np.flatnonzero(given >= 0)
    own = given[labeled]
    heard = issues.weight[labeled] > 0
    # Suggestions are labels that were given to some node, so each has its number.
    said = np.searchsorted(classes, np.asarray(issues.suggested[labeled], dtype=classes.dtype))
    size = np.bincount(own, minlength=c)
    right = np.bincount(own[heard & (said == own)], minlength=c)
    bounds = np.array([wilson_interval(int(r), int(s)) for r, s in zip(right, size, strict=True)])
    wrong = heard & (said != own)
    key, count = np.unique(own[wrong] * c + said[wrong], return_counts=True)
    first, second = np.minimum(key // c, key % c), np.maximum(key // c, key % c)
    pair, place = np.unique(first * c + second, return_inverse=True)
    forward = key // c < key % c
    there = np.bincount(place[forward], count[forward], len(pair)).astype(np.int64)
    back = np.bincount(place[~forward], count[~forward], len(pair)).astype(np.int64)
    order = np.argsort(-(there + back), kind="stable")
    pairs = np.stack([pair // c, pair % c], axis=1)[order]
    return ClassReport(classes, size, right, bounds[:, 0], bounds[:, 1], pairs, there[order], back[order])
