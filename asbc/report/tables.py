"""The tables: numbers beside the paper's, and every difference with its paired interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from asbc.evaluate.comparison import Comparison
from asbc.report import contrasts
from asbc.report.paper import at_gamma, paper
from asbc.report.parts import Part
from asbc.report.style import label
from asbc.report.table import Cell, Table
from asbc.report.words import level_name

if TYPE_CHECKING:
    import pandas as pd

TASKS = {"loo": "LOO", "lp": "LP", "nmi": "NMI", "ari": "ARI"}
KINDS = {"gaussian": "gaussian", "nnk": "NNK", "uniform": "uniform", "blend": "NNK + gaussian"}


def accuracy(part: Part, metric: str) -> Table:
    """Accuracy of each method at each level, and its difference from kNN over all levels."""
    part = part.fullest(metric)
    rows = part.of(metric)
    methods = [m for m in part.methods if (rows["method"] == m).any()]
    base = "knn" if "knn" in methods else methods[0]
    levels = part.levels(metric)
    uneven = _uneven(part, metric)
    means = rows.groupby(["method", "level"])["value"].mean()
    body: list[list[Cell]] = []
    for method in methods:
        gain = None if method == base else contrasts.between(part, method, base, metric)
        values = [_number(means.get((method, level)), 3) for level in levels]
        lost: list[Cell] = [_share(part, method, "lp_unreached")] if metric == "lp" else []
        own = part.rows[part.rows["method"] == method]
        balanced: list[Cell] = [_mean(own, f"{metric}_balanced", 3)] if uneven else []
        body.append([label(method), *values, *balanced, *lost, gain, _record(gain)])
    unit = "labels per class" if metric == "lp" else "samples per class"
    short = _short(part, metric)
    return Table(
        metric,
        f"{TASKS[metric]} accuracy by {unit}" if metric in ("loo", "lp") else f"{TASKS.get(metric, metric)} by level",
        "Means over trials; the difference is over all levels, paired by trial. W/T/L: pairs won, tied, lost. "
        + ("Class-balanced: the mean over classes of each class's own accuracy, over all levels. " if uneven else "")
        + short
        + ("Unreached: nodes that no label reaches, counted as wrong. " if metric == "lp" else "")
        + _how(body),
        [
            "method",
            *map(level_name, levels),
            *(["class-balanced"] if uneven else []),
            *(["unreached"] if metric == "lp" else []),
            f"difference from {label(base)}",
            "W/T/L, p",
        ],
        body,
    )


def gamma(part: Part) -> Table:
    """Table 3: accuracy and rank for each gamma, beside the paper's."""
    values = sorted(part.rows["setting"].unique())
    base = 1.0 if 1.0 in values else values[0]
    body: list[list[Cell]] = []
    for value in values:
        at = part.rows[part.rows["setting"] == value]
        usual, other = (at[at["method"] == method] for method in ("nnk_sigma", "knn_sigma"))
        body.append(
            [
                f"{value:g}",
                _mean(usual, "loo"),
                _number(at_gamma(value, "loo"), 3) if part.has("loo") else None,
                None if value == base else contrasts.across(part, "nnk_sigma", value, base, "loo"),
                _mean(at, "rank_median", 1),
                _number(at_gamma(value, "rank_median"), 1),
                _mean(at, "dimension_median", 1),
                _mean(at, "sigma_median", 3),
                _mean(other, "loo"),
                None if value == base else contrasts.across(part, "knn_sigma", value, base, "loo"),
            ]
        )
    return Table(
        "gamma",
        "Table 3. How much γ matters: the rank wanted is γ × dimension",
        f"Paper: {paper()['data']}, median dimension {paper()['gamma']['dimension_median']}; other embeddings are not "
        f"expected to give the same {'accuracies' if part.has('loo') else 'ranks'}. "
        + _how(body, f"Differences are from γ = {base:g}, in the same trials. "),
        [
            "γ",
            "LOO NNK-σ",
            "paper",
            f"from γ = {base:g}",
            "median r",
            "paper",
            "median d",
            "median σ",
            "LOO kNN-σ",
            f"from γ = {base:g}",
        ],
        body,
    )


def ablation(part: Part) -> Table:
    """The chain of methods on every task, and what their graphs are like."""
    tasks = _tasks(part)
    more = {
        "edges": "edges",
        "row_degree_median": "neighbours",
        "components": "components",
        "condition_median": "condition",
    }
    body: list[list[Cell]] = []
    for method in part.methods:
        own = part.rows[part.rows["method"] == method]
        means = [_mean(own, task) for task in tasks] + [_mean(own, name, 0) for name in more]
        body.append([label(method), *means, _share(part, method, "at_edge")])
    return Table(
        "ablation",
        "Ablation: the chain of methods",
        f"Means over trials{' (LP: over all label counts too)' if 'lp' in tasks else ''}. "
        "Neighbours: median number per node that have weight. "
        "Condition: median condition number of the local kernels. At edge: nodes whose bandwidth is at an end of "
        "the grid.",
        ["method", *(TASKS[task] for task in tasks), *more.values(), "at edge"],
        body,
    )


def steps(part: Part) -> Table:
    """What each step of the chain brings."""
    tasks = _tasks(part)
    methods = part.methods
    body: list[list[Cell]] = [
        [f"{label(before)} → {label(method)}", *(contrasts.between(part, method, before, task) for task in tasks)]
        for before, method in pairwise(methods)
    ]
    caution = (
        " NMI and ARI intervals say only how trials differ: where trials share their nodes, and the more so where a "
        "trial takes the whole data set, they are too narrow to conclude from."
    )
    return Table(
        "steps",
        "Ablation: what each step brings",
        f"Differences in the same trials. {_how(body)}{caution if {'nmi', 'ari'} & set(tasks) else ''}",
        ["step", *(TASKS[task] for task in tasks)],
        body,
    )


def selectors(part: Part) -> Table:
    """All rules for the bandwidth, against the spectral one with the same weights."""
    tasks = [task for task in ("loo", "lp") if (part.rows["metric"] == task).any()]
    body: list[list[Cell]] = []
    for kind, methods in _by_weights(part):
        base = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}.get(kind, "nnk_sigma")
        for method in methods:
            own = part.rows[part.rows["method"] == method]
            cells: list[Cell] = [_rule(method), KINDS.get(kind, "its own")]
            for task in tasks:
                cells.append(_mean(own, task))
                cells.append(None if method == base else contrasts.between(part, method, base, task))
            body.append(cells)
    header = ["rule", "weights"]
    for task in tasks:
        header += [TASKS[task], "difference from spectral"]
    return Table(
        "selectors",
        "Selectors: rules for the bandwidth",
        "Each rule against the spectral rule with the same weights; uniform weights, the blend and other libraries' "
        f"weights against NNK-σ. Below zero: the spectral rule is better. Best first within each kind. {_how(body)}",
        header,
        body,
    )


def regret(part: Part) -> Table:
    """How far each rule is from the best bandwidth that tuning with labels finds."""
    body: list[list[Cell]] = []
    for kind, methods in _by_weights(part):
        for method in methods:
            own = part.rows[part.rows["method"] == method]
            best = own[own["metric"] == "regret"]
            if best.empty:
                continue
            scales = ", ".join(f"{s:g}" for s in sorted(best["best_scale"].unique()))
            body.append([_rule(method), KINDS[kind], _mean(own, "loo"), contrasts.regret(part, method), scales])
    return Table(
        "regret",
        "Regret: how far from the best bandwidth that tuning with labels finds",
        "The best bandwidth is σ = c × the distance to the 10th neighbour, one per node or one for all, with c picked "
        "in each trial by the accuracy itself, which no rule without labels can do. Below zero: better than all of "
        f"them. {_how(body)}",
        ["rule", "weights", "LOO", "regret", "best c"],
        body,
        less_is_better=True,
    )


def k_cand(part: Part) -> Table:
    """How much the number of candidate neighbours matters."""
    return _sweep(part, "k_cand", "Candidate neighbours, k_cand", "k_cand", 30, {"edges": ("edges", 0)})


def n_grid(part: Part) -> Table:
    """How much the number of grid points matters."""
    more = {"spearman": ("Spearman(r, dimMST)", 3), "rank_median": ("median r", 1), "dimension_median": ("median d", 1)}
    return _sweep(part, "n_grid", "Grid points of the bandwidth, n_grid", "n_grid", 12, more)


def _sweep(part: Part, name: str, title: str, axis: str, usual: float, more: dict[str, tuple[str, int]]) -> Table:
    values = sorted(part.rows["setting"].unique())
    base = usual if usual in values else values[0]
    shown = {metric: how for metric, how in more.items() if (part.rows["metric"] == metric).any()}
    body: list[list[Cell]] = []
    for method in part.methods:
        for value in values:
            own = part.rows[(part.rows["method"] == method) & (part.rows["setting"] == value)]
            if "estimator" in own:
                own = own[own["estimator"].isna() | ((own["estimator"] == "mst") & (own["target"] == "mst"))]
            if own.empty:
                continue
            step = None if value == base else contrasts.across(part, method, value, base, "loo")
            extra = [_mean(own, metric, digits) for metric, (_, digits) in shown.items()]
            body.append([label(method), f"{value:g}", _mean(own, "loo"), step, *extra])
    return Table(
        name,
        title,
        _how(body, f"Differences are from {axis} = {base:g}, in the same trials. "),
        ["method", axis, "LOO", f"from {axis} = {base:g}", *(text for text, _ in shown.values())],
        body,
    )


def plain(part: Part) -> list[Table]:
    """Tables of a run that is none of the experiments: whatever it has measured."""
    single = [m for m in part.rows["metric"].unique().tolist() if contrasts.scores(part, m)]
    scored = [m for m in single if m in TASKS or _has_hits(part, m)]
    out = [accuracy(part, metric) for metric in scored]
    others = [m for m in single if m not in scored and not m.endswith(("_balanced", "_unreached"))]
    if others:
        body: list[list[Cell]] = []
        for method in part.methods:
            own = part.rows[part.rows["method"] == method]
            body.append([label(method), *(_mean(own, metric, 3) for metric in others)])
        title = "What else was measured" if scored else "What was measured"
        header = ["method", *(metric.replace("_", " ") for metric in others)]
        out.append(Table("measures", title, "Means over trials and levels.", header, body))
    return out


TABLES: dict[str, Sequence[Callable[[Part], Table]]] = {
    "loo": [lambda part: accuracy(part, "loo")],
    "lp": [lambda part: accuracy(part, "lp")],
    "gamma": [gamma],
    "ablation": [ablation, steps],
    "selectors": [selectors],
    "regret": [regret],
    "k_cand": [k_cand],
    "n_grid": [n_grid],
}


def _has_hits(part: Part, metric: str) -> bool:
    return any(found.hits for found in contrasts.scores(part, metric).values())


def _uneven(part: Part, metric: str) -> bool:
    """Whether classes differ in size, so that accuracy balanced by class is another number."""
    plain_ones, balanced = (contrasts.scores(part, m) for m in (metric, f"{metric}_balanced"))
    return any(
        abs(value - found.values.get(place, value)) > 1e-9
        for method, found in balanced.items()
        if method in plain_ones
        for place, value in plain_ones[method].values.items()
    )


def _short(part: Part, metric: str) -> str:
    """What is known of classes with fewer samples than a level asks for, and of nodes without a label."""
    rows = part.of(metric)
    if "short_classes" not in rows or rows["short_classes"].isna().all():
        return ""
    words = []
    by_level = rows.groupby("level")["short_classes"].max()
    few = {level: int(by_level[level]) for level in part.levels(metric) if by_level[level] > 0}
    if few:
        classes = int(rows["classes"].max())
        told = ", ".join(f"{count} at {level_name(level)}" for level, count in few.items())
        what = "are all labels and are not scored" if metric == "lp" else "give all the samples they have"
        words.append(f"Of {classes} classes, those with too few samples for a level {what}: {told}. ")
    unlabeled = int(rows["unlabelled"].max())
    if unlabeled:
        words.append(f"{unlabeled:,} nodes without a label are in the graph and are not scored. ")
    return "".join(words)


def _tasks(part: Part) -> list[str]:
    return [task for task in TASKS if (part.rows["metric"] == task).any()]


def _by_weights(part: Part) -> Iterable[tuple[str, list[str]]]:
    """Methods by kind of weights, the best in LOO first."""
    loo = part.of("loo")
    if loo.empty:
        return
    order = loo[loo["method"].isin(part.methods)].groupby(["weights", "method"])["value"].mean().sort_values()
    kinds = ["gaussian", "nnk", "uniform"]
    kinds += [kind for kind in order.index.get_level_values(0).unique() if kind not in kinds]
    for kind in kinds:
        if kind in order.index.get_level_values(0):
            yield kind, order.loc[kind].index.tolist()[::-1]


def _rule(method: str) -> str:
    """Name of a method where its kind of weights stands beside it."""
    return {"knn_sigma": "spectral", "nnk_sigma": "spectral", "knn_fixed": "fixed", "nnk_fixed": "fixed"}.get(
        method, label(method)
    )


def _mean(rows: pd.DataFrame, metric: str, digits: int = 4) -> str | None:
    values = rows.loc[rows["metric"] == metric, "value"]
    return None if values.empty else _number(float(values.mean()), digits)


def _share(part: Part, method: str, metric: str) -> str | None:
    rows = part.of(metric)
    values = rows.loc[rows["method"] == method, "value"]
    return None if values.empty else f"{values.mean():.1%}"


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None or not np.isfinite(value) else f"{value:,.{digits}f}"


def _record(c: Comparison | None) -> str | None:
    return None if c is None else f"{c.wins}/{c.ties}/{c.losses}, p={c.p_value:.2g}"


def _how(body: Iterable[Sequence[Cell]], first: str = "") -> str:
    """How the intervals of a table came about, and `first` what they are of; nothing where there are none."""
    found = [cell for row in body for cell in row if isinstance(cell, Comparison)]
    if not found:
        return ""
    over = " or ".join(sorted({c.over for c in found}, reverse=True))
    trials = sorted({c.trials for c in found})
    return f"{first}{found[0].confidence:.0%} bootstrap intervals over {over}; trials: {', '.join(map(str, trials))}."
