"""Every number behind the page, as arrays and tables: clusters with names, classes, and the layout of the map."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from asbc.bandwidth.perplexity import Perplexity
from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE
from asbc.embeddings.store import stratified_share
from asbc.export import umap_layout
from asbc.extras import MissingExtraError
from asbc.graph import to_graph
from asbc.learn.clusters import GraphClusters, by_size
from asbc.learn.describe import Description, describe
from asbc.learn.issues import LabelIssues, find_label_issues, wilson_interval
from asbc.learn.labels import (
    align_rows,
    apply_corrections,
    decode_partial,
    encode_partial,
    is_unlabeled,
    read_corrections,
)
from asbc.learn.names import name_clusters
from asbc.learn.source import GraphRows, open_source
from asbc.outofcore.folder import read_graph_manifest
from asbc.progress import Progress
from asbc.rows import row_weights
from asbc.validation import seed_number

log = logging.getLogger(__name__)

WEIGHTS = "blend"  # finds the most doubtful labels
MAP_LIMIT = 100_000  # nodes that a map shows at most
# How many of each the page lists; the table next to it has all.
MAX_SUSPECTS, MAX_OUTLIERS, MAX_GROUPS = 20_000, 50, 100
N_EXAMPLES = 3  # the most central nodes of a cluster
SIMULATED_NODES = 100_000  # up to which a review of the labels is simulated, which repeats the audit ten times


@dataclass(frozen=True)
class Clusters:
    """Clusters of the nodes on several levels.

    Attributes
    ----------
    levels : list of (n,) int64
        Cluster of each node, from the coarsest to the finest level; the largest cluster is 0.
    level : int
        Position of the recommended level.
    names : list of list of str
        Of each level, the names of its clusters.
    examples : list of (c, 3) int64
        Of each level, the most central nodes of its clusters, the first repeated in clusters of one or two nodes.
    confidence : (n,) float64
        Share of perturbed graphs in which a node is in its cluster of the recommended level.
    table : DataFrame
        Of the recommended level, a row per cluster: ``cluster``, ``name``, ``size``, ``stability``, ``examples`` (node
        numbers) and, with labels, ``labels`` (the most frequent ones with their shares).
    """

    levels: list[NDArray[np.int64]]
    level: int
    names: list[list[str]]
    examples: list[NDArray[np.int64]]
    confidence: NDArray[np.float64]
    table: pd.DataFrame


class ClassReport(NamedTuple):
    """How well the neighbours' vote fits each class, and which classes it confuses.

    Attributes
    ----------
    classes : DataFrame
        A row per class: ``name``, ``size``, ``right`` (nodes that the vote predicts correctly), ``accuracy``, and
        ``low`` and ``high``, its Wilson interval of 95%.
    pairs : DataFrame
        A row per pair of classes, the most confused first: ``one``, ``other``, ``there`` (nodes of the first that are
        predicted as the second) and ``back``.
    """

    classes: Any
    pairs: Any


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
        return np.empty(0, dtype=np.int64) if self.issues is None else self.issues.suspects

    @property
    def listed_groups(self) -> list[NDArray[np.int64]]:
        """The groups of near-duplicates that a page lists, the largest first."""
        return sorted(self.about.duplicates.groups, key=len, reverse=True)[:MAX_GROUPS]


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
    if hasattr(source, "__len__") and not isinstance(source, str) and len(source) <= SMALLEST_TREE:
        raise ValueError(f"a page needs at least {SMALLEST_TREE + 1} vectors; got {len(source)}.")
    bar = Progress(progress)
    with bar.step("graph"):
        rows = open_source(source, WEIGHTS, metric, vectors, seed)
        graph = rows.graph()
    given, texts, images = (
        _aligned(values, rows, name) for name, values in (("labels", labels), ("texts", texts), ("images", images))
    )
    given, table = _corrected(given, corrections)
    judged = given if _can_be_judged(given) else None
    with bar.step("describe"):
        about = describe(rows, judged)
    issues = simulation = None
    if judged is not None:
        with bar.step("labels"):
            issues = find_label_issues(rows, judged)
            simulation = issues.simulate(seed=seed) if about.n <= SIMULATED_NODES else None
    with bar.step("clusters"):
        clusters = find_clusters(rows, about, None if given is None else _words(given), texts, seed)
    found = Findings(
        nodes=_table(rows, about, given, issues, clusters, texts, images),
        about=about,
        shown=np.arange(about.n),
        issues=issues,
        classes=None if issues is None else judge_classes(issues),
        placed_by_vectors=rows.vectors is not None,
        graph=graph_facts(rows, graph) | {"seed": seed},
        clusters=clusters,
        simulation=simulation,
        corrections=table,
    )
    if about.n > MAP_LIMIT:
        found = replace(found, shown=_sample(found, seed))
    with bar.step("layout"):
        places = _places(rows, graph, found.shown, seed)
    found.nodes.loc[found.shown, ["x", "y"]] = places
    return found


def _aligned(values: Any, rows: GraphRows, name: str) -> Any:
    """Return labels, texts or images in the order of the nodes, or None; there must be one per node."""
    if values is None:
        return None
    values = align_rows(values, rows.index, name)
    if len(values) != rows.neighbors.n:
        raise ValueError(f"{name} must have one entry per node: expected {rows.neighbors.n:,}, got {len(values):,}.")
    return values


def _corrected(labels: Any, corrections: Any) -> tuple[NDArray[Any] | None, pd.DataFrame | None]:
    """Return the labels after corrections, None if no node has one, and the corrections as a table."""
    none = labels is None or is_unlabeled(np.array(labels, dtype=object)).all()
    given = None if none else decode_partial(*encode_partial(labels))
    if corrections is None:
        return given, None
    if given is None:
        raise ValueError("corrections: there are no labels to correct.")
    table = read_corrections(corrections)
    corrected = apply_corrections(given, table)
    return corrected, table.assign(given=[str(given[node]) for node in table["node"]])


def _can_be_judged(labels: NDArray[Any] | None) -> bool:
    """Whether neighbours can confirm and contradict labels: there are several classes, and one has several nodes."""
    if labels is None:
        return False
    codes, classes = encode_partial(labels)
    return len(classes) > 1 and int(np.bincount(codes[codes >= 0]).max()) > 1


def _sample(found: Findings, seed: int) -> NDArray[np.int64]:
    """Return the nodes on the map: a stratified sample, and every node that the page lists."""
    about, issues, clusters = found.about, found.issues, found.clusters
    strata = about.component if issues is None else encode_partial(issues.given)[0]
    nodes = [stratified_share(strata, MAP_LIMIT, seed), about.hubs, about.outliers[:MAX_OUTLIERS], *found.listed_groups]
    if issues is not None:
        listed = issues.suspects[:MAX_SUSPECTS]
        nodes += [listed, np.setdiff1d(issues.supporters[listed], [-1])]
    if clusters is not None:
        nodes += [clusters.examples[clusters.level].ravel(), *(examples[:, 0] for examples in clusters.examples)]
    return np.unique(np.concatenate(nodes))


def _places(rows: GraphRows, graph: sparse.csr_array, shown: NDArray[np.int64], seed: int) -> NDArray:
    n = rows.neighbors.n
    if len(shown) == n:
        return place_nodes(graph, rows.vectors, seed=seed)
    if rows.vectors is None:
        raise ValueError(
            f"vectors: {n:,} nodes are more than the {MAP_LIMIT:,} that a map shows; the map of a sample needs the "
            "vectors, which a graph folder does not hold. Give them too."
        )
    # Most neighbours of a sampled node are not in the sample, so the sample gets its own graph.
    chosen = np.asarray(rows.vectors)[shown]
    return place_nodes(open_source(chosen, WEIGHTS, rows.metric, seed=seed).graph(), chosen, seed=seed)


def _table(
    rows: GraphRows,
    about: Description,
    given: NDArray[Any] | None,
    issues: LabelIssues | None,
    clusters: Clusters | None,
    texts: Any,
    images: Any,
) -> pd.DataFrame:
    """Return one row per node, as :class:`Findings` describes them; no node has a place yet."""
    nodes = np.arange(about.n)
    columns: dict[str, Any] = {"node": nodes} | ({} if given is None else {"label": _words(given)})
    columns |= {"x": np.full(about.n, np.nan, np.float32), "y": np.full(about.n, np.nan, np.float32)}
    columns |= {"dimension": about.dimension, **rows.node_values("sigma", "effective_rank")}  # none if uniform
    group = np.full(about.n, -1)
    for number, members in enumerate(about.duplicates.groups):
        group[members] = number
    columns |= {
        "scale": about.scale,
        "density": about.density,
        "component": by_size(about.component),
        "occurrence": about.occurrence,
        "outlier_score": about.outlier_score,
        "outlier": np.isin(nodes, about.outliers),
        "nearest_ratio": about.duplicates.nearest,
        "duplicate_group": group,
    }
    if issues is not None:
        columns |= {"suspicion": issues.suspicion, "suggested": _words(issues.suggested)}
        columns["suggested_support"] = issues.support
    if clusters is not None:
        own, names = clusters.levels[clusters.level], np.array(clusters.names[clusters.level], dtype=object)
        columns |= {"cluster": own, "cluster_confidence": clusters.confidence, "cluster_name": names[own]}
    columns |= {name: list(column) for name, column in (("text", texts), ("image", images)) if column is not None}
    return pd.DataFrame(columns)


def _words(labels: NDArray[Any]) -> list[str | None]:
    """Return labels as text, None for unlabelled nodes."""
    codes, classes = encode_partial(labels)
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in classes.tolist()]
    return [None if code < 0 else names[code] for code in codes]


def find_clusters(
    rows: GraphRows, about: Description, labels: list | None, texts: list[str] | None, seed: int = 0
) -> Clusters | None:
    """Cluster the graph and name the clusters by texts, or by labels; None if graspologic-native is not installed."""
    graph = rows.graph()
    if isinstance(rows.source, GraphBuilder):  # the same neighbours with the weights that cluster best
        choice = Perplexity().select(rows.vectors, rows.neighbors, about.dimension)
        graph = to_graph(rows.neighbors, row_weights("gaussian", None, rows.neighbors, choice))
    try:
        fitted = GraphClusters(graph=graph, random_state=seed).fit()
    except MissingExtraError as error:
        log.warning("no clusters on this page: %s", error)
        return None
    names = [_names(level, labels, texts) for level in fitted.levels_]
    examples = [_central(graph, level) for level in fitted.levels_]
    recommended = fitted.levels_[fitted.level_]
    table = pd.DataFrame({"name": names[fitted.level_], "size": np.bincount(recommended)}).rename_axis("cluster")
    table["stability"] = fitted.stability_
    table["examples"] = [list(dict.fromkeys(nodes)) for nodes in examples[fitted.level_].tolist()]
    if labels is not None:
        table["labels"] = _label_mix(recommended, labels)
    return Clusters(fitted.levels_, fitted.level_, names, examples, fitted.confidence_, table.reset_index())


def _names(clusters: NDArray[np.int64], labels: list | None, texts: list[str] | None) -> list[str]:
    """Return the names of clusters; one that occurs again gets a number."""
    if texts is None and labels is None:
        return [f"cluster {c}" for c in range(int(clusters.max()) + 1)]
    names = name_clusters(clusters, texts=texts, labels=labels if texts is None else None)
    again = pd.Series(names).groupby(names).cumcount()
    return [f"{name} #{times + 1}" if times else name for name, times in zip(names, again, strict=True)]


def _central(graph: sparse.csr_array, clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes of each cluster with the largest weights to the others in it."""
    edges = sparse.coo_array(graph)
    inside = clusters[edges.row] == clusters[edges.col]
    weight = np.bincount(edges.row[inside], edges.data[inside], len(clusters))
    order = np.lexsort((-weight, clusters))
    sizes = np.bincount(clusters)
    first = np.cumsum(sizes) - sizes
    rank = np.arange(N_EXAMPLES)
    return order[first[:, None] + np.where(rank < sizes[:, None], rank, 0)]


def _label_mix(clusters: NDArray[np.int64], labels: list) -> list[str]:
    """Return the three most frequent labels of each cluster with their shares of its labelled nodes."""
    mixes = pd.Series(labels, dtype=object).groupby(clusters).apply(lambda part: part.value_counts(normalize=True)[:3])
    return [
        ", ".join(f"{label} {share:.0%}" for label, share in mixes.get(c, pd.Series(dtype=float)).items())
        for c in range(int(clusters.max()) + 1)
    ]


def judge_classes(issues: LabelIssues) -> ClassReport:
    """Return the accuracy of the neighbours' vote per class, and the pairs of classes that it confuses.

    A node whose neighbours are all unlabelled counts as wrong, and as confused with no class.
    """
    nodes = pd.DataFrame({"name": _words(issues.given), "voted": _words(issues.voted)}).dropna(subset="name")
    nodes["right"] = nodes["name"] == nodes["voted"]
    classes = nodes.groupby("name")["right"].agg(size="size", right="sum", accuracy="mean").reset_index()
    classes["low"], classes["high"] = zip(*map(wilson_interval, classes["right"], classes["size"]), strict=True)
    wrong = nodes[~nodes["right"]].dropna(subset="voted")
    ends = wrong[["name", "voted"]]
    wrong = wrong.assign(one=ends.min(axis=1), other=ends.max(axis=1))
    wrong["there"] = wrong["name"] == wrong["one"]
    pairs = wrong.groupby(["one", "other"])["there"].agg(there="sum", both="size").reset_index()
    pairs["back"] = pairs["both"] - pairs["there"]
    return ClassReport(classes, pairs.sort_values("both", ascending=False, kind="stable"))


def graph_facts(rows: GraphRows, graph: sparse.csr_array) -> dict[str, Any]:
    """Return k, metric, weights, edges, search and recall of a graph; None if unknown."""
    facts = {"k": rows.neighbors.k, "metric": rows.metric, "edges": graph.nnz, "recall": rows.neighbors.recall}
    if isinstance(rows.source, GraphBuilder):
        return facts | {"weights": type(rows.source.weight_rule()).__name__}
    manifest = read_graph_manifest(rows.source)
    return facts | {"weights": manifest["weights"]["rule"], "search": manifest["search_used"]["search"]}


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
