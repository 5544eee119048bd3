"""Probability of every class at every node, from its neighbours and from a linear model, without its own label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize, sparse, special

from asbc.kernels.threads import one_blas_thread
from asbc.learn.source import BLOCK_NODES, Block, GraphRows, row_blocks

# Constants were chosen on clinc100, digits and CIFAR-10N.
PENALTY = 0.1  # of the ridge regression, times the mean variance of a direction
SMOOTHING = 0.1  # added to the weight of every class before its logarithm
SHRINKAGE = 0.01  # penalty of the logistic regression, times classes² / nodes
CONFUSED = 0.002  # share of labels that are taken to be moved to a similar class, in addition to those moved to any
FOLDS = 5
ROUNDS = 5  # of the logistic regression
SAMPLED_VALUES = 2**21  # nodes x classes that the logistic regression is trained on
FITTED_VALUES = 2**16  # nodes x classes that both experts are weighted on
FITTED_NODES = 500  # at least, for many classes
MOST_COMPARED = 500  # classes: with more, no matrix of all pairs of classes is computed


class ClassProbabilities:
    """Probability of every class at every node, in which no node's own label counts.

    Two experts judge a node: the weights of its neighbours, and a linear model. The linear model is a logistic
    regression in five folds on the predictions of :class:`LeaveOneOutRidge`. The probability is
    ``softmax(a * linear + b * log(weights + 0.1))``. The numbers a and b, and the share of labels that were moved to
    any class, are those under which the given labels are most likely. With more than 500 classes, the linear model is
    the ridge regression itself, and labels are taken to be moved to any class equally often.

    Parameters
    ----------
    rows : GraphRows
        Without vectors, the neighbours alone are asked.
    codes : (n,) int64
        Class codes; -1 for an unlabelled node, which is predicted only.
    count : int
        Number of classes.
    size : int
        Nodes per block.

    Attributes
    ----------
    moved : (count, count) float64 or None
        How often nodes of the first class are taken to be labelled as the second one, relative to the most frequent
        move: equally often for the share of labels that were moved to any class, and in proportion to how often the
        model confuses the two classes for another 0.2%. None if all moves are equally frequent.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.learn.experts import ClassProbabilities
    >>> from asbc.learn.source import open_source, row_blocks
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> rows, codes = open_source(X, "blend", "euclidean"), np.repeat([0, 1], 40)
    >>> model = ClassProbabilities(rows, codes, 2, size=80)
    >>> bool((model.predict(next(row_blocks(rows))).argmax(axis=1) == codes).all())
    True
    """

    def __init__(self, rows: GraphRows, codes: NDArray[np.int64], count: int, size: int) -> None:
        self.codes, self.count = codes, count
        self.ridge: LeaveOneOutRidge | None = None
        self.moved: NDArray[np.float64] | None = None
        self.lines: list[NDArray[np.float64]] = []  # coefficients of the logistic regression, by fold
        if count == 1:
            return
        shuffled = np.random.default_rng(0).permutation(np.flatnonzero(codes >= 0))
        self.fold = np.zeros(len(codes), dtype=np.int8)
        self.fold[shuffled] = np.arange(len(shuffled)) % FOLDS
        if rows.vectors is not None:
            self.ridge = LeaveOneOutRidge(rows.vectors, codes, count, rows.unit)
        sampled = np.sort(shuffled[: max(FITTED_NODES, SAMPLED_VALUES // count)])
        own, fold = codes[sampled], self.fold[sampled]
        parts = []
        for block in row_blocks(rows, size):
            first, last = np.searchsorted(sampled, [block.nodes.start, block.nodes.stop])
            parts.append([each[sampled[first:last] - block.nodes.start] for each in self._experts(block)])
        experts = [np.concatenate(each) for each in zip(*parts, strict=True)]
        if self.ridge is not None:
            self.scale = experts[0].std() or 1.0
            if count <= MOST_COMPARED:
                penalty = SHRINKAGE * count**2 / len(own)
                self.lines = [
                    logistic_regression(experts[0][fold != f] / self.scale, own[fold != f], count, penalty)
                    for f in range(FOLDS)
                ]
            experts[0] = self._linear(experts[0], fold)
        fitted = np.searchsorted(sampled, shuffled[: max(FITTED_NODES, FITTED_VALUES // count)])
        experts = [each[fitted] for each in experts]
        self.weights, uniform = weigh_experts(experts, own[fitted])
        if count > MOST_COMPARED:
            return
        found = self._combine(experts)
        moved = found.T @ found
        np.fill_diagonal(moved, np.finfo(float).tiny)
        moved *= CONFUSED / moved.sum(axis=1, keepdims=True)
        moved += uniform / (count - 1)
        np.fill_diagonal(moved, 0.0)
        self.moved = moved / moved.max()

    def _experts(self, block: Block) -> list[NDArray[np.float64]]:
        """Return the scores of each expert on a block: predictions of the ridge regression, logarithms of weights."""
        votes = np.log(weight_per_class(block, self.codes, self.count) + SMOOTHING)
        return [votes] if self.ridge is None else [self.ridge.predict(block.nodes), votes]

    def _linear(self, predicted: NDArray[np.float64], fold: NDArray[np.int8]) -> NDArray[np.float64]:
        """Return the logits of the logistic regression that was trained without each node's fold, if there is one."""
        if not self.lines:
            return predicted / self.scale
        logits = np.empty_like(predicted)
        for f, line in enumerate(self.lines):
            logits[fold == f] = predicted[fold == f] @ (line[:-1] / self.scale) + line[-1]
        return logits

    def _combine(self, experts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        logits: Any = sum(weight * each for weight, each in zip(self.weights, experts, strict=True))
        return special.softmax(logits, axis=1)

    def predict(self, block: Block) -> NDArray[np.float64]:
        """Return the probabilities (m, count) at the nodes of a block; 0 where nothing is known."""
        if self.count == 1:
            return weight_per_class(block, self.codes, 1)
        experts = self._experts(block)
        if self.ridge is None:
            found = self._combine(experts)
            found[experts[0].max(axis=1) == np.log(SMOOTHING)] = 0.0
            return found
        return self._combine([self._linear(experts[0], self.fold[block.nodes]), experts[1]])

    def of_other_classes(self, found: NDArray[np.float64], codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum the probabilities of the classes that each label may come from, weighted by `moved`."""
        if self.moved is None:
            return found.sum(axis=1) - found[np.arange(len(codes)), codes]
        return np.einsum("ic,ic->i", found, self.moved.T[codes])


@one_blas_thread()  # L-BFGS multiplies many small arrays, for which threads only wait for each other
def logistic_regression(
    X: NDArray[np.float64], codes: NDArray[np.int64], count: int, penalty: float
) -> NDArray[np.float64]:
    """Return the coefficients (d + 1, count) of a multinomial logistic regression; the last ones are intercepts.

    `penalty` times half the squared coefficients is added to the mean loss. It takes a few steps of L-BFGS.
    """
    n, d = X.shape
    X = np.column_stack([X, np.ones(n)]).astype(np.float32)
    row = np.arange(n)
    start = np.eye(d + 1, count) / 2.0
    start[-1] = np.log(np.bincount(codes, minlength=count) + 1.0)

    def loss(values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        B = values.reshape(d + 1, count)
        found = special.log_softmax(X @ B.astype(np.float32), axis=1)
        value = penalty * (B[:-1] ** 2).sum() / 2.0 - found[row, codes].mean()
        found = np.exp(found)
        found[row, codes] -= 1.0
        slope = (X.T @ found) / n
        slope[:-1] += penalty * B[:-1]
        return float(value), slope.ravel().astype(np.float64)

    done = optimize.minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS})
    return done.x.reshape(d + 1, count)


@one_blas_thread()
def weigh_experts(experts: list[NDArray[np.float64]], codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return the weight of each expert, and the share of labels that were moved to any class.

    With these, the given labels are most likely: ``(1 - share) * softmax(sum of weighted experts) + share / classes``.
    """
    values, row = np.stack(experts), np.arange(len(codes))
    count = values.shape[2]

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        *weights, share = parameters
        found = special.softmax(np.tensordot(weights, values, 1), axis=1)
        right = (1.0 - share) * found[row, codes]
        total = right + share / count
        found *= -(right / total)[:, None]
        found[row, codes] += right / total
        slope = [(each * found).sum() for each in values]
        slope.append(((1.0 / count - right / (1.0 - share)) / total).sum())
        return -np.log(total).mean(), -np.array(slope) / len(codes)

    start = [0.5] * len(experts) + [0.02]
    bounds = [(0.0, 10.0)] * len(experts) + [(1e-4, 0.5)]
    best = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-6}).x
    return best[:-1], float(best[-1])


def weight_per_class(block: Block, codes: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Sum the weights of labelled neighbours by class: (m, count)."""
    own = codes[block.indices]
    place = own + count * np.arange(len(own))[:, None]
    known = own >= 0
    total: Any = np.bincount(place[known], block.weights[known], len(own) * count)
    return total.reshape(len(own), count)


class LeaveOneOutRidge:
    """Linear prediction of one-hot labels, in which no node's own label counts.

    The prediction of a linear smoother without node i follows in closed form from its fit and leverage h_i:
    ``(fit_i - h_i y_i) / (1 - h_i)``. So one solve of d equations serves all nodes. Vectors are read block by block.

    Parameters
    ----------
    vectors : (n, d) array
        It may be a memory map.
    codes : (n,) int64
        Class codes; -1 for an unlabelled node, which is predicted only.
    count : int
        Number of classes.
    unit : bool, default=False
        Whether to scale the vectors to unit length first.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.experts import LeaveOneOutRidge
    >>> model = LeaveOneOutRidge(np.array([[0.0], [0.1], [1.0], [1.1]]), np.array([0, 1, 1, 1]), 2)
    >>> model.predict(slice(0, 2)).argmax(axis=1)  # the only node of class 0 gets no support
    array([1, 0])
    """

    def __init__(self, vectors: NDArray[Any], codes: NDArray[np.int64], count: int, unit: bool = False) -> None:
        self.vectors, self.codes, self.count, self.unit = vectors, codes, count, unit
        d = vectors.shape[1]
        labeled = codes >= 0
        n, blocks = int(labeled.sum()), [slice(s, s + BLOCK_NODES) for s in range(0, len(codes), BLOCK_NODES)]
        self.mean = sum(self._read(nodes)[labeled[nodes]].sum(axis=0) for nodes in blocks) / n
        self.prior = np.bincount(codes[labeled], minlength=count) / n
        product, target = np.zeros((d, d)), np.zeros((count, d))
        for nodes in blocks:
            X, own = (self._read(nodes) - self.mean)[labeled[nodes]], codes[nodes][labeled[nodes]]
            product += X.T @ X
            target += sparse.csr_array((np.ones(len(own)), (own, np.arange(len(own)))), (count, len(own))) @ X
        penalty = PENALTY * np.trace(product) / min(n, d) or 1.0
        factor = linalg.cholesky(product + penalty * np.eye(d), lower=True)
        self.coefficients = linalg.cho_solve((factor, True), target.T)
        self.leverage = np.empty(len(codes))
        for nodes in blocks:
            X = linalg.solve_triangular(factor, (self._read(nodes) - self.mean).T, lower=True)
            self.leverage[nodes] = 1.0 / n + np.einsum("ji,ji->i", X, X)

    def _read(self, nodes: slice) -> NDArray[np.float64]:
        X = np.asarray(self.vectors[nodes], dtype=np.float64)
        return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(float).tiny) if self.unit else X

    def predict(self, nodes: slice) -> NDArray[np.float64]:
        """Return the predictions (m, count) of some nodes."""
        own = self.codes[nodes]
        leverage = np.where(own >= 0, self.leverage[nodes], 0.0)
        predicted = self._read(nodes) @ self.coefficients
        predicted += self.prior - self.mean @ self.coefficients
        predicted[np.arange(len(own)), own] -= leverage
        predicted /= np.maximum(1.0 - leverage, 1e-9)[:, None]
        return predicted
