"""Figure 2: does the effective rank follow the intrinsic dimension, and which estimate of it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asbc.evaluate.alignment import CELL, unpack_density
from asbc.report import contrasts
from asbc.report.canvas import Figure, Panel
from asbc.report.marks import legend_below, make_room, mean_of
from asbc.report.paper import paper
from asbc.report.parts import Part
from asbc.report.style import BLUE, FAINT, INK, ORANGE, RED, label, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The two estimates that the paper sets r against, with the one that r is matched to.
CLOUDS = (("mst", "mst"), ("mst", "levina_bickel"))


def alignment(part: Part) -> Figure:
    """Figure 2: does the rank follow the dimension, and which estimate of it?"""
    rows = part.of("spearman")
    targets = rows["target"].drop_duplicates().tolist()
    estimators = rows["estimator"].drop_duplicates().tolist()
    looks = dict(zip(("mst", "levina_bickel", "two_nn"), ((RED, "o"), (BLUE, "s"), (ORANGE, "^")), strict=True))

    found = {
        (target, name): contrasts.with_number(part, rows[(rows["target"] == target) & (rows["estimator"] == name)], 0.0)
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
                    label=f"with {plain_label(name)}" if t == 0 else None,
                )
        axes.bar(0, 0, 0, color=FAINT, alpha=0.55, label="the paper's range")
        axes.axhline(0, color=FAINT, lw=0.8)
        axes.set_xticks(range(len(targets)), [plain_label(t) for t in targets])
        axes.grid(axis="x", visible=False)
        low = min(0.0, float(rows["value"].min()) - 0.05)
        axes.set(
            title="Rank correlation of r", xlabel="dimension that r was matched to", ylabel="Spearman", ylim=(low, 1)
        )
        legend_below(axes, 2)

    def medians(axes: Axes) -> None:
        for t, target in enumerate(targets):
            own = (part.rows["target"] == target) & (part.rows["estimator"] == target)
            d = mean_of(part.rows[own & (part.rows["metric"] == "dimension_median")])
            r = mean_of(part.rows[own & (part.rows["metric"] == "rank_median")])
            axes.plot([d, r], [t, t], color=FAINT, lw=2.5, zorder=1)
            axes.plot(d, t, "o", mfc="white", mec=INK, ms=8, mew=1.6, label="median dimension" if t == 0 else None)
            axes.plot(r, t, "o", color=RED, ms=8, label="median rank" if t == 0 else None)
        axes.set_yticks(range(len(targets)), [plain_label(t) for t in targets])
        axes.set(title="Medians over the nodes", xlabel="directions", ylim=(len(targets) - 0.5, -0.5))
        axes.set_xlim(0, axes.get_xlim()[1] * 1.08)
        axes.grid(axis="y", visible=False)
        make_room(axes, left=0.06)
        legend_below(axes, 2)

    clouds = {pair: cloud for pair in CLOUDS if (cloud := _cloud(part, *pair)) is not None}
    return Figure(
        "fig2_alignment",
        "Figure 2. Effective rank against intrinsic dimension",
        (
            "First: all nodes of all trials by rank and dimension, the darker the more nodes, with the least-squares "
            "fit and its slope; r was matched to dimMST. "
            if clouds
            else ""
        )
        + "Each estimator takes its turn as the target that r is matched to, because agreement with the target itself "
        "only says that the search works. Whiskers: 95% interval over trials. Grey: the range that the paper prints, "
        "with dimMST as the target.",
        [*clouds.values(), spearman, medians],
        [
            *(f"Effective rank of each node against {label(estimator)}, with a fit." for _, estimator in clouds),
            "Spearman correlation of the rank with three dimension estimates, for each estimate as the target.",
            "Median rank and median dimension for each target.",
        ],
    )


def _cloud(part: Part, target: str, estimator: str) -> Panel | None:
    """Nodes by rank and dimension, with the fit; None where the results are too old to say."""
    rows = part.of("spearman")
    own = rows[(rows["target"] == target) & (rows["estimator"] == estimator)]
    packed = [cell for cell in own.get("density", []) if isinstance(cell, bytes)]
    if not packed:
        return None
    tables = [unpack_density(cell) for cell in packed]
    counts = np.zeros((max(map(len, tables)), tables[0].shape[1]))
    for table in tables:
        counts[: len(table)] += table
    fit = {}
    for name in ("slope", "intercept"):
        line = part.of(name)
        fit[name] = contrasts.with_number(
            part, line[(line["target"] == target) & (line["estimator"] == estimator)], 0.0
        )
    correlation = contrasts.with_number(part, own, 0.0)
    seen = np.flatnonzero(np.cumsum(counts.sum(axis=0)) >= 0.995 * counts.sum())
    across, up = max(int(seen[0]) + 1, 8), max(int(np.flatnonzero(counts.any(axis=1)).max()) + 2, 8)

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LinearSegmentedColormap, LogNorm

        shade = LinearSegmentedColormap.from_list("nodes", ["#d7e8f4", BLUE, "#00283f"])
        edges = 1 + CELL * np.arange(max(counts.shape) + 1)
        shown = np.ma.masked_equal(counts, 0)
        axes.pcolormesh(
            edges[: counts.shape[1] + 1], edges[: len(counts) + 1], shown, cmap=shade, norm=LogNorm(), rasterized=True
        )
        right, top = edges[across], edges[up]
        ends = np.array([1.0, max(right, top)])
        axes.plot(ends, ends, color=INK, lw=1, ls=":", label="r = d")
        if fit["slope"] is not None and fit["intercept"] is not None:
            line = fit["slope"].mean_a * ends + fit["intercept"].mean_a
            axes.plot(ends, line, color=RED, lw=1.8, label=f"fit, slope {fit['slope'].mean_a:.2f}")
        axes.set(
            xlim=(0, right), ylim=(0, top), xlabel=f"{plain_label(estimator)} of the node", ylabel="effective rank r"
        )
        told = "" if correlation is None else f", Spearman {correlation.mean_a:.2f}"
        axes.set_title(f"r against {plain_label(estimator)}{told}")
        legend_below(axes, 2)

    return paint
