"""Label noise: how many labels that were moved on purpose are found, by graphs and by other methods."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

from asbc.evaluate.method import Method
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Score, Task
from asbc.extras import needed
from asbc.learn.issues import judge_labels
from asbc.learn.labels import encode_labels
from asbc.validation import one_of

KINDS = ("near", "uniform")
NEAR = 3  # nearest classes that a label may move to, in noise of the kind "near"
FOLDS = 5  # of the cross-validation of rivals that learn a classifier

Codes = NDArray[np.int64]


def move_labels(
    X: NDArray[Any], codes: Codes, share: float, kind: str, seed: int | Sequence[int]
) -> tuple[Codes, NDArray[np.bool_]]:
    """Give a share of the nodes another label.

    Parameters
    ----------
    X : (n, d) array
        The vectors; only the class centres are used.
    codes : (n,) int64
        Class numbers from 0, of at least two classes.
    share : float
        How much of all labels is moved, between 0 and 1.
    kind : {"near", "uniform"}
        Where to: one of the three classes whose centres are nearest to that of the own class, or any other class.
    seed : int or sequence of int
        Draws the nodes, and the classes they are moved to.

    Returns
    -------
    labels : (n,) int64
        The class numbers after the move.
    moved : (n,) bool
        Which nodes it befell, at least one.

    See Also
    --------
    LabelNoise : asks who finds them.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.noise import move_labels
    >>> X, codes = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([0, 0, 1, 1])
    >>> labels, moved = move_labels(X, codes, share=0.25, kind="near", seed=0)
    >>> int(moved.sum()), bool((labels[moved] == 1 - codes[moved]).all())
    (1, True)
    """
    one_of(kind, "kind", KINDS)
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1; got {share}")
    classes = int(codes.max()) + 1
    if classes < 2:
        raise ValueError(f"codes must have at least 2 classes for a label to be moved; got {classes}")
    rng = np.random.default_rng(seed)
    nodes = np.sort(rng.choice(len(codes), max(1, round(share * len(codes))), replace=False))
    labels = codes.copy()
    if kind == "uniform":
        labels[nodes] = (codes[nodes] + rng.integers(1, classes, len(nodes))) % classes
    else:
        centers = np.stack([X[codes == c].mean(axis=0, dtype=np.float64) for c in range(classes)])
        apart = np.linalg.norm(centers[:, None] - centers, axis=2)
        np.fill_diagonal(apart, np.inf)
        count = min(NEAR, classes - 1)
        near = np.argsort(apart, axis=1, kind="stable")[:, :count]
        labels[nodes] = near[codes[nodes], rng.integers(0, count, len(nodes))]
    moved = np.zeros(len(codes), dtype=bool)
    moved[nodes] = True
    return labels, moved


def datalab_doubt(X: NDArray[Any], labels: Codes) -> NDArray[np.float64]:
    """How doubtful cleanlab's Datalab finds each label (n,), from the vectors alone: its votes of near rows."""
    with needed("evaluate.noise with rivals=[datalab]", "peers"):
        from cleanlab import Datalab
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab = Datalab(data={"label": labels}, label_name="label", verbosity=0)
        lab.find_issues(features=X, issue_types={"label": {}})
    return 1.0 - lab.get_issues("label")["label_score"].to_numpy()


def regression_doubt(X: NDArray[Any], labels: Codes) -> NDArray[np.float64]:
    """The margin (n,) of logistic regression that was trained on the other four fifths of the nodes.

    It is the largest probability of another class minus that of the label: the score that asbc takes, too.
    """
    codes, _ = encode_labels(labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that noise has left with few members, and of slow convergence
        model = LogisticRegression(C=10.0, max_iter=200)
        share = cross_val_predict(model, X, codes, cv=FOLDS, method="predict_proba")
    nodes = np.arange(len(codes))
    own = share[nodes, codes]
    share[nodes, codes] = -1.0
    return share.max(axis=1) - own


RIVALS: dict[str, Callable[[NDArray[Any], Codes], NDArray[np.float64]]] = {
    "datalab": datalab_doubt,
    "logistic_regression": regression_doubt,
}


@dataclass(frozen=True)
class LabelNoise(Task):
    """Average precision of :func:`asbc.find_label_issues` for labels that were moved: `noise_near`, `noise_uniform`.

    A share of the labels is moved, to near classes or to any. All nodes are then ranked from the most doubtful label
    on; average precision is 1 where the moved ones come first. Other ways to rank them see the same labels, and are
    rows of the results under their own names. The level is the percentage that was moved.

    Parameters
    ----------
    kinds : sequence of {"near", "uniform"}, default=("near", "uniform")
        Where labels are moved to, see :func:`asbc.evaluate.noise.move_labels`.
    shares : sequence of float, default=(0.05, 0.2)
        How much of all labels is moved; each is a level.
    rivals : sequence of {"datalab", "logistic_regression"}, default=both
        Other ways: cleanlab's Datalab, and logistic regression that is trained on five folds.

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
    [('logistic_regression', 5, 1.0), (None, 5, 1.0)]
    """

    kinds: Sequence[str] = KINDS
    shares: Sequence[float] = (0.05, 0.2)
    rivals: Sequence[str] = tuple(RIVALS)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            one_of(kind, "kinds", KINDS)
        for rival in self.rivals:
            one_of(rival, "rivals", tuple(RIVALS))

    def check(self, sizes: NDArray[np.int64]) -> None:
        if sizes.max() < FOLDS:
            raise ValueError(f"noise needs a class of at least {FOLDS} samples; the largest has {sizes.max()}")

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        codes = sample.codes
        key = ("rivals", tuple(self.kinds), tuple(self.shares), tuple(self.rivals))
        if sample.first_time(key):
            yield from sample.once(key, lambda: list(self._of_rivals(sample, codes)))
        weights = sample.weights(method)
        for kind, share, labels, moved in self._moves(sample, codes):
            start = time.perf_counter()
            doubt = judge_labels(sample.neighbors, weights, labels).suspicion
            seconds = sample.seconds(method) + time.perf_counter() - start
            yield _score(kind, share, moved[codes >= 0], doubt[codes >= 0], seconds)

    def _of_rivals(self, sample: Sample, codes: Codes) -> Iterator[Score]:
        known = codes >= 0
        for kind, share, labels, moved in self._moves(sample, codes):
            for rival in self.rivals:
                start = time.perf_counter()
                doubt = RIVALS[rival](sample.X[known], labels[known])
                yield _score(kind, share, moved[known], doubt, time.perf_counter() - start, rival)

    def _moves(self, sample: Sample, codes: Codes) -> Iterator[tuple[str, float, Codes, NDArray[np.bool_]]]:
        known = codes >= 0  # a label that is not there cannot be moved
        labels, moved = codes.copy(), np.zeros(len(codes), dtype=bool)
        for kind in self.kinds:
            for share in self.shares:
                seed = [sample.seed, KINDS.index(kind), round(1000 * share)]
                labels[known], moved[known] = move_labels(sample.X[known], codes[known], share, kind, seed)
                yield kind, share, labels.copy(), moved.copy()


def _score(kind: str, share: float, moved, doubt, seconds: float, method: str | None = None) -> Score:
    value = float(average_precision_score(moved, doubt))
    more = {} if method is None else {"weights": None}  # other ways have no weights, those of the graph least of all
    return Score(f"noise_{kind}", value, round(100 * share), seconds, method=method, more=more)
