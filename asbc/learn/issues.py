"""Find doubtful labels, estimate how many are wrong, and apply corrections."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats

from asbc.extras import needed
from asbc.learn.experts import ClassProbabilities
from asbc.learn.labels import align_rows, apply_corrections, decode_partial, encode_partial, read_corrections
from asbc.learn.predict import vote_of_rows
from asbc.learn.source import BLOCK_NODES, GraphRows, Source, open_source, row_blocks
from asbc.validation import whole_number

if TYPE_CHECKING:
    import pandas as pd

SUPPORTERS = 5  # neighbours that are listed for a suggestion
MAX_BLOCK_VALUES = 2**23  # nodes x classes whose support is in memory: 64 MB
NEAR = 3  # classes that a label may be moved to, in noise of the kind "near"
REVIEWED = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0)  # labels reviewed in a simulation, per moved label
SHOWN = 20  # rows in a notebook


class Estimate(NamedTuple):
    """Number of wrong labels, with the ends of its 95% interval."""

    number: int
    low: int
    high: int


@dataclass(frozen=True, repr=False)
class LabelIssues:
    """How doubtful each label is; the result of :func:`find_label_issues`.

    Attributes
    ----------
    suspicion : (n,) float64
        From 0, where only the given label has support, to 1, where only another class has support; above 0.5 if
        another class has more. NaN where a node is unlabelled.
    suggested : (n,) array
        The class with the most support: the given label unless another class has more. Marks the node as unlabelled
        (-1, "" or None) if no class has any.
    support : (n,) float64
        Support of the suggested class, from 0 to 1.
    given_support : (n,) float64
        Support of the given label; 0 where a node is unlabelled.
    supporters : (n, 5) int64
        Neighbours that have the suggested label, the heaviest first; -1 where there are no more.
    voted : (n,) array
        The class that wins the weighted vote of the neighbours, as in :func:`describe`.
    order : (m,) int64
        The labelled nodes, the most suspicious first.
    given : (n,) array
        The labels as given; -1, "" or None where a node is unlabelled.
    rows : GraphRows
        Neighbours, weights and vectors that the labels are judged by.

    See Also
    --------
    find_label_issues : computes it.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> X = np.concatenate([np.random.default_rng(0).normal(c, 1, (40, 2)) for c in (0, 9)])
    >>> labels = np.repeat([0, 1], 40)
    >>> labels[5] = 1
    >>> issues = asbc.find_label_issues(X, labels, metric="euclidean")
    >>> int(issues.order[0]), int(issues.suggested[5])
    (5, 0)
    """

    suspicion: NDArray[np.float64]
    suggested: NDArray[Any]
    support: NDArray[np.float64]
    given_support: NDArray[np.float64]
    supporters: NDArray[np.int64]
    voted: NDArray[Any]
    order: NDArray[np.int64]
    given: NDArray[Any]
    rows: GraphRows

    @property
    def estimate(self) -> Estimate | None:
        """How many labels are wrong, with a 95% interval; None where overlap between the classes hides it.

        It is the share of doubtful labels among the half of the nodes whose best class has the most support, or more
        nodes if there are ties. Classes do not overlap there, so doubtful labels are wrong ones. The estimate holds for
        all nodes if mistakes do not depend on how clear a node is; if people fail on unclear ones, there are more. If
        the clearest quarter has significantly fewer doubtful labels than the next one, classes overlap even there, and
        there is no estimate.
        """
        support, doubtful = self.support[self.order], self.doubtful[self.order]
        half = max(1, len(support) // 2)
        ranked = np.sort(support)[::-1]
        clear = support >= ranked[half - 1]
        clearest = support >= ranked[(half - 1) // 2]  # nodes of equal support stay together
        quarters = [doubtful[part] for part in (clearest, clear & ~clearest)]
        (_, most), (fewest, _) = (wilson_interval(part.sum(), len(part)) if len(part) else (0, 1) for part in quarters)
        if most < fewest:
            return None
        shares = (doubtful[clear].mean(), *wilson_interval(doubtful[clear].sum(), clear.sum()))
        return Estimate(*(round(len(support) * share) for share in shares))

    @property
    def review(self) -> NDArray[np.int64]:
        """(m,) int64: the nodes to look at, the most suspicious first.

        They are the doubtful ones; with an :attr:`estimate`, at most as many as its upper end.
        """
        return self.suspects if self.estimate is None else self.suspects[: self.estimate.high]

    def apply(self, corrections: str | os.PathLike | pd.DataFrame) -> Any:
        """Return the labels after corrections, as the page of ``asbc-explore`` exports them.

        Parameters
        ----------
        corrections : path of a CSV file, or DataFrame
            Columns ``node`` (row number from 0) and ``label`` (the new one); if there is a column ``given``, it must
            agree with the labels.

        Returns
        -------
        (n,) array, or Series with the index of the vectors if they have one
        """
        with needed("apply", "experiments"):
            import pandas as pd
        corrected = apply_corrections(self.given, read_corrections(corrections))
        return corrected if self.rows.index is None else pd.Series(corrected, index=self.rows.index)

    def simulate(self, share: float | None = None, *, trials: int = 5, seed: int = 0) -> pd.DataFrame:
        """Measure on this data how many mistakes a review finds: move labels on purpose, and repeat the audit.

        As many of the most suspicious labels as are estimated to be wrong are first replaced by their suggestion, so
        that the moved ones are most of the mistakes. Labels are moved to one of the three classes that are most often
        neighbours ("near") or to any other ("uniform").

        Parameters
        ----------
        share : float or None, default=None
            Share of the labels that is moved; None for that of the :attr:`estimate`, or of the doubtful labels, and at
            least 1%.
        trials : int, default=5
            Repetitions with other moves.
        seed : int, default=0

        Returns
        -------
        DataFrame with the columns kind, reviewed (number of labels, the most suspicious first), found (mean share of
        the moved labels that are among them), low and high (95% interval of that mean over trials)
        """
        with needed("simulate", "experiments"):
            import pandas as pd
        trials = whole_number(trials, "trials", 2)
        codes, classes = encode_partial(self.given)
        labeled, guess = len(self.order), self.estimate
        wrong = int(self.doubtful.sum()) if guess is None else guess.number
        fixed = self.order[: 0 if guess is None else wrong]
        codes[fixed] = np.searchsorted(classes, self.suggested[fixed])
        share = min(0.5, max(0.01, wrong / labeled)) if share is None else share
        near = _near_classes(self.rows, codes, len(classes))
        reviewed = np.unique((share * labeled * np.array(REVIEWED)).astype(int).clip(1, labeled))
        records = []
        for kind, targets in (("near", near), ("uniform", None)):
            found = np.empty((trials, len(reviewed)))
            for trial in range(trials):
                noisy = move_labels(codes, share, targets, [seed, trial])
                order = find_label_issues(self.rows, noisy).order
                found[trial] = np.cumsum((noisy != codes)[order])[reviewed - 1] / (noisy != codes).sum()
            mean = found.mean(axis=0)
            half = stats.t.ppf(0.975, trials - 1) * found.std(axis=0, ddof=1) / np.sqrt(trials)
            columns = {"kind": kind, "reviewed": reviewed, "found": mean}
            records.append(pd.DataFrame(columns | {"low": (mean - half).clip(0), "high": (mean + half).clip(None, 1)}))
        return pd.concat(records, ignore_index=True)

    @property
    def suspects(self) -> NDArray[np.int64]:
        """(m,) int64: the nodes with a doubtful label, the most suspicious first."""
        return self.order[: int(self.doubtful.sum())]

    @property
    def doubtful(self) -> NDArray[np.bool_]:
        """(n,) bool: labelled nodes for which another class has more support than their own."""
        return self.suspicion > 0.5  # False for NaN

    def to_frame(self, simulation: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return a DataFrame of all nodes, the most suspicious first and the unlabelled ones last.

        Parameters
        ----------
        simulation : DataFrame or None, default=None
            Result of :meth:`simulate`. It adds the columns found_near and found_uniform: the share of such mistakes
            that a review from the top down to this row finds.

        Returns
        -------
        DataFrame with the index of the vectors, or the number of the node, and the columns node, given, suggested,
        suspicion, given_support, support and neighbors (those that have the suggested label, by index)
        """
        with needed("to_frame", "experiments"):
            import pandas as pd
        nodes = np.concatenate([self.order, np.flatnonzero(np.isnan(self.suspicion))])
        index = self.rows.index
        names = ["given", "suggested", "suspicion", "given_support", "support"]
        columns = {} if index is None else {"node": nodes}
        index = pd.RangeIndex(len(self.given), name="node") if index is None else index
        frame = pd.DataFrame(columns | {name: getattr(self, name)[nodes] for name in names}, index=index[nodes])
        frame["neighbors"] = [index[row[row >= 0]].tolist() for row in self.supporters[nodes]]
        if simulation is not None:
            for kind, part in simulation.groupby("kind"):
                place, found = np.r_[0, part["reviewed"]], np.r_[0.0, part["found"]]
                frame[f"found_{kind}"] = np.interp(np.arange(1, len(nodes) + 1), place, found)
        return frame

    def _repr_html_(self) -> str:
        first, *_ = repr(self).splitlines()
        return f"<p>{first}</p>{self.to_frame().head(SHOWN)._repr_html_()}"  # type: ignore[operator]

    def __repr__(self) -> str:
        unlabeled, guess = len(self.suspicion) - len(self.order), self.estimate
        wrong = "how many are wrong is unknown, because these classes overlap"
        if guess is not None:
            wrong = f"about {guess.number:,} are wrong [{guess.low:,}, {guess.high:,}]"
        more = f" ({unlabeled:,} more nodes are unlabelled)" if unlabeled else ""
        lines = [
            f"LabelIssues: {len(self.suspects):,} of {len(self.order):,} labels are doubtful, "
            f"{self.rows.metric} metric{more}; {wrong}"
        ]
        lines += [
            f"  node {i}: {self.given[i]!s} -> {self.suggested[i]!s}, "
            f"suspicion {self.suspicion[i]:.3f}, support {self.support[i]:.3f}"
            for i in self.suspects[:5]
        ]
        return "\n".join(lines)


def find_label_issues(
    source: Source, labels: ArrayLike, *, vectors: ArrayLike | None = None, metric: str | None = None
) -> LabelIssues:
    """Find labels that the nodes around contradict.

    The *support* of a class at a node is its probability there, from the labels of the neighbours and from a linear
    model. A node's own label never counts, and unlabelled neighbours vote for no class. Both are weighted such that the
    given labels are most likely, see :class:`asbc.learn.experts.ClassProbabilities`.

    A label is doubtful if another class has more support. Doubtful labels come first; among them and among the others,
    the order is by ``rest / (rest + own)``: ``own`` is the support of the given label, and ``rest`` that of the other
    classes, each multiplied by how often its nodes are labelled as the given class. This is estimated: where many
    labels have no support at all, labels were moved to any class, and all classes count; otherwise mostly similar ones.

    Parameters
    ----------
    source : (n, d) array-like, fitted GraphBuilder, or path of a graph folder
        On vectors a builder with ``weights="blend"`` is fitted, which finds most wrong labels. A folder is read block
        by block.
    labels : (n,) array-like of integers, strings or booleans
        -1, None, NaN or "" where a node is unlabelled: it does not vote, and gets a suggestion but no suspicion. A
        pandas Series is aligned with the index of the vectors.
    vectors : (n, d) array or None, default=None
        The vectors of a graph folder, which does not hold them; a memory map is read block by block. Without them the
        support comes from the neighbours alone.
    metric : {"cosine", "euclidean"} or None, default=None
        Metric for vectors; None is cosine.

    Returns
    -------
    LabelIssues

    See Also
    --------
    describe : reports the accuracy of the vote over all labels.
    NeighborVote : predicts labels by the votes of the neighbours.

    Examples
    --------
    >>> import asbc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 1, (50, 2)), rng.normal(8, 1, (50, 2))])
    >>> labels = np.repeat(["cat", "dog"], 50)
    >>> labels[7] = "dog"
    >>> asbc.find_label_issues(asbc.GraphBuilder("gaussian", metric="euclidean").fit(X), labels)
    LabelIssues: 1 of 100 labels are doubtful, euclidean metric; about 2 are wrong [0, 10]
      node 7: dog -> cat, suspicion 1.000, support 1.000
    """
    rows = open_source(source, "blend", metric, vectors)
    n = rows.neighbors.n
    codes, classes = encode_partial(align_rows(labels, rows.index, "labels"), n)
    size = max(1, min(BLOCK_NODES, MAX_BLOCK_VALUES // len(classes)))
    model = ClassProbabilities(rows, codes, len(classes), size)

    own, other, rest = np.zeros((3, n))
    winner = np.empty(n, dtype=np.int64)
    supporters = np.empty((n, min(SUPPORTERS, rows.neighbors.k)), dtype=np.int64)
    for block in row_blocks(rows, size):
        nodes, given = block.nodes, codes[block.nodes]
        found, row, known = model.predict(block), np.arange(len(given)), given >= 0
        rest[nodes] = model.of_other_classes(found, given)
        own[nodes] = np.where(known, found[row, given], 0.0)
        found[row[known], given[known]] = -1.0
        best = found.argmax(axis=1)
        other[nodes] = np.maximum(found[row, best], 0.0)
        winner[nodes] = np.where(other[nodes] > own[nodes], best, given)
        agree = (codes[block.indices] == winner[nodes, None]) & (block.weights > 0)
        heaviest = np.argsort(np.where(agree, -block.weights, 1.0), axis=1, kind="stable")[:, :SUPPORTERS]
        supporters[nodes] = np.take_along_axis(np.where(agree, block.indices, -1), heaviest, axis=1)
    labeled = codes >= 0
    doubt = np.divide(rest, rest + own, out=np.full(n, 0.5), where=rest + own > 0)
    suspicion = np.where(labeled, (doubt + (other > own)) / 2.0, np.nan)
    suspicion[labeled & (np.maximum(own, other) == 0)] = 0.5
    judged = np.flatnonzero(labeled)
    return LabelIssues(
        suspicion=suspicion,
        suggested=decode_partial(winner, classes),
        support=np.maximum(own, other),
        given_support=own,
        supporters=supporters,
        voted=decode_partial(vote_of_rows(rows, codes), classes),
        order=judged[np.argsort(-suspicion[judged], kind="stable")],
        given=decode_partial(codes, classes),
        rows=rows,
    )


def move_labels(
    codes: NDArray[np.int64], share: float, near: NDArray[np.int64] | None, seed: int | Sequence[int]
) -> NDArray[np.int64]:
    """Give a share of the labelled nodes, at least one, another class, and return all class codes.

    Parameters
    ----------
    codes : (n,) int64
        Class codes from 0, of at least two classes; -1 for unlabelled nodes, which stay.
    share : float
        Between 0 and 1.
    near : (c, m) int64 or None
        The classes that nodes of each class may be moved to; None for all other ones.
    seed : int or sequence of int

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.issues import move_labels
    >>> codes = np.array([0, 0, 1, 1])
    >>> labels = move_labels(codes, share=0.25, near=None, seed=0)
    >>> int((labels != codes).sum())
    1
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1; got {share}")
    classes = int(codes.max()) + 1
    if classes < 2:
        raise ValueError(f"codes must have at least 2 classes for a label to be moved; got {classes}")
    rng = np.random.default_rng(seed)
    labeled = np.flatnonzero(codes >= 0)
    nodes = labeled[np.sort(rng.choice(len(labeled), max(1, round(share * len(labeled))), replace=False))]
    labels = codes.copy()
    if near is None:
        labels[nodes] = (codes[nodes] + rng.integers(1, classes, len(nodes))) % classes
    else:
        labels[nodes] = near[codes[nodes], rng.integers(0, near.shape[1], len(nodes))]
    return labels


def _near_classes(rows: GraphRows, codes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the classes that nodes of each class have most often as neighbours: (count, at most 3)."""
    near = -sparse.eye_array(count, format="csr")  # a class itself comes last
    for block in row_blocks(rows):
        own, other = np.broadcast_arrays(codes[block.nodes, None], codes[block.indices])
        known = (own >= 0) & (other >= 0) & (own != other)
        near += sparse.csr_array((block.weights[known], (own[known], other[known])), (count, count))
    order = [np.argsort(-near[[c]].toarray()[0], kind="stable") for c in range(count)]
    return np.stack(order)[:, : min(NEAR, count - 1)]


def wilson_interval(right: int, of: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a proportion, which stays within 0 and 1."""
    return tuple(stats.binomtest(int(right), int(of)).proportion_ci(method="wilson"))
