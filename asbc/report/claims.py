"""Verdicts on the claims of each experiment: one function per kind of claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from asbc.evaluate.comparison import Comparison
from asbc.report.evidence import Subject
from asbc.report.study import FEWEST_TRIALS, Study
from asbc.report.style import label, level_order
from asbc.report.tables import interval
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Claim

if TYPE_CHECKING:
    import pandas as pd

HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not hold", "cannot tell", "not run"
# What a test returns: the verdict, and the numbers that it rests on.
Result = tuple[str, str]


@dataclass(frozen=True)
class Verdict:
    """A claim and what the results say about it."""

    text: str
    verdict: str  # HOLDS, FAILS, UNKNOWN or NOT_RUN
    evidence: str  # the numbers that it rests on, or what is missing
    experiment: str  # where they come from
    of_paper: bool = True  # False for a question that the project asks beyond the paper


def judge(subject: Subject) -> list[Verdict]:
    """Return the verdicts on all claims, those of the paper first, and those of experiments that were not run."""
    claims: dict[tuple[str, str], Claim] = {}
    for name in dict.fromkeys([*EXPERIMENTS, *subject.studies]):
        record = subject.studies[name].record if name in subject.studies else EXPERIMENTS[name]
        claims |= {(name, claim.text): claim for claim in record.claims if claim.kind in TESTS}
    found = []
    for (name, text), claim in claims.items():
        if claim.kind == "cost":
            name, verdict, evidence = _cost(subject, claim)
        elif name not in subject.studies:
            verdict, evidence = NOT_RUN, "Not run yet."
        else:
            try:
                verdict, evidence = TESTS[claim.kind](subject.studies[name], claim)
            except (KeyError, ValueError, TypeError, IndexError) as error:  # a record that someone else wrote
                verdict, evidence = NOT_RUN, f"The claim cannot be tested ({type(error).__name__}: {error})."
            if verdict == NOT_RUN and not subject.labeled and EXPERIMENTS.get(name) and claim.metric == "loo":
                evidence = "Needs labels, and there are none."
        found.append(Verdict(text, verdict, evidence, name, claim.of_paper))
    return sorted(found, key=lambda one: not one.of_paper)


def combine(verdicts: Iterable[str]) -> str:
    """Return the verdict on several claims together: all must hold, and one that does not hold decides."""
    found = list(verdicts)
    if FAILS in found:
        return FAILS
    return HOLDS if found and all(verdict == HOLDS for verdict in found) else UNKNOWN


def _order(study: Study, claim: Claim) -> Result:
    """Each method is above the one before it."""
    links = [(a, b, study.compare(b, a, claim.metric)) for a, b in pairwise(claim.methods)]
    known = [(a, b, c) for a, b, c in links if c is not None]
    if len(known) < len(links):
        return NOT_RUN, "Not all of these methods were run."
    evidence = "; ".join(f"{label(b)} − {label(a)} {interval(c)}: {c.verdict}" for a, b, c in known)
    return combine(c.verdict for *_, c in known), evidence + "."


def _above(study: Study, claim: Claim) -> Result:
    """The first method is above each of the others that were run."""
    first, *others = claim.methods
    found = {other: study.compare(first, other, claim.metric) for other in others}
    known = {other: c for other, c in found.items() if c is not None}
    if not known:
        return NOT_RUN, "Not all of these methods were run."
    if len(others) == 1:
        return _judged(next(iter(known.values())))
    evidence = "; ".join(f"{label(other)} {interval(c)}" for other, c in known.items())
    return combine(c.verdict for c in known.values()), f"{label(first)} less each: {evidence}."


def _at_least(study: Study, claim: Claim) -> Result:
    """A metric is at least a number."""
    value = float(claim.options["value"])
    found = study.compare_number(_aligned(study, claim.metric, claim), value)
    if found is None:
        return UNKNOWN, "There is no correlation: one of the two is constant."
    shown = f"{found.mean_a:.3f} [{value + found.low:.3f}, {value + found.high:.3f}]"
    return found.verdict, f"Measured: {shown}. The claim holds if the interval is at or above {value:g}."


def _closer(study: Study, claim: Claim) -> Result:
    """The rank follows one estimate more closely than another."""
    first, second = (tuple(claim.options[key]) for key in ("first", "second"))
    found = study.compare(first, second, "spearman", by=("target", "estimator"))
    verdict, evidence = _judged(found)
    if found is not None:
        evidence += f" {label(second[1])}: {found.mean_b:.3f}."
        if verdict == FAILS and claim.options.get("if_not"):
            evidence += f" {claim.options['if_not']}"
    return verdict, evidence


def _ratio(study: Study, claim: Claim) -> Result:
    """The ratio of two metrics is a number, within a margin."""
    value, margin = float(claim.options["value"]), float(claim.options["margin"])
    above, below = (_aligned(study, m, claim).sort_values("trial") for m in (claim.metric, claim.options["over"]))
    if above.empty or len(above) != len(below):
        return NOT_RUN, "Not all that this needs was run."
    found = study.compare_number(above.assign(value=above["value"].to_numpy() / below["value"].to_numpy()), value)
    if found is None:
        return UNKNOWN, "No ratio is finite."
    shown = f"{found.mean_a:.3f} [{value + found.low:.3f}, {value + found.high:.3f}]"
    return _within(found, margin), f"The ratio is {shown}; within {margin:.0%} counts as a match."


def _wider_and_worse(study: Study, claim: Claim) -> Result:
    """At another value of the axis the bandwidth is wider and the metric lower."""
    axis, method = study.record.axis, claim.methods[0]
    value, wider = claim.options["value"], claim.options["wider"]
    broad = study.compare_settings(method, value, axis.base, wider)  # type: ignore[union-attr]
    worse = study.compare_settings(method, axis.base, value, claim.metric)  # type: ignore[union-attr]
    text, base = axis.label, f"{axis.base:g}"  # type: ignore[union-attr]
    if broad is None or worse is None:
        return NOT_RUN, f"Needs {text} = {value:g} and {text} = {base} with {label(method)}."
    return combine([broad.verdict, worse.verdict]), (
        f"From {text} = {base} to {value:g} the {study.record.metric(wider).title} changes by {broad.difference:+.3f} "
        f"[{broad.low:+.3f}, {broad.high:+.3f}]; {study.record.metric(claim.metric).title} of {label(method)} at "
        f"{text} = {base} less that at {value:g}: {interval(worse)}."
    )


def _flat(study: Study, claim: Claim) -> Result:
    """The metric changes by no more than a margin at larger values of the axis."""
    axis, method, margin = study.record.axis, claim.methods[0], float(claim.options["margin"])
    base, text = axis.base, axis.label  # type: ignore[union-attr]
    larger = [value for value in study.settings if value > base]
    known = {v: c for v in larger if (c := study.compare_settings(method, v, base, claim.metric)) is not None}
    if not known:
        return NOT_RUN, f"Needs {text} = {base:g} and larger values with {label(method)}."
    trials = min(c.trials for c in known.values())
    saturated = [c.mean_a == 1 and c.mean_b == 1 for c in known.values()]
    title = study.record.metric(claim.metric).title
    changes = "; ".join(f"{text} = {v:g} {interval(c)}" for v, c in known.items())
    evidence = (
        f"{title} of {label(method)} against {text} = {base:g}: {changes}. "
        f"Intervals within ±{margin:g} count as the same."
    )
    if trials < FEWEST_TRIALS:
        return UNKNOWN, f"{evidence} {trials} trial(s) are too few; {FEWEST_TRIALS} are needed."
    if any(saturated):
        evidence += " All accuracies are 1, so no change could show."
    verdicts = [UNKNOWN if full else _within(c, margin) for c, full in zip(known.values(), saturated, strict=True)]
    return combine(verdicts), evidence


def _regimes(study: Study, claim: Claim) -> Result:
    """The chosen rank lies between both ends of the bandwidths, and the slope peaks between them."""
    if not all(map(study.has, ("rank_median", "slope_median", "chosen_rank_median"))):
        return NOT_RUN, "The run has not measured all that this needs."
    k = int(study.rows["k_cand"].iloc[0])
    rank, slope = (study.of(f"{name}_median").groupby("scale")["value"].mean() for name in ("rank", "slope"))
    chosen = float(study.of("chosen_rank_median")["value"].mean())
    peak = float(slope.index[int(slope.argmax())])
    ends = rank.iloc[0] > 0.9 * k and rank.iloc[-1] < 2
    inside = slope.index[0] < peak < slope.index[-1] and 2 < chosen < 0.9 * k
    return HOLDS if ends and inside else FAILS, (
        f"The median rank goes from {rank.iloc[0]:.1f} to {rank.iloc[-1]:.1f} of {k}, the slope peaks at scale "
        f"{peak:.2f}, and the chosen kernels have a median rank of {chosen:.1f}."
    )


def _cost(subject: Subject, claim: Claim) -> tuple[str, str, str]:
    """Compare the time of the search with the time of all that follows. Returns the experiment first."""
    method = claim.methods[0]
    names = dict.fromkeys(("loo", "selectors", "ablation", "gamma", *subject.studies))
    timed = {name: _search_times(subject.studies[name], method) for name in names if name in subject.studies}
    timed = {name: times for name, times in timed.items() if len(times)}
    if not timed:
        return "loo" if subject.labeled else "regimes", NOT_RUN, "No run has timed the search."
    often = (name for name, times in timed.items() if len(times) >= FEWEST_TRIALS)
    name = next(often, next(iter(timed)))
    own = timed[name]
    rest = own["build_seconds"] - own["search_seconds"]
    ratios = own.assign(value=np.log(own["search_seconds"] / rest), trial=range(len(own)))
    found = subject.studies[name].compare_number(ratios, 0.0)
    if found is None:
        return name, UNKNOWN, "The search was too fast for the clock."
    share, nodes = own["search_seconds"] / own["build_seconds"], own["nodes"].max()
    evidence = (
        f"{label(method)}{f' on {nodes:,.0f} nodes' if nodes == nodes else ''}: the search takes "
        f"{own['search_seconds'].median():.2f} s and the rest, from dimension to graph, {rest.median():.2f} s "
        f"(medians). The search is {share.median():.0%} of the whole, {np.exp(found.difference):.2f} times the rest"
    )
    if len(own) == 1:
        once = (
            f". It was timed only once, because experiments of one command share it. `asbc experiment={name} "
            "rerun=true` on its own times it in every trial."
        )
        return name, UNKNOWN, evidence + once
    return name, found.verdict, f"{evidence} [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]."


def _search_times(study: Study, method: str) -> pd.DataFrame:
    """Return one row per timed search: its seconds, those of search and graph together, and the number of nodes."""
    columns = ["run_id", "trial", "nodes", "k_cand", "search_seconds", "build_seconds"]
    rows = study.rows.reindex(columns=[*columns, "samples", "method"])
    own = rows[(rows["method"] == method) & rows["search_seconds"].notna()]
    own = own[own["k_cand"].isna() | (own["k_cand"] == own["k_cand"].max())]
    # Trials on the whole data set may share one search; the largest subsamples with a search each say more.
    searches = own.groupby("samples")["search_seconds"].nunique()
    several = [samples for samples in searches.index if searches[samples] >= FEWEST_TRIALS]
    own = own[own["samples"] == max(several or searches.index, key=level_order, default=0)]
    # Rows of several metrics repeat the times of their trial.
    trials = own.groupby(["run_id", "trial", "search_seconds"], as_index=False, dropna=False)
    each = trials[["nodes", "build_seconds"]].max()
    one = each.groupby("search_seconds", as_index=False)[["nodes", "build_seconds"]].median()
    return one[one["build_seconds"] > one["search_seconds"]]


TESTS: dict[str, Callable[[Study, Claim], Result]] = {
    "order": _order,
    "above": _above,
    "at_least": _at_least,
    "closer": _closer,
    "ratio": _ratio,
    "wider_and_worse": _wider_and_worse,
    "flat": _flat,
    "regimes": _regimes,
    "cost": lambda study, claim: (NOT_RUN, ""),  # judged by all studies together
}


def _aligned(study: Study, metric: str, claim: Claim) -> pd.DataFrame:
    """Return the rows of a metric at the target and estimator of a claim."""
    rows = study.of(metric)
    for key in ("target", "estimator"):
        if key in claim.options:
            rows = rows[rows[key] == claim.options[key]]
    return rows


def _within(c: Comparison, margin: float) -> str:
    """Return the verdict on the claim that a difference is at most a margin."""
    if -margin <= c.low and c.high <= margin:
        return HOLDS
    return FAILS if c.low > margin or c.high < -margin else UNKNOWN


def _judged(found: Comparison | None) -> Result:
    if found is None:
        return NOT_RUN, "Not all that this needs was run."
    return found.verdict, f"{interval(found)}, {found.wins} won, {found.ties} tied, {found.losses} lost."
