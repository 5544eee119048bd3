"""Label propagation: how far do a few labels carry on the graph?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from asbc.kernels.propagate import STRIP, propagate_strips
from asbc.learn.labels import encode_labels

STRIP_BYTES = 256 * 2**20  # of the scores that are iterated together, if one strip per thread does not take more


@dataclass(frozen=True)
class Propagation:
    """Where the labels went.

    Attributes
    ----------
    scores : (n, c) float64
        Score of each class at each node.
    predicted : (n,) int64
        Best class number; -1 where no label arrived. Equal scores go to the smaller class number.
    rounds : int
        The most that any class took.
    converged : bool
        Whether the tolerance was met before the rounds ran out.
    """

    scores: NDArray[np.float64]
    predicted: NDArray[np.int64]
    rounds: int
    converged: bool


def transition(graph: Any, shown: NDArray[np.bool_]) -> sp.csr_array:
    """`P = D^-1 W` with the rows of labelled nodes emptied: they give and do not take.

    Parameters
    ----------
    graph : (n, n) sparse, entries 0 or more
    shown : (n,) bool

    Returns
    -------
    P : (n, n) CSR; every row sums to 1 or is empty
    """
    W = sp.csr_array(graph).astype(np.float64)
    if W.shape[0] != W.shape[1]:
        raise ValueError(f"graph must be square; got shape {W.shape}")
    if len(W.data) and (not np.isfinite(W.data).all() or W.data.min() < 0):
        raise ValueError("graph must have finite entries of 0 or more")
    degree = np.asarray(W.sum(axis=1)).reshape(-1)
    scale = np.where((degree > 0) & ~shown, 1.0 / np.where(degree > 0, degree, 1.0), 0.0)
    P = sp.csr_array(sp.diags_array(scale) @ W)
    P.eliminate_zeros()
    return P


def propagate(
    graph: Any,
    codes: NDArray[np.int64],
    shown: NDArray[np.bool_],
    *,
    n_classes: int | None = None,
    alpha: float = 0.85,
    max_rounds: int = 200,
    tol: float = 1e-6,
) -> Propagation:
    """Iterate `F <- alpha P F + (1 - alpha) Y` from the labels that are shown.

    Parameters
    ----------
    graph : (n, n) sparse, entries 0 or more
    codes : (n,) class numbers from 0; only those of shown nodes are read
    shown : (n,) bool
    n_classes : int, optional
        Default: the largest class number + 1.
    alpha : float in (0, 1)
    max_rounds : int
    tol : float
        Stop when no score is further than this from where the rounds lead; 0 runs every round. Each round
        shrinks the distance by alpha, so the last change c bounds what is left by `c alpha / (1 - alpha)`.

    Returns
    -------
    Propagation
    """
    shown = np.asarray(shown, dtype=bool)
    codes = np.asarray(codes, dtype=np.int64)
    n = int(graph.shape[0])
    if codes.shape != (n,) or shown.shape != (n,):
        raise ValueError(
            f"codes and shown must have one entry a node, shape ({n},); got {codes.shape} and {shown.shape}"
        )
    if not shown.any():
        raise ValueError("shown must name at least one labelled node; got none")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1; got {alpha}")
    if max_rounds < 1:
        raise ValueError(f"max_rounds must be at least 1; got {max_rounds}")
    c = int(codes.max()) + 1 if n_classes is None else n_classes
    P = transition(graph, shown)
    seen = np.flatnonzero(shown)
    bound = max(1.0, alpha / (1.0 - alpha))
    scores = np.empty((n, c))
    most, converged = 0, True
    # Classes do not mix, so some strips of them are worked on at a time: beyond the scores, memory does not go with c.
    together = STRIP * max(numba.get_num_threads(), STRIP_BYTES // (n * STRIP * 8))
    for low in range(0, c, together):
        high = min(low + together, c)
        strips = -(-(high - low) // STRIP)
        source = np.zeros((strips, n, STRIP))
        mine = seen[(codes[seen] >= low) & (codes[seen] < high)]
        source[(codes[mine] - low) // STRIP, mine, (codes[mine] - low) % STRIP] = 1.0 - alpha
        limits, rounds, change = propagate_strips(P.indptr, P.indices, P.data, alpha, source, max_rounds, tol / bound)
        scores[:, low:high] = limits.transpose(1, 0, 2).reshape(n, strips * STRIP)[:, : high - low]
        most, converged = max(most, int(rounds.max())), converged and bool((change < tol / bound).all())
    predicted = np.where(scores.max(axis=1) > 0, scores.argmax(axis=1), -1)
    return Propagation(scores, predicted, most, converged)


def propagation_hits(
    graph: Any, labels: ArrayLike, shown: NDArray[np.bool_], **options: Any
) -> tuple[NDArray[np.bool_], Propagation]:
    """Which nodes propagation gets right. Score it on ``~shown`` only; a node no label reached is wrong.

    Parameters
    ----------
    graph : (n, n) sparse
    labels : (n,) labels of any kind
    shown : (n,) bool
    options
        `alpha`, `max_rounds`, `tol` of :func:`propagate`.

    Returns
    -------
    hits : (n,) bool
    result : Propagation
    """
    codes, classes = encode_labels(labels, graph.shape[0])  # type: ignore[arg-type]
    shown = np.asarray(shown, dtype=bool)
    if shown.all():
        raise ValueError("shown names every node; none is left to predict")
    result = propagate(graph, codes, shown, n_classes=len(classes), **options)
    return result.predicted == codes, result
