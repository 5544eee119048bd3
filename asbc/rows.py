"""The one way from neighbours to rows of weights: dimension, bandwidth, weights.

:class:`asbc.GraphBuilder`, a block of ``asbc-build`` and the experiments all go this way.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.bandwidth.choice import BandwidthChoice, bare_choice, changed
from asbc.bandwidth.report import gathered, held_by
from asbc.bandwidth.rule import Bandwidth, ConstantNeighborhoodWarning, fill_constant
from asbc.dimension import Dimension
from asbc.kernels.distances import pair_count
from asbc.neighbors.types import Neighbors, blocks_with_pairs, check_type, with_pairs
from asbc.validation import Floats
from asbc.weights import (
    EmptyRowWarning,
    Matrix,
    blend_weights,
    count_empty,
    row_weights,
    uniform_weights,
    warn_of_empty_rows,
)

# Distances within neighbourhoods are kept from step to step if all of them take no more bytes than this.
SHARED_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Rows:
    """What was worked out for n nodes; a step that was not asked for is None.

    Attributes
    ----------
    dimension : (n,) array
    choice : BandwidthChoice
    weights : (n, k) array, rows as solved, not normalised
    constant : (n,) bool
        Nodes whose bandwidth only all the others can tell, because they coincide with all their neighbours.
    """

    dimension: NDArray[np.float64] | None = None
    choice: BandwidthChoice | None = None
    weights: Matrix | None = None
    constant: NDArray[np.bool_] | None = None

    def completed(self) -> Rows:
        """The same, once these are all nodes: constant ones take the median bandwidth, and empty rows are told."""
        choice = self.choice
        if choice is not None and self.constant is not None:
            choice = changed(choice, sigma=fill_constant(choice.sigma, self.constant))
        if self.weights is not None:
            warn_of_empty_rows(count_empty(self.weights), len(self.weights))
        return replace(self, choice=choice)


def solve_rows(
    X: Floats | None,
    neighbors: Neighbors,
    *,
    dimension: Dimension | NDArray[np.float64] | None = None,
    bandwidth: Bandwidth | BandwidthChoice | None = None,
    weights: str | None = None,
    k_min: int = 6,
    seed: int = 0,
    fitted: BandwidthChoice | None = None,
    report: bool = False,
) -> Rows:
    """Dimension, bandwidth and weights of nodes, as far as they are asked for.

    Nodes are worked on some at a time, and the distances within their neighbourhoods serve all three steps while
    they are at hand: memory beyond the result does not grow with n. A rule that needs all nodes is resolved first
    (see :mod:`asbc.bandwidth.rule`), so `neighbors` must then be those of all rows of X; a block of them, or queries,
    need a rule and an estimate that are local, or what was `fitted`.

    Parameters
    ----------
    X : (N, d) array, or None if `neighbors` carries the distances within neighbourhoods
    neighbors : Neighbors of n nodes
    dimension : Dimension, or its values (n,), optional
    bandwidth : Bandwidth, or the choice (n nodes) that it has already made, optional
    weights : {"uniform", "gaussian", "nnk", "blend"}, optional
    k_min : int, default=6
        See :func:`asbc.nnk_weights`.
    seed : int, default=0
        Of the dimension.
    fitted : BandwidthChoice, optional
        On all rows of X, where the nodes are queries.
    report : bool, default=False
        Whether rank, slope and objective of the choice are worked out now, while distances are at hand, and not when
        they are first asked for.

    Returns
    -------
    Rows; call ``completed()`` on it if these are all the nodes there are
    """
    check_type(neighbors)
    kept = neighbors
    if weights == "uniform" and bandwidth is None and dimension is None:
        return Rows(weights=uniform_weights(neighbors))
    if isinstance(dimension, Dimension) and not dimension.local:
        dimension = dimension.resolve(dimension.summarize(neighbors))
    if isinstance(bandwidth, Bandwidth) and not bandwidth.local and fitted is None:
        if neighbors.n * int(pair_count(neighbors.k)) * 8 <= SHARED_BYTES:
            neighbors = with_pairs(X, neighbors)
        if dimension is not None:  # once for the rule and for the rows
            dimension = solve_rows(X, neighbors, dimension=dimension, seed=seed).dimension
        while not bandwidth.local:
            bandwidth = bandwidth.resolve(survey_rows(X, neighbors, bandwidth, dimension))
    if dimension is None and isinstance(bandwidth, BandwidthChoice) and weights == "gaussian":
        return Rows(choice=bandwidth, weights=row_weights(weights, None, neighbors, bandwidth, fitted=fitted))
    return _solve_blocks(X, neighbors, dimension, bandwidth, weights, k_min, seed, fitted, report, kept)


def survey_rows(
    X: Floats | None, neighbors: Neighbors, rule: Bandwidth, dimension: NDArray[np.float64] | None
) -> dict[str, NDArray[Any]]:
    """What a rule that needs all nodes asks of these ones: arrays with a row per node, by name."""
    if not rule.uses_dimension:
        return dict(rule.summarize(X, neighbors, None))
    with _told_once():
        parts = [rule.summarize(None, block, _part(dimension, rows)) for rows, block in blocks_with_pairs(X, neighbors)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _solve_blocks(X, neighbors, dimension, bandwidth, kind, k_min, seed, fitted, report, kept) -> Rows:
    rule = bandwidth if isinstance(bandwidth, Bandwidth) else None
    given = bandwidth if isinstance(bandwidth, BandwidthChoice) else None
    everyone = fitted if fitted is not None else given if rule is None else rule.whole
    dimensions, choices = [], []
    weights = None if kind is None else np.empty((neighbors.n, neighbors.k))
    with _told_once():
        for rows, block in blocks_with_pairs(X, neighbors):
            values = _part(dimension, rows)
            if isinstance(dimension, Dimension):
                values = dimension(None, block, seed)
                dimensions.append(values)
            choice = None if given is None else _of(given, rows)
            if rule is not None:
                choose = rule.select if fitted is None else _extension(rule, fitted)
                choice = choose(None, block, values)
                if report:
                    _ = choice.effective_rank  # which works out all three
                choices.append(held_by(choice, X, kept.rows(rows.start, rows.stop)))
            if weights is not None and kind == "blend":
                assert choice is not None
                weights[rows] = blend_weights(block, values, choice, k_min=k_min, fitted=everyone)
            elif weights is not None:
                weights[rows] = row_weights(kind, None, block, choice, k_min=k_min, fitted=everyone)
    return Rows(
        np.concatenate(dimensions) if dimensions else dimension,
        gathered(choices, X, kept) if choices else given,
        weights,
        rule.constant(neighbors) if rule is not None and rule.local else None,
    )


def _extension(rule: Bandwidth, fitted: BandwidthChoice):
    return lambda X, block, dimension: rule.extend(fitted, X, block, dimension)


def _part(values, rows: slice):
    return values[rows] if isinstance(values, np.ndarray) else None


def _of(choice: BandwidthChoice, rows: slice) -> BandwidthChoice:
    """What weights need of the part of a choice that belongs to some nodes."""
    reweight = None if choice.reweight is None else choice.reweight[rows]
    return bare_choice(choice.sigma[rows], mutual=choice.mutual, reweight=reweight)


class _told_once(warnings.catch_warnings):
    """No warnings block by block: they are for the caller to give, once for all nodes."""

    def __enter__(self):
        entered = super().__enter__()
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        warnings.simplefilter("ignore", EmptyRowWarning)
        return entered
