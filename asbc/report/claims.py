"""The claims, one by one, and what the data say of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from asbc.evaluate.comparison import Comparison
from asbc.report import contrasts
from asbc.report.paper import paper
from asbc.report.parts import Part, Subject
from asbc.report.style import label
from asbc.report.table import interval
from asbc.report.tables import TASKS
from asbc.report.words import by_size

if TYPE_CHECKING:
    import pandas as pd

HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not hold", "cannot tell", "not run"

# Accuracies that differ by less than this are called the same: among 2,000 nodes the standard error is about 0.01.
SAME = 0.005
# A median rank matches a median dimension if it differs from it by at most this share.
NEAR = 0.1


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict.

    Attributes
    ----------
    text : str
    verdict : {"holds", "does not hold", "cannot tell", "not run"}
        "cannot tell" is what the data say; "not run" says that nobody has asked them.
    evidence : str
        The numbers that the verdict rests on, or what is missing.
    experiment : str
        Where the evidence comes from.
    of_paper : bool
        False for a question that the project asks beyond the paper.
    """

    text: str
    verdict: str
    evidence: str
    experiment: str
    of_paper: bool = True

    @property
    def missing(self) -> bool:
        """Whether what it needs was not run."""
        return self.verdict == NOT_RUN


def judge(subject: Subject) -> list[Claim]:
    """All claims, judged by the runs of one subject.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    list of Claim
        Those of the paper first, then questions beyond it; the same ones in the same order for every subject.
    """
    claims = [
        _order(subject, "loo", paper()["order"]),
        _order(subject, "lp", paper()["order"]),
        _follows(subject),
        _prefers_mst(subject),
        _matches(subject),
        _low_gamma(subject),
        _flat_gamma(subject),
        _regimes(subject),
        _cost(subject),
        _control(subject),
        _order(subject, "loo", ["knn", "knn_sigma", "nnk_sigma"], of_paper=False),
        _local(subject, "loo"),
        _local(subject, "lp"),
        _best_rule(subject),
        _grid(subject),
    ]
    return claims


def both(verdicts: Iterable[str]) -> str:
    """Verdict on several claims together: all must hold; one that does not hold decides, one unknown leaves it open."""
    found = list(verdicts)
    if FAILS in found:
        return FAILS
    return HOLDS if found and all(verdict == HOLDS for verdict in found) else UNKNOWN


def _order(subject: Subject, metric: str, chain: Sequence[str], *, of_paper: bool = True) -> Claim:
    text = f"{TASKS[metric]}: {' < '.join(map(label, chain))}"
    part = subject.parts.get(metric)
    if part is None or not part.has(metric):
        return _missing(text, metric, of_paper)
    links = [(a, b, contrasts.between(part, b, a, metric)) for a, b in pairwise(chain)]
    if any(found is None for *_, found in links):
        return Claim(text, NOT_RUN, "Not all of these methods were run.", metric, of_paper)
    verdict = both(found.verdict for *_, found in links if found)
    evidence = "; ".join(f"{label(b)} − {label(a)} {interval(c)}: {c.verdict}" for a, b, c in links if c)
    return Claim(text, verdict, evidence + ".", metric, of_paper)


def _follows(subject: Subject) -> Claim:
    low, high = paper()["spearman"]["mst"]
    text = f"The rank follows dimMST: Spearman {low}–{high}"
    part = subject.parts.get("alignment")
    if part is None:
        return _missing(text, "alignment")
    found = contrasts.with_number(part, _spearman(part, "mst", "mst"), low)
    if found is None:
        return Claim(text, UNKNOWN, "No correlation with dimMST: one of the two is constant.", "alignment")
    values = f"{found.mean_a:.3f} [{low + found.low:.3f}, {low + found.high:.3f}]"
    return Claim(
        text, found.verdict, f"Ours is {values}; it holds where the interval is at or above {low}.", "alignment"
    )


def _prefers_mst(subject: Subject) -> Claim:
    low, high = paper()["spearman"]["levina_bickel"]
    text = f"The rank follows dimMST more closely than Levina–Bickel (Spearman {low}–{high})"
    part = subject.parts.get("alignment")
    if part is None:
        return _missing(text, "alignment")
    found = contrasts.aligned(part, ("mst", "mst"), ("mst", "levina_bickel"))
    more = "" if found is None else f" Levina–Bickel: {found.mean_b:.3f}. But see the control below."
    return _judged(text, found, "alignment", True, more)


def _control(subject: Subject) -> Claim:
    text = "Control: the rank is closer to dimMST than to Levina–Bickel even when matched to Levina–Bickel"
    part = subject.parts.get("alignment")
    if part is None:
        return _missing(text, "alignment", False)
    found = contrasts.aligned(part, ("levina_bickel", "mst"), ("levina_bickel", "levina_bickel"))
    more = ""
    if found is not None and found.verdict == FAILS:
        more = (
            " So the rank follows whichever estimate it is given: the agreement shows that the search works, and says "
            "nothing about the data."
        )
    return _judged(text, found, "alignment", False, more)


def _matches(subject: Subject) -> Claim:
    printed = paper()["gamma"]
    theirs = printed["rank_median"][printed["value"].index(1.0)], printed["dimension_median"]
    text = f"At γ = 1 the median rank is the median dimension ({theirs[0]} of {theirs[1]} in the paper)"
    part = subject.parts.get("alignment")
    if part is None:
        return _missing(text, "alignment")
    own = part.rows[(part.rows["target"] == "mst") & (part.rows["estimator"] == "mst")]
    rank, dimension = (own[own["metric"] == m].sort_values("trial") for m in ("rank_median", "dimension_median"))
    if rank.empty or len(rank) != len(dimension):
        return Claim(text, NOT_RUN, "No ranks with dimMST as the target.", "alignment")
    ratio = contrasts.with_number(
        part, rank.assign(value=rank["value"].to_numpy() / dimension["value"].to_numpy()), 1.0
    )
    if ratio is None:
        return Claim(text, UNKNOWN, "No finite ranks with dimMST as the target.", "alignment")
    return Claim(
        text,
        _within(ratio, NEAR),
        f"Rank over dimension is {ratio.mean_a:.3f} [{1 + ratio.low:.3f}, {1 + ratio.high:.3f}]; "
        f"within {NEAR:.0%} counts as a match.",
        "alignment",
    )


def _low_gamma(subject: Subject) -> Claim:
    text = "Below γ = 0.75 the bandwidth is too large, and accuracy suffers (the paper writes too small)"
    part = subject.parts.get("gamma")
    if part is None:
        return _missing(text, "gamma")
    wider = contrasts.across(part, "nnk_sigma", 0.5, 1.0, "sigma_median")
    worse = contrasts.across(part, "nnk_sigma", 1.0, 0.5, "loo")
    if wider is None or worse is None:
        return Claim(text, NOT_RUN, _needs(subject, "γ = 0.5 and γ = 1 with NNK-σ"), "gamma")
    return Claim(
        text,
        both([wider.verdict, worse.verdict]),
        f"From γ = 1 to 0.5 the median σ changes by {wider.difference:+.3f} [{wider.low:+.3f}, {wider.high:+.3f}]; "
        f"LOO of NNK-σ at γ = 1 less that at 0.5: {interval(worse)}.",
        "gamma",
    )


def _flat_gamma(subject: Subject) -> Claim:
    text = "From γ = 1 upwards accuracy hardly changes"
    part = subject.parts.get("gamma")
    if part is None:
        return _missing(text, "gamma")
    above = [value for value in sorted(part.rows["setting"].unique()) if value > 1]
    found = [(value, contrasts.across(part, "nnk_sigma", value, 1.0, "loo")) for value in above]
    known = [(value, c) for value, c in found if c is not None]
    if not known:
        return Claim(text, NOT_RUN, _needs(subject, "γ = 1 and larger ones with NNK-σ"), "gamma")
    return Claim(
        text,
        both(_same(c) for _, c in known),
        f"LOO of NNK-σ against γ = 1: {'; '.join(f'γ = {v:g} {interval(c)}' for v, c in known)}. "
        f"Intervals within ±{SAME} count as the same.{_reservation(c for _, c in known)}",
        "gamma",
    )


def _regimes(subject: Subject) -> Claim:
    text = "The chosen bandwidth lies between one where every neighbour stands alone and one where all look alike"
    part = subject.parts.get("regimes")
    if part is None:
        return _missing(text, "regimes")
    if not all(map(part.has, ("rank_median", "slope_median", "chosen_rank_median"))):
        return Claim(text, NOT_RUN, "The run has not measured all that this needs.", "regimes")
    k = int(part.rows["k_cand"].iloc[0])
    rank, slope = (part.of(f"{m}_median").groupby("scale")["value"].mean() for m in ("rank", "slope"))
    chosen = float(part.of("chosen_rank_median")["value"].mean())
    peak = float(slope.index[int(slope.argmax())])
    ends = rank.iloc[0] > 0.9 * k and rank.iloc[-1] < 2
    inside = slope.index[0] < peak < slope.index[-1] and 2 < chosen < 0.9 * k
    return Claim(
        text,
        HOLDS if ends and inside else FAILS,
        f"The median rank goes from {rank.iloc[0]:.1f} to {rank.iloc[-1]:.1f} of {k}, the slope peaks at scale "
        f"{peak:.2f}, and the chosen kernels have a median rank of {chosen:.1f}.",
        "regimes",
    )


def _cost(subject: Subject) -> Claim:
    """Search against all that follows it, by the clock of the runs themselves."""
    text = "Neighbour search dominates the cost"
    names = dict.fromkeys(("loo", "selectors", "ablation", "gamma", *subject.parts))
    timed = {name: _searches(subject.parts[name]) for name in names if name in subject.parts}
    timed = {name: searches for name, searches in timed.items() if len(searches)}
    if not timed:
        needs = "Runs of this version time the search apart; these do not."
        return Claim(text, NOT_RUN, needs, "loo" if subject.labeled else "regimes")
    often = (name for name, searches in timed.items() if len(searches) >= contrasts.FEWEST_TRIALS)
    name = next(often, next(iter(timed)))
    own = timed[name]
    rest = own["build_seconds"] - own["search_seconds"]
    ratios = own.assign(value=np.log(own["search_seconds"] / rest), trial=range(len(own)))
    found = contrasts.with_number(subject.parts[name], ratios, 0.0)
    if found is None:
        return Claim(text, UNKNOWN, "The search took no time that the clock could tell.", name)
    share = own["search_seconds"] / own["build_seconds"]
    nodes = own["nodes"].max()
    where = f" on {nodes:,.0f} nodes" if nodes == nodes else ""
    once = (
        ". It was timed once, as experiments of one command share it, and another time may differ: "
        f"`asbc experiment={name} rerun=true`, run by itself, times it in every trial."
    )
    return Claim(
        text,
        UNKNOWN if len(own) == 1 else found.verdict,
        f"NNK-σ{where}: the search takes {own['search_seconds'].median():.2f} s and the rest, from dimension to "
        f"graph, {rest.median():.2f} s (medians); the search is {share.median():.0%} of the whole, and "
        f"{np.exp(found.difference):.2f} times the rest"
        + (once if len(own) == 1 else f" [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]."),
        name,
    )


def _searches(part: Part) -> pd.DataFrame:
    """One row for each search that was timed: its seconds, those of search and graph together, and how many nodes."""
    columns = ["run_id", "trial", "nodes", "k_cand", "search_seconds", "build_seconds"]
    rows = part.rows.reindex(columns=[*columns, "samples", "method"])
    own = rows[(rows["method"] == "nnk_sigma") & rows["search_seconds"].notna()]
    own = own[own["k_cand"].isna() | (own["k_cand"] == own["k_cand"].max())]  # with other candidates it is another one
    # Trials on the whole data set may share one search, which cannot show how times differ: the largest subsamples
    # that were searched anew are better.
    searches = own.groupby("samples")["search_seconds"].nunique()
    anew = [samples for samples in searches.index if searches[samples] >= contrasts.FEWEST_TRIALS]
    own = own[own["samples"] == max(anew or searches.index, key=by_size, default=0)]
    # Rows of several metrics repeat the times of their trial; the graph was made for the last of them at the latest.
    one_trial = own.groupby(["run_id", "trial", "search_seconds"], as_index=False, dropna=False)
    each = one_trial[["nodes", "build_seconds"]].max()
    one = each.groupby("search_seconds", as_index=False)[["nodes", "build_seconds"]].median()
    return one[one["build_seconds"] > one["search_seconds"]]


def _local(subject: Subject, metric: str) -> Claim:
    text = f"{TASKS[metric]}: a bandwidth for each node beats one of the same scale for all (NNK)"
    part = subject.parts.get("selectors")
    if part is None:
        return _missing(text, "selectors", False)
    return _judged(text, contrasts.between(part, "nnk_sigma", "median_spectral_nnk", metric), "selectors", False)


def _best_rule(subject: Subject) -> Claim:
    rivals = ("self_tuning_nnk", "density_nnk", "log_log_nnk", "dimension_matching_nnk", "max_min_nnk")
    text = "LOO: the spectral rule beats every other rule of the paper's Table 1 (NNK weights)"
    part = subject.parts.get("selectors")
    if part is None:
        return _missing(text, "selectors", False)
    found = {rival: contrasts.between(part, "nnk_sigma", rival, "loo") for rival in rivals}
    known = {rival: c for rival, c in found.items() if c is not None}
    if not known:
        return Claim(text, NOT_RUN, "None of the other rules was run.", "selectors", False)
    evidence = "; ".join(f"{label(rival)} {interval(c)}" for rival, c in known.items())
    verdict = both(c.verdict for c in known.values())
    return Claim(text, verdict, f"NNK-σ less each: {evidence}.", "selectors", False)


def _grid(subject: Subject) -> Claim:
    text = "Twelve grid points are enough: a finer grid does not change accuracy"
    part = subject.parts.get("n_grid")
    if part is None:
        return _missing(text, "n_grid", False)
    finer = [value for value in sorted(part.rows["setting"].unique()) if value > 12]
    found = [(v, contrasts.across(part, "nnk_sigma", v, 12, "loo")) for v in finer]
    known = [(v, c) for v, c in found if c is not None]
    if not known:
        return Claim(text, NOT_RUN, _needs(subject, "12 and more grid points with NNK-σ"), "n_grid", False)
    evidence = "; ".join(f"{v:g} points {interval(c)}" for v, c in known)
    verdict = both(_same(c) for _, c in known)
    return Claim(
        text,
        verdict,
        f"LOO of NNK-σ against 12: {evidence}. Intervals within ±{SAME} count as the same."
        + _reservation(c for _, c in known),
        "n_grid",
        False,
    )


def _spearman(part: Part, target: str, estimator: str):
    rows = part.of("spearman")
    return rows[(rows["target"] == target) & (rows["estimator"] == estimator)]


def _within(c: Comparison, margin: float) -> str:
    """Verdict on the claim that a difference is no larger than a margin."""
    if -margin <= c.low and c.high <= margin:
        return HOLDS
    return FAILS if c.low > margin or c.high < -margin else UNKNOWN


def _same(c: Comparison) -> str:
    """Verdict on the claim that accuracy does not change; unknown where the data could not have shown a change."""
    return UNKNOWN if c.trials < contrasts.FEWEST_TRIALS or _saturated(c) else _within(c, SAME)


def _saturated(c: Comparison) -> bool:
    return c.mean_a == 1 and c.mean_b == 1


def _reservation(comparisons: Iterable[Comparison]) -> str:
    """Why a claim of no change was left open, if it was."""
    found = list(comparisons)
    few = min(c.trials for c in found)
    if few < contrasts.FEWEST_TRIALS:
        return f" With {few} trial(s) nothing can be said; {contrasts.FEWEST_TRIALS} are wanted."
    return " All accuracies are 1, so no change could have shown." if any(map(_saturated, found)) else ""


def _judged(text: str, found: Comparison | None, experiment: str, of_paper: bool, more: str = "") -> Claim:
    if found is None:
        return Claim(text, NOT_RUN, "Not all that this needs was run.", experiment, of_paper)
    where = f"{found.wins} won, {found.ties} tied, {found.losses} lost"
    return Claim(text, found.verdict, f"{interval(found)}, {where}.{more}", experiment, of_paper)


def _missing(text: str, experiment: str, of_paper: bool = True) -> Claim:
    return Claim(text, NOT_RUN, "Not run yet.", experiment, of_paper)


def _needs(subject: Subject, what: str) -> str:
    return f"Needs {what}." if subject.labeled else "Needs labels, and there are none."
