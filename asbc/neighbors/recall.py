"""How many of the true neighbours an approximate search has found, measured on a sample of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asbc.neighbors.exact import Ids, exact_distances
from asbc.validation import Floats

FEWEST_MEASURED, MOST_MEASURED = 500, 1000  # nodes that recall is measured on: one of 200, within these limits
LEAST_RECALL = 0.9  # share of the neighbours found; where it is less, and none was asked for, there is a warning


class LowRecallWarning(UserWarning):
    """Approximate search has missed more of the neighbours than was asked for, or more than a tenth of them.

    See Also
    --------
    search_neighbors : gives it, and its options say how to look at more.

    Examples
    --------
    >>> import asbc, numpy as np, warnings
    >>> X = np.random.default_rng(0).normal(size=(300, 20))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     neighbors = asbc.search_neighbors(X, k=5, search="ivf", n_lists=30, n_probe=1)
    >>> [warning.category.__name__ for warning in caught], neighbors.recall < 0.9
    (['LowRecallWarning'], True)
    """


@dataclass(frozen=True)
class Recall:
    """Share of the exact neighbours that a search has found, measured on a sample of nodes.

    Attributes
    ----------
    value : float
        The share, from 0 to 1.
    standard_error : float
        Of the value, over the nodes of the sample.
    sample : int
        Nodes measured.

    See Also
    --------
    asbc.Neighbors : carries the value as ``recall``.
    asbc.LowRecallWarning : given where the value is below 0.9.

    Examples
    --------
    >>> from asbc.neighbors import Recall
    >>> recall = Recall(value=0.97, standard_error=0.002, sample=1000)
    >>> f"{recall.value} ± {1.96 * recall.standard_error:.3f}"
    '0.97 ± 0.004'
    """

    value: float
    standard_error: float
    sample: int

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the value."""
        return max(0.0, self.value - 1.96 * self.standard_error), min(1.0, self.value + 1.96 * self.standard_error)


def measure_recall(
    X: Floats,
    source: Floats,
    k: int,
    found: Callable[[Ids], NDArray[np.float64]],
    *,
    among_rows: bool,
    seed: int,
    sample: int | None = None,
) -> Recall:
    """Compare what a search has found with exact search, on nodes drawn by `seed`.

    Parameters
    ----------
    X : (n, d) array
        The rows that were searched.
    source : (m, d) array
        The vectors whose neighbours were looked for.
    k : int
        Neighbours per vector.
    found : function
        Given node numbers (s,), the distances (s, k) that the search has found for them.
    among_rows : bool
        Whether `source` is X itself, so that a node is not its own neighbour.
    seed : int
        Draws the sample.
    sample : int or None, default=None
        Nodes to measure; all of them, if there are fewer. None takes one of 200, from 500 to 1,000.

    Returns
    -------
    Recall
    """
    rng = np.random.default_rng([seed, len(source)])
    count = sample or nodes_measured(len(source))
    nodes = np.sort(rng.choice(len(source), min(count, len(source)), replace=False))
    vectors = np.ascontiguousarray(source[nodes])
    return recall_of(found(nodes), exact_distances(X, vectors, k, nodes if among_rows else None)[1])


def nodes_measured(n: int) -> int:
    """Nodes of n that recall is measured on, unless another number is asked for: one of 200, within limits."""
    return max(FEWEST_MEASURED, min(MOST_MEASURED, n // 200))


def recall_of(found: NDArray[np.float64], exact: NDArray[np.float64]) -> Recall:
    """Recall from the distances `found` (m, k) and the `exact` ones (m, k).

    A neighbour counts as found if it is no farther than the exact k-th neighbour, so that of equally distant ones any
    will do.
    """
    hits = (found <= exact[:, -1:]).mean(axis=1)
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return Recall(float(hits.mean()), error, len(hits))


def warn_of_recall(recall: Recall, search: str, settings: Mapping[str, int], target: float | None = None) -> None:
    """Warn of a recall that is below `target` by more than its interval, or where none was asked for, below 0.9."""
    reached = recall.interval[1] >= target if target is not None else recall.value >= LEAST_RECALL
    if not reached:
        asked = "" if target is None else f" where {target:g} was asked for"
        warnings.warn(
            f"recall is {recall.value:.3f}{asked}, measured on {recall.sample} nodes: neighbours are missing from the "
            "graph. Let the search look at more: raise n_probe of 'ivf', ef_search of 'hnsw' or n_trees of "
            f"'nn_descent'; search={search!r} ran with {dict(settings)}.",
            LowRecallWarning,
            stacklevel=4,
        )
