"""What the results say: the best graph for each task, what averages hide, and which claims hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from asbc.evaluate.scores import PER_SAMPLE, Comparison, Gap, Metric, Ranking, hits_of, rank_methods
from asbc.report.evidence import BASELINE, FEWEST_TRIALS, Study, Subject, compare_number
from asbc.report.style import label, level_name, level_order, level_text, listed
from asbc.report.tables import interval
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Claim
from asbc.runs.results import StoredRun, last_level

if TYPE_CHECKING:
    import pandas as pd

HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not hold", "cannot tell", "not run"
# What a test returns: the verdict, and the numbers that it rests on.
Result = tuple[str, str]


@dataclass(frozen=True)
class Answer:
    """The best graph for one task."""

    task: str
    metric: Metric
    place: str  # levels, samples and trials that it was measured at
    study: Study
    ranking: Ranking

    @property
    def enough(self) -> bool:
        """Whether there are enough trials for a verdict."""
        return self.ranking.trials >= FEWEST_TRIALS

    @property
    def clear(self) -> bool:
        """Whether the interval of the best method against every other one lies above zero."""
        return self.enough and not self.ranking.alike

    @property
    def method(self) -> str:
        """The graph to build: the best one, or plain kNN if it is statistically tied with the best."""
        return BASELINE if BASELINE in self.ranking.alike and self.enough else self.ranking.methods[0]

    @property
    def runner_up(self) -> str:
        return self.ranking.methods[1]

    def over(self, other: str) -> Gap | None:
        """Return the lead of the best method over another; None for itself and for methods that were not run."""
        return self.ranking.gaps.get((self.ranking.methods[0], other))


def answer(subject: Subject) -> list[Answer]:
    """Return the best graph of every task that at least two graphs were compared on."""
    metrics: dict[str, Metric] = {}
    for study in subject.studies.values():
        for name in study.rows["metric"].unique():
            metrics.setdefault(name, study.record.metric(name))
    answers = []
    for metric in metrics.values():
        chosen = _most_methods(subject.studies.values(), metric.name) if metric.task else None
        if chosen is None:
            continue
        every = chosen.levels(metric.name)
        for level in [None] if metric.level == PER_SAMPLE else dict.fromkeys((every[0], every[-1])):
            ranking = _rank(chosen, metric.name, level)
            if ranking is not None:
                task = metric.task if level is None else f"{metric.task}, {level_text([level], metric.level)}"
                answers.append(Answer(task, metric, _place(chosen, metric, ranking), chosen, ranking))
    return answers


def _most_methods(studies: Iterable[Study], metric: str) -> Study | None:
    """Return the study that compares the most methods, at its largest samples. Sweeps do not count."""
    found = []
    for study in studies:
        if study.has(metric) and len(study.settings) < 2:
            samples = last_level(study.of(metric))
            found.append((len(study.scores(metric)), level_order(samples), study, samples))
    if not found:
        return None
    _, _, study, samples = max(found, key=lambda item: item[:2])
    return study.at_samples(samples)


def _rank(study: Study, metric: str, level: int | None) -> Ranking | None:
    scores = {name: own for name, own in study.scores(metric).items() if name in study.methods}
    if level is not None:
        scores = {name: own[own.index.get_level_values("level") == level] for name, own in scores.items()}
    every = {place for own in scores.values() for place in own.index}
    # A method that was not measured everywhere cannot be ranked fairly.
    scores = {name: own.sort_index() for name, own in scores.items() if set(own.index) == every}
    if len(scores) < 2 or not every:
        return None
    hits = {name: found for name, own in scores.items() if (found := hits_of(own)) is not None}
    return rank_methods(
        {name: own["value"].to_numpy(float) for name, own in scores.items()},
        trial=[trial for _, _, trial in sorted(every)],
        hits=hits if len(hits) == len(scores) else None,
    )


def _place(study: Study, metric: Metric, ranking: Ranking) -> str:
    samples = study.of(metric.name)["samples"].iloc[0]
    return ", ".join(
        [
            f"{level_name(samples)} samples per class" if samples else "all samples",
            f"{ranking.trials} trial{'' if ranking.trials == 1 else 's'}",
            f"{len(ranking.methods)} graphs compared",
        ]
    )


# The code that builds a graph


def recipe(run: StoredRun, method: str) -> str | None:
    """Return Python that builds the graph of a method on vectors `X`, from the settings of a run.

    Nothing is imported. None if the settings name anything outside asbc.
    """
    node, search = run.setting(f"methods.{method}"), run.setting("neighbors")
    if not isinstance(node, Mapping) or not isinstance(search, Mapping):
        return None
    if node.get("_target_") != "asbc.evaluate.Method" or search.get("_target_") != "asbc.search_neighbors":
        return None
    graph, dimension = run.setting("graph") or {}, run.setting("dimension") or {}
    weights = node.get("weights")
    function = isinstance(weights, Mapping) and bool(weights.get("_partial_"))
    arguments: dict[str, Any] = {"weights": weights, "k_cand": run.setting("k_cand")}
    if weights != "uniform" and not function:
        arguments |= {
            "bandwidth": node.get("bandwidth"),
            "k_min": graph.get("k_min", 6),
            "dimension": dimension.get("estimator", "mst"),
            "n_rep": dimension.get("n_rep", 5),
            "sharpen": bool(node.get("sharpen")),
        }
    arguments |= {key: value for key, value in search.items() if not key.startswith("_") and key != "k"}
    arguments = {key: value for key, value in arguments.items() if value is not None}
    arguments |= {"symmetrize": graph["symmetrize"]} if "symmetrize" in graph else {}  # None: a directed graph
    try:
        given = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items())
    except ValueError:
        return None
    modules = {"functools": "functools." in given, "asbc": True, "asbc.evaluate": function}
    imports = "".join(f"import {name}\n" for name, used in modules.items() if used)
    return f"{imports}A = asbc.GraphBuilder({given}).fit_transform(X)"


def _python(value: Any) -> str:
    """Return a setting as Python: a value, or a call of one of asbc's own names."""
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    target = str(value.get("_target_", ""))
    if not target.startswith("asbc.") or not all(part.isidentifier() for part in target.split(".")):
        raise ValueError(target)
    options = ", ".join(f"{key}={_python(option)}" for key, option in value.items() if not key.startswith("_"))
    if value.get("_partial_"):
        return f"functools.partial({target}, {options})" if options else target
    return f"{target}({options})"


# What averages hide


@dataclass(frozen=True)
class Caveat:
    """Something that an average does not show: a sentence, its numbers, and the experiment they come from."""

    text: str
    evidence: str
    experiment: str


def caveats(subject: Subject) -> list[Caveat]:
    """Return what averages over levels and tasks do not show."""
    found: list[Caveat] = []
    for metric in ("lp", "loo"):
        study = subject.studies.get(metric)
        if study is not None and study.has(metric):
            study = study.largest_sample(metric)
            found += [*_turns(study, metric), *_leaders(study, metric)]
    for study in subject.studies.values():
        if study.has("ari") and study.has("loo"):
            found += [*_opposed(study, "loo", "ari"), *_opposed(study, "ari", "loo")]
    return found + _crowded(subject)


TASKS = {"lp": "propagation", "loo": "the vote", "ari": "spectral clustering"}


def _turns(study: Study, metric: str) -> list[Caveat]:
    """Find methods that lose to kNN at some levels and win at others; those with the same pattern go together."""
    levels = study.levels(metric)
    patterns: dict[tuple[tuple[int, ...], tuple[int, ...]], list[str]] = {}
    gains: dict[tuple[str, int], Comparison] = {}
    for method in study.methods_with(metric):
        found = {level: study.compare(method, BASELINE, metric, level) for level in levels if method != BASELINE}
        gains |= {(method, level): gain for level, gain in found.items() if gain is not None}
        lost = tuple(level for level, gain in found.items() if gain is not None and gain.high < 0)
        won = tuple(level for level, gain in found.items() if gain is not None and gain.low > 0)
        if lost and won:
            patterns.setdefault((lost, won), []).append(method)
    caveats = []
    for (lost, won), methods in patterns.items():
        s = "s" if len(methods) == 1 else ""
        text = (
            f"{listed([label(m) for m in methods])} lose{s} to {label(BASELINE)} in {TASKS[metric]} at "
            f"{_span(study, lost, metric)}, and win{s} at {_span(study, won, metric)}"
        )
        evidence = "; ".join(
            f"{label(m)} − {label(BASELINE)}: {interval(gains[m, lost[0]])} at {level_name(lost[0])}, "
            f"{interval(gains[m, won[-1]])} at {level_name(won[-1])}"
            for m in methods
        )
        caveats.append(Caveat(text, evidence + ".", study.experiment))
    return caveats


def _leaders(study: Study, metric: str) -> list[Caveat]:
    """Name the method with the highest mean at each level, if it changes."""
    rows, levels = study.of(metric), study.levels(metric)
    means = rows[rows["method"].isin(study.methods)].groupby(["level", "method"])["value"].mean()
    best = {level: own for level in levels if len(own := means.loc[level].dropna()) > 1}
    leaders: dict[str, list[int]] = {}
    for level, own in best.items():
        leaders.setdefault(str(own.idxmax()), []).append(level)
    if len(leaders) < 2:
        return []
    text = "; ".join(f"{label(m)} at {_span(study, at, metric)}" for m, at in leaders.items())
    shown = "; ".join(f"{level_name(level)}: {label(own.idxmax())} {own.max():.3f}" for level, own in best.items())
    unit = study.record.metric(metric).level
    return [
        Caveat(
            f"No single method has the highest mean in {TASKS[metric]}: {text}",
            f"Means over trials, by {unit}: {shown}. Close leaders may differ by chance.",
            study.experiment,
        )
    ]


def _opposed(study: Study, better: str, worse: str) -> list[Caveat]:
    """Find methods that are better than kNN in one task and worse in another."""
    found = []
    for method in study.methods:
        up, down = (study.compare(method, BASELINE, metric) for metric in (better, worse))
        if up is not None and down is not None and up.low > 0 and down.high < 0:
            found.append((method, up, down))
    if not found:
        return []
    titles = {metric: study.record.metric(metric).title for metric in (better, worse)}
    evidence = "; ".join(
        f"{label(m)}: {titles[worse]} {down.mean_a:.3f} against {down.mean_b:.3f}, {interval(down)}; "
        f"{titles[better]} {interval(up)}"
        for m, up, down in found
    )
    verb = "is" if len(found) == 1 else "are"
    text = (
        f"{listed([label(m) for m, *_ in found])} {verb} better than {label(BASELINE)} for {TASKS[better]}, "
        f"and worse for {TASKS[worse]}"
    )
    return [Caveat(text, evidence + ". Intervals of ARI are over trials only.", study.experiment)]


def _crowded(subject: Subject) -> list[Caveat]:
    """Find levels at which classes are smaller than neighbourhoods: kNN's accuracy then says little about the graph."""
    few: dict[int, set[int]] = {}
    where: dict[int, Study] = {}
    mixed: set[int] = set()
    for study in subject.studies.values():
        sizes = {int(size) for size in study.of("loo")["samples"].unique()}
        if BASELINE not in study.methods or not sizes:
            continue
        for k in {run.setting("k_cand") for run in study.runs}:
            small = {size for size in sizes if size and isinstance(k, int) and size <= k}
            if small:
                few.setdefault(k, set()).update(small)
                where.setdefault(k, study)
                mixed |= {k} if len(sizes) > 1 else set()
    return [
        Caveat(
            f"At {listed([str(size) for size in sorted(sizes)])} samples per class a node has more candidates "
            f"(k_cand = {k}) than there are other nodes of its class",
            f"{label(BASELINE)} with equal weights must then count votes of other classes"
            + (", and this dominates averages over levels." if k in mixed else "."),
            where[k].experiment,
        )
        for k, sizes in sorted(few.items())
    ]


def _span(study: Study, levels: Sequence[int], metric: str) -> str:
    """Return levels in words: "1 label per class", "2 and 5 labels per class", "5 or more labels per class"."""
    every, unit = study.levels(metric), study.record.metric(metric).level
    if len(levels) > 1 and list(levels) == every[-len(levels) :]:
        return f"{level_name(levels[0])} or more {unit}"
    return level_text(levels, unit)


# Claims: one function per kind


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
        if verdict == NOT_RUN and name in subject.failed:
            evidence = f"The run failed: {subject.failed[name]}"
        elif verdict == NOT_RUN and not subject.labeled and needs_labels(name, claim):
            evidence = "Needs labels, and there are none."
        found.append(Verdict(text, verdict, evidence, name, claim.of_paper))
    return sorted(found, key=lambda one: not one.of_paper)


def needs_labels(experiment: str, claim: Claim) -> bool:
    """Whether a claim of one of asbc's own experiments can only be tested on labelled data."""
    record = EXPERIMENTS.get(experiment)
    return record is not None and (record.needs_labels or record.metric(claim.metric).needs_labels)


def combine(verdicts: Iterable[str]) -> str:
    """Return the verdict on several claims together: all must hold, and one that does not hold decides."""
    found = list(verdicts)
    if FAILS in found:
        return FAILS
    return HOLDS if found and all(verdict == HOLDS for verdict in found) else UNKNOWN


def _above(study: Study, claim: Claim) -> Result:
    """Each method is above the one before it ("order"), or the first one above each other that was run ("above")."""
    pairs = [(b, a) for a, b in pairwise(claim.methods)]
    if claim.kind == "above":
        pairs = [(claim.methods[0], other) for other in claim.methods[1:]]
    found = {pair: c for pair in pairs if (c := study.compare(*pair, claim.metric)) is not None}
    if not found or (claim.kind == "order" and len(found) < len(pairs)):
        return NOT_RUN, "Not all of these methods were run."
    evidence = "; ".join(f"{label(a)} − {label(b)} {_pairs(c)}: {c.verdict}" for (a, b), c in found.items())
    return combine(c.verdict for c in found.values()), evidence + "."


def _number(study: Study, claim: Claim) -> Result:
    """A metric is at least a number ("at_least"), or its ratio to another one is a number within a margin ("ratio")."""
    rows, value = _aligned(study, claim.metric, claim).sort_values("trial"), float(claim.options["value"])
    if claim.kind == "ratio":
        below = _aligned(study, claim.options["over"], claim).sort_values("trial")
        if rows.empty or len(rows) != len(below):
            return NOT_RUN, "Not all that this needs was run."
        rows = rows.assign(value=rows["value"].to_numpy() / below["value"].to_numpy())
    found = compare_number(rows, value)
    if found is None:
        return UNKNOWN, "No value is finite: one of the two is constant."
    shown = f"{found.mean_a:.3f} [{value + found.low:.3f}, {value + found.high:.3f}]"
    if claim.kind == "at_least":
        return found.verdict, f"Measured: {shown}. The claim holds if the interval is at or above {value:g}."
    margin = float(claim.options["margin"])
    return _within(found, margin), f"The ratio is {shown}; within {margin:.0%} counts as a match."


def _closer(study: Study, claim: Claim) -> Result:
    """The rank follows one estimate more closely than another."""
    first, second = (tuple(claim.options[key]) for key in ("first", "second"))
    found = study.compare(first, second, "spearman", by=("target", "estimator"))
    if found is None:
        return NOT_RUN, "Not all that this needs was run."
    evidence = f"{_pairs(found)}. {label(second[1])}: {found.mean_b:.3f}."
    if found.verdict == FAILS and claim.options.get("if_not"):
        evidence += f" {claim.options['if_not']}"
    return found.verdict, evidence


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
    evidence = (
        f"{study.record.metric(claim.metric).title} of {label(method)} against {text} = {base:g}: "
        f"{'; '.join(f'{text} = {v:g} {interval(c)}' for v, c in known.items())}. "
        f"Intervals within ±{margin:g} count as the same."
    )
    trials = min(c.trials for c in known.values())
    if trials < FEWEST_TRIALS:
        return UNKNOWN, f"{evidence} {trials} trial(s) are too few; {FEWEST_TRIALS} are needed."
    full = [c.mean_a == c.mean_b == 1 for c in known.values()]
    verdicts = [UNKNOWN if one else _within(c, margin) for c, one in zip(known.values(), full, strict=True)]
    return combine(verdicts), evidence + (" All accuracies are 1, so no change could show." if any(full) else "")


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
    name = next((name for name, times in timed.items() if len(times) >= FEWEST_TRIALS), next(iter(timed)))
    search, build, nodes = timed[name]["search_seconds"], timed[name]["build_seconds"], timed[name]["nodes"].max()
    rest = build - search
    ratios = timed[name].assign(value=np.log(search / rest), trial=range(len(rest)))
    found = compare_number(ratios, 0.0)
    if found is None:
        return name, UNKNOWN, "The search was too fast for the clock."
    evidence = (
        f"{label(method)}{f' on {nodes:,.0f} nodes' if nodes == nodes else ''}: the search takes "
        f"{search.median():.2f} s and the rest, from dimension to graph, {rest.median():.2f} s (medians). The search "
        f"is {(search / build).median():.0%} of the whole, {np.exp(found.difference):.2f} times the rest"
    )
    if len(rest) > 1:
        return name, found.verdict, f"{evidence} [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]."
    evidence += ". It was timed only once, because experiments of one command share it. "
    return name, UNKNOWN, f"{evidence}`asbc experiment={name} rerun=true` on its own times it in every trial."


def _search_times(study: Study, method: str) -> pd.DataFrame:
    """Return one row per timed search: its seconds, those of search and graph together, and the number of nodes."""
    columns = ["samples", "trial", "nodes", "k_cand", "search_seconds", "build_seconds"]
    own = study.rows[study.rows["method"] == method].reindex(columns=columns)
    own = own[own["search_seconds"].notna() & (own["k_cand"].isna() | (own["k_cand"] == own["k_cand"].max()))]
    # Trials on the whole data set may share one search; the largest subsamples with a search each say more.
    searches = own.groupby("samples")["search_seconds"].nunique()
    several = searches.index[searches >= FEWEST_TRIALS]
    own = own[own["samples"] == max(several if len(several) else searches.index, key=level_order, default=0)]
    each = own.groupby(["trial", "search_seconds"], as_index=False)[["nodes", "build_seconds"]].max()  # rows repeat it
    one = each.groupby("search_seconds", as_index=False)[["nodes", "build_seconds"]].median()
    return one[one["build_seconds"] > one["search_seconds"]]


TESTS: dict[str, Callable[[Study, Claim], Result]] = {
    "order": _above,
    "above": _above,
    "at_least": _number,
    "ratio": _number,
    "closer": _closer,
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


def _pairs(c: Comparison) -> str:
    """Return a difference with its interval, and how many pairs were won."""
    return f"{interval(c)}, {c.wins} won, {c.ties} tied, {c.losses} lost"
