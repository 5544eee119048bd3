"""What averages hide: where the order of methods turns, and which graph suits one task and not another."""

from __future__ import annotations

from dataclasses import dataclass

from asbc.evaluate.comparison import Comparison
from asbc.report import contrasts
from asbc.report.parts import BASE, Part, Subject
from asbc.report.style import label
from asbc.report.table import interval
from asbc.report.words import level_name, listed
from asbc.runs.sealed import ALL

UNITS = {"lp": "label", "loo": "sample"}
TASK = {"lp": "propagation", "loo": "the vote"}


@dataclass(frozen=True)
class Finding:
    """Something that an average does not show.

    Attributes
    ----------
    text, evidence : str
    experiment : str
        Where it was found.
    """

    text: str
    evidence: str
    experiment: str


def hidden(subject: Subject) -> list[Finding]:
    """Findings of one subject that averages over levels and tasks do not show.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    list of Finding
    """
    found: list[Finding] = []
    for metric in ("lp", "loo"):
        part = subject.parts.get(metric)
        if part is not None and part.has(metric):
            part = part.fullest(metric)
            found += [*_turns(part, metric), *_leaders(part, metric)]
    return found + _clusters(subject) + _crowded(subject)


def _turns(part: Part, metric: str) -> list[Finding]:
    """Methods that lose to kNN at some levels and win at others, those with the same pattern together."""
    levels = part.levels(metric)
    patterns: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    gains: dict[tuple[str, int], Comparison] = {}
    for method in part.methods:
        below: list[int] = []
        above: list[int] = []
        for level in levels if method != BASE else []:
            gain = contrasts.between(part, method, BASE, metric, level=level)
            if gain is not None:
                gains[method, level] = gain
                (below if gain.high < 0 else above if gain.low > 0 else []).append(level)
        if below and above:
            patterns.setdefault((tuple(below), tuple(above)), []).append(method)
    found = []
    for (lost, won), methods in patterns.items():
        one = len(methods) == 1
        text = (
            f"{listed([label(m) for m in methods])} {'loses' if one else 'lose'} to {label(BASE)} in {TASK[metric]} at "
            f"{_span(lost, levels, metric)}, and {'wins' if one else 'win'} at {_span(won, levels, metric)}"
        )
        evidence = "; ".join(
            f"{label(m)} − {label(BASE)}: {interval(gains[m, lost[0]])} at {level_name(lost[0])}, "
            f"{interval(gains[m, won[-1]])} at {level_name(won[-1])}"
            for m in methods
        )
        found.append(Finding(text, evidence + ".", part.experiment))
    return found


def _leaders(part: Part, metric: str) -> list[Finding]:
    """Which method has the highest mean at which level, where that changes."""
    rows, levels = part.of(metric), part.levels(metric)
    means = rows[rows["method"].isin(part.methods)].groupby(["level", "method"])["value"].mean()
    leaders: dict[str, list[int]] = {}
    for level in levels:
        own = means.loc[level].dropna()
        if len(own) > 1:
            leaders.setdefault(str(own.idxmax()), []).append(level)
    if len(leaders) < 2:
        return []
    told = "; ".join(f"{label(m)} at {_span(tuple(at), levels, metric)}" for m, at in leaders.items())
    by_level = {level: m for m, at in leaders.items() for level in at}
    shown = "; ".join(
        f"{level_name(level)}: {label(by_level[level])} {means.loc[level][by_level[level]]:.3f}"
        for level in levels
        if level in by_level
    )
    return [
        Finding(
            f"The highest mean in {TASK[metric]} is not one method’s: {told}",
            f"Means over trials, {UNITS[metric]}s per class first: {shown}. Close leaders may differ by chance.",
            part.experiment,
        )
    ]


def _clusters(subject: Subject) -> list[Finding]:
    """Methods that are better than kNN for the vote and worse for spectral clustering, or the other way round."""
    found = []
    for part in subject.parts.values():
        if not (part.has("ari") and part.has("loo")):
            continue
        for better, worse, text in (
            ("loo", "ari", "better than {} for the vote, and worse for spectral clustering"),
            ("ari", "loo", "better than {} for spectral clustering, and worse for the vote"),
        ):
            pairs = []
            for method in part.methods:
                up, down = (contrasts.between(part, method, BASE, metric) for metric in (better, worse))
                if up is not None and down is not None and up.low > 0 and down.high < 0:
                    pairs.append((method, up, down))
            if pairs:
                names = {"loo": "LOO", "ari": "ARI"}
                evidence = "; ".join(
                    f"{label(m)}: {names[worse]} {down.mean_a:.3f} against {down.mean_b:.3f}, {interval(down)}; "
                    f"{names[better]} {interval(up)}"
                    for m, up, down in pairs
                )
                verb = "is" if len(pairs) == 1 else "are"
                found.append(
                    Finding(
                        f"{listed([label(m) for m, *_ in pairs])} {verb} {text.format(label(BASE))}",
                        evidence + ". Intervals of ARI are over trials alone.",
                        part.experiment,
                    )
                )
    return found


def _crowded(subject: Subject) -> list[Finding]:
    """Levels at which classes are smaller than neighbourhoods: kNN's accuracy then says little about the graph."""
    few: dict[int, set[int]] = {}
    where: dict[int, str] = {}  # the first experiment with so many candidates
    mixed: set[int] = set()
    for part in subject.parts.values():
        sizes = {int(size) for size in part.of("loo")["samples"].unique()}
        if BASE not in part.methods or not sizes:
            continue
        for k in {record.setting("k_cand") for record in part.records}:
            small = {size for size in sizes if size != ALL and isinstance(k, int) and size <= k}
            if small:
                few.setdefault(k, set()).update(small)
                where.setdefault(k, part.experiment)
                mixed |= {k} if len(sizes) > 1 else set()
    return [
        Finding(
            f"At {listed([str(size) for size in sorted(sizes)])} samples per class a node has more candidates "
            f"(k_cand = {k}) than there are other nodes of its class",
            f"So {label(BASE)} with equal weights must count votes of other classes there"
            + (", and this dominates averages over levels." if k in mixed else "."),
            where[k],
        )
        for k, sizes in sorted(few.items())
    ]


def _span(levels: tuple[int, ...], every: list[int], metric: str) -> str:
    """Levels in words: "1 label per class", "2 and 5 labels per class", "5 or more labels per class"."""
    unit = UNITS[metric]
    if len(levels) > 1 and list(levels) == every[-len(levels) :]:
        return f"{level_name(levels[0])} or more {unit}s per class"
    many = "" if levels == (1,) else "s"
    return f"{listed([level_name(level) for level in levels])} {unit}{many} per class"
