"""Ridge regression of the classes on the vectors, each node predicted without its own label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from asbc.learn.source import BLOCK_NODES

PENALTY = 0.1  # times the mean variance of a direction


class LeaveOneOutRidge:
    """Linear prediction of one-hot labels, in which no node's own label counts.

    The prediction of a linear smoother without node i follows in closed form from its fit and leverage h_i:
    ``(fit_i - h_i y_i) / (1 - h_i)``. So one solve of d equations serves all nodes. Vectors are read block by block.

    Parameters
    ----------
    vectors : (n, d) array
        It may be a memory map.
    codes : (n,) int64
        Class numbers; -1 for an unlabelled node, which is predicted only.
    count : int
        Number of classes.
    unit : bool, default=False
        Whether to scale the vectors to unit length first.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.ridge import LeaveOneOutRidge
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
