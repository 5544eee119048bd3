"""Classes from a few labels: label propagation as a scikit-learn classifier."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from asbc.bandwidth import Perplexity
from asbc.builder import GraphBuilder
from asbc.learn.labels import decode_partial
from asbc.learn.points import PointClassifier, UnreachedWarning
from asbc.learn.propagation import propagate
from asbc.outofcore.folder import load_graph
from asbc.validation import true_or_false


class GraphClassifier(PointClassifier):
    """Classify nodes and new points from a few labels, by label propagation on a neighbourhood graph.

    Every node takes the weighted mean of what its neighbours know, round after round, while labelled nodes stay as
    they are: ``F <- alpha P F + (1 - alpha) Y`` with P the graph's rows normalised to sum 1. A new point takes
    the weighted mean of what the nodes near it know in the end, and gives nothing back.

    Parameters
    ----------
    builder : GraphBuilder or None, default=None
        Makes the graph; a copy of it is fitted. None takes ``GraphBuilder("gaussian", Perplexity())``, for
        Gaussian weights carry labels furthest, with ``k_cand`` no larger than the number of other nodes.
    alpha : float in (0, 1), default=0.85
        How much a node listens to its neighbours; smaller values keep labels nearer to where they are.
    max_rounds : int, default=200
        Rounds after which it stops in any case. Where fewer are wanted than the tolerance needs, they are rounds of the
        formula; otherwise conjugate gradients lead to the same scores in fewer.
    tol : float, default=1e-6
        Stop when no score is further than this from where the rounds lead.
    calibrate : bool, default=False
        Scale every class by its share among the labels over its share of all that reached unlabelled nodes (class mass
        normalisation), so that the classes come nearer to the labels' proportions. For labels that were drawn at
        random; labels picked in equal number per class say nothing of the classes' sizes.
    graph : path of a graph folder, (n, n) sparse matrix or None, default=None
        A graph that is there already, in place of `builder`. Then `fit` ignores X, which may be None, and new points
        cannot be classified. The graph of a folder is read into memory, and verified where it has checksums.

    Attributes
    ----------
    classes_ : (c,) array
    transduction_ : (n,) array
        The class of every fitted node: its label if it has one. A node that no label reaches is marked as unlabelled:
        -1, "" or, among booleans, None.
    label_distributions_ : (n, c) float64
        How likely each class is at every fitted node; zeros where no label arrives.
    reach_ : (n,) float64
        How much of all labels arrives at a node.
    class_prior_ : (c,) float64
        Share of each class among the labelled nodes.
    builder_ : GraphBuilder
        The fitted one; not there if `graph` was given.
    n_rounds_ : int

    See Also
    --------
    NeighborVote : asks neighbours once; the better choice where most nodes are labelled.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> y = np.full(100, -1)
    >>> y[[3, 60]] = 0, 1
    >>> classifier = asbc.GraphClassifier().fit(X, y)
    >>> bool((classifier.transduction_[:50] == 0).all()), bool((classifier.transduction_[50:] == 1).all())
    (True, True)
    >>> classifier.predict([[7.0, 9.0]])
    array([1])
    """

    def __init__(
        self,
        builder: GraphBuilder | None = None,
        *,
        alpha: float = 0.85,
        max_rounds: int = 200,
        tol: float = 1e-6,
        calibrate: bool = False,
        graph: Any = None,
    ):
        self.builder = builder
        self.alpha = alpha
        self.max_rounds = max_rounds
        self.tol = tol
        self.calibrate = calibrate
        self.graph = graph

    def default_builder(self) -> GraphBuilder:
        return GraphBuilder("gaussian", Perplexity())

    def fit(self, X: ArrayLike | None, y: ArrayLike) -> GraphClassifier:
        """Propagate the labels `y` (n,) over the graph of the rows of X (n, d).

        Parameters
        ----------
        X : (n, d) array-like; ignored if `graph` is given
        y : (n,) array-like of integers, strings or booleans; -1, None, NaN or "" where a node is unlabelled

        Returns
        -------
        self
        """
        true_or_false(self.calibrate, "calibrate")
        if self.graph is None:
            vectors = self.check_vectors(X, reset=True)
            codes = self.encode(y, len(vectors))  # before the work of building a graph
            self.builder_ = self.fit_builder(vectors)
            graph = self.builder_.graph_
        else:
            if self.builder is not None:
                raise ValueError("builder and graph were both given; one of them is wanted, the other None.")
            self.__dict__.pop("builder_", None)  # of an earlier fit
            graph = open_graph(self.graph)
            codes = self.encode(y, graph.shape[0])
        result = propagate(
            graph,
            codes,
            codes >= 0,
            n_classes=len(self.classes_),
            alpha=self.alpha,
            max_rounds=self.max_rounds,
            tol=self.tol,
            hasten=True,
        )
        if not result.converged and self.tol > 0:
            warnings.warn(
                f"max_rounds={self.max_rounds} were not enough to come within tol={self.tol:g}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        scores = result.scores
        self.n_rounds_ = result.rounds
        if self.calibrate:
            scores = scores * self._class_factors(scores, codes)
        self.reach_ = scores.sum(axis=1)
        there = self.reach_[:, None] > 0
        self.label_distributions_ = np.divide(scores, self.reach_[:, None], out=np.zeros_like(scores), where=there)
        best = np.where(there[:, 0], self.label_distributions_.argmax(axis=1), -1)
        lost = int((best < 0).sum())
        if lost:
            warnings.warn(
                f"{lost} of {len(best)} nodes are reached by no label and stay unlabelled in transduction_.",
                UnreachedWarning,
                stacklevel=2,
            )
        self.transduction_ = decode_partial(best, self.classes_)
        return self

    def evidence(self) -> Any:
        # Not weighed by reach: on two real sets nodes far from any label had as much to say of a new point as others.
        return self.label_distributions_

    def _class_factors(self, scores: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Each class's share among the labels, over its share of what unlabelled nodes know."""
        open_scores = scores[codes < 0]
        total = open_scores.sum(axis=1, keepdims=True)
        mass = np.divide(open_scores, total, out=np.zeros_like(open_scores), where=total > 0).sum(axis=0)
        if not mass.any():
            return np.ones(len(mass))
        return np.divide(self.class_prior_, mass / mass.sum(), out=np.ones_like(mass), where=mass > 0)


def open_graph(graph: Any) -> sparse.csr_array:
    """A graph folder, or a sparse matrix, as a checked CSR array (n, n)."""
    if isinstance(graph, str | os.PathLike):
        return load_graph(graph, verify=True)
    if not sparse.issparse(graph):
        raise TypeError(
            f"graph must be the path of a graph folder or a scipy sparse matrix; got {type(graph).__name__}."
        )
    opened = sparse.csr_array(graph)
    if opened.shape[0] != opened.shape[1]:
        raise ValueError(f"graph must be square, one row and one column per node; got shape {opened.shape}.")
    loops = np.flatnonzero(opened.diagonal())
    if len(loops):
        raise ValueError(
            f"graph must have no self loops; {len(loops)} node(s) have one, the first is node {loops[0]}. "
            "Clear them with graph.setdiag(0)."
        )
    return opened
