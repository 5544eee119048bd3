"""The figures: each is a row of panels, and each panel a function that draws on axes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from asbc.evaluate.comparison import Comparison
from asbc.files import write_whole
from asbc.report import contrasts
from asbc.report.evidence import Part
from asbc.report.paper import at_gamma, paper
from asbc.report.style import BLUE, FAINT, GREEN, INK, LOOKS, MUTED, ORANGE, RED, label, style

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

Panel = Callable[["Axes"], None]
WIDTH, HEIGHT = 5.0, 3.7  # of a panel, in inches: readable on a telephone, and two fit a page


@dataclass(frozen=True)
class Figure:
    """A figure of the report.

    Attributes
    ----------
    name : str
        Of its files.
    title, caption : str
    panels : sequence of callables of matplotlib axes
    alt : sequence of str
        What each panel shows, in words, for those who cannot see it.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    alt: Sequence[str]


def draw(panels: Sequence[Panel]) -> Canvas:
    """Panels side by side on one matplotlib figure."""
    from matplotlib.figure import Figure as Canvas

    with style():
        canvas = Canvas(figsize=(WIDTH * len(panels), HEIGHT), layout="constrained")
        for axes, panel in zip(np.atleast_1d(canvas.subplots(1, len(panels))), panels, strict=True):
            panel(axes)
    return canvas


def png(panels: Sequence[Panel], dpi: int = 160) -> bytes:
    """Panels as a PNG image; the same bytes for the same data."""
    buffer = io.BytesIO()
    with style():
        draw(panels).savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write `<name>.png` and `<name>.pdf`, each whole or not at all."""
    paths = []
    for kind, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None, "Creator": "asbc"})):
        path = folder / f"{figure.name}.{kind}"
        with style():
            canvas = draw(figure.panels)
            write_whole(path, lambda p, c=canvas, k=kind, m=metadata: c.savefig(p, format=k, metadata=m))  # type: ignore[misc]
        paths.append(path)
    return paths


def regimes(part: Part) -> Figure:
    """Figure 1: what local kernels are like from a narrow bandwidth to a wide one."""
    k = int(part.rows["k_cand"].iloc[0])
    chosen = {q: _mean(part.of(f"chosen_scale_{q}")) for q in ("q25", "median", "q75")}
    dimension = _mean(part.of("chosen_dimension_median"))

    def curve(axes: Axes, name: str, color: str) -> None:
        low, mid, high = (part.of(f"{name}_{q}").groupby("scale")["value"].mean() for q in ("q25", "median", "q75"))
        axes.axvspan(chosen["q25"], chosen["q75"], color=GREEN, alpha=0.16, lw=0)
        axes.axvline(chosen["median"], color=GREEN, lw=1.2)
        axes.fill_between(mid.index, low, high, color=color, alpha=0.22, lw=0)
        axes.plot(mid.index, mid, color=color)
        axes.set_xscale("log")
        _plain_ticks(axes, "x", [0.05, 0.1, 0.2, 0.5, 1, 2, 5])
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


def alignment(part: Part) -> Figure:
    """Figure 2: does the rank follow the dimension, and which estimate of it?"""
    rows = part.of("spearman")
    targets = rows["target"].drop_duplicates().tolist()
    estimators = rows["estimator"].drop_duplicates().tolist()
    looks = dict(zip(("mst", "levina_bickel", "two_nn"), ((RED, "o"), (BLUE, "s"), (ORANGE, "^")), strict=True))

    found = {
        (target, name): contrasts.with_number(rows[(rows["target"] == target) & (rows["estimator"] == name)], 0.0)
        for target in targets
        for name in estimators
    }

    def spearman(axes: Axes) -> None:
        for e, name in enumerate(estimators):
            color, marker = looks.get(name, (INK, "x"))
            for t, target in enumerate(targets):
                value = found[target, name]
                if value is None:
                    continue
                x = t + 0.22 * (e - (len(estimators) - 1) / 2)
                known = paper()["spearman"].get(name)
                if target == "mst" and known:
                    axes.bar(x, known[1] - known[0], 0.18, bottom=known[0], color=FAINT, alpha=0.55, lw=0)
                axes.errorbar(
                    x,
                    value.difference,
                    [[value.difference - value.low], [value.high - value.difference]],
                    fmt=marker,
                    color=color,
                    capsize=3,
                    label=f"with {label(name)}" if t == 0 else None,
                )
        axes.bar(0, 0, 0, color=FAINT, alpha=0.55, label="the paper's range")
        axes.axhline(0, color=FAINT, lw=0.8)
        axes.set_xticks(range(len(targets)), [label(t) for t in targets])
        axes.grid(axis="x", visible=False)
        low = min(0.0, float(rows["value"].min()) - 0.05)
        axes.set(
            title="Rank correlation of r", xlabel="dimension that r was matched to", ylabel="Spearman", ylim=(low, 1)
        )
        _legend_below(axes, 2)

    def medians(axes: Axes) -> None:
        for t, target in enumerate(targets):
            own = (part.rows["target"] == target) & (part.rows["estimator"] == target)
            d = _mean(part.rows[own & (part.rows["metric"] == "dimension_median")])
            r = _mean(part.rows[own & (part.rows["metric"] == "rank_median")])
            axes.plot([d, r], [t, t], color=FAINT, lw=2.5, zorder=1)
            axes.plot(d, t, "o", mfc="white", mec=INK, ms=8, mew=1.6, label="median dimension" if t == 0 else None)
            axes.plot(r, t, "o", color=RED, ms=8, label="median rank" if t == 0 else None)
        axes.set_yticks(range(len(targets)), [label(t) for t in targets])
        axes.set(title="Medians over the nodes", xlabel="directions", ylim=(len(targets) - 0.5, -0.5))
        axes.set_xlim(0, axes.get_xlim()[1] * 1.08)
        axes.grid(axis="y", visible=False)
        _legend_below(axes, 2)

    return Figure(
        "fig2_alignment",
        "Figure 2. Effective rank against intrinsic dimension",
        "Each estimator takes its turn as the target that r is matched to, because agreement with the target itself "
        "only says that the search works. Whiskers: 95% interval over trials. Grey: the range that the paper prints, "
        "with dimMST as the target.",
        [spearman, medians],
        [
            "Spearman correlation of the rank with three dimension estimates, for each estimate as the target.",
            "Median rank and median dimension for each target.",
        ],
    )


def loo(part: Part) -> Figure:
    """Figure 3: leave-one-out accuracy against samples per class."""
    return _curves(part, "loo", "fig3_loo", "Figure 3. Leave-one-out accuracy", "samples per class")


def lp(part: Part) -> Figure:
    """Figure 4: accuracy of label propagation against labels per class."""
    return _curves(part, "lp", "fig4_lp", "Figure 4. Label propagation accuracy", "labels per class")


def _curves(part: Part, metric: str, name: str, title: str, axis: str) -> Figure:
    rows = part.of(metric)
    levels = sorted(rows["level"].unique())
    methods = [m for m in part.methods if (rows["method"] == m).any()]
    base = "knn" if "knn" in methods else methods[0]
    places = np.arange(len(levels))  # equal steps, whatever the values: small levels would crowd together otherwise
    gains = {
        method: [contrasts.between(part, method, base, metric, level=level) for level in levels]
        for method in methods
        if method != base
    }

    def curve(axes: Axes) -> None:
        for method in methods:
            color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
            own = rows[rows["method"] == method]
            means = own.groupby("level")["value"].mean().reindex(levels)
            axes.plot(places, means, color=color, marker=marker, ls=dash, label=label(method))
            axes.plot(np.searchsorted(levels, own["level"]), own["value"], ".", color=color, ms=3, alpha=0.45)
        axes.set_xticks(places, levels)
        axes.set(title="Accuracy", xlabel=axis, ylabel="accuracy")
        _legend_below(axes, 3)

    def gain(axes: Axes) -> None:
        axes.axhline(0, color=MUTED, lw=1.2)
        for index, (method, found) in enumerate(gains.items()):
            x = places + 0.11 * (index - (len(gains) - 1) / 2)
            _whiskers(axes, x, found, method)
        axes.set_xticks(places, levels)
        axes.set(title=f"Difference from {label(base)}", xlabel=axis, ylabel="difference in accuracy")
        _legend_below(axes, 3)

    return Figure(
        name,
        title,
        "Accuracy: means over trials, small dots the trials. Difference: what each method gains over "
        f"{label(base)} in the same trials, with the paired 95% interval.",
        [curve, gain],
        [f"{title} of {len(methods)} methods.", f"Paired differences from {label(base)} with intervals."],
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
            _whiskers(axes, np.array(values), found, method)
        theirs = np.array(printed["loo"]) - (at_gamma(base, "loo") or np.nan)
        axes.plot(printed["value"], theirs, "D", mfc="white", mec=INK, ls=":", color=INK, lw=1, label="the paper")
        axes.set(title=f"LOO: difference from γ = {base:g}", xlabel="γ", ylabel="difference in accuracy")
        _legend_below(axes, 3)

    def rank(axes: Axes) -> None:
        for method in methods[-1:]:  # r depends on the bandwidth alone, not on the weights
            r = part.of("rank_median")
            d = part.of("dimension_median")
            ratio = [
                _mean(r[(r["method"] == method) & (r["setting"] == v)])
                / _mean(d[(d["method"] == method) & (d["setting"] == v)])
                for v in values
            ]
            axes.plot(values, ratio, color=RED, marker="o", label="ours")
        theirs = np.array(printed["rank_median"]) / printed["dimension_median"]
        axes.plot(printed["value"], theirs, "D", mfc="white", mec=INK, ls=":", color=INK, lw=1, label="the paper")
        axes.plot(values, values, color=FAINT, lw=1, label="r = γ d")
        axes.set(title="Median rank over median dimension", xlabel="γ", ylabel="r / d", ylim=(0, None))
        _legend_below(axes, 3)

    has_rank = (part.rows["metric"] == "rank_median").any()
    return Figure(
        "table3_gamma",
        "How much γ matters",
        f"Paired 95% intervals against γ = {base:g}. The paper's points: {printed_for()}.",
        [accuracy, rank] if has_rank else [accuracy],
        ["LOO differences for each gamma.", "Median rank relative to the dimension for each gamma."][: 1 + has_rank],
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
            _plain_ticks(axes, "x", [0.2, 0.5, 1, 2])
            axes.set(
                title=f"{'NNK' if kind == 'nnk' else 'Gaussian'} weights", xlabel="bandwidth scale c", ylabel="LOO"
            )
            _legend_below(axes, 2)

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


FIGURES: dict[str, Callable[[Part], Figure]] = {
    "regimes": regimes,
    "alignment": alignment,
    "loo": loo,
    "lp": lp,
    "gamma": gamma,
    "regret": regret,
}


def _whiskers(axes: Axes, x: NDArray[Any], found: Sequence[Comparison | None], method: str) -> None:
    """Differences with their intervals; a gap where there is none."""
    color, marker, dash = LOOKS.get(method, (INK, "x", "-"))
    kept = [(at, c) for at, c in zip(x, found, strict=True) if c is not None]
    if not kept:
        return
    middle = np.array([c.difference for _, c in kept])
    reach = np.array([[c.difference - c.low for _, c in kept], [c.high - c.difference for _, c in kept]])
    places = [at for at, _ in kept]
    axes.plot(places, middle, color=color, ls=dash, lw=1, alpha=0.6)
    axes.errorbar(
        places, middle, np.maximum(reach, 0), fmt=marker, color=color, capsize=2.5, elinewidth=1.3, label=label(method)
    )


def _legend_below(axes: Axes, columns: int) -> None:
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=columns, columnspacing=1.4, handlelength=2.2)


def _plain_ticks(axes: Axes, which: str, places: Sequence[float]) -> None:
    from matplotlib.ticker import NullFormatter, NullLocator

    ruler = getattr(axes, f"{which}axis")
    ruler.set_ticks(places, [f"{p:g}" for p in places])
    ruler.set_minor_locator(NullLocator())
    ruler.set_minor_formatter(NullFormatter())


def _scale_k(part: Part) -> int | None:
    return int(part.rows["regimes.k"].iloc[0]) if "regimes.k" in part.rows else None


def _mean(rows: pd.DataFrame) -> float:
    return float(rows["value"].mean())
