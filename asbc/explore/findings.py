"""Every number behind the page, as arrays and one table; and the layout of the map."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE
from asbc.embeddings.sampling import stratified_share
from asbc.explore.clusters import Clusters, find_clusters
from asbc.export import umap_layout
from asbc.learn.corrections import apply_corrections, read_corrections
from asbc.learn.describe import Description, describe
from asbc.learn.issues import ClassReport, LabelIssues, find_label_issues, judge_classes
from asbc.learn.labels import align_rows, decode_partial, encode_partial
from asbc.outofcore.folder import load_graph, load_nodes, read_graph_manifest
from asbc.progress import Progress
from asbc.validation import as_vectors, row_index, seed_number

MAP_LIMIT = 100_000  # nodes that a map shows at most
# How many of each the page lists; the table next to it has all.
MAX_SUSPECTS, MAX_OUTLIERS, MAX_GROUPS = 20_000, 50, 100
SIMULATED_NODES = 100_000  # up to which a review of the labels is simulated, which repeats the audit ten times


def default_builder(n: int, metric: str = "cosine", seed: int = 0) -> GraphBuilder:
    """Return an unfitted builder for `n` vectors. Blended weights find the most doubtful labels."""
    if n <= SMALLEST_TREE:
        raise ValueError(f"a page needs at least {SMALLEST_TREE + 1} vectors; got {n}.")
    return GraphBuilder(weights="blend", k_cand=max(SMALLEST_TREE, min(30, n - 1)), metric=metric, random_state=seed)


@dataclass(frozen=True)
class Findings:
    """All numbers behind a page, as :func:`explore` returns them.

    Attributes
    ----------
    nodes : DataFrame
        One row per node: ``node``, ``label`` if there are labels, ``x`` and ``y`` on the map (NaN for nodes that are
        not shown), ``dimension``, ``sigma``, ``effective_rank``, ``scale``, ``density``, ``component`` (0 is the
        largest), ``occurrence``, ``outlier_score``, ``outlier``, ``nearest_ratio``, ``duplicate_group`` (-1 for none);
        with labels ``suspicion``, ``suggested`` and ``suggested_support``; ``cluster`` (0 is the largest),
        ``cluster_name`` and ``cluster_confidence``; and ``text`` or ``image`` if given.
    about : Description
        Result of :func:`asbc.describe`.
    shown : (m,) int64
        The nodes on the map: all of them, or a stratified sample.
    issues : LabelIssues or None
        The vote of the neighbours on each label; None without labels, and if all labels are equal or all differ.
    classes : ClassReport or None
        Accuracy per class, and pairs of classes that are confused; None if `issues` is None.
    simulation : DataFrame or None, default=None
        How many mistakes a review finds, see :meth:`asbc.LabelIssues.simulate`.
    graph : dict
        Facts about the graph: k, metric, weights, edges, search, recall, and the seed of the layout.
    corrections : DataFrame or None, default=None
        Corrections that the labels include: ``node``, ``given``, ``decision`` and ``label``.
    placed_by_vectors : bool
        Whether separate components were placed by the vectors; without vectors they are placed at random.
    clusters : Clusters or None, default=None
        Clusters by :class:`asbc.GraphClusters` with their names; None if graspologic-native is not installed.

    See Also
    --------
    explore : compute them.
    write_page : write them as a page.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.explore import explore
    >>> found = explore(np.random.default_rng(0).normal(size=(60, 5)))
    >>> found.nodes.shape, found.issues
    ((60, 17), None)
    """

    nodes: pd.DataFrame
    about: Description
    shown: NDArray[np.int64]
    issues: LabelIssues | None
    classes: ClassReport | None
    placed_by_vectors: bool
    graph: dict[str, Any]
    clusters: Clusters | None = None
    simulation: pd.DataFrame | None = None
    corrections: pd.DataFrame | None = None

    @property
    def suspects(self) -> NDArray[np.int64]:
        """Nodes with a doubtful label, the most suspicious first."""
        return _suspects(self.issues)

    @property
    def listed_groups(self) -> list[NDArray[np.int64]]:
        """The groups of near-duplicates that a page lists, the largest first."""
        return _largest_groups(self.about)


def _suspects(issues: LabelIssues | None) -> NDArray[np.int64]:
    return np.empty(0, dtype=np.int64) if issues is None else issues.order[: int(issues.doubtful.sum())]


def _largest_groups(about: Description) -> list[NDArray[np.int64]]:
    return sorted(about.duplicates.groups, key=len, reverse=True)[:MAX_GROUPS]


def explore(
    source: Any,
    labels: ArrayLike | None = None,
    *,
    vectors: ArrayLike | None = None,
    texts: list[str] | None = None,
    images: list[str] | None = None,
    corrections: Any = None,
    metric: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Findings:
    """Compute the map of vectors, their clusters, outliers and near-duplicates, and how well their labels fit.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        For vectors, a graph is built first, with ``weights="blend"``.
    labels : (n,) array-like or None, default=None
        -1, None, NaN or "" for unlabelled nodes. A pandas Series is aligned with the index of the vectors; so are texts
        and images.
    vectors : (n, d) array-like or None, default=None
        The vectors of a graph folder, which does not hold them. They are needed for the effective rank, to place
        separate components, and for the map of more than 100,000 nodes.
    texts, images : list of n str or None, default=None
        Text and image name of each node. Clusters are named by texts, or else by labels.
    corrections : path of a CSV file, DataFrame or None, default=None
        Corrections of the labels, which an earlier page has exported; see :meth:`asbc.LabelIssues.apply`.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.
    seed : int, default=0
        Random seed of the layout and of the sample of nodes.
    progress : bool, default=False
        Whether to show progress on the standard error.

    Returns
    -------
    Findings

    See Also
    --------
    write_page : write the findings as one HTML page.
    asbc.describe, asbc.find_label_issues, asbc.find_duplicates : single steps.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.explore import explore
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 3)) for c in (1, 9)])
    >>> found = explore(X, np.repeat(["ant", "bee"], 40))
    >>> found.about.n, found.nodes["label"].nunique(), bool(found.nodes["x"].notna().all())
    (80, 2, True)
    """
    bar = Progress(progress)
    index = source.index_ if hasattr(source, "index_") else row_index(source)
    labels, texts, images = (
        align_rows(values, index, name) for name, values in (("labels", labels), ("texts", texts), ("images", images))
    )
    if not isinstance(source, GraphBuilder | str | os.PathLike):
        array = as_vectors(source, "source")
        with bar.step("graph"):
            source = default_builder(len(array), metric or "cosine", seed).fit(array)
        vectors = array if vectors is None else vectors
    elif isinstance(source, GraphBuilder) and vectors is None:
        vectors = source.vectors_
    n = node_count(source)
    columns: dict[str, Any] = {"labels": labels, "texts": texts, "images": images}
    for name, column in columns.items():
        if column is not None and len(column) != n:
            raise ValueError(f"{name} must have one entry per node: expected {n:,}, got {len(column):,}.")
    codes, classes = _encoded(labels)
    given = None if codes is None else decode_partial(codes, classes)
    table = None
    if corrections is not None:
        if given is None:
            raise ValueError("corrections: there are no labels to correct.")
        table = read_corrections(corrections)
        before, given = given, apply_corrections(given, table)
        table["given"] = [str(before[node]) for node in table["node"]]
        codes, classes = encode_partial(given)
    # Unique labels are names: no neighbour can confirm one. A single class cannot be contradicted.
    judged = codes is not None and len(classes) > 1 and int(np.bincount(codes[codes >= 0]).max()) > 1
    codes = codes if judged else None
    with bar.step("describe"):
        about = describe(source, codes, vectors=vectors)
    issues = report = simulation = None
    if codes is not None and given is not None:
        with bar.step("labels"):
            issues = find_label_issues(source, given, vectors=vectors)
            report = judge_classes(issues)
            simulation = issues.simulate(seed=seed) if about.n <= SIMULATED_NODES else None
    listed = _suspects(issues)[:MAX_SUSPECTS]
    supporters = [] if issues is None else [np.setdiff1d(issues.supporters[listed], [-1])]
    with bar.step("clusters"):
        clusters = find_clusters(source, None if given is None else _words(given), texts, seed)
    shown = stratified_share(about.component if codes is None else codes, MAP_LIMIT, seed)
    # The map shows every node that the page lists.
    named = [listed, *supporters, about.hubs, about.outliers[:MAX_OUTLIERS], *_largest_groups(about)]
    if clusters is not None:
        named += [clusters.examples[clusters.level].ravel(), *(nodes[:, 0] for nodes in clusters.examples)]
    shown = np.union1d(shown, np.concatenate(named))
    places = _places(source, vectors, shown, about.n, seed, bar)
    nodes = _table(source, about, given, issues, shown, places)
    if clusters is not None:
        cluster = clusters.levels[clusters.level]
        nodes["cluster"], nodes["cluster_confidence"] = cluster, clusters.confidence
        nodes["cluster_name"] = np.array(clusters.names[clusters.level], dtype=object)[cluster]
    for name, column in (("text", texts), ("image", images)):
        if column is not None:
            nodes[name] = list(column)
    facts = graph_facts(source) | {"seed": seed}
    return Findings(nodes, about, shown, issues, report, vectors is not None, facts, clusters, simulation, table)


def _encoded(labels: Any) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """Return class numbers and classes; None instead of numbers if no node is labelled."""
    if labels is None or len(labels) == 0:
        return None, np.empty(0)
    try:
        return encode_partial(labels)
    except ValueError as error:
        if "at least one label" in str(error):
            return None, np.empty(0)
        raise


def _places(source, vectors, shown, n, seed, bar) -> NDArray:
    if len(shown) == n:
        graph = source.graph_ if isinstance(source, GraphBuilder) else load_graph(source, verify=True)
        with bar.step("layout"):
            return place_nodes(graph, vectors, seed=seed)
    if vectors is None:
        raise ValueError(
            f"vectors: {n:,} nodes are more than the {MAP_LIMIT:,} that a map shows; the map of a sample needs the "
            "vectors, which a graph folder does not hold. Give them too."
        )
    # Most neighbours of a sampled node are not in the sample, so the sample gets its own graph.
    chosen = np.asarray(vectors[shown] if hasattr(vectors, "dtype") else np.asarray(vectors)[shown])
    with bar.step("sample"):
        graph = default_builder(len(shown), graph_facts(source)["metric"], seed).fit_transform(chosen)
    return place_nodes(graph, chosen, seed=seed)


def _table(source, about: Description, given, issues: LabelIssues | None, shown, places) -> pd.DataFrame:
    n = about.n
    columns: dict[str, Any] = {"node": np.arange(n)}
    if given is not None:
        columns["label"] = _words(given)
    for name, values in (("x", places[:, 0]), ("y", places[:, 1])):
        column = np.full(n, np.nan, np.float32)
        column[shown] = values
        columns[name] = column
    columns["dimension"] = about.dimension
    columns |= _bandwidth(source)
    columns["scale"], columns["density"] = about.scale, about.density
    columns["component"] = _by_size(about.component)
    columns["occurrence"] = about.occurrence
    columns["outlier_score"], columns["outlier"] = about.outlier_score, np.isin(np.arange(n), about.outliers)
    columns["nearest_ratio"] = about.duplicates.nearest
    group = np.full(n, -1)
    for number, members in enumerate(about.duplicates.groups):
        group[members] = number
    columns["duplicate_group"] = group
    if issues is not None:
        columns["suspicion"] = issues.suspicion
        columns["suggested"] = _words(issues.suggested)
        columns["suggested_support"] = issues.support
    return pd.DataFrame(columns)


def _bandwidth(source) -> dict[str, NDArray]:
    """Return sigma and effective rank of every node; uniform weights have none."""
    if isinstance(source, GraphBuilder):
        choice = source.bandwidth_
        return {} if choice is None else {"sigma": choice.sigma, "effective_rank": choice.effective_rank}
    found = load_nodes(source, verify=True)
    return {name: np.array(found[name]) for name in ("sigma", "effective_rank") if name in found}


def _by_size(component: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number components from 0, the largest first."""
    _, number, count = np.unique(component, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return rank[number]


def _words(labels: NDArray[Any]) -> list[str | None]:
    """Return labels as text, None for unlabelled nodes."""
    codes, classes = encode_partial(labels)
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in classes.tolist()]
    return [None if code < 0 else names[code] for code in codes]


def node_count(source: Any) -> int:
    """Return the number of nodes of a fitted builder or a graph folder."""
    return source.neighbors_.n if isinstance(source, GraphBuilder) else int(read_graph_manifest(source)["n"])


def graph_facts(source: Any) -> dict[str, Any]:
    """Return k, metric, weights, edges, search and recall of a fitted builder or a graph folder; None if unknown."""
    if isinstance(source, GraphBuilder):
        return {
            "k": source.neighbors_.indices.shape[1],
            "metric": source.metric,
            "weights": type(source.weight_rule()).__name__,
            "edges": source.graph_.nnz,
            "search": None,
            "recall": None,
        }
    manifest = read_graph_manifest(source)
    recall = manifest.get("recall")
    return {
        "k": manifest["k"],
        "metric": manifest["builder"]["metric"],
        "weights": manifest["weights"]["rule"],
        "edges": manifest["edges"],
        "search": manifest["search_used"]["search"],
        "recall": None if recall is None else recall["value"],
    }


def scale_strengths(graph: sparse.csr_array) -> sparse.csr_array:
    """Scale weights so that every node's strongest edge is 1, as UMAP expects.

    The rows of a graph sum to about 1, so without this a node with many neighbours would hardly be attracted by any.

    Examples
    --------
    >>> from scipy import sparse
    >>> from asbc.explore.findings import scale_strengths
    >>> scale_strengths(sparse.csr_array([[0.0, 0.5, 0.1], [0.5, 0.0, 0.0], [0.1, 0.0, 0.0]])).toarray()
    array([[0., 1., 1.],
           [1., 0., 0.],
           [1., 0., 0.]])
    """
    edges = sparse.coo_array(graph)
    strongest = graph.max(axis=1).toarray()
    scaled = edges.data / np.minimum(strongest[edges.row], strongest[edges.col])
    return sparse.csr_array((scaled, (edges.row, edges.col)), shape=graph.shape)


def place_nodes(graph: sparse.csr_array, vectors: Any = None, *, seed: int = 0) -> NDArray:
    """Return UMAP's layout of the graph from a spectral start, as an (n, 2) float32 array.

    Separate components are placed by the vectors, or at random without them.
    """
    graph = sparse.csr_array(graph)
    graph = sparse.csr_array(graph.maximum(graph.T))
    graph.eliminate_zeros()
    if vectors is None:
        _, component = connected_components(graph, directed=False)
        vectors = np.random.default_rng(seed_number(seed)).normal(size=(component.max() + 1, 2))[component]
    return umap_layout(scale_strengths(graph), vectors, seed=seed)
