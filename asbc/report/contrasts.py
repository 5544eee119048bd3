"""Which rows are set against which: every difference that a report shows, by :mod:`asbc.evaluate.comparison`.

The same difference stands in claims, tables and figures. It is worked out once and kept with the part that it is of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.comparison import Comparison, compare
from asbc.evaluate.hits import unpack_all
from asbc.report.parts import Part

if TYPE_CHECKING:
    import pandas as pd

FEWEST_TRIALS = 3  # with fewer, nobody can judge what differs from trial to trial
Place = tuple[int, int, int]  # samples, level, trial: where two methods meet
Bits = tuple[bytes, bytes]  # which nodes were scored, and which were right


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
    hits: dict[Place, Bits]


def between(part: Part, a: str, b: str, metric: str, *, level: int | None = None) -> Comparison | None:
    """Method `a` against method `b`; `None` where one of them has no such rows, or they share no trial."""

    def work() -> Comparison | None:
        sides = scores(part, metric)
        return _set_against(part, sides.get(a), sides.get(b), level)

    return _once(part, ("between", a, b, metric, level), work)


def across(part: Part, method: str, setting: float, base: float, metric: str) -> Comparison | None:
    """A method at one value of the swept setting against itself at another."""

    def work() -> Comparison | None:
        sides = _once(part, ("settings", metric), by_setting)
        return _set_against(part, sides.get((method, setting)), sides.get((method, base)))

    def by_setting() -> dict[tuple[str, float], Scores]:
        rows = own_target(part.of(metric))
        swept = rows.groupby("setting", sort=False)
        return {(name, value): found for value, own in swept for name, found in _by(own).items()}  # type: ignore[misc]

    return _once(part, ("across", method, setting, base, metric), work)


def aligned(part: Part, first: tuple[str, str], second: tuple[str, str]) -> Comparison | None:
    """Spearman's correlation of one (target, estimator) against that of another."""

    def work() -> Comparison | None:
        rows = part.of("spearman")
        sides = _by(rows.assign(method=rows["target"] + "/" + rows["estimator"]))
        return _set_against(part, sides.get("/".join(first)), sides.get("/".join(second)))

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
        best = part.of("regret")
        best = best[best["method"] == method]
        tuned = _once(part, ("tuned",), lambda: _tuned(part.of("loo")))
        columns = (best[name].tolist() for name in ("weights", "samples", "trial", "best_scale", "best_per_node"))
        picked = [tuned.get((*key, scale, bool(each)), []) for *key, scale, each in zip(*columns, strict=True)]
        return _set_against(part, _picked(picked), scores(part, "loo").get(method))

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


def _tuned(rows: pd.DataFrame) -> dict[Hashable, list[tuple[Place, float, Bits | None]]]:
    """What each bandwidth reached that was tried with labels; by weights, samples, trial, scale and whether each node
    had its own.
    """
    rows = rows[rows["method"].str.startswith("tuned_") & np.isfinite(rows["value"].astype(float))]
    has_hits = "right" in rows and "scored" in rows
    out: dict[Hashable, list[tuple[Place, float, Bits | None]]] = {}
    for row in rows.itertuples():
        bits = (row.scored, row.right) if has_hits and isinstance(row.right, bytes) else None
        key = (row.weights, row.samples, row.trial, row.scale, bool(row.per_node))
        out.setdefault(key, []).append(((row.samples, row.level, row.trial), float(row.value), bits))  # type: ignore[arg-type]
    return out


def _picked(found: list[list[tuple[Place, float, Bits | None]]]) -> Scores | None:
    """Rows that were picked, as those of one method; None where there are none, or several for one place."""
    rows = [row for one in found for row in one]
    values = {place: value for place, value, _ in rows}
    if not rows or len(values) < len(rows):
        return None
    return Scores(values, {place: bits for place, _, bits in rows if bits is not None})


def _set_against(part: Part, a: Scores | None, b: Scores | None, level: int | None = None) -> Comparison | None:
    if a is None or b is None:
        return None
    places = sorted(place for place in a.values if place in b.values and level in (None, place[1]))
    if not places:
        return None
    sides = [[side.values[place] for place in places] for side in (a, b)]
    hits = [tuple(side.hits.get(place) for place in places) for side in (a, b)]
    trial = [place[2] for place in places]

    def work() -> Comparison:
        known = all(bits is not None for side in hits for bits in side)
        hits_a, hits_b = (unpack_all(side) if known else None for side in hits)  # type: ignore[arg-type]
        return compare(*sides, trial=trial, hits_a=hits_a, hits_b=hits_b, bootstrap=part.bootstrap)

    # Experiments overlap, and rules may choose alike: the same numbers are compared once in a report.
    kept = part.bootstrap.kept
    key = (*map(tuple, sides), tuple(trial), *hits)
    if key not in kept:
        kept[key] = work()
    return kept[key]
