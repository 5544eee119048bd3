"""The figures, by experiment: each is a row of panels, and each panel a function that draws on axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from asbc.report import contrasts
from asbc.report.alignment import alignment
from asbc.report.canvas import Figure, Panel, draw, png, save
from asbc.report.curves import loo, lp
from asbc.report.marks import legend_below, mean_of, plain_ticks, whiskers
from asbc.report.paper import at_gamma, paper
from asbc.report.parts import Part
from asbc.report.style import BLUE, FAINT, GREEN, INK, MUTED, ORANGE, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def regimes(part: Part) -> Figure:
    """Figure 1: what local kernels are like from a narrow bandwidth to a wide one."""
    k = int(part.rows["k_cand"].iloc[0])
    chosen = {q: mean_of(part.of(f"chosen_scale_{q}")) for q in ("q25", "median", "q75")}
    dimension = mean_of(part.of("chosen_dimension_median"))

    def curve(axes: Axes, name: str, color: str) -> None:
        low, mid, high = (part.of(f"{name}_{q}").groupby("scale")["value"].mean() for q in ("q25", "median", "q75"))
        axes.axvspan(chosen["q25"], chosen["q75"], color=GREEN, alpha=0.16, lw=0)
        axes.axvline(chosen["median"], color=GREEN, lw=1.2)
        axes.fill_between(mid.index, low, high, color=color, alpha=0.22, lw=0)
        axes.plot(mid.index, mid, color=color)
        axes.set_xscale("log")
        plain_ticks(axes, "x", [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
        axes.set_xlabel("bandwidth / distance to the 10th neighbour" if _scale_k(part) == 10 else "bandwidth scale")

    def rank(axes: Axes) -> None:
        curve(axes, "rank", BLUE)
        axes.axhline(dimension, color=INK, lw=1, ls="--")
        axes.text(0.052, dimension + 0.02 * k, f"median dimension {dimension:.1f}", va="bottom", fontsize=9)
        axes.text(chosen["median"] * 1.06, k * 0.97, "chosen", color=GREEN, va="top", fontsize=9, weight="bold")
        axes.set(title="Effective rank", ylabel=f"rank r (of {k})", ylim=(0, k * 1.05))

    def slope(axes: Axes) -> None:
        curve(axes, "slope", ORANGE)
        axes.set(title="Log-log slope", ylabel="slope of log kernel sum", ylim=(0, None))

    def condition(axes: Axes) -> None:
        curve(axes, "condition", RED)
        axes.set_yscale("log")
        axes.set(title="Condition number", ylabel="condition of the local kernel")

    return Figure(
        "fig1_regimes",
        "Figure 1. Regimes of the bandwidth",
        "Lines are medians over the nodes, shades their quartiles, both averaged over trials. To the left every "
        "neighbour stands alone (rank near the number of neighbours), to the right all look alike (rank near 1). "
        "Green: the bandwidths that the criterion chose, median and quartiles.",
        [rank, slope, condition],
        [
            f"Effective rank falls as the bandwidth grows; the chosen bandwidths are near {chosen['median']:.2f}.",
            "The log-log slope rises to a peak and falls again.",
            "The condition number grows with the bandwidth.",
        ],
    )


def gamma(part: Part) -> Figure:
    """Table 3 as a figure: accuracy and rank against gamma, ours and the paper's."""
    values = sorted(part.rows["setting"].unique())
    printed = paper()["gamma"]
    base = 1.0 if 1.0 in values else values[0]
    methods = [m for m in part.methods if (part.of("loo")["method"] == m).any()]
    steps = {m: [contrasts.across(part, m, v, base, "loo") if v != base else None for v in values] for m in methods}

    def accuracy(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, lw=1.2)
        for method, found in steps.items():
            whiskers(axes, np.array(values), found, method)
        theirs = np.array(printed["loo"]) - (at_gamma(base, "loo") or np.nan)
        axes.plot(printed["value"], theirs, "D", mfc="white", mec=INK, ls=":", color=INK, lw=1, label="the paper")
        axes.set(title=f"LOO: difference from γ = {base:g}", xlabel="γ", ylabel="difference in accuracy")
        legend_below(axes, 3)

    def rank(axes: Axes) -> None:
        for method in part.methods[-1:]:  # r depends on the bandwidth alone, not on the weights
            r = part.of("rank_median")
            d = part.of("dimension_median")
            ratio = [
                mean_of(r[(r["method"] == method) & (r["setting"] == v)])
                / mean_of(d[(d["method"] == method) & (d["setting"] == v)])
                for v in values
            ]
            axes.plot(values, ratio, color=RED, marker="o", label="ours")
        theirs = np.array(printed["rank_median"]) / printed["dimension_median"]
        axes.plot(printed["value"], theirs, "D", mfc="white", mec=INK, ls=":", color=INK, lw=1, label="the paper")
        axes.plot(values, values, color=FAINT, lw=1, label="r = γ d")
        axes.set(title="Median rank over median dimension", xlabel="γ", ylabel="r / d", ylim=(0, None))
        legend_below(axes, 3)

    has_rank = (part.rows["metric"] == "rank_median").any()
    return Figure(
        "table3_gamma",
        "How much γ matters",
        f"Paired 95% intervals against γ = {base:g}. The paper's points: {printed_for()}.",
        [*([accuracy] if methods else []), *([rank] if has_rank else [])],
        [
            *(["LOO differences for each gamma."] if methods else []),
            *(["Median rank relative to the dimension for each gamma."] if has_rank else []),
        ],
    )


def regret(part: Part) -> Figure:
    """Accuracy over bandwidths that labels could tune, and that of rules that see no labels."""
    rows = part.of("loo")
    rules = {"spectral": (RED, "-"), "perplexity": (GREEN, "-."), "self_tuning": (BLUE, ":")}

    def panel(kind: str) -> Panel:
        own = rows[rows["weights"] == kind]
        spectral = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}[kind]

        def paint(axes: Axes) -> None:
            for scope, color, marker in (("local", INK, "o"), ("global", FAINT, "s")):
                tuned = own[own["method"] == f"tuned_{scope}_{kind}"].groupby("scale")["value"].mean()
                text = "tuned, each node its own" if scope == "local" else "tuned, one for all"
                axes.plot(tuned.index, tuned, color=color, marker=marker, ms=4, label=text)
            for rule, (color, dash) in rules.items():
                mine = own[own["method"] == (spectral if rule == "spectral" else f"{rule}_{kind}")]
                if not mine.empty:
                    axes.axhline(mine["value"].mean(), color=color, ls=dash, lw=1.6, label=rule.replace("_", " "))
            axes.set_xscale("log")
            plain_ticks(axes, "x", [0.2, 0.5, 1, 2])
            axes.set(
                title=f"{'NNK' if kind == 'nnk' else 'Gaussian'} weights", xlabel="bandwidth scale c", ylabel="LOO"
            )
            legend_below(axes, 2)

        return paint

    kinds = [kind for kind in ("gaussian", "nnk") if (rows["method"] == f"tuned_local_{kind}").any()]
    return Figure(
        "regret",
        "Tuning with labels, and rules without",
        "Curves: accuracy at σ = c × the distance to the 10th neighbour, each node's own or the mean of all. "
        "Horizontal: rules that see no labels.",
        [panel(kind) for kind in kinds],
        [f"LOO against the bandwidth scale with {kind} weights." for kind in kinds],
    )


def printed_for() -> str:
    """What the paper's numbers are about."""
    return str(paper()["data"])


__all__ = ["FIGURES", "alignment", "draw", "gamma", "loo", "lp", "png", "regimes", "regret", "save"]

FIGURES: dict[str, Callable[[Part], Figure]] = {
    "regimes": regimes,
    "alignment": alignment,
    "loo": loo,
    "lp": lp,
    "gamma": gamma,
    "regret": regret,
}


def _scale_k(part: Part) -> int | None:
    return int(part.rows["regimes.k"].iloc[0]) if "regimes.k" in part.rows else None
