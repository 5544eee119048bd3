"""Clusters of a graph by Leiden's algorithm, on several levels, with their stability."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from asbc.builder import GraphBuilder
from asbc.extras import needed
from asbc.kernels.modularity import join_nodes
from asbc.kernels.threads import thread_count
from asbc.learn.source import fit_copy, given_graph
from asbc.validation import MetricInRepr, true_or_false, whole_number

Labels = NDArray[np.int64]

N_PERTURBED = 4  # graphs with random edge weights that the clusters are compared with
N_SCANNED = 2  # of these, the ones that are clustered at every resolution
RESOLUTION_STEP = 2.0  # between two resolutions of the scan
LOWEST_RESOLUTION = 2.0**-8
SMALLEST_MEAN_SIZE = 10  # of the clusters of a level
# Of two levels, the one with twice as many clusters is recommended unless its stability is lower by more than this.
DOUBLING = 0.035
# Numbers of clusters of the next level, as multiples of those of a level: the next finer and the next coarser one.
FINER = 1.4, 2.4
COARSER = 1 / 5, 1 / 2
# With n_clusters given, more clusters are found first, between these multiples of it, and then merged.
SURPLUS = 1.05, 1.2
MAX_NODES = 15_000  # graphs with more are first merged into groups, and the groups are clustered
GROUPS_RESOLUTION = 1500  # at which groups begin to form


@dataclass
class _Partition:
    """Clusters at one resolution, those of perturbed graphs, and how far they agree."""

    resolution: float
    labels: Labels
    others: Sequence[Labels] = ()
    stability: float = np.nan

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1


class GraphClusters(MetricInRepr, ClusterMixin, BaseEstimator):
    """Cluster vectors by Leiden's algorithm on their neighbourhood graph.

    With `n_clusters`, up to a fifth more clusters are found by bisection of the resolution, and merged where modularity
    loses least. Without it, clusters are computed at a range of resolutions, on the graph and on copies of it with
    random edge weights. The stability of a resolution is the mean adjusted mutual information between the two. The
    recommended level has the highest stability, where a level with twice as many clusters may be less stable by 0.035.
    The other levels are the most stable coarser and finer ones.

    Parameters
    ----------
    n_clusters : int or None, default=None
        Number of clusters; None chooses it and returns several levels.
    builder : GraphBuilder or None, default=None
        Builds the graph; a copy of it is fitted. None takes Gaussian weights with :class:`Perplexity` bandwidths.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric of the default builder; None is cosine.
    graph : path of a graph folder, (n, n) sparse matrix or None, default=None
        A graph to cluster instead. `fit` then ignores X, and `predict` is not available.
    noise : bool, default=False
        Whether nodes that belong to no cluster get the label -1: those that are in their cluster in fewer than half of
        the perturbed graphs.
    random_state : int, RandomState or None, default=0
        Seed of Leiden's algorithm and of the perturbed graphs.

    Attributes
    ----------
    labels_ : (n,) int64
        Cluster of each node at the recommended level, the largest cluster first; -1 for noise.
    levels_ : list of (n,) int64
        Up to four levels from coarse to fine. Each is nested in the one before. With `n_clusters` there is only one.
    level_ : int
        Position of the recommended level in `levels_`.
    stability_ : (c,) float64
        For each cluster of `labels_`, the mean Jaccard index with the most similar cluster of each perturbed graph.
    confidence_ : (n,) float64
        Share of the perturbed graphs in which a node is in its cluster.
    n_clusters_ : int
    n_noise_ : int
        Number of nodes with the label -1.
    resolution_ : float
        Leiden's resolution at the recommended level.
    builder_ : GraphBuilder
        The fitted builder, unless `graph` is given.

    See Also
    --------
    name_clusters : names from texts or labels.
    GraphClassifier : classes from a few labels.

    Notes
    -----
    Needs graspologic-native: ``pip install "asbc[cluster]"``.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(center, 0.5, (200, 8)) for center in 4 * np.eye(5, 8)])
    >>> clusters = asbc.GraphClusters().fit(X)
    >>> clusters.n_clusters_, len(set(clusters.labels_[:200]))
    (5, 1)
    """

    def __init__(
        self,
        n_clusters: int | None = None,
        *,
        builder: GraphBuilder | None = None,
        metric: str | None = None,
        graph: Any = None,
        noise: bool = False,
        random_state: Any = 0,
    ):
        self.n_clusters = n_clusters
        self.builder = builder
        self.metric = metric
        self.graph = graph
        self.noise = noise
        self.random_state = random_state

    def fit(self, X: ArrayLike | None = None, y: Any = None) -> GraphClusters:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d) array-like, default=None
            Ignored if `graph` is given.
        y : default=None
            Ignored.

        Returns
        -------
        self
        """
        true_or_false(self.noise, "noise")
        if self.n_clusters is not None:
            whole_number(self.n_clusters, "n_clusters", 1)
        graph = self._graph(X)
        if self.n_clusters is not None and self.n_clusters > graph.shape[0]:
            raise ValueError(
                f"n_clusters must be at most the number of nodes, {graph.shape[0]}; got {self.n_clusters}."
            )
        with needed("GraphClusters", "cluster"):
            import graspologic_native  # noqa: F401
        random = check_random_state(self.random_state)
        seed = int(random.randint(2**31 - 1))
        perturbed_seed = int(random.randint(2**31 - 1))
        groups, grouped = _groups(graph, max(MAX_NODES, 2 * (self.n_clusters or 0)))
        perturbed = list(_perturbed(graph, groups, perturbed_seed))
        if self.n_clusters is None:
            levels, chosen = _levels(grouped, perturbed[:N_SCANNED], seed)
        else:
            levels, chosen = [_with_count(grouped, self.n_clusters, seed)], 0
        best = levels[chosen]
        with ThreadPoolExecutor(thread_count()) as threads:
            again = partial(leiden, resolution=best.resolution, seed=seed, iterations=1)
            others = [*best.others, *threads.map(again, perturbed[len(best.others) :])]
        jaccard, kept = _agreement(best.labels, others, np.bincount(groups))
        self.levels_ = [by_size(level.labels[groups]) for level in levels]
        self.level_ = chosen
        self.resolution_ = best.resolution
        labels = self.levels_[chosen]
        self.n_clusters_ = int(labels.max()) + 1
        self.stability_ = np.empty(self.n_clusters_)
        self.stability_[labels] = jaccard[best.labels[groups]]
        self.confidence_ = kept[groups]
        self.labels_ = np.where(self.confidence_ < 0.5, -1, labels) if self.noise else labels
        self.n_noise_ = int((self.labels_ < 0).sum())
        return self

    def predict(self, X: ArrayLike) -> Labels:
        """Return the cluster of new points: the one with the largest weight among the nodes near each point.

        Parameters
        ----------
        X : (m, d) array-like

        Returns
        -------
        (m,) int64
            -1 where only noise is near.
        """
        check_is_fitted(self, "labels_")
        if not hasattr(self, "builder_"):
            raise ValueError("predict needs vectors: this GraphClusters was fitted on a graph, with graph=.")
        rows = self.builder_.transform(validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=False))
        known = np.flatnonzero(self.labels_ >= 0)
        member = sparse.csr_array(
            (np.ones(len(known)), (known, self.labels_[known])), shape=(len(self.labels_), self.n_clusters_)
        )
        votes = sparse.csr_array(rows @ member).toarray()
        return np.where(votes.sum(axis=1) > 0, votes.argmax(axis=1), -1).astype(np.int64)

    def _graph(self, X: Any) -> sparse.csr_array:
        if self.graph is not None:
            graph = given_graph(self)
            return sparse.csr_array((graph + graph.T) / 2.0)
        vectors = validate_data(self, X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=2)
        self.builder_ = fit_copy(self.builder, GraphBuilder("gaussian", "perplexity"), self.metric, vectors)
        graph = self.builder_.graph_
        return graph if self.builder_.symmetrize else sparse.csr_array((graph + graph.T) / 2.0)


def leiden(graph: sparse.csr_array, resolution: float, seed: int, iterations: int = 2) -> Labels:
    """Return the cluster of each node, numbered from 0; a node without edges is a cluster of its own."""
    import graspologic_native

    n = graph.shape[0]
    alone = np.flatnonzero(np.diff(graph.indptr) == 0)
    if len(alone) == n:  # the library does not accept a graph without edges
        return np.arange(n)
    graph = _without_loops(graph)
    _, found = graspologic_native.leiden_csr(
        graph.indptr.astype(np.int64),
        graph.indices.astype(np.int32),
        graph.data.astype(np.float64),
        graph.shape[0],
        resolution=float(resolution),
        iterations=iterations,
        seed=seed,
    )
    labels = np.full(graph.shape[0], -1, dtype=np.int64)
    labels[np.fromiter(found.keys(), np.int64, len(found))] = np.fromiter(found.values(), np.int64, len(found))
    labels[alone] = labels.max() + 1 + np.arange(len(alone))
    return by_size(labels[:n])


def _without_loops(graph: sparse.csr_array) -> sparse.csr_array:
    """Replace each loop by an edge of half its weight to an extra node, since the library ignores loops.

    The extra node joins the cluster of its only neighbour, so degrees and weights within clusters stay the same.
    """
    loops = graph.diagonal()
    if not loops.any():
        return graph
    nodes = np.flatnonzero(loops > 0)  # rounding may leave a loop slightly below 0
    n, edges = graph.shape[0], graph.tocoo()
    plain = edges.row != edges.col
    extra, half = n + np.arange(len(nodes)), loops[nodes] / 2
    rows = np.concatenate([edges.row[plain], nodes, extra])
    columns = np.concatenate([edges.col[plain], extra, nodes])
    total = n + len(nodes)
    return sparse.csr_array((np.concatenate([edges.data[plain], half, half]), (rows, columns)), shape=(total, total))


def by_size(labels: Labels) -> Labels:
    """Renumber clusters from the largest to the smallest; of two equal ones, that with the first node comes first."""
    _, first, codes, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), np.int64)
    rank[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    return rank[codes.reshape(-1)]


def _groups(graph: sparse.csr_array, most: int) -> tuple[Labels, sparse.csr_array]:
    """Return the group of each node, and the graph between groups; with at most `most` nodes, each is its own group."""
    groups, resolution = np.arange(graph.shape[0]), float(GROUPS_RESOLUTION)
    while graph.shape[0] > most and resolution > LOWEST_RESOLUTION:
        joined = np.unique(join_nodes(graph, resolution), return_inverse=True)[1]
        if joined.max() > 0.9 * graph.shape[0]:  # hardly any node joins another one
            resolution /= RESOLUTION_STEP**0.5
        groups, graph = joined[groups], _merged(graph, joined)
    return groups, graph


def _merged(graph: sparse.csr_array | sparse.coo_array, labels: Labels) -> sparse.csr_array:
    """Return the graph between clusters: the summed weights of the edges between them, and within them as loops."""
    edges, count = graph.tocoo(), int(labels.max()) + 1
    return sparse.csr_array((edges.data, (labels[edges.row], labels[edges.col])), shape=(count, count))


def _perturbed(graph: sparse.csr_array, groups: Labels, seed: int) -> Iterator[sparse.csr_array]:
    """Yield graphs between groups in which every edge of the graph is multiplied by an exponential variable."""
    edges, rng = sparse.triu(graph, 1, format="coo"), np.random.default_rng(seed)
    for _ in range(N_PERTURBED):
        weights = edges.data * rng.exponential(size=edges.nnz)
        half = _merged(sparse.coo_array((weights, (edges.row, edges.col)), shape=graph.shape), groups)
        yield sparse.csr_array(half + half.T)


def _levels(graph: sparse.csr_array, perturbed: list[sparse.csr_array], seed: int) -> tuple[list[_Partition], int]:
    """Return levels from coarse to fine, and the position of the recommended one.

    Next to the recommended level are up to two coarser ones and a finer one, each the most stable in its range.
    """
    scan = _scan(graph, perturbed, seed)

    def next_level(start: _Partition, ratios: tuple[float, float]) -> list[_Partition]:
        low, high = (ratio * start.count for ratio in ratios)
        return sorted((level for level in scan if low <= level.count <= high), key=lambda level: level.stability)[-1:]

    recommended = max(scan, key=lambda level: level.stability + DOUBLING * np.log2(level.count))
    coarser = next_level(recommended, COARSER)
    coarsest = next_level(coarser[0], COARSER) if coarser else []
    levels = [*coarsest, *coarser, recommended, *next_level(recommended, FINER)]
    middle = len(coarsest + coarser)
    return _nested(graph, levels, middle, seed), middle


def _scan(graph: sparse.csr_array, perturbed: list[sparse.csr_array], seed: int) -> list[_Partition]:
    """Return partitions from coarse to fine: from about two clusters, until they become small."""
    from sklearn.metrics import adjusted_mutual_info_score  # late, because it imports rich

    fewest = max(2, connected_components(graph, directed=False)[0])
    most = graph.shape[0] // SMALLEST_MEAN_SIZE

    def partition(resolution: float) -> _Partition:
        return _Partition(resolution, leiden(graph, resolution, seed))

    def coarser() -> list[_Partition]:
        levels = [partition(1.0)]
        while levels[0].count > fewest and levels[0].resolution > LOWEST_RESOLUTION:
            levels.insert(0, partition(levels[0].resolution / RESOLUTION_STEP))
        return levels

    def finer() -> list[_Partition]:
        levels = [partition(RESOLUTION_STEP)]
        while levels[-1].count <= most:
            levels.append(partition(levels[-1].resolution * RESOLUTION_STEP))
        return levels

    def compare(level: _Partition) -> None:
        level.others = [leiden(other, level.resolution, seed, iterations=1) for other in perturbed]
        level.stability = float(np.mean([adjusted_mutual_info_score(level.labels, other) for other in level.others]))

    with ThreadPoolExecutor(thread_count()) as threads:
        halves = threads.submit(coarser), threads.submit(finer)
        scan = [level for half in halves for level in half.result()]
        usable = [level for level in scan if 1 < level.count <= most]
        list(threads.map(compare, usable))
    return usable or [next(level for level in scan if level.count > most)]


def _nested(graph: sparse.csr_array, levels: list[_Partition], middle: int, seed: int) -> list[_Partition]:
    """Return levels of about the same resolutions in which every cluster lies within one cluster of the level before.

    The recommended level stays. In coarser ones each of its clusters joins the cluster that holds most of it; finer
    ones divide its clusters.
    """
    out = {middle: levels[middle]}
    for i in range(middle - 1, -1, -1):
        finer = out[i + 1].labels
        shared = sparse.csr_array((np.ones(len(finer)), (finer, levels[i].labels))).toarray()
        out[i] = replace(levels[i], labels=by_size(shared.argmax(axis=1)[finer]))
    for i in range(middle + 1, len(levels)):
        coarser, edges = out[i - 1].labels, graph.tocoo()
        inside = coarser[edges.row] == coarser[edges.col]
        within = sparse.csr_array((edges.data[inside], (edges.row[inside], edges.col[inside])), shape=graph.shape)
        within += sparse.diags_array(graph.sum(axis=1) - within.sum(axis=1))  # the degrees stay the same
        out[i] = replace(levels[i], labels=leiden(sparse.csr_array(within), levels[i].resolution, seed))
    return [out[i] for i in sorted(out)]


def _with_count(graph: sparse.csr_array, wanted: int, seed: int) -> _Partition:
    """Return a partition into `wanted` clusters: somewhat more are found by bisection of the resolution, then merged.

    Leiden's partitions into exactly `wanted` clusters often join two classes and keep small clusters instead.
    """
    least, most = (min(int(np.ceil(wanted * surplus)), graph.shape[0]) for surplus in SURPLUS)
    low, high = 2.0**-10, 2.0**4
    while (labels := leiden(graph, high, seed)).max() + 1 < least and high < 2.0**40:
        low, high = high, high * 8
    best = _Partition(high, labels)
    for _ in range(16):
        if best.count <= most:
            break
        middle = (low * high) ** 0.5
        found = _Partition(middle, leiden(graph, middle, seed))
        if found.count >= least:
            high = middle
            best = min(best, found, key=lambda partition: partition.count)
        else:
            low = middle
    return _Partition(best.resolution, _merge_down(graph, best, wanted))


def _merge_down(graph: sparse.csr_array, partition: _Partition, wanted: int) -> Labels:
    """Merge two clusters at a time, those that change Leiden's modularity at this resolution for the best."""
    between = _merged(graph, partition.labels).toarray()
    volume = between.sum(axis=1)
    penalty = partition.resolution / max(volume.sum(), np.finfo(float).tiny)
    merged = np.arange(partition.count)
    for _ in range(partition.count - wanted):
        gain = np.where(np.tri(len(volume), k=-1, dtype=bool), between - penalty * np.outer(volume, volume), -np.inf)
        second, first = np.unravel_index(gain.argmax(), gain.shape)
        between[first] += between[second]
        between[:, first] += between[:, second]
        volume[first] += volume[second]
        between, volume = np.delete(np.delete(between, second, 0), second, 1), np.delete(volume, second)
        merged[merged == second] = first
        merged[merged > second] -= 1
    return by_size(merged[partition.labels])


def _agreement(labels: Labels, others: list[Labels], sizes: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean Jaccard index of each cluster with its best match, and the share of matches that hold each node.

    `sizes` is the number of nodes in each group.
    """
    count = int(labels.max()) + 1
    jaccard, kept = np.zeros(count), np.zeros(len(labels))
    for other in others:
        shared = sparse.csr_array((sizes, (labels, other)), dtype=np.float64).toarray()
        union = shared.sum(axis=1, keepdims=True) + shared.sum(axis=0) - shared
        overlap = shared / union
        match = overlap.argmax(axis=1)
        jaccard += overlap.max(axis=1) / len(others)
        kept += (other == match[labels]) / len(others)
    return jaccard, kept
