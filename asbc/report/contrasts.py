"""Which rows are set against which: every difference that a report shows, by :mod:`asbc.evaluate.comparison`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from asbc.evaluate.comparison import Comparison, compare, compare_methods
from asbc.report.evidence import Part

if TYPE_CHECKING:
    import pandas as pd


def between(part: Part, a: str, b: str, metric: str, *, level: int | None = None) -> Comparison | None:
    """Method `a` against method `b`; `None` where one of them has no such rows, or they share no trial."""
    rows = part.of(metric)
    if level is not None:
        rows = rows[rows["level"] == level]
    return _compared(rows, a, b, metric)


def across(part: Part, method: str, setting: float, base: float, metric: str) -> Comparison | None:
    """A method at one value of the swept setting against itself at another."""
    rows = part.of(metric)
    rows = rows[(rows["method"] == method) & rows["setting"].isin([setting, base])]
    if "estimator" in rows:  # alignment has several rows per trial; take the one that compares dimMST with itself
        rows = rows[rows["estimator"].isna() | ((rows["estimator"] == "mst") & (rows["target"] == "mst"))]
    return _compared(rows.assign(method=rows["setting"].astype(str)), str(setting), str(base), metric)


def aligned(part: Part, first: tuple[str, str], second: tuple[str, str]) -> Comparison | None:
    """Spearman's correlation of one (target, estimator) against that of another."""
    rows = part.of("spearman")
    rows = rows.assign(method=rows["target"] + "/" + rows["estimator"])
    return _compared(rows, "/".join(first), "/".join(second), "spearman")


def with_number(rows: pd.DataFrame, number: float) -> Comparison | None:
    """Values of some rows, one per trial, against a fixed number."""
    rows = rows[np.isfinite(rows["value"])]
    if rows.empty:
        return None
    values = rows["value"].to_numpy(float)
    return compare(values, np.full(len(values), number), trial=rows["trial"].to_numpy())


def regret(part: Part, method: str) -> Comparison | None:
    """In each trial, the best bandwidth that tuning with labels finds against the one a method chose without them."""
    import pandas as pd

    loo, best = part.of("loo"), part.of("regret")
    best = best[best["method"] == method]
    tuned = loo[loo["method"].str.startswith("tuned_") & loo["weights"].isin(best["weights"])]
    picked = tuned.assign(per_node=tuned["per_node"].astype(bool)).merge(
        best[["samples", "trial", "best_scale", "best_per_node"]].astype({"best_per_node": bool}),
        left_on=["samples", "trial", "scale", "per_node"],
        right_on=["samples", "trial", "best_scale", "best_per_node"],
    )
    rows = pd.concat([picked.assign(method="best"), loo[loo["method"] == method]], ignore_index=True)
    return _compared(rows, "best", method, "loo")


def _compared(rows: pd.DataFrame, a: str, b: str, metric: str) -> Comparison | None:
    trials = [set(zip(side["samples"], side["level"], side["trial"], strict=True)) for side in _sides(rows, a, b)]
    return compare_methods(rows, a, b, metric=metric) if trials[0] & trials[1] else None


def _sides(rows: pd.DataFrame, a: str, b: str) -> list[pd.DataFrame]:
    return [rows[rows["method"] == name] for name in (a, b)]
