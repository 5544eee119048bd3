"""Which labels are doubtful, and what they should rather be?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.extras import needed
from asbc.kernels.vote import class_weights
from asbc.learn.labels import decode_partial, encode_partial
from asbc.learn.source import Source, open_rows, row_blocks
from asbc.neighbors.types import Neighbors

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class LabelIssues:
    """What the neighbours of each node say of its label; :func:`find_label_issues` gives it.

    Attributes
    ----------
    quality : (n,) float64
        From 0, where all neighbours say another class, over 0.5, where they cannot tell, to 1, where all agree with
        the label. NaN where a node is unlabelled.
    suggested : (n,) array
        The class with the largest weight among the neighbours, as the caller wrote it. It is the given label where
        no neighbour votes, and marks the node as unlabelled (-1, "" or None) where there is no such label either.
    weight : (n,) float64
        The share of the row's weight that the suggested class has.
    order : (m,) int64
        The labelled nodes from the most doubtful on.
    given : (n,) array
        The labels as they came, as far as they name a class; -1, "" or None where the node is unlabelled.

    See Also
    --------
    find_label_issues : looks for them.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> labels = np.repeat([0, 1], 40)
    >>> labels[5] = 1
    >>> issues = asbc.find_label_issues(asbc.GraphBuilder().fit(X), labels)
    >>> int(issues.order[0]), int(issues.suggested[5])
    (5, 0)
    """

    quality: NDArray[np.float64]
    suggested: NDArray[Any]
    weight: NDArray[np.float64]
    order: NDArray[np.int64]
    given: NDArray[Any] = field(repr=False)

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """(n,) bool: labelled nodes for which another class weighs more than their own."""
        return self.quality < 0.5  # False where it is NaN

    def to_frame(self) -> pd.DataFrame:
        """A DataFrame of all nodes, from the most doubtful on and the unlabelled ones last.

        Returns
        -------
        DataFrame with the node's number as its index and the columns given, suggested, quality and weight
        """
        with needed("to_frame", "experiments"):
            import pandas as pd
        nodes = np.concatenate([self.order, np.flatnonzero(np.isnan(self.quality))])
        columns = {"given": self.given, "suggested": self.suggested, "quality": self.quality, "weight": self.weight}
        return pd.DataFrame(
            {name: values[nodes] for name, values in columns.items()}, index=pd.Index(nodes, name="node")
        )

    def __repr__(self) -> str:
        n, labeled = len(self.quality), len(self.order)
        lines = [
            f"LabelIssues: {int(self.doubtful.sum()):,} of {labeled:,} labels are doubtful"
            + (f" ({n - labeled:,} more nodes are unlabelled)" if labeled < n else "")
        ]
        lines += [
            f"  node {i}: {self.given[i]!s} -> {self.suggested[i]!s}, "
            f"quality {self.quality[i]:.3f}, weight {self.weight[i]:.3f}"
            for i in self.order[: min(5, int(self.doubtful.sum()))]
        ]
        return "\n".join(lines)


def find_label_issues(source: Source, labels: ArrayLike) -> LabelIssues:
    """Find the labels that a node's neighbours contradict.

    The weights of a node's row are added up per class. The *margin* is the largest weight of another class minus the
    weight of the node's own class; since a row sums to 1 it lies between -1 and 1, and ``quality = (1 - margin) / 2``.
    Unlabelled neighbours keep their weight and give it to no class, so that a margin made of little labelled weight
    says little. The node's own label is never asked for its own vote.

    Rows that average NNK and Gaussian weights find most: fit the builder with ``weights="blend"``.

    Parameters
    ----------
    source : fitted GraphBuilder, or path of a graph folder
        A folder is read block by block, so that memory beyond the result does not grow with the number of nodes.
    labels : (n,) array-like of integers, strings or booleans
        The labels to be judged; -1, None, NaN or "" where a node is unlabelled. Such a node does not vote and gets a
        suggestion, and no quality.

    Returns
    -------
    LabelIssues

    See Also
    --------
    describe : says how well labels and neighbours agree on the whole.
    NeighborVote : predicts labels by the same votes.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> labels[7] = "dog"
    >>> issues = asbc.find_label_issues(asbc.GraphBuilder().fit(X), labels)
    >>> issues
    LabelIssues: 1 of 100 labels are doubtful
      node 7: dog -> cat, quality 0.000, weight 1.000
    """
    return judge_labels(*open_rows(source), labels)


def judge_labels(neighbors: Neighbors, weights: NDArray[np.float64], labels: ArrayLike) -> LabelIssues:
    """What :func:`find_label_issues` says, from rows that are at hand.

    Parameters
    ----------
    neighbors : Neighbors
        Of n nodes.
    weights : (n, k) array
        Of their neighbours; rows sum to 1. It may be a memory map: some rows are read at a time.
    labels : (n,) array-like of integers, strings or booleans
        The labels to be judged; -1, None, NaN or "" where a node is unlabelled.

    Returns
    -------
    LabelIssues

    See Also
    --------
    find_label_issues : the same from a builder or a graph folder.

    Examples
    --------
    >>> import asbc
    >>> from asbc.learn.issues import judge_labels
    >>> neighbors = asbc.search_neighbors([[0.0], [1.0], [2.0], [7.0], [8.0], [9.0]], k=2)
    >>> weights = asbc.normalize_weights(asbc.uniform_weights(neighbors))
    >>> int(judge_labels(neighbors, weights, ["low", "high", "low", "high", "high", "high"]).order[0])
    1
    """
    codes, classes = encode_partial(labels, neighbors.n)  # type: ignore[arg-type]
    margin, share = np.empty(neighbors.n), np.empty(neighbors.n)
    winner = np.empty(neighbors.n, dtype=np.int64)
    for block in row_blocks(neighbors, weights):
        nodes = block.nodes
        mine, other, winner[nodes], share[nodes] = class_weights(block.indices, block.weights, codes, codes[nodes])
        margin[nodes] = other - mine
    labeled = codes >= 0
    # Rounding may carry a sum of weights past 1 by a bit.
    quality = np.where(labeled, np.clip((1.0 - margin) / 2.0, 0.0, 1.0), np.nan)
    judged = np.flatnonzero(labeled)
    order = judged[np.argsort(quality[judged], kind="stable")]
    suggested = decode_partial(np.where(winner < 0, codes, winner), classes)
    return LabelIssues(quality, suggested, share, order, decode_partial(codes, classes))


def supporting_neighbors(
    source: Source, issues: LabelIssues, nodes: ArrayLike, most: int = 5
) -> list[NDArray[np.int64]]:
    """The neighbours that speak for the label suggested for a node, the heaviest first.

    Parameters
    ----------
    source : fitted GraphBuilder, or path of a graph folder
        What `issues` was found in.
    issues : LabelIssues
        The labels and suggestions.
    nodes : (m,) array-like of int
        The nodes in question.
    most : int, default=5
        Neighbours per node at most.

    Returns
    -------
    list of (at most `most`,) int64 arrays
        For each node in question, the neighbours with weight whose given label is the one suggested.

    See Also
    --------
    find_label_issues : finds the doubtful labels.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> from asbc.learn.issues import supporting_neighbors
    >>> X = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9])[:, None]
    >>> builder = asbc.GraphBuilder(weights="uniform", k_cand=8).fit(X)
    >>> issues = asbc.find_label_issues(builder, ["a"] * 4 + ["b"] + ["a"] * 5)
    >>> supporting_neighbors(builder, issues, [4], most=3)
    [array([3, 5, 2])]
    """
    neighbors, weights = open_rows(source)
    found = []
    for node in np.asarray(nodes, dtype=np.int64):
        around, weight = np.array(neighbors.indices[node], np.int64), np.array(weights[node])
        agree = (issues.given[around] == issues.suggested[node]) & (weight > 0)
        around, weight = around[agree], weight[agree]
        found.append(around[np.argsort(-weight, kind="stable")[:most]])
    return found
