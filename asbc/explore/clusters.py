"""Clusters of the graph on several levels, their names, and where the names are on the map."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from asbc.builder import GraphBuilder
from asbc.extras import MissingExtraError
from asbc.learn.clusters import GraphClusters
from asbc.learn.names import name_clusters
from asbc.outofcore.folder import load_graph

log = logging.getLogger(__name__)

N_EXAMPLES = 3  # the most central nodes of a cluster


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


def find_clusters(source: Any, labels: list | None, texts: list[str] | None, seed: int = 0) -> Clusters | None:
    """Cluster the graph and name the clusters by texts, or by labels; None if graspologic-native is not installed."""
    if isinstance(source, GraphBuilder):  # the same neighbours with the weights that cluster best
        builder = GraphBuilder("gaussian", "perplexity", k_cand=source.k_cand, metric=source.metric)
        graph = builder.fit_transform(source.vectors_, neighbors=source.neighbors_)
    else:
        graph = load_graph(source, verify=True)
    try:
        fitted = GraphClusters(graph=graph, random_state=seed).fit()
    except MissingExtraError as error:
        log.warning("no clusters on this page: %s", error)
        return None
    names = [_distinct(_names(level, labels, texts)) for level in fitted.levels_]
    examples = [_central(graph, level) for level in fitted.levels_]
    recommended = fitted.levels_[fitted.level_]
    columns: dict[str, Any] = {
        "cluster": np.arange(fitted.n_clusters_),
        "name": names[fitted.level_],
        "size": np.bincount(recommended),
        "stability": fitted.stability_,
        "examples": [list(dict.fromkeys(nodes)) for nodes in examples[fitted.level_].tolist()],
    }
    if labels is not None:
        columns["labels"] = _label_mix(recommended, labels)
    return Clusters(fitted.levels_, fitted.level_, names, examples, fitted.confidence_, pd.DataFrame(columns))


def _names(clusters: NDArray[np.int64], labels: list | None, texts: list[str] | None) -> list[str]:
    if texts is not None:
        return name_clusters(clusters, texts=texts)
    if labels is not None:
        return name_clusters(clusters, labels=labels)
    return [f"cluster {c}" for c in range(int(clusters.max()) + 1)]


def _distinct(names: list[str]) -> list[str]:
    """Number names that occur again."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return out


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


def place_names(clusters: NDArray[np.int64], places: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the row of `places` at which the name of each cluster is written: the one nearest to their median."""
    rows = np.empty(int(clusters.max()) + 1, np.int64)
    for c in range(len(rows)):
        members = np.flatnonzero(clusters == c)
        away = ((places[members] - np.median(places[members], axis=0)) ** 2).sum(axis=1)
        rows[c] = members[away.argmin()]
    return rows
