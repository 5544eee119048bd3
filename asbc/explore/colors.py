"""Which colour stands for which value?"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from bokeh.palettes import cividis, plasma, viridis
from numpy.typing import NDArray

from asbc.explore.findings import Findings

UNKNOWN = "#c9d1d9"  # a node that has no value: unlabelled, or beyond what is shown
# Okabe and Ito's colours and some beside them: the first classes are told apart by anybody.
FIRST = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b4fa3", "#8c6d31", "#3f4a52", "#b0a800"]
LEGEND = 24  # entries of a legend at most
CUT = (0.01, 0.99)  # quantiles between which a scale of colours runs, so that single nodes do not take it all


@dataclass(frozen=True)
class Entry:
    """One line of a legend: what it stands for, its colour, how many nodes it has, and its number."""

    name: str
    color: str
    count: int
    code: int


@dataclass(frozen=True)
class Coloring:
    """One way to colour the map.

    Attributes
    ----------
    key, title, note : str
        Name of the column, what the reader is shown, and what it means.
    values : (m,) float32
        Of the nodes on the map; NaN for none.
    palette : list of str
        Colours from `low` to `high`.
    low, high : float
        Values at the ends of the palette.
    legend : list of Entry
        For classes; empty for a scale.
    hidden : int
        Classes that the legend leaves out.
    """

    key: str
    title: str
    note: str
    values: NDArray[np.float32]
    palette: list[str]
    low: float
    high: float
    legend: list[Entry]
    hidden: int = 0

    @property
    def field(self) -> str:
        """The column of the page that holds the values: classes have their numbers in one of their own."""
        return f"number_of_{self.key}" if self.legend else self.key


def class_palette(count: int) -> list[str]:
    """Colours for `count` classes: ten that anybody can tell apart, then others spread over the hues."""
    more = []
    for i in range(max(0, count - len(FIRST))):
        hue = (0.11 + i * 0.61803398875) % 1.0  # steps of the golden ratio: successive hues lie far apart
        lightness, saturation = ((0.42, 0.75), (0.58, 0.55), (0.32, 0.6), (0.68, 0.7))[i % 4]
        red, green, blue = colorsys.hls_to_rgb(hue, lightness, saturation)
        more.append(f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}")
    return (FIRST + more)[:count]


def colorings(found: Findings) -> list[Coloring]:
    """The ways to colour the map that these findings allow, the one to begin with first."""
    nodes, shown = found.nodes, found.shown
    ways = []
    if "label" in nodes:
        ways.append(
            _classes(nodes["label"].to_numpy(dtype=object)[shown], "label", "Label", "what each node is called")
        )
    scales: list[tuple[str, str, str, Sequence[str]]] = [
        ("dimension", "Local dimension", "how many directions there are around a node", viridis(256)),
        ("sigma", "Bandwidth σ", "the width of the kernel that was chosen for a node", viridis(256)),
        ("density", "Density", "median distance to the last neighbour, divided by the node's own", cividis(256)),
    ]
    ways += [
        _scale(nodes[key].to_numpy(float)[shown], title, note, palette, key=key)
        for key, title, note, palette in scales
        if key in nodes
    ]
    pieces = nodes["component"].to_numpy()[shown]
    ways.append(
        _classes(
            np.array([f"piece {number + 1}" for number in pieces], dtype=object),
            "component",
            "Component",
            "pieces of the graph that no edge connects; piece 1 is the largest",
        )
    )
    if "suspicion" in nodes:
        suspicion = nodes["suspicion"].to_numpy(float)[shown]
        note = "0 where all neighbours agree with a label, 1 where all say another; above 0.5 it is doubtful"
        ways.append(_scale(suspicion, "Label suspicion", note, plasma(256)[::-1], key="suspicion", ends=(0.0, 1.0)))
    return ways


def _classes(names: NDArray, key: str, title: str, note: str) -> Coloring:
    known = np.array([name is not None for name in names], dtype=bool)
    classes, codes, counts = np.unique(names[known].astype(str), return_inverse=True, return_counts=True)
    # The most frequent first: they get the clearest colours. Among equals 2 comes before 10.
    order = np.array(
        sorted(range(len(classes)), key=lambda c: (-counts[c], _in_order(str(classes[c])))), dtype=np.int64
    )
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    values = np.full(len(names), np.nan, dtype=np.float32)
    values[known] = rank[codes]
    palette = class_palette(len(classes))
    legend = [Entry(str(classes[c]), palette[i], int(counts[c]), i) for i, c in enumerate(order[:LEGEND])]
    high = max(len(classes), 1) - 0.5
    return Coloring(key, title, note, values, palette or [UNKNOWN], -0.5, high, legend, max(0, len(classes) - LEGEND))


def _in_order(name: str) -> list[tuple[int, str]]:
    """What sorts names as people do: a number in them by its value, so by how many digits it has first."""
    parts = re.split(r"0*([0-9]+)", name)
    return [(len(part) if number % 2 else 0, part) for number, part in enumerate(parts)]


def _scale(values, title: str, note: str, palette, *, key: str, ends: tuple[float, float] | None = None) -> Coloring:
    usable = values[np.isfinite(values)]
    low, high = ends or (np.quantile(usable, CUT) if len(usable) else (0.0, 1.0))
    if not high > low:
        low, high = low - 0.5, low + 0.5
    return Coloring(key, title, note, values.astype(np.float32), list(palette), float(low), float(high), [])
