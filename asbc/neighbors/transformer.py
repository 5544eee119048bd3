"""Nearest-neighbour search as a step of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from asbc.neighbors.search import RECALL, search_neighbors
from asbc.validation import METRICS, MetricInRepr, metric_vectors, one_of


class NeighborsTransformer(MetricInRepr, TransformerMixin, BaseEstimator):
    """Sparse matrix of distances to the nearest neighbours, for estimators with ``metric="precomputed"``.

    Each row starts with the node itself at distance 0, followed by its k neighbours by distance: the format of
    scikit-learn's ``KNeighborsTransformer(mode="distance")``.

    Parameters
    ----------
    k : int, default=30
        Neighbours per node, excluding the node itself.
    metric : {"cosine", "euclidean"}, default="cosine"
        ``"cosine"`` scales rows to unit length first; distances are then euclidean distances between unit vectors.
    search : {"auto", "exact", "ivf", "hnsw", "nn_descent"}, default="auto"
        The kind of search; see :func:`asbc.search_neighbors`.
    recall : float, default=0.98
        The share of the neighbours that approximate search should find.
    search_options : mapping or None, default=None
        Options of the search.

    Attributes
    ----------
    neighbors_ : Neighbors
        The neighbours of the fitted rows.

    See Also
    --------
    GraphBuilder : a weighted graph on such neighbours.

    Examples
    --------
    >>> import asbc
    >>> from sklearn.cluster import DBSCAN
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> X = load_iris().data
    >>> model = make_pipeline(asbc.NeighborsTransformer(20, metric="euclidean"), DBSCAN(eps=0.5, metric="precomputed"))
    >>> len(set(model.fit_predict(X)))
    3
    """

    def __init__(
        self,
        k: int = 30,
        *,
        metric: str = "cosine",
        search: str = "auto",
        recall: float = RECALL,
        search_options: Mapping[str, int] | None = None,
    ):
        self.k = k
        self.metric = metric
        self.search = search
        self.recall = recall
        self.search_options = search_options

    def fit(self, X: ArrayLike, y: Any = None) -> NeighborsTransformer:
        """Find the neighbours of the rows of `X` (n, d); `y` is ignored."""
        one_of(self.metric, "metric", METRICS)
        self._X = metric_vectors(self, X, reset=True)
        options: dict[str, Any] = dict(self.search_options or {})
        self.neighbors_ = search_neighbors(self._X, self.k, search=self.search, recall=self.recall, **options)
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None) -> sparse.csr_matrix:
        """Return the distances among the rows of `X`: (n, n) CSR matrix with k + 1 entries per row."""
        return sparse.csr_matrix(self.fit(X, y).neighbors_.to_distances(include_self=True))

    def transform(self, X: ArrayLike) -> sparse.csr_matrix:
        """Return the distances from unseen points to the nearest k + 1 fitted rows: (m, n) CSR matrix."""
        check_is_fitted(self)
        queries = metric_vectors(self, X, reset=False)
        found = search_neighbors(self._X, int(self.k) + 1, queries=queries)
        return sparse.csr_matrix(found.to_distances(n_columns=len(self._X)))
