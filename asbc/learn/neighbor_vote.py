"""Classes by a vote of the nearest: what do a point's neighbours say?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from asbc.builder import GraphBuilder
from asbc.kernels.vote import class_weights
from asbc.learn.labels import decode_partial
from asbc.learn.points import PointClassifier
from asbc.learn.source import open_rows, row_blocks
from asbc.learn.vote import graph_vote
from asbc.validation import true_or_false


class NeighborVote(PointClassifier):
    """Classify points by the weighted vote of their neighbours, and every fitted node by the vote of the others.

    Parameters
    ----------
    builder : GraphBuilder or None, default=None
        Finds and weighs the neighbours; a copy of it is fitted. None takes ``GraphBuilder()``, whose NNK weights
        vote best, with ``k_cand`` no larger than the number of other nodes.
    symmetric : bool, default=False
        Let the fitted nodes be judged over the symmetrised graph, where those vote too that have the node among their
        own neighbours. A new point has only its own row either way.

    Attributes
    ----------
    classes_ : (c,) array
    loo_predictions_ : (n,) array
        The class that a node's neighbours give it, its own label left out. A node without a labelled neighbour is
        marked as unlabelled (-1, "" or None). A tie goes to the class of the nearest voter; on the symmetrised graph,
        to the first in `classes_`.
    loo_score_ : float
        Share of the labelled nodes that are predicted rightly.
    class_prior_ : (c,) float64
        Share of each class among the labelled nodes.
    builder_ : GraphBuilder
        The fitted one.

    See Also
    --------
    GraphClassifier : carries labels further than to neighbours; the better choice where few nodes are labelled.
    find_label_issues : the same votes, turned against the labels.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> vote = asbc.NeighborVote().fit(X, np.repeat(["cat", "dog"], 50))
    >>> vote.loo_score_
    1.0
    >>> vote.predict([[7.0, 9.0]])
    array(['dog'], dtype='<U3')
    """

    def __init__(self, builder: GraphBuilder | None = None, *, symmetric: bool = False):
        self.builder = builder
        self.symmetric = symmetric

    def default_builder(self) -> GraphBuilder:
        return GraphBuilder()

    def fit(self, X: ArrayLike, y: ArrayLike) -> NeighborVote:
        """Learn the labels `y` (n,) of the rows of X (n, d).

        Parameters
        ----------
        X : (n, d) array-like
        y : (n,) array-like of integers, strings or booleans; -1, None, NaN or "" where a node is unlabelled.
            Unlabelled nodes do not vote.

        Returns
        -------
        self
        """
        true_or_false(self.symmetric, "symmetric")
        if self.symmetric and isinstance(self.builder, GraphBuilder) and self.builder.symmetrize is None:
            raise ValueError("symmetric=True needs a builder that symmetrises; this one has symmetrize=None.")
        vectors = self.check_vectors(X, reset=True)
        codes = self.encode(y, len(vectors))  # before the work of building a graph
        self.builder_ = self.fit_builder(vectors)
        if self.symmetric:
            winner = graph_vote(self.builder_.graph_, codes)
        else:
            winner = np.empty(len(codes), dtype=np.int64)
            for block in row_blocks(*open_rows(self.builder_)):
                winner[block.nodes] = class_weights(block.indices, block.weights, codes, codes[block.nodes])[2]
        labeled = codes >= 0
        self.loo_predictions_ = decode_partial(winner, self.classes_)
        self.loo_score_ = float((winner[labeled] == codes[labeled]).mean())
        nodes = np.flatnonzero(labeled)
        self._votes = sparse.csr_array(
            (np.ones(len(nodes)), (nodes, codes[nodes])), shape=(len(codes), len(self.classes_))
        )
        return self

    def evidence(self) -> sparse.csr_array:
        return self._votes
