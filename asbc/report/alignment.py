"""Figure 2: does the effective rank follow the intrinsic dimension, and which estimate of it?"""

from __future__ import annotations

import numpy as np

from asbc.evaluate.alignment import CELL, unpack_density
from asbc.report import contrasts
from asbc.report.chart import Axis, Box, Cells, Figure, Line, Mark, Panel, Rule, Whiskers
from asbc.report.paper import paper
from asbc.report.parts import Part
from asbc.report.style import BLUE, FAINT, INK, ORANGE, RED, label

# The two estimates that the paper sets r against, with the one that r is matched to.
CLOUDS = (("mst", "mst"), ("mst", "levina_bickel"))
# From few nodes to many: light blue, blue, near black.
SHADES = ("#d7e8f4", "#a6cbe4", "#75aed3", "#4491c3", "#1475b2", "#006299", "#005079", "#003d5a", "#00283f")


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

    def spearman() -> Panel:
        marks: list[Mark] = []
        for e, name in enumerate(estimators):
            color, marker = looks.get(name, (INK, "x"))
            for t, target in enumerate(targets):
                value = found[target, name]
                if value is None:
                    continue
                x = t + 0.22 * (e - (len(estimators) - 1) / 2)
                known = paper()["spearman"].get(name)
                if target == "mst" and known:
                    marks.append(Box(x - 0.09, x + 0.09, FAINT, 0.55, known[0], known[1], "the paper's range"))
                middle, low, high = [value.difference], [value.low], [value.high]
                marks.append(Whiskers([x], middle, low, high, color, marker, f"with {label(name)}"))
        marks.append(Rule(0, FAINT, width=0.8))
        names = [(t, label(target)) for t, target in enumerate(targets)]
        least = min(0.0, float(rows["value"].min()) - 0.05)
        return Panel(
            "Rank correlation of r",
            Axis("dimension that r was matched to", ticks=names, grid=False),
            Axis("Spearman", least, 1),
            marks,
            columns=2,
        )

    def medians() -> Panel:
        marks: list[Mark] = []
        for t, target in enumerate(targets):
            own = part.rows[(part.rows["target"] == target) & (part.rows["estimator"] == target)]
            means = own.groupby("metric")["value"].mean()
            d, r = (float(means.get(name, np.nan)) for name in ("dimension_median", "rank_median"))
            marks.append(Line([d, r], [t, t], FAINT, width=2.5))
            marks.append(Line([d], [t], INK, "", "o", size=8, hollow=True, label="median dimension"))
            marks.append(Line([r], [t], RED, "", "o", size=8, label="median rank"))
        names = [(t, label(target)) for t, target in enumerate(targets)]
        up = Axis(low=len(targets) - 0.5, high=-0.5, ticks=names, grid=False)
        return Panel("Medians over the nodes", Axis("directions", 0), up, marks, columns=2, room=0.06)

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
        [*clouds.values(), spearman(), medians()],
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
    edges = 1 + CELL * np.arange(max(counts.shape) + 1)
    right, top = float(edges[across]), float(edges[up])
    ends = np.array([1.0, max(right, top)])
    marks: list[Mark] = [
        Cells(counts, 1.0, CELL, SHADES),
        Line(ends.tolist(), ends.tolist(), INK, ":", width=1, label="r = d"),
    ]
    if fit["slope"] is not None and fit["intercept"] is not None:
        fitted = fit["slope"].mean_a * ends + fit["intercept"].mean_a
        marks.append(Line(ends.tolist(), fitted.tolist(), RED, label=f"fit, slope {fit['slope'].mean_a:.2f}"))
    told = "" if correlation is None else f", Spearman {correlation.mean_a:.2f}"
    return Panel(
        f"r against {label(estimator)}{told}",
        Axis(f"{label(estimator)} of the node", 0, right),
        Axis("effective rank r", 0, top),
        marks,
        columns=2,
    )
