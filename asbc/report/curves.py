"""Accuracy against samples or labels per class: Figures 3 and 4, of one subject and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from asbc.evaluate.comparison import Comparison
from asbc.report import contrasts
from asbc.report.chart import Axis, Figure, Line, Mark, Panel, Rule, Whiskers
from asbc.report.parts import Part, Subject
from asbc.report.style import INK, LOOKS, MUTED, label
from asbc.report.words import level_name

AXES = {"loo": "samples per class", "lp": "labels per class"}
TITLES = {"loo": "Figure 3. Leave-one-out accuracy", "lp": "Figure 4. Label propagation accuracy"}
NAMES = {"loo": "fig3_loo", "lp": "fig4_lp"}


def loo(part: Part) -> Figure:
    """Figure 3: leave-one-out accuracy against samples per class."""
    return _curves(part, "loo")


def lp(part: Part) -> Figure:
    """Figure 4: accuracy of label propagation against labels per class."""
    return _curves(part, "lp")


def side_by_side(subjects: Sequence[Subject], metric: str) -> Figure | None:
    """The same curves of several subjects, a panel each, on one scale; None where fewer than two have been run."""
    shown = [subject for subject in subjects if metric in subject.parts and subject.parts[metric].has(metric)]
    if len(shown) < 2:
        return None
    parts = [subject.parts[metric].fullest(metric) for subject in shown]
    values = np.concatenate([part.of(metric)["value"].to_numpy(float) for part in parts])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    margin = 0.04 * (values.max() - values.min() or 0.1)
    up = Axis("accuracy", float(values.min() - margin), float(values.max() + margin))
    methods = list(dict.fromkeys(method for part in parts for method in _methods(part, metric)))
    return Figure(
        f"{NAMES[metric]}_side_by_side",
        f"{TITLES[metric]}, side by side",
        "Means over trials, small dots the trials; all panels have one scale.",
        [
            replace(_accuracy(part, metric), title=subject.name, y=up, columns=0)
            for subject, part in zip(shown, parts, strict=True)
        ],
        [f"{TITLES[metric]} of {subject.name}." for subject in shown],
        columns=3 if len(shown) > 2 else 2,
        key=[_look(method) for method in methods],
    )


def gains(x: Sequence[float], found: Sequence[Comparison | None], method: str) -> list[Mark]:
    """Differences with their intervals, in the look of a method; a gap where there is none."""
    kept = [(at, c) for at, c in zip(x, found, strict=True) if c is not None]
    if not kept:
        return []
    places, middle = [at for at, _ in kept], [c.difference for _, c in kept]
    look = _look(method)
    low, high = [c.low for _, c in kept], [c.high for _, c in kept]
    return [
        Line(places, middle, look.color, look.dash, width=1, alpha=0.6),
        Whiskers(places, middle, low, high, look.color, look.marker, look.label),
    ]


def _curves(part: Part, metric: str) -> Figure:
    part = part.fullest(metric)
    title = TITLES[metric]
    levels = part.levels(metric)
    methods = _methods(part, metric)
    base = "knn" if "knn" in methods else methods[0]
    others = [method for method in methods if method != base]
    places = np.arange(len(levels))  # equal steps, whatever the values: small levels would crowd together otherwise

    def against(a: str, b: str) -> list[Comparison | None]:
        return [contrasts.between(part, a, b, metric, level=level) for level in levels]

    def differences(title: str, marks: Sequence[Mark], columns: int = 0) -> Panel:
        return Panel(title, _across(part, metric), Axis("difference in accuracy"), [Rule(0, MUTED), *marks], columns)

    panels, alt = [_accuracy(part, metric)], [f"{title} of {len(methods)} methods."]
    if others:
        marks: list[Mark] = []
        for index, method in enumerate(others):
            beside = places + 0.11 * (index - (len(others) - 1) / 2)
            marks += gains(beside.tolist(), against(method, base), method)
        panels.append(differences(f"Difference from {label(base)}", marks, columns=3))
        alt.append(f"Paired differences from {label(base)} with intervals.")
    pair = {"nnk_sigma", "nnk_fixed"} <= set(methods)
    if pair:
        found = gains(places.tolist(), against("nnk_sigma", "nnk_fixed"), "nnk_sigma")
        panels.append(differences("NNK-σ less NNK-fixed, own scale", found))
        alt.append("Paired differences of NNK-σ from NNK-fixed with intervals.")
    return Figure(
        NAMES[metric],
        title,
        "Accuracy: means over trials, small dots the trials. Difference: what each method gains over "
        f"{label(base)} in the same trials, with the paired 95% interval."
        + (" Last: what a bandwidth for each node brings beyond one for all." if pair else ""),
        panels,
        alt,
    )


def _methods(part: Part, metric: str) -> list[str]:
    there = set(part.of(metric)["method"])
    return [method for method in part.methods if method in there]


def _look(method: str) -> Line:
    """The line of a method, without its points."""
    color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
    return Line([], [], color, dash, marker, label=label(method))


def _across(part: Part, metric: str) -> Axis:
    levels = part.levels(metric)
    return Axis(AXES[metric], ticks=[(place, level_name(level)) for place, level in enumerate(levels)])


def _accuracy(part: Part, metric: str) -> Panel:
    rows, levels = part.of(metric), part.levels(metric)
    order = {level: place for place, level in enumerate(levels)}
    marks: list[Mark] = []
    for method in _methods(part, metric):
        own = rows[rows["method"] == method]
        means = own.groupby("level")["value"].mean().reindex(levels)
        look = _look(method)
        marks.append(replace(look, x=range(len(levels)), y=means.tolist()))
        trials = [order[level] for level in own["level"]]
        marks.append(Line(trials, own["value"].tolist(), look.color, "", "o", size=1.5, alpha=0.45))
    return Panel("Accuracy", _across(part, metric), Axis("accuracy"), marks, columns=3)
