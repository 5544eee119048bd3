"""Rows of weights to a graph, and the estimator that goes the whole way from vectors to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from asbc.bandwidth import (
    Bandwidth,
    BandwidthChoice,
    ConstantNeighborhoodWarning,
    SpectralBandwidth,
    constant_nodes,
    fill_constant,
    joined,
)
from asbc.dimension import dim_mst, levina_bickel
from asbc.kernels.distances import pair_count
from asbc.neighbors import (
    Floats,
    Neighbors,
    as_vectors,
    check_k,
    check_type,
    neighborhoods,
    normalize,
    search_neighbors,
    whole_number,
    with_pairs,
)
from asbc.weights import (
    KINDS,
    EmptyRowWarning,
    Matrix,
    count_empty,
    normalize_weights,
    row_weights,
    sharpen,
    warn_of_empty_rows,
)

_SHARED_BYTES = 512 * 2**20  # distances within neighbourhoods are kept between steps up to this size
_DIMENSIONS = ("mst", "levina_bickel")
_SYMMETRIES = ("max", "mean", None)


def to_graph(
    neighbors: Neighbors, weights: Matrix, *, symmetrize: str | None = "max", n_columns: int | None = None
) -> sparse.csr_array:
    """Sparse adjacency matrix: rows normalised to sum 1, then symmetrised.

    Normalising comes first because rows of different bandwidths are not on one scale.

    Parameters
    ----------
    neighbors : Neighbors
    weights : (n, k) array
    symmetrize : {"max", "mean", None}
    n_columns : int, optional
        Rows of X, where the nodes are queries.

    Returns
    -------
    (n, n_columns) CSR array, float64, no explicit zeros, columns sorted
    """
    check_type(neighbors)
    if symmetrize not in _SYMMETRIES:
        raise ValueError(f"symmetrize must be 'max', 'mean' or None; got {symmetrize!r}.")
    weights = np.asarray(weights, float)
    if weights.shape != neighbors.indices.shape:
        raise ValueError(
            f"weights must have the shape {neighbors.indices.shape} of the neighbours; got {weights.shape}."
        )
    good = np.isfinite(weights) & (weights >= 0)
    if not good.all():
        node = int(np.argmin(good.all(axis=1)))
        raise ValueError(f"weights must be finite and at least 0; node {node} has {weights[node][~good[node]][0]}.")
    n, k = weights.shape
    shape = (n, n if n_columns is None else whole_number(n_columns, "n_columns", 1))
    last = int(neighbors.indices.max(initial=-1))
    if last >= shape[1]:
        raise ValueError(
            f"n_columns must be the number of rows of X, and neighbors refers to row {last}; got {shape[1]}."
        )
    if symmetrize and (shape[1] != n or neighbors.first != 0):
        raise ValueError(
            f"symmetrize={symmetrize!r} needs the neighbours of all rows of X; these are {n} of {shape[1]} rows, or "
            "queries. Pass symmetrize=None."
        )
    rows = normalize_weights(weights)
    # 32-bit indices where they suffice: much of scikit-learn takes no others.
    integer = np.int32 if max(2 * n * k, *shape) < 2**31 else np.int64
    starts = np.arange(0, n * k + 1, k, dtype=integer)
    # A copy: the next two lines work in place, and the indices belong to the caller.
    columns = neighbors.indices.astype(integer, copy=True).ravel()
    graph = sparse.csr_array((rows.ravel(), columns, starts), shape=shape)
    graph.eliminate_zeros()
    graph.sort_indices()
    if symmetrize == "max":
        graph = graph.maximum(graph.T)
    elif symmetrize == "mean":
        graph = (graph + graph.T) / 2
    return sparse.csr_array(graph)


def local_rows(
    X: Floats,
    neighbors: Neighbors,
    rule: Bandwidth,
    dimension_of: Callable[[Neighbors], Matrix],
    kind: str,
    k_min: int,
    fitted: BandwidthChoice | None = None,
) -> tuple[Matrix, BandwidthChoice, Matrix]:
    """Dimension (n,), bandwidth and weights (n, k) under a rule that can look at nodes one by one.

    Nodes are worked on some at a time, and the distances within their neighbourhoods serve all three steps while
    they are at hand: memory beyond the result does not grow with n. Nodes that coincide with all their neighbours
    are left with a bandwidth that only :func:`asbc.bandwidth.fill_constant` can tell, once all nodes are known; their
    weights do not depend on it.

    Parameters
    ----------
    dimension_of : function of neighbours that carry the distances among them
    fitted : BandwidthChoice, optional
        On the rows of X, where `neighbors` are only some of them, or queries.
    """
    dimensions, choices = [], []
    weights = np.empty((neighbors.n, neighbors.k))
    with warnings.catch_warnings():
        # For the caller to say once for all nodes, rather than block by block.
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        warnings.simplefilter("ignore", EmptyRowWarning)
        for rows, pairs in neighborhoods(X, neighbors):
            block = replace(neighbors.rows(rows.start, rows.stop), pairs=pairs)
            dimensions.append(dimension_of(block))
            choices.append(rule.select(None, block, dimensions[-1]))
            weights[rows] = row_weights(kind, None, block, choices[-1], k_min=k_min, fitted=fitted)
    return np.concatenate(dimensions), joined(choices), weights


class GraphBuilder(TransformerMixin, BaseEstimator):
    """Neighbourhood graph on embeddings, with a bandwidth chosen for every node.

    Parameters
    ----------
    weights : {"nnk", "gaussian", "uniform"}
        How neighbours are weighted. ``"uniform"`` is the plain kNN graph; it needs no bandwidth.
    bandwidth : Bandwidth, optional
        The rule for sigma; ``SpectralBandwidth()`` if None.
    sharpen : bool
        Raise each row to a power that falls with its bandwidth.
    k_cand : int
        Candidate neighbours a node, at least 8.
    k_min : int
        The least number of neighbours that NNK may leave a node; 0 for no such floor.
    symmetrize : {"max", "mean", None}
    metric : {"euclidean", "cosine"}
        ``"cosine"`` scales the rows of X to unit length first.
    dimension : {"mst", "levina_bickel"}
        The estimate of intrinsic dimension that the bandwidth is matched to.
    n_rep : int
        Permutations a node for ``"mst"``.
    random_state : int, RandomState or None
        Seeds the permutations.

    Attributes
    ----------
    graph_ : (n, n) CSR array without self loops
    neighbors_ : Neighbors
    dimension_ : (n,) array, None for uniform weights
    bandwidth_ : BandwidthChoice, None for uniform weights
    weights_ : (n, k_cand) array, rows normalised, before symmetrising
    """

    def __init__(
        self,
        weights: str = "nnk",
        bandwidth: Bandwidth | None = None,
        sharpen: bool = False,
        *,
        k_cand: int = 30,
        k_min: int = 6,
        symmetrize: str | None = "max",
        metric: str = "euclidean",
        dimension: str = "mst",
        n_rep: int = 5,
        random_state: int | np.random.RandomState | None = 0,
    ):
        self.weights = weights
        self.bandwidth = bandwidth
        self.sharpen = sharpen
        self.k_cand = k_cand
        self.k_min = k_min
        self.symmetrize = symmetrize
        self.metric = metric
        self.dimension = dimension
        self.n_rep = n_rep
        self.random_state = random_state

    def fit(self, X: ArrayLike, y=None) -> GraphBuilder:
        """Build the graph on the rows of `X` (n, d); `y` is ignored.

        An object array of numbers is converted, as scikit-learn asks of its estimators; the functions refuse it.
        """
        self._check_parameters()
        vectors = self._vectors(X, reset=True)
        neighbors = search_neighbors(vectors, check_k(self.k_cand, len(vectors), "k_cand"))
        self._seed = int(
            self.random_state
            if isinstance(self.random_state, int | np.integer)
            else check_random_state(self.random_state).randint(2**31 - 1)
        )
        self.dimension_, self.bandwidth_, rows = self._rows(vectors, neighbors)
        self.weights_ = normalize_weights(rows)
        self.neighbors_ = neighbors
        self.graph_ = to_graph(neighbors, rows, symmetrize=self.symmetrize)
        self._X = vectors
        return self

    def fit_transform(self, X: ArrayLike, y=None) -> sparse.csr_array:
        """The graph on the rows of `X`: (n, n) CSR array, entries at least 0, no self loops."""
        return self.fit(X, y).graph_

    def transform(self, X: ArrayLike) -> sparse.csr_array:
        """Rows for unseen points against the fitted ones: (m, n) CSR array, each row summing to 1.

        A fitted point passed again is treated as unseen: it finds itself at distance zero.
        """
        check_is_fitted(self)
        queries = self._vectors(X, reset=False)
        neighbors = search_neighbors(self._X, int(self.k_cand), queries=queries)
        _, _, rows = self._rows(self._X, neighbors, fitted=self.bandwidth_)
        return to_graph(neighbors, rows, symmetrize=None, n_columns=len(self._X))

    def _rows(self, X, neighbors, fitted=None):
        """Dimension, bandwidth and weights of nodes; of queries, if what was fitted on X is given."""
        if self.weights == "uniform":
            return None, None, row_weights(self.weights, X, neighbors, None)
        rule = self._rule()
        if rule.local:
            dimension, choice, rows = local_rows(
                X, neighbors, rule, lambda block: self._dimension_of(None, block), self.weights, self.k_min, fitted
            )
            choice = replace(choice, sigma=fill_constant(choice.sigma, constant_nodes(rule, neighbors)))
            warn_of_empty_rows(count_empty(rows), neighbors.n)
        else:
            if neighbors.n * int(pair_count(neighbors.k)) * 8 <= _SHARED_BYTES:
                neighbors = with_pairs(X, neighbors)
            dimension = self._dimension_of(X, neighbors)
            choice = (
                rule.select(X, neighbors, dimension) if fitted is None else rule.extend(fitted, X, neighbors, dimension)
            )
            rows = row_weights(self.weights, X, neighbors, choice, k_min=self.k_min, fitted=fitted)
        if self.sharpen:
            reference = choice if fitted is None else fitted
            rows = sharpen(rows, choice.sigma, center=float(np.median(reference.sigma)))
        return dimension, choice, rows

    def _dimension_of(self, X, neighbors):
        if self.dimension == "mst":
            return dim_mst(X, neighbors, n_rep=self.n_rep, seed=self._seed)
        return levina_bickel(neighbors, k=min(10, neighbors.k))

    def _rule(self) -> Bandwidth:
        # The rule's own default, where there are so many neighbours.
        return SpectralBandwidth(k_mle=min(10, int(self.k_cand))) if self.bandwidth is None else self.bandwidth

    def _vectors(self, X: ArrayLike, reset: bool) -> Floats:
        if X is None or (isinstance(X, np.ndarray | list | tuple) and np.ndim(X) != 2):
            as_vectors(X)  # says more than scikit-learn would
        # scikit-learn checks shape, names and sparsity; values and precision are checked by our own functions.
        X = validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=reset)
        return normalize(X) if self.metric == "cosine" else as_vectors(X)

    def _check_parameters(self) -> None:
        if self.weights not in KINDS:
            raise ValueError(f"weights must be one of {', '.join(map(repr, KINDS))}; got {self.weights!r}.")
        if self.symmetrize not in _SYMMETRIES:
            raise ValueError(f"symmetrize must be 'max', 'mean' or None; got {self.symmetrize!r}.")
        if self.metric not in ("euclidean", "cosine"):
            raise ValueError(f"metric must be 'euclidean' or 'cosine'; got {self.metric!r}.")
        if self.dimension not in _DIMENSIONS:
            raise ValueError(f"dimension must be 'mst' or 'levina_bickel'; got {self.dimension!r}.")
        if self.bandwidth is not None and not isinstance(self.bandwidth, Bandwidth):
            raise TypeError(
                f"bandwidth must be a rule such as asbc.SpectralBandwidth() or asbc.Fixed(0.5); got {self.bandwidth!r}."
            )
        k_cand = whole_number(self.k_cand, "k_cand", 8)
        whole_number(self.k_min, "k_min", 0, k_cand, "the candidates of a node")
        whole_number(self.n_rep, "n_rep", 1)
        if not isinstance(self.sharpen, bool | np.bool_):
            raise TypeError(f"sharpen must be True or False; got {self.sharpen!r}.")
        if isinstance(self.random_state, int | np.integer):
            whole_number(self.random_state, "random_state", 0, 2**63 - 1)
