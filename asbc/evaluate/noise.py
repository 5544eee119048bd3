"""Label noise: how many wrong labels are found, by graphs and by other methods."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from asbc.embeddings.files import read_labels
from asbc.evaluate.sample import Method, Sample, timed
from asbc.evaluate.tasks import Score, Task
from asbc.extras import needed
from asbc.learn.issues import NEAR, find_label_issues, move_labels
from asbc.learn.labels import encode_partial
from asbc.learn.source import GraphRows
from asbc.validation import one_of

KINDS = ("near", "uniform")
FOLDS = 5  # of the cross-validation of rivals that learn a classifier

Codes = NDArray[np.int64]


def near_classes(X: NDArray[Any], codes: Codes) -> Codes:
    """Return, for each class, the three classes whose centres are nearest to its own: (c, at most 3)."""
    classes = int(codes.max()) + 1
    centers = np.stack([X[codes == c].mean(axis=0, dtype=np.float64) for c in range(classes)])
    apart = np.linalg.norm(centers[:, None] - centers, axis=2)
    np.fill_diagonal(apart, np.inf)
    return np.argsort(apart, axis=1, kind="stable")[:, : min(NEAR, classes - 1)]


Doubts = dict[str, NDArray[np.float64]]  # how doubtful each label is (n,), by the name of the score


def datalab_doubts(X: NDArray[Any], labels: Codes) -> Doubts:
    """Return the score of cleanlab's Datalab on the vectors: its votes of near rows."""
    with needed("evaluate.noise with rivals=[datalab]", "peers"):
        from cleanlab import Datalab
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab = Datalab(data={"label": labels}, label_name="label", verbosity=0)
        lab.find_issues(features=X, issue_types={"label": {}})
    return {"datalab": 1.0 - lab.get_issues("label")["label_score"].to_numpy()}


def regression_doubts(X: NDArray[Any], labels: Codes) -> Doubts:
    """Return both usual scores of logistic regression that was trained on the other four fifths of the nodes.

    The margin is the largest probability of another class minus that of the label. Self-confidence is the probability
    of the label, negated.
    """
    codes, _ = encode_partial(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that noise has left with few members, and of slow convergence
        model = LogisticRegression(C=10.0, max_iter=200)
        share = cross_val_predict(model, X, codes, cv=FOLDS, method="predict_proba")
    nodes = np.arange(len(codes))
    own = share[nodes, codes]
    share[nodes, codes] = -1.0
    return {"regression_margin": share.max(axis=1) - own, "regression_confidence": -own}


RIVALS: dict[str, Callable[[NDArray[Any], Codes], Doubts]] = {
    "datalab": datalab_doubts,
    "logistic_regression": regression_doubts,
}


@dataclass(frozen=True)
class LabelNoise(Task):
    """Average precision of :func:`asbc.find_label_issues`: `noise_near`, `noise_uniform` and `noise_human`.

    A share of the labels is moved, to near classes or to any; or labels that people got wrong are read from a file. All
    nodes are ranked from the most doubtful label on; average precision is 1 where the wrong ones come first. Rivals see
    the same labels, and are rows of the results under their own names. The level is the percentage of wrong labels.

    Parameters
    ----------
    kinds : sequence of {"near", "uniform"}, default=("near", "uniform")
        Where labels are moved to: one of the three classes with the nearest centres, or any other class.
    shares : sequence of float, default=(0.05, 0.2)
        How much of all labels is moved; each is a level.
    rivals : sequence of {"datalab", "logistic_regression"}, default=both
        cleanlab's Datalab, and both scores of logistic regression in five folds: margin and self-confidence.
    noisy_labels : str or None, default=None
        File with a label for every row of the data set, some of them wrong; those of the data set count as correct.

    See Also
    --------
    asbc.find_label_issues : what is measured.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import LabelNoise, Method, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, np.repeat([0, 1], 20), search=partial(asbc.search_neighbors, k=5))
    >>> task = LabelNoise(kinds=["uniform"], shares=[0.05], rivals=["logistic_regression"])
    >>> [(score.method, score.level, score.value) for score in task(sample, Method("uniform"))]
    [('regression_margin', 5, 1.0), ('regression_confidence', 5, 1.0), (None, 5, 1.0)]
    """

    kinds: Sequence[str] = KINDS
    shares: Sequence[float] = (0.05, 0.2)
    rivals: Sequence[str] = tuple(RIVALS)
    noisy_labels: str | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds:
            one_of(kind, "kinds", KINDS)
        for rival in self.rivals:
            one_of(rival, "rivals", tuple(RIVALS))

    def check(self, sizes: NDArray[np.int64]) -> None:
        if sizes.max() < FOLDS:
            raise ValueError(f"noise needs a class of at least {FOLDS} samples; the largest has {sizes.max()}")

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        known = sample.codes >= 0
        rows = GraphRows(sample.neighbors, sample.weights(method), sample.X)
        rivals = self.rivals if sample.first_time(repr(self)) else ()  # they do not depend on the method
        for kind, labels in self._noisy(sample):
            wrong = (labels != sample.codes)[known]
            for rival in rivals:
                doubts, seconds = timed(partial(RIVALS[rival], sample.X[known], labels[known]))
                for name, doubt in doubts.items():
                    yield _score(kind, wrong, doubt, seconds, name)
            found, took = timed(partial(find_label_issues, rows, labels))
            yield _score(kind, wrong, found.suspicion[known], sample.seconds(method) + took)

    def _noisy(self, sample: Sample) -> Iterator[tuple[str, Codes]]:
        """Yield kinds of noise and the class codes with it."""
        for kind in self.kinds:
            near = near_classes(sample.X, sample.codes) if kind == "near" else None
            for share in self.shares:
                seed = [sample.seed, KINDS.index(kind), round(1000 * share)]
                yield kind, move_labels(sample.codes, share, near, seed)
        if self.noisy_labels is not None:
            yield "human", _read_noisy(self.noisy_labels, sample)


def _read_noisy(path: str, sample: Sample) -> Codes:
    """Return the class codes of a file's labels for the nodes of a sample; -1 where the sample is unlabelled."""
    given = read_labels(path, sample.total)
    if given is None:
        raise ValueError(f"noisy_labels: {path} has no labels")
    _, classes = encode_partial(sample.labels)
    given = given[sample.nodes]
    place = np.searchsorted(classes, given).clip(0, len(classes) - 1)
    known = sample.codes >= 0
    unknown = np.flatnonzero(known & (classes[place] != given))
    if len(unknown):
        raise ValueError(f"noisy_labels: {path} has {given[unknown[0]]!r}, which is no label of the data set")
    labels = np.where(known, place, -1)
    if (labels == sample.codes).all():
        raise ValueError(f"noisy_labels: {path} has the labels of the data set, none of them wrong")
    return labels


def _score(kind: str, wrong, doubt, seconds: float, method: str | None = None) -> Score:
    value = float(average_precision_score(wrong, doubt))
    more = {} if method is None else {"weights": None}  # rivals use no weights
    return Score(f"noise_{kind}", value, round(100 * wrong.mean()), seconds, method=method, more=more)
