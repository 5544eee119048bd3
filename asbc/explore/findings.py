"""What is known of these vectors: every number behind the page, as arrays and one table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE
from asbc.embeddings.stratify import stratified_share
from asbc.explore.layout import place_nodes
from asbc.learn.classes import ClassReport, judge_classes
from asbc.learn.describe import Description, describe
from asbc.learn.issues import LabelIssues, find_label_issues, supporting_neighbors
from asbc.learn.labels import decode_partial, encode_partial
from asbc.outofcore.folder import load_graph, load_nodes, read_graph_manifest
from asbc.progress import Progress
from asbc.validation import as_vectors

MAP_LIMIT = 100_000  # nodes that a map shows at most
# How many of each the page lists at most; the table beside it has all.
SUSPECTS = 100  # doubtful labels, each with the neighbours that speak against it
OUTLIERS = 50  # nodes that lie apart
GROUPS = 100  # groups of near-duplicates, the largest ones


def default_builder(n: int, metric: str = "cosine", seed: int = 0) -> GraphBuilder:
    """The graph that a page is made from: half NNK, half Gaussian, which finds most doubtful labels.

    Parameters
    ----------
    n : int
        Nodes there are.
    metric : {"cosine", "euclidean"}, default="cosine"
    seed : int, default=0

    Returns
    -------
    GraphBuilder, not fitted
    """
    if n <= SMALLEST_TREE:
        raise ValueError(f"a page needs at least {SMALLEST_TREE + 1} vectors; got {n}.")
    return GraphBuilder(weights="blend", k_cand=max(SMALLEST_TREE, min(30, n - 1)), metric=metric, random_state=seed)


@dataclass(frozen=True)
class Findings:
    """All numbers behind a page; :func:`explore` gives it.

    Attributes
    ----------
    nodes : DataFrame
        One row per node: ``node``, ``label`` if there are labels, ``x`` and ``y`` on the map (NaN where a node is not
        shown), ``dimension``, ``sigma``, ``effective_rank``, ``scale``, ``density``, ``component`` (0 is the
        largest), ``occurrence``, ``outlier_score``, ``outlier``, ``nearest_ratio``, ``duplicate_group`` (-1 for none);
        with labels ``suspicion``, ``suggested`` and ``suggested_weight``; and ``text`` or ``image`` if given.
    about : Description
        What :func:`asbc.describe` says of the whole.
    shown : (m,) int64
        The nodes on the map: all of them, or a stratified sample.
    issues : LabelIssues or None
        What neighbours say of each label; None without labels, where no two nodes have the same, and where all do.
    classes : ClassReport or None
        Accuracy per class, and the classes that are confused; None where `issues` is.
    supporters : list of arrays
        For the most doubtful labels, in their order, the neighbours that speak for the suggestion.
    placed_by_vectors : bool
        Whether separate pieces of the graph were placed by the vectors, or at random because these were not given.

    See Also
    --------
    explore : makes it.
    write_page : writes it as a page.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.explore import explore
    >>> found = explore(np.random.default_rng(0).normal(size=(60, 5)))
    >>> found.nodes.shape, found.issues
    ((60, 14), None)
    """

    nodes: pd.DataFrame
    about: Description
    shown: NDArray[np.int64]
    issues: LabelIssues | None
    classes: ClassReport | None
    supporters: list[NDArray[np.int64]]
    placed_by_vectors: bool

    @property
    def suspects(self) -> NDArray[np.int64]:
        """(m,) int64: the nodes whose label another class contradicts, the most doubtful first."""
        if self.issues is None:
            return np.empty(0, dtype=np.int64)
        return self.issues.order[: int(self.issues.doubtful.sum())]

    @property
    def listed_groups(self) -> list[NDArray[np.int64]]:
        """The groups of near-duplicates that a page lists, the largest first."""
        return largest_groups(self.about)


def largest_groups(about: Description) -> list[NDArray[np.int64]]:
    """The largest groups of near-duplicates, as many as a page lists."""
    return sorted(about.duplicates.groups, key=len, reverse=True)[:GROUPS]


def explore(
    source: Any,
    labels: ArrayLike | None = None,
    *,
    vectors: ArrayLike | None = None,
    texts: list[str] | None = None,
    images: list[str] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Findings:
    """Look at vectors through their graph: a map, what is in there, and what their labels are worth.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors, a graph is built first, with the cosine metric and ``weights="blend"``.
    labels : (n,) array-like or None, default=None
        -1, None, NaN or "" where a node is unlabelled. If all are, it is as if none were given.
    vectors : (n, d) array-like or None, default=None
        For a folder, which does not hold them: for the rank of the whole, for the places of separate pieces, and for
        the map of more than 100,000 nodes.
    texts, images : list of n str or None, default=None
        What a node says, and the name of its picture; kept in the table.
    seed : int, default=0
        Of the layout, and of the sample where there are too many nodes for a map.
    progress : bool, default=False
        Whether to show how far it has come, on the standard error.

    Returns
    -------
    Findings

    See Also
    --------
    write_page : writes what was found as one HTML page.
    asbc.describe, asbc.find_label_issues, asbc.find_duplicates : the parts of it.

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
    if not isinstance(source, GraphBuilder | str | os.PathLike):
        array = as_vectors(source, "source")
        with bar.step("graph"):
            source = default_builder(len(array), seed=seed).fit(array)
        vectors = array if vectors is None else vectors
    elif isinstance(source, GraphBuilder) and vectors is None:
        vectors = source.vectors_
    codes, classes = _encoded(labels, source)
    given = None if codes is None else decode_partial(codes, classes)
    # Labels of which no two are the same are names: no neighbour can confirm one, and all would seem doubtful. Of a
    # single class, none ever would.
    judged = codes is not None and len(classes) > 1 and int(np.bincount(codes[codes >= 0]).max()) > 1
    codes = codes if judged else None
    with bar.step("describe"):
        about = describe(source, codes, vectors=vectors)
        if given is not None and len(given) != about.n:  # where they are not judged, nobody else looks
            raise ValueError(f"labels must have one entry per node: {about.n:,} wanted, got {len(given):,}.")
        issues = None if codes is None or given is None else find_label_issues(source, given)
        report = None if issues is None else judge_classes(issues)
        listed = np.empty(0, np.int64) if issues is None else issues.order[: int(issues.doubtful.sum())][:SUSPECTS]
        supporters = [] if issues is None else supporting_neighbors(source, issues, listed)
    shown = stratified_share(about.component if codes is None else codes, MAP_LIMIT, seed)
    # What the page names can be found on its map.
    named = [listed, *supporters, about.hubs, about.outliers[:OUTLIERS], *largest_groups(about)]
    shown = np.union1d(shown, np.concatenate(named))
    places = _places(source, vectors, shown, about.n, seed, bar)
    nodes = _table(source, about, given, issues, shown, places)
    for name, column in (("text", texts), ("image", images)):
        if column is not None:
            if len(column) != about.n:
                raise ValueError(f"{name}s must have one entry per node: {about.n:,} wanted, got {len(column):,}.")
            nodes[name] = list(column)
    return Findings(nodes, about, shown, issues, report, supporters, vectors is not None)


def _encoded(labels: Any, source: Any) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """Class numbers and classes; None in place of numbers where nothing is labelled at all."""
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
            f"vectors: {n:,} nodes are more than the {MAP_LIMIT:,} that a map shows, and the map of a sample needs the "
            "vectors, which a graph folder does not hold; give them too."
        )
    # Neighbours of a sample are mostly not in the sample, so that it gets a graph of its own.
    chosen = np.asarray(vectors[shown] if hasattr(vectors, "dtype") else np.asarray(vectors)[shown])
    built = source.metric if isinstance(source, GraphBuilder) else read_graph_manifest(source)["builder"]["metric"]
    with bar.step("sample"):
        graph = default_builder(len(shown), built, seed).fit_transform(chosen)
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
        columns["suspicion"] = 1.0 - issues.quality
        columns["suggested"] = _words(issues.suggested)
        columns["suggested_weight"] = issues.weight
    return pd.DataFrame(columns)


def _bandwidth(source) -> dict[str, NDArray]:
    """Sigma and rank of every node; nothing for uniform weights, which have none."""
    if isinstance(source, GraphBuilder):
        choice = source.bandwidth_
        return {} if choice is None else {"sigma": choice.sigma, "effective_rank": choice.effective_rank}
    found = load_nodes(source, verify=True)
    return {name: np.array(found[name]) for name in ("sigma", "effective_rank") if name in found}


def _by_size(component: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pieces numbered from 0, the largest first."""
    _, number, count = np.unique(component, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), dtype=np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return rank[number]


def _words(labels: NDArray[Any]) -> list[str | None]:
    """Labels as text, None where a node has none."""
    codes, classes = encode_partial(labels)
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in classes.tolist()]
    return [None if code < 0 else names[code] for code in codes]
