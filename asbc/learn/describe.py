"""A report on vectors: dimension, hubs, components, duplicates, outliers and the vote of neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.dimension import LARGEST, SMALLEST, SMALLEST_TREE
from asbc.kernels.mst import tree_lengths
from asbc.learn.duplicates import Duplicates, find_duplicates, linked_pieces, scale_and_dimension
from asbc.learn.issues import wilson_interval
from asbc.learn.labels import align_rows, encode_partial
from asbc.learn.predict import vote_of_rows
from asbc.learn.source import open_source, row_blocks
from asbc.validation import as_vectors, normalize

FENCE = 3.0  # an outlier lies this many quartile ranges above the upper quartile of the log scores
HUBS = 10  # hubs that are named, the biggest ones
TREE_ROWS = 2000  # vectors, drawn at random, that the global dimension is estimated on
N_SUBSETS = 16  # random subsets of each size for the global dimension


@dataclass(frozen=True, repr=False)
class Description:
    """The result of :func:`describe`. Its ``repr`` is a short report.

    Attributes
    ----------
    n, k : int
        Nodes, and neighbours per node.
    metric : str
        Of the neighbours: "cosine" or "euclidean".
    d : int or None
        Columns of the vectors; None if they were not given.
    global_dimension : float or None
        Dimension of all vectors together; None if they were not given. See :func:`global_dimension`.
    global_interval : (float, float) or None
        95% interval of it.
    dimension : (n,) float64
        Dimension around each node.
    dimension_quartiles : (3,) float64
        Lower quartile, median and upper quartile of `dimension`.
    at_smallest, at_largest : int
        Nodes whose dimension is clipped to 1 or to 200.
    effective_rank : float or None
        Effective rank of all vectors; None if they were not given.
    occurrence : (n,) int64
        Number of nodes that have a node as a neighbour.
    hubness : float
        Skewness of the occurrence; above about 1.5, a few nodes are neighbours of very many.
    antihubs : float
        Share of nodes that are no node's neighbour.
    hubs : (10,) int64
        The nodes with the largest occurrence, the largest first.
    components : int
        Number of connected components, directions ignored.
    component : (n,) int64
        The smallest node of each node's component.
    duplicates : Duplicates
        Groups of near-duplicate nodes.
    outlier_score : (n,) float64
        Distance to a node's k-th neighbour, divided by the median of the same distance at its neighbours: about 1
        where the density equals that of the surroundings, more for isolated nodes.
    outlier_threshold : float
        Upper quartile of the scores plus three interquartile ranges, on a log scale.
    outliers : (m,) int64
        Nodes above the threshold, the largest score first.
    scale : (n,) float64
        Distance to each node's k-th neighbour.
    loo_accuracy : float or None, default=None
        Leave-one-out accuracy of the neighbours' vote; None without labels.
    loo_interval : (float, float) or None, default=None
        Wilson's 95% interval of it.
    n_labeled, n_classes : int, default=0
        Nodes with a label, and classes; 0 without labels.

    See Also
    --------
    describe : computes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> found = asbc.describe(np.random.default_rng(0).normal(size=(200, 3)))
    >>> found.n, found.d, found.dimension.shape
    (200, 3, (200,))
    """

    n: int
    k: int
    metric: str
    d: int | None
    global_dimension: float | None
    global_interval: tuple[float, float] | None
    dimension: NDArray[np.float64]
    dimension_quartiles: NDArray[np.float64]
    at_smallest: int
    at_largest: int
    effective_rank: float | None
    occurrence: NDArray[np.int64]
    hubness: float
    antihubs: float
    hubs: NDArray[np.int64]
    components: int
    component: NDArray[np.int64]
    duplicates: Duplicates
    outlier_score: NDArray[np.float64]
    outlier_threshold: float
    outliers: NDArray[np.int64]
    scale: NDArray[np.float64]
    loo_accuracy: float | None = None
    loo_interval: tuple[float, float] | None = None
    n_labeled: int = 0
    n_classes: int = 0

    @property
    def density(self) -> NDArray[np.float64]:
        """(n,) float64: the median of all scales divided by a node's own; inf among copies."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.median(self.scale) / self.scale
        return np.where(self.scale > 0, ratio, np.inf)

    def __repr__(self) -> str:
        width = "" if self.d is None else f" x {self.d}"
        lines = {
            "vectors": f"{self.n:,}{width}, {self.k} neighbours each by the {self.metric} metric",
            "dimension": "local median {1:.1f} (quartiles {0:.1f} to {2:.1f})".format(*self.dimension_quartiles),
        }
        if self.global_dimension is not None and self.global_interval is not None:
            lines["dimension"] += "; global {:.1f} [{:.1f}, {:.1f}]".format(
                self.global_dimension, *self.global_interval
            )
            lines["effective rank"] = f"{self.effective_rank:.1f} of {min(self.n, self.d or self.n):,}"
        hub, largest = self.hubs[0], np.bincount(self.component).max() / self.n
        copies = self.duplicates
        lines |= {
            "hubness": f"skewness {self.hubness:.2f}; {self.antihubs:.1%} of nodes are no node's neighbour, "
            f"node {hub} is a neighbour of {self.occurrence[hub]:,}",
            "components": f"{self.components:,}, the largest has {largest:.1%} of the nodes",
            "duplicates": f"{len(copies.groups):,} groups, {len(copies.redundant):,} redundant nodes "
            f"(threshold {copies.threshold:.2g})",
            "outliers": f"{len(self.outliers):,} (score above {self.outlier_threshold:.2f})",
        }
        if self.loo_accuracy is not None and self.loo_interval is not None:
            share = "{:.1%} right [{:.1%}, {:.1%}]".format(self.loo_accuracy, *self.loo_interval)
            lines["neighbours' vote"] = f"{share} of {self.n_labeled:,} labels, {self.n_classes:,} classes"
        return "\n".join(f"{name + ':':17s} {text}" for name, text in lines.items())


def describe(
    source: Any, labels: ArrayLike | None = None, *, vectors: ArrayLike | None = None, metric: str | None = None
) -> Description:
    """Describe vectors by their neighbourhoods: dimension, hubs, components, duplicates, outliers, and labels if given.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a ``GraphBuilder`` is fitted first. A folder is read block by block.
    labels : (n,) array-like or None, default=None
        -1, None, NaN or "" where a node is unlabelled. A pandas Series is aligned with the index of the vectors.
    vectors : (n, d) array-like or None, default=None
        The vectors of a graph folder, for the effective rank.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.

    Returns
    -------
    Description

    See Also
    --------
    find_duplicates, find_label_issues : return the details.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (100, 5)), rng.normal(20, 1, (100, 5))])
    >>> found = asbc.describe(X, np.repeat(["cat", "dog"], 100), metric="euclidean")
    >>> found.components, found.loo_accuracy
    (2, 1.0)
    >>> print(str(found).splitlines()[0])
    vectors:          200 x 5, 30 neighbours each by the euclidean metric
    """
    rows = open_source(source, "nnk", metric, vectors)
    neighbors, vectors, metric, n = rows.neighbors, rows.vectors, rows.metric or "cosine", rows.neighbors.n
    codes = None if labels is None else encode_partial(align_rows(labels, rows.index, "labels"), n)[0]

    scale, levina = scale_and_dimension(rows)
    local = rows.node_values("dimension").get("dimension", levina)
    score, component, occurrence = np.empty(n), np.arange(n), np.zeros(n, dtype=np.int64)
    for block in row_blocks(rows):
        own, around = scale[block.nodes], np.median(scale[block.indices], axis=1)
        # Among copies only the score is 1; next to them it is infinite.
        score[block.nodes] = np.divide(own, around, out=np.where(own > 0, np.inf, 1.0), where=around > 0)
        occurrence += np.bincount(block.indices.ravel(), minlength=n)
        row, column = np.nonzero(block.weights)
        ends = component[np.stack([block.nodes.start + row, block.indices[row, column]], axis=1)]
        component = linked_pieces(n, ends)[component]
    usable = np.log(score[np.isfinite(score) & (score > 0)])
    threshold = np.inf
    if len(usable):
        low, high = np.quantile(usable, [0.25, 0.75])
        threshold = float(np.exp(high + FENCE * (high - low)))
    remote = np.flatnonzero(score > threshold)
    spread = occurrence.std()
    labeled = None if codes is None else (vote_of_rows(rows, codes) == codes)[codes >= 0]
    overall, interval = (None, None) if vectors is None else global_dimension(vectors, metric=metric)
    return Description(
        n=n,
        k=neighbors.k,
        metric=metric,
        d=None if vectors is None else int(np.shape(vectors)[1]),
        global_dimension=overall,
        global_interval=interval,
        dimension=local,
        dimension_quartiles=np.quantile(local, [0.25, 0.5, 0.75]),
        at_smallest=int((local <= SMALLEST).sum()),
        at_largest=int((local >= LARGEST).sum()),
        effective_rank=None if vectors is None else global_rank(vectors, metric=metric),
        occurrence=occurrence,
        hubness=float((((occurrence - occurrence.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0,
        antihubs=float((occurrence == 0).mean()),
        hubs=np.argsort(-occurrence, kind="stable")[:HUBS],
        components=len(np.unique(component)),
        component=component,
        duplicates=find_duplicates(rows),
        outlier_score=score,
        outlier_threshold=threshold,
        outliers=remote[np.argsort(-score[remote], kind="stable")],
        scale=scale,
        loo_accuracy=None if labeled is None else float(labeled.mean()),
        loo_interval=None if labeled is None else wilson_interval(labeled.sum(), len(labeled)),
        n_labeled=0 if labeled is None else len(labeled),
        n_classes=0 if codes is None else int(codes.max()) + 1,
    )


def global_rank(X: ArrayLike, *, sample: int = 10_000, metric: str = "euclidean") -> float:
    """Return the effective rank of all vectors: ``exp`` of the entropy of their normalised singular values.

    It falls when an encoder's features collapse onto few directions. Vectors are not centred. Of more than `sample`
    vectors, that many are drawn. Zero vectors have rank 0.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.describe import global_rank
    >>> round(global_rank(np.eye(5)), 6)
    5.0
    """
    vectors = _some_rows(X, sample, metric)
    values = np.linalg.svd(vectors, compute_uv=False)
    if not values.sum() > 0:
        return 0.0
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))


def global_dimension(X: ArrayLike, *, metric: str = "euclidean") -> tuple[float, tuple[float, float]]:
    """Estimate the intrinsic dimension of all vectors by minimum spanning trees, with its 95% interval.

    The mean edge of the tree on m points of a d-dimensional set shrinks like ``m**(-1/d)``. Trees are built on random
    subsets of at most 2,000 vectors, and d is read off the slope of the log of the mean edge. The subsets grow up to
    half of the vectors, so that the spread of the slopes is their standard error (delete-half jackknife).

    Returns
    -------
    dimension : float
        Within [1, 200]; 1 if vectors are copies of each other. High dimensions are underestimated: uniform data of
        dimension 10 give 8, of dimension 20 give 14.
    interval : (float, float)

    See Also
    --------
    asbc.dim_mst : the same around each node.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.describe import global_dimension
    >>> sheet = np.random.default_rng(0).uniform(size=(1000, 2)) @ [[1, 0, 2], [0, 1, 1]]
    >>> round(global_dimension(sheet)[0])
    2
    """
    from sklearn.metrics.pairwise import euclidean_distances  # late, because it imports rich

    vectors = _some_rows(X, TREE_ROWS, metric)
    n = len(vectors)
    if n < SMALLEST_TREE:
        raise ValueError(f"X must have at least {SMALLEST_TREE} rows for a global dimension; got {n}.")
    pairs = euclidean_distances(vectors, squared=True)[np.tril_indices(n, -1)]
    sizes = np.unique(np.geomspace(max(3, n // 16), max(5, n // 2), 6).round().astype(np.int64))
    lengths = tree_lengths(pairs[None], n, sizes, N_SUBSETS, 0, np.zeros(1, np.int64))[0]
    if not lengths.all():  # subsets of copies
        return SMALLEST, (SMALLEST, SMALLEST)
    slopes = np.polyfit(np.log(sizes - 1.0), np.log(lengths).T, 1)[0]
    middle, half = slopes.mean(), 1.96 * slopes.std(ddof=1)
    low, value, high = (
        float(np.clip(-1 / min(s, -1e-9), SMALLEST, LARGEST)) for s in (middle - half, middle, middle + half)
    )
    return value, (low, high)


def _some_rows(X: ArrayLike, most: int, metric: str) -> NDArray[np.float64]:
    """Return at most `most` random rows of X, in order, normalised for the cosine metric."""
    array: Any = X if hasattr(X, "shape") else np.asarray(X)
    if array.shape[0] > most:
        array = array[np.sort(np.random.default_rng(0).choice(array.shape[0], most, replace=False))]
    return (normalize(array) if metric == "cosine" else as_vectors(array)).astype(np.float64, copy=False)
