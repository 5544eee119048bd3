"""Accuracy against samples or labels per class: Figures 3 and 4, of one subject and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from asbc.report import contrasts
from asbc.report.canvas import Figure, Panel
from asbc.report.marks import legend_below, whiskers
from asbc.report.parts import Part, Subject
from asbc.report.style import INK, LOOKS, MUTED, label, plain_label
from asbc.report.words import level_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    limits = (values.min() - margin, values.max() + margin)

    def panel(subject: Subject, part: Part) -> Panel:
        def paint(axes: Axes) -> None:
            curve = _accuracy(part, metric)
            curve(axes)
            axes.set(title=subject.name.replace("$", r"\$"), ylim=limits)

        return paint

    methods = list(dict.fromkeys(method for part in parts for method in _methods(part, metric)))
    return Figure(
        f"{NAMES[metric]}_side_by_side",
        f"{TITLES[metric]}, side by side",
        "Means over trials, small dots the trials; all panels have one scale.",
        [panel(subject, part) for subject, part in zip(shown, parts, strict=True)],
        [f"{TITLES[metric]} of {subject.name}." for subject in shown],
        columns=3 if len(shown) > 2 else 2,
        key=methods,
    )


def _curves(part: Part, metric: str) -> Figure:
    part = part.fullest(metric)
    title, axis = TITLES[metric], AXES[metric]
    levels = part.levels(metric)
    methods = _methods(part, metric)
    base = "knn" if "knn" in methods else methods[0]
    places = np.arange(len(levels))  # equal steps, whatever the values: small levels would crowd together otherwise
    gains = {
        method: [contrasts.between(part, method, base, metric, level=level) for level in levels]
        for method in methods
        if method != base
    }

    def curve(axes: Axes) -> None:
        _accuracy(part, metric)(axes)
        axes.set(title="Accuracy")
        legend_below(axes, 3)

    def gain(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, lw=1.2)
        for index, (method, found) in enumerate(gains.items()):
            x = places + 0.11 * (index - (len(gains) - 1) / 2)
            whiskers(axes, x, found, method)
        axes.set_xticks(places, [level_name(level) for level in levels])
        axes.set(title=f"Difference from {plain_label(base)}", xlabel=axis, ylabel="difference in accuracy")
        legend_below(axes, 3)

    def local(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, lw=1.2)
        found = [contrasts.between(part, "nnk_sigma", "nnk_fixed", metric, level=level) for level in levels]
        whiskers(axes, places, found, "nnk_sigma")
        axes.set_xticks(places, [level_name(level) for level in levels])
        axes.set(title="NNK-σ less NNK-fixed, on its own scale", xlabel=axis, ylabel="difference in accuracy")

    pair = {"nnk_sigma", "nnk_fixed"} <= set(methods)
    panels: list[Panel] = [curve, *([gain] if gains else []), *([local] if pair else [])]
    alt = [f"{title} of {len(methods)} methods."]
    alt += [f"Paired differences from {label(base)} with intervals."] if gains else []
    alt += ["Paired differences of NNK-σ from NNK-fixed with intervals."] if pair else []
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


def _accuracy(part: Part, metric: str) -> Panel:
    rows, levels = part.of(metric), part.levels(metric)
    order = {level: place for place, level in enumerate(levels)}

    def paint(axes: Axes) -> None:
        for method in _methods(part, metric):
            color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
            own = rows[rows["method"] == method]
            means = own.groupby("level")["value"].mean().reindex(levels)
            axes.plot(range(len(levels)), means, color=color, marker=marker, ls=dash, label=plain_label(method))
            axes.plot([order[level] for level in own["level"]], own["value"], ".", color=color, ms=3, alpha=0.45)
        axes.set_xticks(range(len(levels)), [level_name(level) for level in levels])
        axes.set(xlabel=AXES[metric], ylabel="accuracy")

    return paint
