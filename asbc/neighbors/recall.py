"""Recall of approximate search, estimated on a sample of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asbc.neighbors.exact import Ids, search_exactly
from asbc.validation import Floats

MIN_MEASURED, MAX_MEASURED = 500, 1000  # nodes that recall is measured on: n / 200, within these limits
LOW_RECALL = 0.9  # warn about a recall below this if no target was given


class LowRecallWarning(UserWarning):
    """Warning that approximate search missed more neighbours than requested, or more than 10%.

    See Also
    --------
    search_neighbors : issues it; its options increase the recall.

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
    """Share of the exact neighbours that a search found, estimated on a sample of nodes.

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
    asbc.Neighbors : holds the value as ``recall``.
    asbc.LowRecallWarning : issued if the value is too low.

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
    """Compare the result of a search with exact search, on a sample of the queries `source` (m, d).

    `found` maps node numbers (s,) to the distances (s, k) that the search found among the rows of X. `among_rows` says
    that `source` is X, so that a node is not its own neighbour. `sample` is the size of the sample, by default
    n / 200, from 500 to 1,000.
    """
    rng = np.random.default_rng([seed, len(source)])
    count = sample or max(MIN_MEASURED, min(MAX_MEASURED, len(source) // 200))
    nodes = np.sort(rng.choice(len(source), min(count, len(source)), replace=False))
    vectors = np.ascontiguousarray(source[nodes])
    return recall_of(found(nodes), search_exactly(X, k, vectors, nodes if among_rows else None).distances)


def recall_of(found: NDArray[np.float64], exact: NDArray[np.float64]) -> Recall:
    """Return the recall of the distances `found` (m, k), given the `exact` ones (m, k).

    A neighbour counts as found if it is no farther than the exact k-th neighbour.
    """
    hits = (found <= exact[:, -1:]).mean(axis=1)
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return Recall(float(hits.mean()), error, len(hits))


def warn_of_recall(recall: Recall, search: str, settings: Mapping[str, int], target: float | None = None) -> None:
    """Warn if the 95% interval of the recall lies below `target`, or without a target, if the recall is below 0.9."""
    reached = recall.interval[1] >= target if target is not None else recall.value >= LOW_RECALL
    if not reached:
        aim = "" if target is None else f" instead of {target:g}"
        warnings.warn(
            f"recall is {recall.value:.3f}{aim}, measured on {recall.sample} nodes: the graph lacks neighbours. Raise "
            "n_probe of 'ivf', ef_search of 'hnsw' or n_trees of 'nn_descent'; "
            f"search={search!r} ran with {dict(settings)}.",
            LowRecallWarning,
            stacklevel=3,
        )
