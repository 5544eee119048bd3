"""Classifiers on a neighbourhood graph: label propagation and the vote of neighbours."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from asbc.bandwidth import Perplexity
from asbc.builder import GraphBuilder
from asbc.learn.labels import align_rows, decode_partial, encode_partial
from asbc.learn.predict import ballots, graph_vote, loo_predict, propagate
from asbc.learn.source import fit_copy, given_graph
from asbc.validation import MetricInRepr, estimator_vectors, one_of, real_array, row_index, true_or_false

LABELS_FOR_HALF = 5  # labels per class at which equal shares and the propagated ones count the same


class UnreachedWarning(UserWarning):
    """Some points have no labelled neighbour, directly or through other nodes.

    See Also
    --------
    GraphClassifier, NeighborVote : issue it.

    Examples
    --------
    >>> import warnings, asbc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", asbc.UnreachedWarning)  # raise an error instead
    """


class UnseenClassWarning(UserWarning):
    """The labels passed to ``score`` hold classes that fit never saw, which no prediction can match.

    See Also
    --------
    GraphClassifier, NeighborVote : their ``score`` issues it.

    Examples
    --------
    >>> import warnings, asbc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", asbc.UnseenClassWarning)  # raise an error instead
    """


class PointClassifier(MetricInRepr, ClassifierMixin, BaseEstimator):
    """Base of the classifiers: predicts new points from what their nearest fitted nodes know of the classes.

    A subclass sets `classes_`, `class_prior_`, `_class_weights` (n, c), the weight of each class at every fitted node,
    and, unless new points cannot be classified, `builder_`.
    """

    builder_: GraphBuilder
    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]
    _class_weights: Any

    def encode(self, y: ArrayLike, n: int, index: Any = None) -> NDArray[np.int64]:
        """Return the class codes of n nodes, -1 where unlabelled; sets `classes_` and `class_prior_`."""
        if y is None:  # in the words that scikit-learn's checks expect
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        codes, self.classes_ = encode_partial(_one_column(align_rows(y, index, "y")), n, name="y")
        counts = np.bincount(codes[codes >= 0], minlength=len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        return codes

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability of each class for new points.

        Parameters
        ----------
        X : (m, d) array-like

        Returns
        -------
        (m, c) float64
            Rows sum to 1; columns as in `classes_`. A point that no label reaches gets the share of each class among
            the labelled nodes, with an :class:`UnreachedWarning`.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "builder_"):
            raise ValueError(
                f"X cannot be classified: this {type(self).__name__} was fitted on a finished graph, which has no "
                "vectors. Fit it on vectors, with builder= instead of graph=."
            )
        scores: Any = self.builder_.transform(estimator_vectors(self, X, reset=False)) @ self._class_weights
        scores = scores.toarray() if sparse.issparse(scores) else scores
        total = scores.sum(axis=1, keepdims=True)
        lost = int((total <= 0).sum())
        if lost:
            warnings.warn(
                f"{lost} of {len(scores)} points have no label in reach; they get the class prior.",
                UnreachedWarning,
                stacklevel=2,
            )
        return np.where(total > 0, scores / np.where(total > 0, total, 1.0), self.class_prior_)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the most probable class of new points, (m,); ties go to the first in `classes_`."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on the labelled points.

        A point of a class that fit never saw counts as wrong, with an :class:`UnseenClassWarning`.

        Parameters
        ----------
        X : (m, d) array-like
        y : (m,) array-like, of the same kind (numbers, strings or booleans) as the labels of fit
        sample_weight : (m,) array-like, optional

        Returns
        -------
        float
        """
        check_is_fitted(self, "classes_")
        labels = _one_column(align_rows(y, row_index(X), "y"))
        codes, classes = encode_partial(labels, np.shape(X)[0], name="y")
        if (classes.dtype.kind in "US") != (self.classes_.dtype.kind in "US"):
            raise ValueError(f"y must be of the kind that fit saw, {self.classes_.dtype}; got {classes.dtype}.")
        unknown = classes[~np.isin(classes, self.classes_)]
        if len(unknown):
            warnings.warn(
                f"y holds {len(unknown)} class(es) that fit never saw, the first is {unknown[0]!s}. Their points count "
                "as wrong.",
                UnseenClassWarning,
                stacklevel=2,
            )
        known = codes >= 0
        hits = self.predict(X)[known] == classes[codes[known]]
        return float(np.average(hits, weights=None if sample_weight is None else np.asarray(sample_weight)[known]))


def _one_column(y: Any) -> Any:
    """Return labels as scikit-learn does: a single column is accepted with a warning, numbers must be classes."""
    if isinstance(y, list | tuple):
        return y
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "fc" and not np.isnan(y).any():
        check_classification_targets(y)
    return y


class NeighborVote(PointClassifier):
    """Classify points by the weighted vote of their neighbours, and every fitted node by the vote of the others.

    Parameters
    ----------
    builder : GraphBuilder or None, default=None
        Finds and weights the neighbours; a copy of it is fitted. None uses ``GraphBuilder()``, whose NNK weights
        vote best, with ``k_cand`` at most the number of other nodes.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric of the default builder; None is cosine.
    symmetric : bool, default=False
        Whether fitted nodes are predicted on the symmetrised graph, in which nodes also vote for those that have them
        as neighbours. New points always use their own row.

    Attributes
    ----------
    classes_ : (c,) array
    loo_predictions_ : (n,) array
        The class predicted by a node's neighbours, without its own label. A node without a labelled neighbour is
        marked as unlabelled (-1, "" or None). A tie goes to the class of the nearest voter; on the symmetrised graph,
        to the first in `classes_`.
    loo_score_ : float
        Leave-one-out accuracy on the labelled nodes.
    class_prior_ : (c,) float64
        Share of each class among the labelled nodes.
    builder_ : GraphBuilder
        The fitted builder.

    See Also
    --------
    GraphClassifier : propagates labels beyond direct neighbours; the better choice if few nodes are labelled.
    find_label_issues : checks labels by the neighbours and a linear model.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> vote = asbc.NeighborVote(metric="euclidean").fit(X, np.repeat(["cat", "dog"], 50))
    >>> vote.loo_score_
    1.0
    >>> vote.predict([[7.0, 9.0]])
    array(['dog'], dtype='<U3')
    """

    def __init__(self, builder: GraphBuilder | None = None, *, metric: str | None = None, symmetric: bool = False):
        self.builder = builder
        self.metric = metric
        self.symmetric = symmetric

    def fit(self, X: ArrayLike, y: ArrayLike) -> NeighborVote:
        """Store the labels of the rows of X, and predict each from the others.

        Parameters
        ----------
        X : (n, d) array-like
        y : (n,) array-like of integers, strings or booleans
            -1, None, NaN or "" where a node is unlabelled; such nodes do not vote. A pandas Series is aligned with the
            index of X.

        Returns
        -------
        self
        """
        true_or_false(self.symmetric, "symmetric")
        if self.symmetric and isinstance(self.builder, GraphBuilder) and self.builder.symmetrize is None:
            raise ValueError("symmetric=True needs a builder that symmetrises; this one has symmetrize=None.")
        vectors = estimator_vectors(self, X, reset=True)
        codes = self.encode(y, len(vectors), row_index(X))  # before the work of building a graph
        self.builder_ = fit_copy(self.builder, GraphBuilder(), self.metric, vectors)
        if self.symmetric:
            winner = graph_vote(self.builder_.graph_, codes)
        else:
            winner = loo_predict(self.builder_.neighbors_.indices, self.builder_.weights_, codes)
        labeled = codes >= 0
        self.loo_predictions_ = decode_partial(winner, self.classes_)
        self.loo_score_ = float((winner[labeled] == codes[labeled]).mean())
        self._class_weights = ballots(codes, len(self.classes_))
        return self


class GraphClassifier(PointClassifier):
    """Classify nodes and new points from a few labels, by label propagation on a neighbourhood graph.

    Every node repeatedly takes the weighted mean of its neighbours' scores, while labelled nodes keep theirs:
    ``F <- alpha P F + (1 - alpha) Y``, where P has the rows of the graph normalised to sum 1. A new point takes the
    weighted mean of the final scores of its nearest nodes.

    Parameters
    ----------
    builder : GraphBuilder or None, default=None
        Builds the graph; a copy of it is fitted. None uses ``GraphBuilder("gaussian", Perplexity(),
        symmetrize="mean")``, which propagates labels best, with ``k_cand`` at most the number of other nodes.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric of the default builder; None is cosine.
    alpha : float in (0, 1), default=0.95
        Share of a node's score that comes from its neighbours; smaller values keep labels closer to their origin.
    max_rounds : int, default=200
        Largest number of rounds. If they suffice for the tolerance, conjugate gradients reach it in fewer.
    tol : float, default=1e-6
        Stop when no score is further than this from its limit.
    class_prior : {"auto", "uniform", "labels"}, (c,) array-like or None, default="auto"
        Expected share of each class. The scores of every class are scaled by it over the class's share of the scores of
        unlabelled nodes (class mass normalisation). "auto" lies between equal shares and those that propagation finds:
        their weighted geometric mean, where the latter weigh ``m / (m + 5)`` with m labelled nodes per class. "uniform"
        is better if the classes have equal sizes. "labels" is the share among the labelled nodes; an array has the
        order of `classes_`. None does not scale.
    graph : path of a graph folder, (n, n) sparse matrix or None, default=None
        An existing graph, instead of `builder`. Then `fit` ignores X, which may be None, and new points cannot be
        classified.

    Attributes
    ----------
    classes_ : (c,) array
    transduction_ : (n,) array
        The class of every fitted node: its label if it has one. A node that no label reaches is marked as unlabelled:
        -1, "" or, among booleans, None.
    label_distributions_ : (n, c) float64
        Probability of each class at every fitted node; zeros where no label arrives.
    reach_ : (n,) float64
        Sum of a node's scores: how much of all labels arrives there.
    class_prior_ : (c,) float64
        The class prior; with None, the share of each class among the labelled nodes.
    builder_ : GraphBuilder
        The fitted builder; absent if `graph` was given.
    n_rounds_ : int

    See Also
    --------
    NeighborVote : uses direct neighbours only; the better choice if most nodes are labelled.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> y = np.full(100, -1)
    >>> y[[3, 60]] = 0, 1
    >>> classifier = asbc.GraphClassifier(metric="euclidean").fit(X, y)
    >>> bool((classifier.transduction_[:50] == 0).all()), bool((classifier.transduction_[50:] == 1).all())
    (True, True)
    >>> classifier.predict([[7.0, 9.0]])
    array([1])
    """

    def __init__(
        self,
        builder: GraphBuilder | None = None,
        *,
        metric: str | None = None,
        alpha: float = 0.95,
        max_rounds: int = 200,
        tol: float = 1e-6,
        class_prior: str | ArrayLike | None = "auto",
        graph: Any = None,
    ):
        self.builder = builder
        self.metric = metric
        self.alpha = alpha
        self.max_rounds = max_rounds
        self.tol = tol
        self.class_prior = class_prior
        self.graph = graph

    def fit(self, X: ArrayLike | None, y: ArrayLike) -> GraphClassifier:
        """Propagate the labels `y` over the graph of the rows of X.

        Parameters
        ----------
        X : (n, d) array-like; ignored if `graph` is given
        y : (n,) array-like of integers, strings or booleans
            -1, None, NaN or "" where a node is unlabelled. A pandas Series is aligned with the index of X.

        Returns
        -------
        self
        """
        if self.graph is None:
            vectors = estimator_vectors(self, X, reset=True)
            codes = self.encode(y, len(vectors), row_index(X))  # before the work of building a graph
            default = GraphBuilder("gaussian", Perplexity(), symmetrize="mean")
            self.builder_ = fit_copy(self.builder, default, self.metric, vectors)
            graph = self.builder_.graph_
        else:
            graph = given_graph(self)
            codes = self.encode(y, graph.shape[0])
        prior = self._given_prior()  # before the work of propagation
        result = propagate(
            graph,
            codes,
            codes >= 0,
            n_classes=len(self.classes_),
            alpha=self.alpha,
            max_rounds=self.max_rounds,
            tol=self.tol,
        )
        if not result.converged and self.tol > 0:
            warnings.warn(
                f"max_rounds={self.max_rounds} were not enough to reach tol={self.tol:g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        scores, self.n_rounds_ = result.scores, result.rounds
        if self.class_prior is not None:
            shares = _class_shares(scores[codes < 0])
            if prior is None:
                per_class = (codes >= 0).sum() / len(shares)
                prior = shares ** (per_class / (per_class + LABELS_FOR_HALF))
            self.class_prior_ = prior / prior.sum()
            scores = scores * np.divide(self.class_prior_, shares, out=np.ones_like(shares), where=shares > 0)
        self.reach_ = scores.sum(axis=1)
        self.label_distributions_ = _row_shares(scores)
        best = np.where(self.reach_ > 0, scores.argmax(axis=1), -1)
        lost = int((best < 0).sum())
        if lost:
            warnings.warn(
                f"{lost} of {len(best)} nodes are reached by no label and stay unlabelled in transduction_.",
                UnreachedWarning,
                stacklevel=2,
            )
        self.transduction_ = decode_partial(best, self.classes_)
        # Not weighted by reach: on two real sets, nodes far from any label were as informative as others.
        self._class_weights = self.label_distributions_
        return self

    def _given_prior(self) -> NDArray[np.float64] | None:
        """Return the given share of each class; None if it is to be found, or not used."""
        c = len(self.classes_)
        if self.class_prior is None or isinstance(self.class_prior, str):
            known = {None: None, "auto": None, "uniform": np.ones(c), "labels": self.class_prior_}
            return known[one_of(self.class_prior, "class_prior", tuple(known))]
        prior = real_array(self.class_prior, "class_prior", (c,), low=0)
        if not prior.all():
            raise ValueError(f"class_prior must be positive for every class in classes_; got {self.class_prior!r}.")
        return prior


def _row_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows to sum 1; zeros stay."""
    total = scores.sum(axis=1, keepdims=True)
    return np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)


def _class_shares(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean share of each class in the scores of nodes; equal shares if no label arrives."""
    mass = _row_shares(scores).sum(axis=0)
    return mass / mass.sum() if mass.any() else np.full(len(mass), 1 / len(mass))
