"""The pipeline from neighbours to rows of weights: dimension, bandwidth, weights.

:class:`asbc.GraphBuilder`, every block of ``asbc-build`` and the experiments all use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.bandwidth import Bandwidth, BandwidthChoice
from asbc.bandwidth.rule import check_dimension, fill_constant, join_choices, split_constant, with_kernels
from asbc.dimension import Dimension
from asbc.kernels.distances import pair_count
from asbc.neighbors.types import Neighbors, blocks_with_pairs, check_type, vectors_for, with_pairs
from asbc.validation import Floats, weight_rows
from asbc.weights import Matrix, Neighborhoods, Weights, count_empty, find_weights, warn_of_empty_rows

# Distances within neighbourhoods are kept from step to step if all of them take no more bytes than this.
SHARED_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Rows:
    """What was computed for n nodes; a step that was not requested is None.

    Attributes
    ----------
    dimension : (n,) array
    choice : BandwidthChoice
    weights : (n, k) array, not normalised
    constant : (n,) bool
        Nodes that coincide with all their neighbours: their bandwidth depends on all other nodes.
    """

    dimension: NDArray[np.float64] | None = None
    choice: Any = None
    weights: Any = None
    constant: NDArray[np.bool_] | None = None

    def completed(self) -> Rows:
        """Finish after the last block: fill constant nodes with the median bandwidth and warn about empty rows."""
        choice = self.choice
        if choice is not None and self.constant is not None:
            choice = replace(choice, sigma=fill_constant(choice.sigma, self.constant))
        if self.weights is not None:
            warn_of_empty_rows(count_empty(self.weights), len(self.weights))
        return replace(self, choice=choice)


def solve_rows(
    X: Floats | None,
    neighbors: Neighbors,
    *,
    dimension: Dimension | NDArray[np.float64] | None = None,
    bandwidth: Bandwidth | BandwidthChoice | None = None,
    weights: Weights | str | None = None,
    seed: int = 0,
    fitted: BandwidthChoice | None = None,
    report: bool = False,
) -> Rows:
    """Compute dimension, bandwidth and weights of nodes, as far as they are requested.

    Nodes are processed in blocks, and the distances within a block's neighbourhoods serve all three steps, so memory
    beyond the result does not grow with n. A rule that needs all nodes is resolved first, so `neighbors` must
    then be those of all rows of X. No step warns; ``completed()`` does, once for all nodes.

    Parameters
    ----------
    X : (N, d) array, or None if `neighbors` carries the distances within neighbourhoods
    neighbors : Neighbors of n nodes
    dimension : Dimension, or its values (n,), optional
    bandwidth : Bandwidth, or its choice for the n nodes, optional
    weights : Weights, or the name of one, optional
    seed : int, default=0
        Of the dimension.
    fitted : BandwidthChoice, optional
        The choice on all rows of X, if the nodes are queries or some of the rows.
    report : bool, default=False
        Whether to compute rank, slope and objective of the choice now, while the distances are in memory, instead of
        when they are first read.

    Returns
    -------
    Rows; call ``completed()`` on it if these are all nodes
    """
    check_type(neighbors)
    weigher = None if weights is None else find_weights(weights)
    shared = neighbors
    if isinstance(dimension, Dimension) and not dimension.local:
        dimension = dimension.resolve(dimension.summarize(neighbors))
    if isinstance(bandwidth, Bandwidth):
        bandwidth.check_parameters(neighbors.k)
        if fitted is not None:
            bandwidth = bandwidth.rule_for_queries(fitted)
        elif not bandwidth.local:
            if neighbors.n * int(pair_count(neighbors.k)) * 8 <= SHARED_BYTES:
                shared = with_pairs(X, neighbors)
            if isinstance(dimension, Dimension):  # once for the rule and for the rows
                dimension = solve_rows(X, shared, dimension=dimension, seed=seed).dimension
            while not bandwidth.local:
                bandwidth = bandwidth.resolve(survey_rows(X, shared, bandwidth, dimension))
        if fitted is None:
            fitted = bandwidth.all_rows
    elif bandwidth is not None and fitted is None:
        fitted = bandwidth

    dimensions, choices, constants = [], [], []
    out: Any = None if weigher is None else np.empty((neighbors.n, neighbors.k))
    pairs_needed = isinstance(dimension, Dimension) or isinstance(bandwidth, Bandwidth)
    blocks: Iterable[tuple[slice, Neighbors]] = [(slice(0, neighbors.n), neighbors)]
    if pairs_needed or (weigher is not None and weigher.uses_pairs):
        blocks = blocks_with_pairs(X, shared)
    for rows, block in blocks:
        if isinstance(dimension, Dimension):
            values = dimension(None, block, seed)
            dimensions.append(values)
        else:
            values = _part(dimension, rows)
        choice = None
        if isinstance(bandwidth, Bandwidth):
            choice, constant = split_constant(bandwidth.choose(None, block, values), block)
            if report and choice.kernels is None:
                reported: Any = with_kernels(choice, None, block, values)
                choice = replace(choice, kernels=reported.kernels())
            choices.append(choice)
            constants.append(constant)
        elif bandwidth is not None:
            reweight = _part(bandwidth.reweight, rows)
            choice = BandwidthChoice(bandwidth.sigma[rows], mutual=bandwidth.mutual, reweight=reweight)
        if weigher is not None:
            if weigher.uses_bandwidth and choice is None:
                raise ValueError(f"a bandwidth choice is needed for {weigher!r}: pass what a bandwidth rule selects.")
            made = weigher.rows(Neighborhoods(block, choice, values, choice if fitted is None else fitted))
            out[rows] = weight_rows(made, block.indices.shape)
    found: Any = np.concatenate(dimensions) if dimensions else dimension
    if choices:
        bandwidth = with_kernels(join_choices(choices), X, neighbors, found)
    return Rows(found, bandwidth, out, np.concatenate(constants) if constants else None)


def _part(values, rows: slice):
    return None if values is None else values[rows]


def survey_rows(
    X: Floats | None, neighbors: Neighbors, rule: Bandwidth, dimension: NDArray[np.float64] | None
) -> dict[str, NDArray[Any]]:
    """Return the summary of these nodes for a rule that needs all nodes: arrays with one row per node, by name."""
    if not rule.uses_dimension:
        return dict(rule.summarize(X, neighbors, None))
    parts = [rule.summarize(None, block, _part(dimension, rows)) for rows, block in blocks_with_pairs(X, neighbors)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def row_weights(
    weights: Weights | str,
    X: ArrayLike | None,
    neighbors: Neighbors,
    choice: BandwidthChoice | None = None,
    *,
    dimension: ArrayLike | None = None,
    k_min: int = 6,
    fitted: BandwidthChoice | None = None,
) -> Matrix:
    """Weights by any rule, given the bandwidths.

    Parameters
    ----------
    weights : Weights or {"uniform", "gaussian", "nnk", "blend"}
        The rule, or its name.
    X : (N, d) array or None
        The vectors. "nnk" and "blend" need them, unless `neighbors` carries the distances within neighbourhoods.
    neighbors : Neighbors
        The neighbours of n nodes, k per node.
    choice : BandwidthChoice or None, default=None
        The bandwidths of the n nodes, as a rule selects them; "uniform" needs none.
    dimension : (n,) array or None, default=None
        The intrinsic dimension around each node; "blend" needs it.
    k_min : int, default=6
        For "nnk" and "blend" given by name; see :func:`nnk_weights`.
    fitted : BandwidthChoice or None, default=None
        The choice on all rows of X, if `neighbors` and `choice` are those of queries or of some of the rows.

    Returns
    -------
    (n, k) float64
        At least 0; rows are not normalised.

    See Also
    --------
    Weights : the protocol of rules.
    to_graph : the next step.

    Examples
    --------
    >>> import asbc
    >>> X = [[0.0], [1.0], [3.0]]
    >>> neighbors = asbc.search_neighbors(X, k=2)
    >>> choice = asbc.Fixed(1.0).select(X, neighbors)
    >>> asbc.row_weights("gaussian", X, neighbors, choice).round(2)
    array([[0.61, 0.01],
           [0.61, 0.14],
           [0.14, 0.01]])
    """
    for name, value in (("choice", choice), ("fitted", fitted)):
        if value is not None and not isinstance(value, BandwidthChoice):
            raise TypeError(f"{name} must be asbc.BandwidthChoice, as a rule selects it; got {type(value).__name__}.")
    rule = find_weights(weights, k_min)
    check_type(neighbors)
    rule.check_parameters(neighbors.k)
    vectors = vectors_for(X, neighbors) if rule.uses_pairs else None
    values = None if dimension is None else check_dimension(dimension, neighbors)
    found = solve_rows(vectors, neighbors, dimension=values, bandwidth=choice, weights=rule, fitted=fitted)
    return found.completed().weights
