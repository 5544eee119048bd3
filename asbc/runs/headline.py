"""What a table of results says in a few columns, each of one quantity at one level."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asbc.runs.levels import level_in_words
from asbc.runs.sealed import ALL

if TYPE_CHECKING:
    import pandas as pd

# Scores at the last level of a run, and how a column calls them. A balanced one is shown where it differs.
SCORES = {
    "loo": "loo",
    "loo_balanced": "loo\nbalanced",
    "nmi": "nmi",
    "ari": "ari",
    "noise_near": "noise\nnear",
    "noise_uniform": "noise\nuniform",
    "regret": "regret",
}
# Of the chosen bandwidths, medians over nodes.
CHOSEN = {
    "chosen_rank_median": "rank at the\nchosen sigma",
    "chosen_dimension_median": "dimension",
    "chosen_scale_median": "chosen sigma /\nneighbour distance",
}
# Of the graph, and how a column calls them.
HEALTH = {
    "components": "pieces",
    "isolated": "isolated\nnodes",
    "degree_median": "median\nneighbours",
    "rank_median": "median\nrank",
    "dimension_median": "median\ndimension",
}
ROUND = ("seconds", *CHOSEN.values(), *HEALTH.values())  # columns that are no shares


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method; each column is one quantity at one level, the mean over trials.

    Levels are never averaged: scores are those of the largest subsample, and of the fewest and the most labels in
    propagation. A run over bandwidths shows the chosen one; the alignment of rank and dimension is that of the first
    target with each estimator.

    Parameters
    ----------
    table : DataFrame
        Rows of one run, as :func:`asbc.results.collect` gives them.

    Returns
    -------
    DataFrame
        Indexed by method; the last column is the median of the seconds per subsample.

    Examples
    --------
    >>> import pandas as pd
    >>> from asbc.runs.headline import headline
    >>> row = {"method": "knn", "metric": "loo", "trial": 0, "seconds": 0.1}
    >>> table = pd.DataFrame([{**row, "samples": s, "level": s, "value": v} for s, v in ((5, 0.4), (20, 0.8))])
    >>> headline(table).to_dict("list")
    {'loo': [0.8], 'seconds': [0.1]}
    """
    import pandas as pd

    rows = table[~table["method"].str.startswith("tuned_")]
    order = rows["method"].drop_duplicates().tolist()
    level = last_level(rows)
    rows = rows[rows["samples"] == level]
    found: dict[str, pd.Series] = {}

    def add(title: str, part: pd.DataFrame) -> None:
        if len(part):
            found[title] = part.groupby("method")["value"].mean()

    for metric, title in SCORES.items():
        if metric != "loo_balanced" or _differs(rows, "loo"):
            add(title, rows[rows["metric"] == metric])
    for metric in ("lp", "lp_balanced") if _differs(rows, "lp") else ("lp",):
        part = rows[rows["metric"] == metric]
        for labels in dict.fromkeys((part["level"].min(), part["level"].max()) if len(part) else ()):
            what = f"{metric.replace('_', ' ')}\n{labels:.0f} label{'s' if labels > 1 else ''}"
            add(what, part[part["level"] == labels])
    aligned = rows[rows["metric"] == "spearman"]
    if len(aligned):
        target = aligned["target"].iloc[0]
        for estimator in aligned["estimator"].unique():
            part = aligned[(aligned["target"] == target) & (aligned["estimator"] == estimator)]
            add(f"Spearman:\nrank and\n{estimator}", part)
    for metric, title in {**CHOSEN, **HEALTH}.items():
        add(title, _of_the_graph(rows[rows["metric"] == metric]))
    frame = pd.DataFrame(found).reindex(order)
    frame["seconds"] = rows.groupby("method")["seconds"].median()
    return frame


def last_level(table: pd.DataFrame) -> int:
    """The level with the most nodes: `all` if it is there, else the largest number."""
    return ALL if (table["samples"] == ALL).any() else int(table["samples"].max())


def remarks(table: pd.DataFrame) -> str:
    """What a summary's numbers are of: trials, nodes, classes with too few samples, nodes without a label."""
    level = last_level(table)
    rows = table[table["samples"] == level]
    said = [f"mean of {_counted(rows['trial'].nunique(), 'trial')} with {level_in_words(level)}"]
    first = rows.iloc[0]
    if first.get("nodes", 0) > 0:
        said.append(
            f"{first['nodes']:,.0f} nodes in {_counted(first['classes'], 'class', 'classes')}"
            if first["classes"]
            else f"{first['nodes']:,.0f} nodes without labels"
        )
        short = rows[~rows["metric"].str.startswith("lp")]["short_classes"]
        if len(short) and short.max() > 0:
            few = _counted(short.max(), "class has", "classes have")
            said.append(f"{few} fewer samples and gave all")
        if first["classes"] and first["unlabelled"] > 0:
            said.append(f"{_counted(first['unlabelled'], 'node')} without a label, not scored")
    return "; ".join(said)


def _counted(number: float, one: str, many: str = "") -> str:
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def _differs(rows: pd.DataFrame, metric: str) -> bool:
    keys = ["method", "level", "trial"]
    plain, other = (rows[rows["metric"] == name].set_index(keys)["value"] for name in (metric, f"{metric}_balanced"))
    return len(other) > 0 and bool(((plain.groupby(keys).mean() - other.groupby(keys).mean()).abs() > 1e-9).any())


def _of_the_graph(rows: pd.DataFrame) -> pd.DataFrame:
    """Without rows of the same metric at other bandwidths, or for other targets, than the method's own."""
    for column in ("scale", "target"):
        if column in rows:
            rows = rows[rows[column].isna()]
    return rows
