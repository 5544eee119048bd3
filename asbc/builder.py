"""The estimator that turns vectors into a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from asbc.bandwidth import Bandwidth
from asbc.bandwidth.rule import find_rule
from asbc.dimension import ESTIMATORS, Dimension
from asbc.graph import SYMMETRIES, to_graph
from asbc.neighbors.given import given_neighbors
from asbc.neighbors.search import RECALL, check_recall, check_search, search_neighbors
from asbc.rows import Rows, solve_rows
from asbc.validation import (
    METRICS,
    MetricInRepr,
    check_k,
    metric_vectors,
    one_of,
    row_index,
    seed_number,
    true_or_false,
    whole_number,
)
from asbc.weights import Weights, find_weights, normalize_weights, sharpen


class GraphBuilder(MetricInRepr, TransformerMixin, BaseEstimator):
    """Neighbourhood graph on embeddings, with a bandwidth chosen for every node.

    It is a scikit-learn estimator: it can be cloned, used in a pipeline, and have its parameters searched.

    Parameters
    ----------
    weights : {"nnk", "gaussian", "blend", "uniform"} or Weights, default="nnk"
        How neighbours are weighted: by non-negative kernel regression (:class:`NNK`), by the Gaussian kernel
        (:class:`Gaussian`), by the mean of both (:class:`Blend`), or equally (:class:`Uniform`). ``"uniform"`` is the
        plain kNN graph, which needs no bandwidth. A name is short for a rule with its default parameters.
    bandwidth : str or Bandwidth, default="spectral"
        The rule for sigma: ``"spectral"``, ``"perplexity"``, ``"self_tuning"``, ``"density"``, ``"log_log"``,
        ``"dimension_matching"``, ``"max_min"``, ``"fixed"``, ``"median_spectral"``, or a rule such as
        ``SpectralBandwidth(gamma=0.5)``. In a rule given by name, k_mle is 10, or k_cand if that is smaller.
    sharpen : bool, default=False
        Whether to raise each row to a power that falls with its bandwidth; see :func:`sharpen`.
    k_cand : int, default=30
        Candidate neighbours per node, at least 8.
    k_min : int, default=6
        For ``"nnk"`` and ``"blend"``: the number of neighbours up to which a row is filled with the nearest ones, see
        :func:`nnk_weights`; 0 to switch it off. A rule such as ``NNK(k_min=0)`` has its own.
    symmetrize : {"mean", "max", None}, default="mean"
        How the weights of the two directions of an edge become one; None leaves the graph directed.
    metric : {"cosine", "euclidean"}, default="cosine"
        ``"cosine"`` scales the rows of X to unit length and then uses euclidean distances; a row of zeros is an error.
        ``"euclidean"`` uses the rows as they are. Rows that differ much in length cause a :class:`MetricWarning`.
    dimension : {"mst", "levina_bickel", "two_nn"}, default="mst"
        The estimate of intrinsic dimension that the bandwidth is matched to; see :class:`Dimension`.
    n_rep : int, default=5
        Random permutations per node, for ``dimension="mst"``.
    random_state : int, RandomState or None, default=0
        Seeds the permutations, and what approximate search draws.
    search : {"auto", "exact", "ivf", "hnsw", "nn_descent"}, default="auto"
        How neighbours are found. ``"auto"`` is exact up to 20,000 nodes. Above, it uses inverted lists, unless they
        would scan more than 15% of the rows; see :func:`search_neighbors`.
    recall : float, default=0.98
        The share of the neighbours that approximate search is to find.
    search_options : mapping or None, default=None
        Options of the search by name, instead of those that `recall` determines.

    Attributes
    ----------
    graph_ : (n, n) scipy.sparse.csr_array
        The graph: entries of at least 0, no self loops.
    vectors_ : (n, d) array
        The rows of X as they were compared: scaled to unit length for the cosine metric.
    neighbors_ : Neighbors
        The k_cand candidates of every node.
    dimension_ : (n,) array or None
        The intrinsic dimension around every node; None for uniform weights.
    bandwidth_ : BandwidthChoice or None
        The bandwidth of every node, and what the kernel looks like there; None for uniform weights.
    weights_ : (n, k_cand) array
        The weight of every candidate before symmetrising; rows sum to 1.

    See Also
    --------
    asbc.build_graph : the same graph block by block on disk, for sets that do not fit into memory.
    search_neighbors, dim_mst, SpectralBandwidth, nnk_weights, to_graph : the steps, one by one.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> builder = asbc.GraphBuilder(weights="nnk", k_cand=15)
    >>> graph = builder.fit_transform(X)
    >>> graph.shape, builder.bandwidth_.sigma.shape
    ((100, 100), (100,))
    """

    def __init__(
        self,
        weights: str | Weights = "nnk",
        bandwidth: str | Bandwidth = "spectral",
        sharpen: bool = False,
        *,
        k_cand: int = 30,
        k_min: int = 6,
        symmetrize: str | None = "mean",
        metric: str = "cosine",
        dimension: str = "mst",
        n_rep: int = 5,
        random_state: int | np.random.RandomState | None = 0,
        search: str = "auto",
        recall: float = RECALL,
        search_options: Mapping[str, int] | None = None,
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
        self.search = search
        self.recall = recall
        self.search_options = search_options

    def fit(self, X: ArrayLike, y=None, *, neighbors: Any = None) -> GraphBuilder:
        """Build the graph on the rows of `X`.

        Parameters
        ----------
        X : (n, d) array, DataFrame or tensor
            An object array of numbers is converted, as scikit-learn requires; the functions refuse it.
        y : object, default=None
            Ignored; scikit-learn passes it.
        neighbors : Neighbors, (indices, distances), or sparse (n, n) matrix of distances, default=None
            Neighbours found before, at least `k_cand` per node: as faiss, pynndescent or UMAP's ``precomputed_knn``
            return them, or as ``KNeighborsTransformer(mode="distance")`` does. They may contain the node itself, repeat
            ids and be unsorted. Distances are computed again from `X`, and those given must agree with them.

        Returns
        -------
        GraphBuilder
            The estimator itself, fitted.

        Examples
        --------
        >>> import asbc, numpy as np
        >>> X = asbc.normalize(np.random.default_rng(0).normal(size=(50, 3)))
        >>> asbc.GraphBuilder(k_cand=10).fit(X, neighbors=asbc.search_neighbors(X, k=12)).neighbors_.k
        10
        """
        self.check_parameters()
        vectors = metric_vectors(self, X, reset=True)
        k = check_k(self.k_cand, len(vectors), "k_cand")
        seed: Any = self.random_state
        drawn = seed is None or isinstance(seed, np.random.RandomState)
        self._seed = int(check_random_state(seed).randint(2**31 - 1) if drawn else seed)
        if neighbors is None:
            options: dict[str, Any] = dict(self.search_options or {})
            if self.search != "exact":
                options["seed"] = self._seed
            neighbors = search_neighbors(vectors, k, search=self.search, recall=self.recall, **options)
        else:
            neighbors = given_neighbors(vectors, neighbors, k, self.metric)
        solved = self._solve(vectors, neighbors)
        self.dimension_, self.bandwidth_ = solved.dimension, solved.choice
        self.weights_ = normalize_weights(solved.weights)
        self.neighbors_ = neighbors
        self.graph_ = to_graph(neighbors, solved.weights, symmetrize=self.symmetrize)
        self.vectors_ = vectors
        self.index_ = row_index(X)
        return self

    def fit_transform(self, X: ArrayLike, y=None, *, neighbors: Any = None) -> sparse.csr_array:
        """Build the graph on the rows of `X` and return it; the arguments are those of :meth:`fit`."""
        return self.fit(X, y, neighbors=neighbors).graph_

    def transform(self, X: ArrayLike) -> sparse.csr_array:
        """Return the weights of the fitted points for unseen ones.

        A fitted point passed again counts as unseen: it finds itself at distance zero.

        Parameters
        ----------
        X : (m, d) array of any real dtype
            The unseen points.

        Returns
        -------
        (m, n) scipy.sparse.csr_array
            One row per unseen point, one column per fitted one; every row sums to 1, or is empty.

        Examples
        --------
        >>> import asbc, numpy as np
        >>> X = np.random.default_rng(0).normal(size=(50, 8))
        >>> rows = asbc.GraphBuilder(k_cand=10).fit(X[:40]).transform(X[40:])
        >>> rows.shape, bool(np.allclose(rows.sum(axis=1), 1))
        ((10, 40), True)
        """
        check_is_fitted(self)
        queries = metric_vectors(self, X, reset=False)
        neighbors = search_neighbors(self.vectors_, int(self.k_cand), queries=queries)
        rows = self._solve(self.vectors_, neighbors, fitted=self.bandwidth_)
        return to_graph(neighbors, rows.weights, symmetrize=None, n_columns=len(self.vectors_))

    def _solve(self, X, neighbors, fitted=None) -> Rows:
        """Compute the rows of all nodes, or those of queries if `fitted`, the bandwidths of the nodes, is given."""
        weights = self.weight_rule()
        bandwidth = self.bandwidth_rule() if weights.uses_bandwidth else None
        if neighbors.first is not None:  # fitting: queries need the resolved estimate, too
            self._dimension = self.dimension_estimate() if bandwidth or weights.uses_dimension else None
            if self._dimension is not None and not self._dimension.local:
                self._dimension = self._dimension.resolve(self._dimension.summarize(neighbors))
        rows = solve_rows(
            X,
            neighbors,
            dimension=self._dimension,
            bandwidth=bandwidth,
            weights=weights,
            seed=self._seed,
            fitted=fitted,
        ).completed()
        if self.sharpen and bandwidth is not None:
            reference = rows.choice if fitted is None else fitted
            center = float(np.median(reference.sigma))
            rows = replace(rows, weights=sharpen(rows.weights, rows.choice.sigma, center=center))
        return rows

    def dimension_estimate(self) -> Dimension:
        """Return the estimate of dimension that the parameters describe; its k is 10, or k_cand if that is smaller."""
        return Dimension(self.dimension, n_rep=self.n_rep, k=min(10, int(self.k_cand)))

    def bandwidth_rule(self) -> Bandwidth:
        """Return the rule for sigma: `bandwidth`, or the rule that it names, with k_mle at most k_cand."""
        return find_rule(self.bandwidth, Bandwidth, "bandwidth", k=self.k_cand)

    def weight_rule(self) -> Weights:
        """Return the rule for weights: `weights`, or the rule that it names, with the builder's `k_min`."""
        return find_weights(self.weights, self.k_min)

    def check_parameters(self) -> None:
        """Raise an error for parameters that cannot work, before any computation."""
        one_of(self.symmetrize, "symmetrize", SYMMETRIES)
        one_of(self.metric, "metric", METRICS)
        one_of(self.dimension, "dimension", ESTIMATORS)
        true_or_false(self.sharpen, "sharpen")
        k_cand = whole_number(self.k_cand, "k_cand", 8)
        whole_number(self.k_min, "k_min", 0, k_cand, "the candidates of a node")
        weights, bandwidth = self.weight_rule(), self.bandwidth_rule()
        weights.check_parameters(k_cand)
        if weights.uses_bandwidth:
            bandwidth.check_parameters(k_cand)
        self.dimension_estimate()
        check_recall(self.recall)
        check_search(self.search, 2**40, self.search_options or {})
        if not (self.random_state is None or isinstance(self.random_state, np.random.RandomState)):
            seed_number(self.random_state, "random_state", "or a RandomState, or None")
