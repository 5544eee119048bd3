"""Which rows are set against which: every difference that a report shows, by :mod:`asbc.evaluate.comparison`.

The same difference stands in claims, tables and figures. It is worked out once and kept with the part that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.bootstrap import Bootstrap
from asbc.evaluate.comparison import Comparison, compare
from asbc.evaluate.hits import unpack_all
from asbc.report.parts import Part

if TYPE_CHECKING:
    import pandas as pd

FEWEST_TRIALS = 3  # with fewer, nobody can judge what differs from trial to trial
Place = tuple[int, int, int]  # samples, level, trial: where two methods meet


@dataclass(frozen=True)
class Scores:
    """What one method reached, place by place.

    Attributes
    ----------
    values : dict of float
        Finite values by (samples, level, trial).
    hits : dict of (bytes, bytes)
        Which nodes were scored and which were right, by place; only where the results say so.
    """

    values: dict[Place, float]
    hits: dict[Place, tuple[bytes, bytes]]


def between(part: Part, a: str, b: str, metric: str, *, level: int | None = None) -> Comparison | None:
    """Method `a` against method `b`; `None` where one of them has no such rows, or they share no trial."""

    def work() -> Comparison | None:
        sides = scores(part, metric)
        return _set_against(part.bootstrap, sides.get(a), sides.get(b), level)

    return _once(part, ("between", a, b, metric, level), work)


def across(part: Part, method: str, setting: float, base: float, metric: str) -> Comparison | None:
    """A method at one value of the swept setting against itself at another."""

    def work() -> Comparison | None:
        rows = part.of(metric)
        rows = own_target(rows[(rows["method"] == method) & rows["setting"].isin([setting, base])])
        sides = _by(rows.assign(method=rows["setting"].astype(str)))
        return _set_against(part.bootstrap, sides.get(str(setting)), sides.get(str(base)))

    return _once(part, ("across", method, setting, base, metric), work)


def aligned(part: Part, first: tuple[str, str], second: tuple[str, str]) -> Comparison | None:
    """Spearman's correlation of one (target, estimator) against that of another."""

    def work() -> Comparison | None:
        rows = part.of("spearman")
        sides = _by(rows.assign(method=rows["target"] + "/" + rows["estimator"]))
        return _set_against(part.bootstrap, sides.get("/".join(first)), sides.get("/".join(second)))

    return _once(part, ("aligned", first, second), work)


def with_number(part: Part, rows: pd.DataFrame, number: float) -> Comparison | None:
    """Values of some rows of a part, one per trial, against a fixed number."""
    rows = rows[np.isfinite(rows["value"])]
    if rows.empty:
        return None
    values = rows["value"].to_numpy(float)
    return compare(values, np.full(len(values), number), trial=rows["trial"].to_numpy(), bootstrap=part.bootstrap)


def regret(part: Part, method: str) -> Comparison | None:
    """In each trial, the best bandwidth that tuning with labels finds against the one a method chose without them."""

    def work() -> Comparison | None:
        loo, best = part.of("loo"), part.of("regret")
        best = best[best["method"] == method]
        tuned = loo[loo["method"].str.startswith("tuned_") & loo["weights"].isin(best["weights"])]
        picked = tuned.assign(per_node=tuned["per_node"].astype(bool)).merge(
            best[["samples", "trial", "best_scale", "best_per_node"]].astype({"best_per_node": bool}),
            left_on=["samples", "trial", "scale", "per_node"],
            right_on=["samples", "trial", "best_scale", "best_per_node"],
        )
        tuned_best = _by(picked.assign(method="best")).get("best")
        return _set_against(part.bootstrap, tuned_best, scores(part, "loo").get(method))

    return _once(part, ("regret", method), work)


def scores(part: Part, metric: str) -> dict[str, Scores]:
    """What every method of a part reached in one metric, by method."""
    return _once(part, ("scores", metric), lambda: _by(own_target(part.of(metric))))


def own_target(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without those of alignment that set r against another estimate than dimMST, or match it to another one."""
    if "estimator" not in rows:
        return rows
    return rows[rows["estimator"].isna() | ((rows["estimator"] == "mst") & (rows["target"] == "mst"))]


def _once(part: Part, key: Hashable, work: Callable[[], Any]) -> Any:
    if key not in part.kept:
        part.kept[key] = work()
    return part.kept[key]


def _by(rows: pd.DataFrame) -> dict[str, Scores]:
    """Finite rows by method. A method with several rows for one place is left out: which of them is meant?"""
    rows = rows[np.isfinite(rows["value"].astype(float))]
    has_hits = "right" in rows and "scored" in rows
    out = {}
    for method, own in rows.groupby("method", sort=False):
        places = list(zip(own["samples"].tolist(), own["level"].tolist(), own["trial"].tolist(), strict=True))
        if len(set(places)) < len(places):
            continue
        bits = zip(places, own["scored"], own["right"], strict=True) if has_hits else ()
        hits = {place: (seen, right) for place, seen, right in bits if isinstance(right, bytes)}
        out[str(method)] = Scores(dict(zip(places, own["value"].astype(float).tolist(), strict=True)), hits)
    return out


def _set_against(bootstrap: Bootstrap, a: Scores | None, b: Scores | None, level: int | None = None):
    if a is None or b is None:
        return None
    places = sorted(place for place in a.values if place in b.values and level in (None, place[1]))
    if not places:
        return None
    hits = all(place in side.hits for place in places for side in (a, b))
    unpacked = [unpack_all([side.hits[place] for place in places]) if hits else None for side in (a, b)]
    return compare(
        [a.values[place] for place in places],
        [b.values[place] for place in places],
        trial=[place[2] for place in places],
        hits_a=unpacked[0],
        hits_b=unpacked[1],
        bootstrap=bootstrap,
    )
