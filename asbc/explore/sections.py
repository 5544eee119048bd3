"""What the page says in words and tables, next to the map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.dimension import LARGEST, SMALLEST
from asbc.explore.findings import GROUPS, OUTLIERS, Findings

PIECES, PAIRS = 10, 30  # pieces and pairs of classes that are listed
SNIPPET = 140  # characters of a text in a table


@dataclass(frozen=True)
class Ref:
    """A node as tables show it: its number, label and text, and whether it has a picture."""

    node: int
    label: str | None
    text: str
    picture: bool


@dataclass(frozen=True)
class Card:
    """One number of the overview, with what it means."""

    name: str
    value: str
    note: str
    nodes: str = ""  # numbers of the nodes that it is about, joined by commas


class Sections:
    """Everything that the page's template asks for, apart from figures.

    Parameters
    ----------
    found : Findings
    pictures : set of int
        Nodes that have a thumbnail.
    """

    def __init__(self, found: Findings, pictures: set[int]):
        self.found, self.about = found, found.about
        self._pictures = pictures
        self._labels = found.nodes["label"].tolist() if "label" in found.nodes else None
        self._texts = found.nodes["text"].tolist() if "text" in found.nodes else None

    def ref(self, node: int) -> Ref:
        text = "" if self._texts is None else str(self._texts[node])
        text = text if len(text) <= SNIPPET else text[: SNIPPET - 1].rstrip() + "…"
        return Ref(int(node), None if self._labels is None else self._labels[node], text, int(node) in self._pictures)

    def refs(self, nodes: NDArray[np.int64]) -> list[Ref]:
        return [self.ref(int(node)) for node in nodes]

    def cards(self) -> list[Card]:
        about = self.about
        low, middle, high = about.dimension_quartiles
        groups, redundant = about.duplicates.groups, about.duplicates.redundant
        sizes = np.bincount(self.found.nodes["component"])
        cards = [
            Card(
                "Nodes",
                f"{about.n:,}",
                (f"vectors with {about.d:,} numbers, " if about.d else "") + f"{about.k} neighbours each",
            ),
            Card(
                "Local dimension",
                f"{middle:.1f}",
                f"in the median; half of the nodes lie between {low:.1f} and {high:.1f}. {self.clipped()}",
            ),
        ]
        if about.effective_rank is not None:
            most = min(about.n, about.d or about.n)
            note = f"of {most:,} directions are in use on the whole (RankMe)"
            cards.append(Card("Effective rank", f"{about.effective_rank:.0f}", note))
        cards += [
            Card(
                "Components",
                f"{about.components:,}",
                "the graph is in one piece"
                if about.components == 1
                else f"separate pieces; the largest has {sizes.max() / about.n:.1%} of the nodes",
            ),
            Card(
                "Hubs",
                f"{about.hubness:.2f}",
                f"skewness of how often nodes are neighbours. {about.antihubs:.1%} are nobody's neighbour; the "
                f"largest hub is the neighbour of {about.occurrence[about.hubs[0]]:,}",
                joined(about.hubs),
            ),
            Card(
                "Outliers",
                f"{len(about.outliers):,}",
                f"lie more than {about.outlier_threshold:.2f} times as far apart as the nodes around them",
                joined(about.outliers),
            ),
            Card(
                "Near-duplicates",
                f"{len(redundant):,}",
                f"could go: {counted(len(groups), 'group')} of nodes that are nearly the same",
                joined(np.concatenate(groups)) if groups else "",
            ),
        ]
        if about.loo_accuracy is not None and about.loo_interval is not None:
            bottom, top = about.loo_interval
            cards.append(
                Card(
                    "Labels that fit",
                    f"{about.loo_accuracy:.1%}",
                    f"of {about.n_labeled:,} labels are what the neighbours vote for [{bottom:.1%}, {top:.1%}]",
                    joined(self.found.suspects),
                )
            )
        return cards

    def clipped(self) -> str:
        """How many estimates of dimension are at the limits of what is estimated."""
        about = self.about
        if not about.at_smallest + about.at_largest:
            return f"No estimate is at the limits, {SMALLEST:.0f} and {LARGEST:.0f}."
        return (
            f"{about.at_smallest:,} estimates are at the lower limit {SMALLEST:.0f}, {about.at_largest:,} at the upper "
            f"limit {LARGEST:.0f}."
        )

    def hubs(self) -> list[tuple[Ref, int]]:
        return [(self.ref(int(node)), int(self.about.occurrence[node])) for node in self.about.hubs]

    def outliers(self) -> list[tuple[Ref, float]]:
        return [(self.ref(int(i)), float(self.about.outlier_score[i])) for i in self.about.outliers[:OUTLIERS]]

    def groups(self) -> list[tuple[list[Ref], bool]]:
        """The largest groups of near-duplicates, and whether their members have more than one label."""
        listed = []
        for group in self.found.listed_groups:
            names = {None if self._labels is None else self._labels[node] for node in group}
            listed.append((self.refs(group), len(names - {None}) > 1))
        return listed

    def more_groups(self) -> int:
        return max(0, len(self.about.duplicates.groups) - GROUPS)

    def pieces(self) -> list[tuple[int, int, str]]:
        """Number, size and members of the largest pieces, where there are several."""
        component = self.found.nodes["component"].to_numpy()
        sizes = np.bincount(component)
        return [
            (number + 1, int(sizes[number]), joined(np.flatnonzero(component == number)) if number else "")
            for number in range(min(PIECES, len(sizes)))
        ]

    def suspects(self) -> list[dict[str, Any]]:
        nodes = self.found.nodes
        if "suspicion" not in nodes:
            return []
        suspicion, weight = nodes["suspicion"].to_numpy(float), nodes["suggested_weight"].to_numpy(float)
        return [
            {
                "ref": self.ref(int(node)),
                "suggested": nodes["suggested"].iat[int(node)],
                "suspicion": float(suspicion[node]),
                "weight": float(weight[node]),
                "neighbors": self.refs(supporters),
                "nodes": joined(np.concatenate([[node], supporters])),
            }
            for node, supporters in zip(self.found.suspects, self.found.supporters, strict=False)
        ]

    def pairs(self) -> list[dict[str, Any]]:
        report, issues, nodes = self.found.classes, self.found.issues, self.found.nodes
        if report is None or issues is None:
            return []
        names = self.class_names()
        rows = []
        suspects = self.found.suspects
        given = nodes["label"].to_numpy(object)[suspects]
        said = nodes["suggested"].to_numpy(object)[suspects]
        for (a, b), there, back in list(zip(report.pairs, report.there, report.back, strict=True))[:PAIRS]:
            one, other = names[a], names[b]
            between = ((given == one) & (said == other)) | ((given == other) & (said == one))
            rows.append({"one": one, "other": other, "there": there, "back": back, "nodes": joined(suspects[between])})
        return rows

    def alone(self) -> str:
        """What to know of labels that no other node has; empty where each has another."""
        report = self.found.classes
        number = 0 if report is None else int((report.size == 1).sum())
        if not number:
            return ""
        if number == 1:
            return "One class has a single node, for which no other can speak."
        return f"{number:,} classes have a single node, for which no other can speak."

    def class_names(self) -> list[str]:
        report = self.found.classes
        return [] if report is None else [_word(value) for value in report.classes.tolist()]

    def per_class(self) -> list[dict[str, Any]]:
        """Every class, the one that fits worst first."""
        report = self.found.classes
        if report is None:
            return []
        names, share = self.class_names(), report.accuracy
        order = np.lexsort((-report.size, share))
        return [
            {
                "name": names[c],
                "size": int(report.size[c]),
                "share": float(share[c]),
                "low": float(report.low[c]),
                "high": float(report.high[c]),
            }
            for c in order
        ]


def counted(number: int, name: str) -> str:
    """So many of something, in words: "1 node", "2 nodes"."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def joined(nodes: NDArray[np.int64]) -> str:
    """Numbers of nodes, as an attribute of the page holds them."""
    return ",".join(map(str, np.asarray(nodes).tolist()))


def _word(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
