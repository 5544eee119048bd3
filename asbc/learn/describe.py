"""What is there to know of these vectors before anything is trained on them?"""

from __future__ import annotations

import html
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.builder import GraphBuilder
from asbc.dimension import LARGEST, SMALLEST, SMALLEST_TREE, levina_bickel
from asbc.kernels.components import join_rows, piece_names
from asbc.kernels.vote import class_weights
from asbc.learn.duplicates import K_DIMENSION, Duplicates, find_duplicates
from asbc.learn.labels import encode_partial
from asbc.learn.source import open_rows, row_blocks
from asbc.learn.spread import global_rank
from asbc.neighbors.types import Neighbors
from asbc.outofcore.folder import load_nodes
from asbc.validation import as_vectors

FENCE = 3.0  # an outlier lies this many quartile ranges above the upper quartile of the log scores
HUBS = 10  # hubs that are named, the biggest ones


@dataclass(frozen=True, repr=False)
class Description:
    """What :func:`describe` found. Its ``repr`` is a short report, in a notebook a table.

    Attributes
    ----------
    n, k : int
        Nodes, and neighbours per node.
    d : int or None
        Columns of the vectors; None if they were not at hand.
    global_dimension : float
        Dimension of the whole: the harmonic mean of Levina and Bickel's local estimates.
    dimension : (n,) float64
        Dimension around each node.
    dimension_quartiles : (3,) float64
        Of them, the lower quartile, the median and the upper quartile.
    at_smallest, at_largest : int
        Nodes whose dimension is at the limit of what is estimated, 1 or 200.
    effective_rank : float or None
        How many directions the vectors use on the whole; None if they were not at hand.
    occurrence : (n,) int64
        In how many nodes' lists of neighbours a node stands.
    hubness : float
        Skewness of the occurrence: 0 where all nodes occur alike, above about 1.5 where few nodes are everywhere.
    antihubs : float
        Share of nodes that are nobody's neighbour.
    hubs : (10,) int64
        The nodes that occur most, the largest first.
    components : int
        Pieces of the graph, directions ignored.
    component : (n,) int64
        The smallest node of each node's piece.
    duplicates : Duplicates
        Groups of nodes that are nearly the same.
    outlier_score : (n,) float64
        Distance to a node's k-th neighbour, divided by the median of the same distance at its neighbours: about 1
        where a node lies as densely as its surroundings, more where it lies apart.
    outlier_threshold : float
        Three quartile ranges above the upper quartile of the scores, on a log scale.
    outliers : (m,) int64
        Nodes above the threshold, the most remote first.
    scale : (n,) float64
        Distance to each node's k-th neighbour.
    loo_accuracy : float or None, default=None
        Share of labelled nodes whose neighbours' vote gives their label; None without labels.
    loo_interval : (float, float) or None, default=None
        Wilson's 95% interval of it: what chance would allow, had other nodes been drawn.
    n_labeled, n_classes : int, default=0
        Nodes with a label, and classes; 0 without labels.

    See Also
    --------
    describe : makes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> found = asbc.describe(np.random.default_rng(0).normal(size=(200, 3)))
    >>> found.n, found.d, found.dimension.shape
    (200, 3, (200,))
    """

    n: int
    k: int
    d: int | None
    global_dimension: float
    dimension: NDArray[np.float64] = field(repr=False)
    dimension_quartiles: NDArray[np.float64]
    at_smallest: int
    at_largest: int
    effective_rank: float | None
    occurrence: NDArray[np.int64] = field(repr=False)
    hubness: float
    antihubs: float
    hubs: NDArray[np.int64]
    components: int
    component: NDArray[np.int64] = field(repr=False)
    duplicates: Duplicates
    outlier_score: NDArray[np.float64] = field(repr=False)
    outlier_threshold: float
    outliers: NDArray[np.int64]
    scale: NDArray[np.float64] = field(repr=False)
    loo_accuracy: float | None = None
    loo_interval: tuple[float, float] | None = None
    n_labeled: int = 0
    n_classes: int = 0

    @property
    def density(self) -> NDArray[np.float64]:
        """(n,) float64: how densely each node lies, the median of all scales divided by its own; inf among copies."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.median(self.scale) / self.scale
        return np.where(self.scale > 0, ratio, np.inf)

    def lines(self) -> list[tuple[str, str]]:
        """The report as pairs of a name and what is to say of it."""
        low, middle, high = self.dimension_quartiles
        sizes = np.bincount(self.component)
        clipped = self.at_smallest + self.at_largest
        width = "" if self.d is None else f" x {self.d}"
        said = [
            ("vectors", f"{self.n:,}{width}, {self.k} neighbours each"),
            (
                "dimension",
                f"{self.global_dimension:.1f} on the whole, {middle:.1f} in the median around a node "
                f"(quartiles {low:.1f} to {high:.1f})"
                + (f"; {clipped:,} at the limits {SMALLEST:.0f} and {LARGEST:.0f}" if clipped else ""),
            ),
        ]
        if self.effective_rank is not None:
            said.append(("effective rank", f"{self.effective_rank:.1f} of {min(self.n, self.d or self.n):,}"))
        said += [
            (
                "hubness",
                f"skewness {self.hubness:.2f}; {self.antihubs:.1%} of nodes are nobody's neighbour, node "
                f"{self.hubs[0]} is that of {self.occurrence[self.hubs[0]]:,}",
            ),
            ("components", f"{self.components:,}, the largest has {sizes.max() / self.n:.1%} of the nodes"),
            (
                "duplicates",
                f"{len(self.duplicates.groups):,} groups, {len(self.duplicates.redundant):,} nodes could go "
                f"(threshold {self.duplicates.threshold:.2g})",
            ),
            (
                "outliers",
                f"{len(self.outliers):,} (more than {self.outlier_threshold:.2f} times as far as around them)",
            ),
        ]
        if self.loo_accuracy is not None and self.loo_interval is not None:
            said.append(
                (
                    "neighbours' vote",
                    f"{self.loo_accuracy:.1%} right [{self.loo_interval[0]:.1%}, {self.loo_interval[1]:.1%}] of "
                    f"{self.n_labeled:,} labels, {self.n_classes:,} classes",
                )
            )
        return said

    def __repr__(self) -> str:
        return "\n".join(f"{name + ':':17s} {text}" for name, text in self.lines())

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left;white-space:nowrap'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
            for name, text in self.lines()
        )
        return f"<table>{rows}</table>"


def describe(source: Any, labels: ArrayLike | None = None, *, vectors: ArrayLike | None = None) -> Description:
    """Describe vectors by their neighbourhoods: dimension, hubs, pieces, duplicates, outliers, and labels if given.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a ``GraphBuilder()`` is fitted first. A folder is read block by block.
    labels : (n,) array-like or None, default=None
        -1, None, NaN or "" where a node is unlabelled.
    vectors : (n, d) array-like or None, default=None
        For a folder, which does not hold the vectors: they are asked for the effective rank only.

    Returns
    -------
    Description

    See Also
    --------
    find_duplicates, find_label_issues : go into detail.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (100, 5)), rng.normal(20, 1, (100, 5))])
    >>> found = asbc.describe(X, np.repeat(["cat", "dog"], 100))
    >>> found.components, found.loo_accuracy
    (2, 1.0)
    >>> print(str(found).splitlines()[0])
    vectors:          200 x 5, 30 neighbours each
    """
    if not isinstance(source, GraphBuilder | str | os.PathLike):
        array = as_vectors(source, "source")
        k = max(SMALLEST_TREE, min(30, len(array) - 1))
        source = GraphBuilder(k_cand=k).fit(array)
    neighbors, weights = open_rows(source)
    n = neighbors.n
    codes = None if labels is None else encode_partial(labels, n)[0]  # type: ignore[arg-type]
    if vectors is None and isinstance(source, GraphBuilder):
        vectors = source.vectors_
    if vectors is not None and (np.ndim(vectors) != 2 or np.shape(vectors)[0] != n):
        raise ValueError(f"vectors must have one row per node, shape ({n}, d); got shape {np.shape(vectors)}.")

    scale = np.empty(n)
    levina = np.empty(n)
    occurrence = np.zeros(n, dtype=np.int64)
    parent = np.arange(n, dtype=np.int64)
    hits = np.zeros(n, dtype=bool)
    for block in row_blocks(neighbors, weights):
        nodes = block.nodes
        scale[nodes] = block.distances[:, -1]
        levina[nodes] = levina_bickel(
            Neighbors(block.indices, block.distances, nodes.start), min(K_DIMENSION, neighbors.k)
        )
        occurrence += np.bincount(block.indices.ravel(), minlength=n)
        join_rows(parent, nodes.start, block.indices, block.weights)
        if codes is not None:
            hits[nodes] = class_weights(block.indices, block.weights, codes, codes[nodes])[2] == codes[nodes]
    component = piece_names(parent)
    score = _outlier_scores(neighbors, weights, scale)
    threshold = _fence(score)
    remote = np.flatnonzero(score > threshold)
    local = _local_dimension(source, levina)
    spread = occurrence.std()
    labeled = None if codes is None else hits[codes >= 0]
    return Description(
        n=n,
        k=neighbors.k,
        d=None if vectors is None else int(np.shape(vectors)[1]),
        global_dimension=float(1.0 / np.mean(1.0 / levina)),
        dimension=local,
        dimension_quartiles=np.quantile(local, [0.25, 0.5, 0.75]),
        at_smallest=int((local <= SMALLEST).sum()),
        at_largest=int((local >= LARGEST).sum()),
        effective_rank=None if vectors is None else global_rank(vectors),
        occurrence=occurrence,
        hubness=float((((occurrence - occurrence.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0,
        antihubs=float((occurrence == 0).mean()),
        hubs=np.argsort(-occurrence, kind="stable")[:HUBS],
        components=len(np.unique(component)),
        component=component,
        duplicates=find_duplicates(source),
        outlier_score=score,
        outlier_threshold=threshold,
        outliers=remote[np.argsort(-score[remote], kind="stable")],
        scale=scale,
        loo_accuracy=None if labeled is None else float(labeled.mean()),
        loo_interval=None if labeled is None else wilson_interval(int(labeled.sum()), len(labeled)),
        n_labeled=0 if labeled is None else len(labeled),
        n_classes=0 if codes is None else int(codes.max()) + 1,
    )


def wilson_interval(right: int, of: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's interval of a share; unlike the usual one it stays within 0 and 1 and holds where all are right.

    Parameters
    ----------
    right, of : int
    z : float, default=1.96
        Normal quantile: 1.96 for 95%.

    Returns
    -------
    low, high : float
    """
    share = right / of
    center = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * np.sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    # The share itself is always inside, whatever rounding says where all or none are right.
    return float(max(0.0, min(share, center - half))), float(min(1.0, max(share, center + half)))


def _local_dimension(source: Any, levina: NDArray[np.float64]) -> NDArray[np.float64]:
    """What the graph was built with; uniform weights were built without a dimension, and take the plain estimate."""
    if isinstance(source, GraphBuilder):
        return levina if source.dimension_ is None else source.dimension_
    return np.array(load_nodes(source, verify=True).get("dimension", levina))


def _outlier_scores(neighbors: Neighbors, weights, scale: NDArray[np.float64]) -> NDArray[np.float64]:
    score = np.empty(neighbors.n)
    for block in row_blocks(neighbors, weights):
        around = np.median(scale[block.indices], axis=1)
        own = scale[block.nodes]
        # Among copies only, a node lies as densely as they do; beside them, infinitely less so.
        score[block.nodes] = np.divide(own, around, out=np.where(own > 0, np.inf, 1.0), where=around > 0)
    return score


def _fence(score: NDArray[np.float64]) -> float:
    usable = score[np.isfinite(score) & (score > 0)]
    if not len(usable):
        return float("inf")
    low, high = np.quantile(np.log(usable), [0.25, 0.75])
    return float(np.exp(high + FENCE * (high - low)))
