"""How many of the true neighbours an approximate search has found, measured on a sample of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asbc.neighbors.exact import Ids, exact_distances
from asbc.validation import Floats

SAMPLE_NODES = 1000  # nodes that recall is measured on, unless another number is asked for
LEAST_RECALL = 0.9  # below it there is a warning where no recall was asked for


class LowRecallWarning(UserWarning):
    """Approximate search has missed more of the neighbours than was asked for, or more than a tenth of them."""


@dataclass(frozen=True)
class Recall:
    """Share of the exact neighbours that were found, measured on a sample of nodes.

    Attributes
    ----------
    value : float
    standard_error : float
        Over the nodes of the sample.
    sample : int
        Nodes measured.
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
    sample: int = SAMPLE_NODES,
) -> Recall:
    """Compare what a search has found with exact search, on nodes drawn by `seed`.

    Parameters
    ----------
    X : (n, d) the rows that were searched
    source : (m, d) the vectors whose neighbours were looked for
    k : int
    found : function of node numbers (s,) that gives the distances (s, k) found for them
    among_rows : bool
        Whether `source` is X itself, so that a node is not its own neighbour.
    seed : int
    sample : int, default=1000
    """
    rng = np.random.default_rng([seed, len(source)])
    nodes = np.sort(rng.choice(len(source), min(sample, len(source)), replace=False))
    vectors = np.ascontiguousarray(source[nodes])
    return recall_of(found(nodes), exact_distances(X, vectors, k, nodes if among_rows else None)[1])


def recall_of(found: NDArray[np.float64], exact: NDArray[np.float64]) -> Recall:
    """Recall from distances (m, k): a neighbour no farther than the exact k-th counts, whichever of equals it is."""
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
            f"graph. Look at more, by the options of search={search!r}: {dict(settings)}.",
            LowRecallWarning,
            stacklevel=4,
        )
