"""Rows of weights to a graph, and the estimator that goes the whole way from vectors to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from asbc.bandwidth import Bandwidth, SpectralBandwidth
from asbc.dimension import ESTIMATORS, Dimension
from asbc.neighbors.search import search_neighbors
from asbc.neighbors.types import Neighbors, check_type
from asbc.rows import Rows, solve_rows
from asbc.validation import (
    LARGEST_SEED,
    Floats,
    as_vectors,
    check_k,
    normalize,
    one_of,
    true_or_false,
    whole_number,
)
from asbc.weights import KINDS, Matrix, normalize_weights, sharpen

SYMMETRIES = ("max", "mean", None)
METRICS = ("euclidean", "cosine")


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
    one_of(symmetrize, "symmetrize", SYMMETRIES)
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
    dimension : {"mst", "levina_bickel", "two_nn"}
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
        self.check_parameters()
        vectors = self._vectors(X, reset=True)
        neighbors = search_neighbors(vectors, check_k(self.k_cand, len(vectors), "k_cand"))
        self._seed = int(
            self.random_state
            if isinstance(self.random_state, int | np.integer)
            else check_random_state(self.random_state).randint(2**31 - 1)
        )
        solved = self._solve(vectors, neighbors)
        self.dimension_, self.bandwidth_, rows = solved.dimension, solved.choice, solved.weights
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
        rows = self._solve(self._X, neighbors, fitted=self.bandwidth_)
        return to_graph(neighbors, rows.weights, symmetrize=None, n_columns=len(self._X))

    @property
    def vectors_(self) -> Floats:
        """The vectors (n, d) that the graph was built on; of unit length for ``metric="cosine"``."""
        check_is_fitted(self)
        return self._X

    def _solve(self, X, neighbors, fitted=None) -> Rows:
        """Dimension, bandwidth and weights of nodes; of queries, if what was fitted on X is given."""
        if self.weights == "uniform":
            return solve_rows(X, neighbors, weights=self.weights)
        if fitted is None:
            self._dimension = self.dimension_estimate()
            if not self._dimension.local:  # kept resolved, so that queries can ask the fitted rows
                self._dimension = self._dimension.resolve(self._dimension.summarize(neighbors))
        rows = solve_rows(
            X,
            neighbors,
            dimension=self._dimension,
            bandwidth=self.bandwidth_rule(),
            weights=self.weights,
            k_min=self.k_min,
            seed=self._seed,
            fitted=fitted,
        ).completed()
        if self.sharpen:
            assert rows.choice is not None and rows.weights is not None
            reference = rows.choice if fitted is None else fitted
            center = float(np.median(reference.sigma))
            rows = replace(rows, weights=sharpen(rows.weights, rows.choice.sigma, center=center))
        return rows

    def dimension_estimate(self) -> Dimension:
        """The estimate of dimension that the parameters name."""
        return Dimension(self.dimension, n_rep=self.n_rep, k=min(10, int(self.k_cand)))

    def bandwidth_rule(self) -> Bandwidth:
        """The rule for sigma: `bandwidth`, or the default one, whose k_mle never exceeds the candidates there are."""
        return SpectralBandwidth(k_mle=min(10, int(self.k_cand))) if self.bandwidth is None else self.bandwidth

    def _vectors(self, X: ArrayLike, reset: bool) -> Floats:
        if X is None or (isinstance(X, np.ndarray | list | tuple) and np.ndim(X) != 2):
            as_vectors(X)  # says more than scikit-learn would
        # scikit-learn checks shape, names and sparsity; values and precision are checked by our own functions.
        X = validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=reset)
        return normalize(X) if self.metric == "cosine" else as_vectors(X)

    def check_parameters(self) -> None:
        """Refuse parameters that cannot work, before any work."""
        one_of(self.weights, "weights", KINDS)
        one_of(self.symmetrize, "symmetrize", SYMMETRIES)
        one_of(self.metric, "metric", METRICS)
        one_of(self.dimension, "dimension", ESTIMATORS)
        if self.bandwidth is not None and not isinstance(self.bandwidth, Bandwidth):
            raise TypeError(
                f"bandwidth must be a rule such as asbc.SpectralBandwidth() or asbc.Fixed(0.5); got {self.bandwidth!r}."
            )
        k_cand = whole_number(self.k_cand, "k_cand", 8)
        whole_number(self.k_min, "k_min", 0, k_cand, "the candidates of a node")
        whole_number(self.n_rep, "n_rep", 1)
        true_or_false(self.sharpen, "sharpen")
        if isinstance(self.random_state, int | np.integer):
            whole_number(self.random_state, "random_state", 0, LARGEST_SEED)
