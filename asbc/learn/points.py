"""From labelled nodes to the class of any point: what :class:`GraphClassifier` and :class:`NeighborVote` share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE
from asbc.learn.labels import encode_partial
from asbc.validation import as_vectors, estimator_vectors


class UnreachedWarning(UserWarning):
    """Some points have no neighbour that knows anything of the classes.

    See Also
    --------
    GraphClassifier, NeighborVote : give it.

    Examples
    --------
    >>> import warnings, asbc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", asbc.UnreachedWarning)  # stop rather than guess
    """


class UnseenClassWarning(UserWarning):
    """Labels to be predicted hold classes that fit never saw, so that no prediction of them can be right.

    See Also
    --------
    GraphClassifier, NeighborVote : their ``score`` gives it.

    Examples
    --------
    >>> import warnings, asbc
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", asbc.UnseenClassWarning)  # stop rather than count them as wrong
    """


class PointClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier that knows something of the classes at every fitted node, and asks the nodes near a new point.

    A subclass sets `classes_`, `class_prior_` and, unless new points cannot be asked about, `builder_`; and it says
    what the nodes know, in :meth:`evidence`.
    """

    builder: GraphBuilder | None
    builder_: GraphBuilder
    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]

    @abstractmethod
    def default_builder(self) -> GraphBuilder:
        """The builder that takes the place of None."""

    @abstractmethod
    def evidence(self) -> Any:
        """(n, c) array or sparse array: how much each fitted node speaks for each class."""

    def fit_builder(self, vectors: NDArray[np.floating]) -> GraphBuilder:
        """Fit a copy of `builder` to checked vectors; the default one takes fewer candidates if nodes are few."""
        if self.builder is not None and not isinstance(self.builder, GraphBuilder):
            raise TypeError(f"builder must be an asbc.GraphBuilder or None; got {type(self.builder).__name__}.")
        builder = self.default_builder() if self.builder is None else clone(self.builder)
        if self.builder is None:
            builder.set_params(k_cand=max(SMALLEST_TREE, min(int(builder.k_cand), len(vectors) - 1)))
        return builder.fit(vectors)

    def encode(self, y: ArrayLike, n: int) -> NDArray[np.int64]:
        """Class numbers of n nodes, -1 where unlabelled; sets `classes_` and `class_prior_`."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; one label per node is "
                "wanted, -1 or None where it is not known."
            )
        codes, self.classes_ = encode_partial(_one_column(y), n, name="y")
        counts = np.bincount(codes[codes >= 0], minlength=len(self.classes_))
        self.class_prior_ = counts / counts.sum()
        return codes

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """How likely each class is for new points.

        Parameters
        ----------
        X : (m, d) array-like

        Returns
        -------
        (m, c) float64, rows summing to 1, columns as in `classes_`. Where no label is in reach it is the share of
        each class among the labelled nodes, with an :class:`UnreachedWarning`.
        """
        check_is_fitted(self, "classes_")
        if not hasattr(self, "builder_"):
            raise ValueError(
                f"X cannot be placed: this {type(self).__name__} was fitted on a finished graph, which says nothing "
                "of new points. Fit it on vectors, with builder= in place of graph=."
            )
        rows = self.builder_.transform(self.check_vectors(X, reset=False))
        scores = rows @ self.evidence()
        scores = scores.toarray() if sparse.issparse(scores) else scores
        total = scores.sum(axis=1, keepdims=True)
        lost = total[:, 0] <= 0
        if lost.any():
            warnings.warn(
                f"{int(lost.sum())} of {len(lost)} points have no label in reach; they are given the shares of the "
                "classes among the labelled nodes.",
                UnreachedWarning,
                stacklevel=2,
            )
        scores = np.divide(scores, total, out=np.zeros_like(scores), where=total > 0)
        scores[lost] = self.class_prior_
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likeliest class of new points, (m,); of equally likely ones, the first in `classes_`."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of points that are classified rightly; unlabelled ones do not count.

        A point of a class that fit never saw counts as wrong, as scikit-learn has it, with an
        :class:`UnseenClassWarning`: a fold of a cross-validation may lack a rare class, and so may a spelling.

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
        codes, classes = encode_partial(_one_column(y), np.shape(X)[0], name="y")
        if (classes.dtype.kind in "US") != (self.classes_.dtype.kind in "US"):
            came, wanted = ("strings" if c.dtype.kind in "US" else "numbers" for c in (classes, self.classes_))
            raise ValueError(f"y must hold labels of the kind that fit saw, {wanted}; got {came}.")
        unknown = classes[~np.isin(classes, self.classes_)]
        if len(unknown):
            listed = ", ".join(map(str, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
            warnings.warn(
                f"y holds {len(unknown)} class(es) that fit never saw: {listed}. Their points count as wrong; labels "
                f"among the {len(self.classes_)} in classes_ are wanted.",
                UnseenClassWarning,
                stacklevel=2,
            )
        known = codes >= 0
        hits = self.predict(X)[known] == classes[codes[known]]
        return float(np.average(hits, weights=None if sample_weight is None else np.asarray(sample_weight)[known]))

    def check_vectors(self, X: ArrayLike | None, *, reset: bool) -> NDArray[np.floating]:
        """X as scikit-learn checks it, and with `reset` its number and names of features remembered."""
        if isinstance(X, str | PathLike):
            raise TypeError(
                f"X must be vectors; got a path, {str(X)!r}. GraphClassifier(graph=...) takes a graph folder."
            )
        if X is None or (isinstance(X, np.ndarray | list | tuple) and np.ndim(X) != 2):
            as_vectors(X)  # says more than scikit-learn would
        return estimator_vectors(self, X, reset=reset)


def _one_column(y: Any) -> Any:
    """Labels as scikit-learn asks for them: a single column is taken with a warning, numbers must be classes."""
    if isinstance(y, list | tuple):
        return y
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "fc" and not np.isnan(y).any():
        check_classification_targets(y)
    return y
