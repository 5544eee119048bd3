"""The figures, by experiment: each is a row of panels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from asbc.report import contrasts
from asbc.report.alignment import alignment
from asbc.report.canvas import draw, png, save
from asbc.report.chart import Axis, Band, Box, Figure, Line, Mark, Note, Panel, Rule, named_ticks
from asbc.report.curves import gains, loo, lp
from asbc.report.paper import at_gamma, paper
from asbc.report.parts import Part
from asbc.report.style import BLUE, FAINT, GREEN, INK, MUTED, ORANGE, RED

if TYPE_CHECKING:
    import pandas as pd


def regimes(part: Part) -> Figure:
    """Figure 1: what local kernels are like from a narrow bandwidth to a wide one."""
    k = int(part.rows["k_cand"].iloc[0])
    chosen = {q: mean_of(part.of(f"chosen_scale_{q}")) for q in ("q25", "median", "q75")}
    dimension = mean_of(part.of("chosen_dimension_median"))
    scale = "bandwidth / distance to the 10th neighbour" if _scale_k(part) == 10 else "bandwidth scale"
    across = Axis(scale, log=True, ticks=named_ticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5]))

    def curve(name: str, color: str) -> list[Mark]:
        low, mid, high = (part.of(f"{name}_{q}").groupby("scale")["value"].mean() for q in ("q25", "median", "q75"))
        x = mid.index.tolist()
        return [
            Box(chosen["q25"], chosen["q75"], GREEN, 0.16),
            Rule(chosen["median"], GREEN, upright=True),
            Band(x, low.tolist(), high.tolist(), color),
            Line(x, mid.tolist(), color),
        ]

    rank: list[Mark] = [
        *curve("rank", BLUE),
        Rule(dimension, INK, dash="--", width=1),
        Note(0.052, dimension, f"median dimension {dimension:.1f}"),
        Note(chosen["median"] * 1.06, k * 1.05, "chosen", GREEN, above=False, bold=True),
    ]
    return Figure(
        "fig1_regimes",
        "Figure 1. Regimes of the bandwidth",
        "Lines are medians over the nodes, shades their quartiles, both averaged over trials. To the left every "
        "neighbour stands alone (rank near the number of neighbours), to the right all look alike (rank near 1). "
        "Green: the bandwidths that the criterion chose, median and quartiles.",
        [
            Panel("Effective rank", across, Axis(f"rank r (of {k})", 0, k * 1.05), rank),
            Panel("Log-log slope", across, Axis("slope of log kernel sum", 0), curve("slope", ORANGE)),
            Panel("Condition number", across, Axis("condition of the local kernel", log=True), curve("condition", RED)),
        ],
        [
            f"Effective rank falls as the bandwidth grows; the chosen bandwidths are near {chosen['median']:.2f}.",
            "The log-log slope rises to a peak and falls again.",
            "The condition number grows with the bandwidth.",
        ],
    )


def gamma(part: Part) -> Figure:
    """Table 3 as a figure: accuracy and rank against gamma, ours and the paper's."""
    values = [float(v) for v in sorted(part.rows["setting"].unique())]
    printed = paper()["gamma"]
    base = 1.0 if 1.0 in values else values[0]
    measured = set(part.of("loo")["method"])
    methods = [m for m in part.methods if m in measured]

    def theirs(y: np.ndarray) -> Line:
        return Line(printed["value"], y.tolist(), INK, ":", "D", width=1, hollow=True, label="the paper")

    def accuracy() -> Panel:
        marks: list[Mark] = [Rule(0, MUTED)]
        for m in methods:
            found = [contrasts.across(part, m, v, base, "loo") if v != base else None for v in values]
            marks += gains(values, found, m)
        marks.append(theirs(np.array(printed["loo"]) - (at_gamma(base, "loo") or np.nan)))
        return Panel(f"LOO: difference from γ = {base:g}", Axis("γ"), Axis("difference in accuracy"), marks, columns=3)

    def rank() -> Panel:
        (method,) = part.methods[-1:]  # r depends on the bandwidth alone, not on the weights
        r, d = (_means(part.of(name), method, values) for name in ("rank_median", "dimension_median"))
        marks: list[Mark] = [
            Line(values, (r / d).tolist(), RED, marker="o", label="ours"),
            theirs(np.array(printed["rank_median"]) / printed["dimension_median"]),
            Line(values, values, FAINT, width=1, label="r = γ d"),
        ]
        return Panel("Median rank over median dimension", Axis("γ"), Axis("r / d", 0), marks, columns=3)

    has_rank = part.has("rank_median")
    return Figure(
        "table3_gamma",
        "How much γ matters",
        f"Paired 95% intervals against γ = {base:g}. The paper's points: {paper()['data']}.",
        [*([accuracy()] if methods else []), *([rank()] if has_rank else [])],
        [
            *(["LOO differences for each gamma."] if methods else []),
            *(["Median rank relative to the dimension for each gamma."] if has_rank else []),
        ],
    )


def regret(part: Part) -> Figure:
    """Accuracy over bandwidths that labels could tune, and that of rules that see no labels."""
    rows = part.of("loo")
    means = rows.groupby("method")["value"].mean()
    rules = {"spectral": (RED, "-"), "perplexity": (GREEN, "-."), "self_tuning": (BLUE, ":")}

    def panel(kind: str) -> Panel:
        marks: list[Mark] = []
        for scope, color, marker in (("local", INK, "o"), ("global", FAINT, "s")):
            tuned = rows[rows["method"] == f"tuned_{scope}_{kind}"].groupby("scale")["value"].mean()
            text = "tuned, each node its own" if scope == "local" else "tuned, one for all"
            marks.append(Line(tuned.index.tolist(), tuned.tolist(), color, marker=marker, size=4, label=text))
        for rule, (color, dash) in rules.items():
            method = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}[kind] if rule == "spectral" else f"{rule}_{kind}"
            if method in means:
                marks.append(Rule(float(means[method]), color, dash=dash, width=1.6, label=rule.replace("_", " ")))
        across = Axis("bandwidth scale c", log=True, ticks=named_ticks([0.2, 0.5, 1, 2]))
        return Panel(f"{'NNK' if kind == 'nnk' else 'Gaussian'} weights", across, Axis("LOO"), marks, columns=2)

    kinds = [kind for kind in ("gaussian", "nnk") if f"tuned_local_{kind}" in means]
    return Figure(
        "regret",
        "Tuning with labels, and rules without",
        "Curves: accuracy at σ = c × the distance to the 10th neighbour, each node's own or the mean of all. "
        "Horizontal: rules that see no labels.",
        [panel(kind) for kind in kinds],
        [f"LOO against the bandwidth scale with {kind} weights." for kind in kinds],
    )


def mean_of(rows: pd.DataFrame) -> float:
    """Mean of the values of some rows; NaN where there are none."""
    return float(rows["value"].mean())


__all__ = ["FIGURES", "alignment", "draw", "gamma", "loo", "lp", "png", "regimes", "regret", "save"]

FIGURES: dict[str, Callable[[Part], Figure]] = {
    "regimes": regimes,
    "alignment": alignment,
    "loo": loo,
    "lp": lp,
    "gamma": gamma,
    "regret": regret,
}


def _means(rows: pd.DataFrame, method: str, values: list[float]) -> np.ndarray:
    """Mean of a method at each value of the swept setting."""
    return rows[rows["method"] == method].groupby("setting")["value"].mean().reindex(values).to_numpy(float)


def _scale_k(part: Part) -> int | None:
    return int(part.rows["regimes.k"].iloc[0]) if "regimes.k" in part.rows else None
