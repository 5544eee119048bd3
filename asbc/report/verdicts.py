"""What the results say: the best graph for each task, what averages hide, and which claims hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from asbc.evaluate.comparison import Comparison, Gap, Ranking, hits_of, rank_methods
from asbc.evaluate.tasks import PER_SAMPLE, Metric
from asbc.report.evidence import BASELINE, FEWEST_TRIALS, Study, Subject, compare_number
from asbc.report.names import full_label, label, level_name, level_order, level_text, listed
from asbc.report.tables import interval
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Claim
from asbc.runs.results import StoredRun, last_level

HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not hold", "cannot tell", "not run"
# What a test returns: the verdict, and the numbers that it rests on.
Result = tuple[str, str]


@dataclass(frozen=True)
class Answer:
    """The best graph for one task."""

    task: str
    metric: Metric
    study: Study
    ranking: Ranking

    @property
    def place(self) -> str:
        """Samples and trials that it was measured at."""
        samples = self.study.of(self.metric.name)["samples"].iloc[0]
        size = f"{level_name(samples)} samples per class" if samples else "all samples"
        return f"{size}, trials: {self.ranking.trials}, graphs compared: {len(self.ranking.methods)}"

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
                answers.append(Answer(task, metric, chosen, ranking))
    return answers


def _most_methods(studies: Iterable[Study], metric: str) -> Study | None:
    """Return the study that compares the most methods, at its largest samples. Sweeps do not count."""
    usable = [study for study in studies if study.has(metric) and not study.swept]

    def size(study: Study) -> tuple[int, Any]:
        return len(study.scores(metric)), level_order(last_level(study.of(metric)))

    best = max(usable, key=size, default=None)
    return best and best.at_samples(last_level(best.of(metric)))


def _rank(study: Study, metric: str, level: int | None) -> Ranking | None:
    scores = {name: own for name, own in study.scores(metric).items() if name in study.methods}
    if level is not None:
        scores = {name: own[own.index.get_level_values("level") == level] for name, own in scores.items()}
    every = {place for own in scores.values() for place in own.index}
    # A method that was not measured everywhere cannot be ranked fairly.
    scores = {name: own.sort_index() for name, own in scores.items() if set(own.index) == every}
    if len(scores) < 2 or not every:
        return None
    hits = {name: hits_of(own) for name, own in scores.items()}
    return rank_methods(
        {name: own["value"].to_numpy(float) for name, own in scores.items()},
        trial=[trial for _, _, trial in sorted(every)],
        hits=None if any(one is None for one in hits.values()) else hits,  # type: ignore[arg-type]
    )


# The code that builds a graph


def recipe(run: StoredRun, method: str) -> str | None:
    """Return Python that builds the graph of a method on vectors `X`, from the settings of a run.

    Nothing is imported. None if the settings name anything outside asbc.
    """
    names = (f"methods.{method}", "neighbors", "graph", "dimension")
    node, search, graph, dimension = (found if isinstance(found := run.setting(n), Mapping) else {} for n in names)
    if node.get("_target_") != "asbc.evaluate.Method" or search.get("_target_") != "asbc.search_neighbors":
        return None
    weights = node.get("weights")
    function = isinstance(weights, Mapping) and bool(weights.get("_partial_"))
    arguments: dict[str, Any] = {"weights": weights, "k_cand": run.setting("k_cand")}
    if weights != "uniform" and not function:
        arguments |= {
            "bandwidth": node.get("bandwidth"),
            "k_min": graph.get("k_min"),
            "dimension": dimension.get("estimator"),
            "n_rep": dimension.get("n_rep"),
            "sharpen": bool(node.get("sharpen")),
        }
    arguments |= {key: value for key, value in search.items() if not key.startswith("_") and key != "k"}
    # A graph that is not symmetrised is directed; other settings without a value are the defaults.
    arguments |= {"symmetrize": graph["symmetrize"]} if "symmetrize" in graph else {}
    given = {key: value for key, value in arguments.items() if value is not None or key == "symmetrize"}
    try:
        text = ", ".join(f"{key}={_python(value)}" for key, value in given.items())
    except ValueError:
        return None
    imports = "import functools\n" * ("functools." in text) + "import asbc\n" + "import asbc.evaluate\n" * function
    return f"{imports}A = asbc.GraphBuilder({text}).fit_transform(X)"


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


TASKS = {"lp": "propagation", "loo": "the vote", "ari": "spectral clustering"}


def caveats(subject: Subject) -> list[Caveat]:
    """Return what averages over levels and tasks do not show."""
    found: list[Caveat] = []
    for metric in ("lp", "loo"):
        study = subject.studies.get(metric)
        if study is not None and study.has(metric):
            found += _turns(study.largest_sample(metric), metric)
    for study in subject.studies.values():
        if study.has("ari") and study.has("loo"):
            found += [*_opposed(study, "loo", "ari"), *_opposed(study, "ari", "loo")]
    return found + _crowded(subject)


def _turns(study: Study, metric: str) -> list[Caveat]:
    """Find methods that lose to kNN at some levels and win at others; those with the same pattern go together."""
    patterns: dict[tuple[str, str], dict[str, str]] = {}
    unit, base = study.record.metric(metric).level, label(BASELINE)
    for method in study.methods_with(metric):
        gains = {level: study.compare(method, BASELINE, metric, level) for level in study.levels(metric)}
        lost = [level for level, gain in gains.items() if gain is not None and gain.high < 0]
        won = [level for level, gain in gains.items() if gain is not None and gain.low > 0]
        if lost and won:
            shown = [f"{level_name(level)}: {interval(gains[level])}" for level in (lost[0], won[-1])]  # type: ignore[arg-type]
            pattern = patterns.setdefault((level_text(lost, unit), level_text(won, unit)), {})
            pattern[full_label(method)] = f"{full_label(method)} − {base}, {'; '.join(shown)}."
    return [
        Caveat(
            f"In {TASKS[metric]}, worse than {base} at {lost} and better at {won}: {listed(list(methods))}",
            " ".join(methods.values()),
            study.record.name,
        )
        for (lost, won), methods in patterns.items()
    ]


def _opposed(study: Study, better: str, worse: str) -> list[Caveat]:
    """Find methods that are better than kNN in one task and worse in another."""
    found = {}
    for method in study.methods:
        up, down = (study.compare(method, BASELINE, metric) for metric in (better, worse))
        if up is not None and down is not None and up.low > 0 and down.high < 0:
            name = full_label(method)
            found[name] = (
                f"{name}: {study.record.metric(worse).title} {down.mean_a:.3f} against {down.mean_b:.3f}, "
                f"{interval(down)}; {study.record.metric(better).title} {interval(up)}"
            )
    text = f"Better than {label(BASELINE)} for {TASKS[better]} and worse for {TASKS[worse]}: {listed(list(found))}"
    evidence = f"{'. '.join(found.values())}. Intervals of ARI are over trials only."
    return [Caveat(text, evidence, study.record.name)] if found else []


def _crowded(subject: Subject) -> list[Caveat]:
    """Find levels at which classes are smaller than neighbourhoods: kNN's accuracy then says little about the graph."""
    found: dict[int, Caveat] = {}
    for study in subject.studies.values():
        sizes = {int(size) for size in study.of("loo")["samples"].unique()} if BASELINE in study.methods else set()
        for k in {run.setting("k_cand") for run in study.runs}:
            small = [str(size) for size in sorted(sizes) if size and isinstance(k, int) and size <= k]
            if small and k not in found:
                found[k] = Caveat(
                    f"At {listed(small)} samples per class a node has more candidates (k_cand = {k}) than there are "
                    "other nodes of its class",
                    f"{label(BASELINE)} with equal weights must then count votes of other classes"
                    + (", and this dominates averages over levels." if len(sizes) > 1 else "."),
                    study.record.name,
                )
    return [found[k] for k in sorted(found)]


# Claims: one function per kind


@dataclass(frozen=True)
class Verdict:
    """A claim and what the results say about it."""

    text: str
    verdict: str  # HOLDS, FAILS, UNKNOWN or NOT_RUN
    evidence: str  # the numbers that it rests on, or what is missing
    experiment: str  # where they come from
    of_paper: bool = True  # False for a question that the project asks beyond the paper


class NotRunError(Exception):
    """What a claim needs was not run. The message says what."""


def judge(subject: Subject) -> list[Verdict]:
    """Return the verdicts on all claims, those of the paper first, and those of experiments that were not run."""
    records = EXPERIMENTS | {name: study.record for name, study in subject.studies.items()}
    claims = {(name, claim.text): claim for name, record in records.items() for claim in record.claims}
    found = []
    for (name, text), claim in claims.items():
        if claim.kind not in TESTS:
            continue
        try:
            if claim.kind == "cost":
                name = _timed(subject, claim.methods[0])
            if name not in subject.studies:
                raise NotRunError("Not run yet.")
            verdict, evidence = TESTS[claim.kind](subject.studies[name], claim)
        except NotRunError as error:
            verdict, evidence = NOT_RUN, str(error) or "Not all that this needs was run."
        except (AttributeError, KeyError, ValueError, TypeError, IndexError) as error:  # a record of someone else
            verdict, evidence = NOT_RUN, f"The claim cannot be tested ({type(error).__name__}: {error})."
        if verdict == NOT_RUN and name in subject.failed:
            evidence = f"The run failed: {subject.failed[name]}"
        elif verdict == NOT_RUN and not subject.labeled and name in EXPERIMENTS:
            record = EXPERIMENTS[name]
            if record.needs_labels or record.metric(claim.metric).needs_labels:
                evidence = "Needs labels, and there are none."
        found.append(Verdict(text, verdict, evidence, name, claim.of_paper))
    return sorted(found, key=lambda one: not one.of_paper)


def combine(verdicts: Iterable[str]) -> str:
    """Return the verdict on several claims together: all must hold, and one that does not hold decides."""
    found = set(verdicts)
    return FAILS if FAILS in found else HOLDS if found == {HOLDS} else UNKNOWN


def _above(study: Study, claim: Claim) -> Result:
    """Each method is above the one before it ("order"), or the first one above each other that was run ("above")."""
    pairs = [(b, a) for a, b in pairwise(claim.methods)]
    if claim.kind == "above":
        pairs = [(claim.methods[0], other) for other in claim.methods[1:]]
    found = {pair: c for pair in pairs if (c := study.compare(*pair, claim.metric)) is not None}
    if not found or (claim.kind == "order" and len(found) < len(pairs)):
        raise NotRunError
    evidence = "; ".join(f"{label(a)} − {label(b)} {_pairs(c)}: {c.verdict}" for (a, b), c in found.items())
    return combine(c.verdict for c in found.values()), evidence + "."


def _number(study: Study, claim: Claim) -> Result:
    """A metric is at least a number ("at_least"), or its ratio to another one is a number within a margin ("ratio")."""
    rows, value = _aligned(study, claim.metric, claim).sort_values("trial"), float(claim.options["value"])
    if claim.kind == "ratio":
        below = _aligned(study, claim.options["over"], claim).sort_values("trial")
        if rows.empty or len(rows) != len(below):
            raise NotRunError
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
        raise NotRunError
    remark = claim.options.get("if_not", "") if found.verdict == FAILS else ""
    return found.verdict, f"{_pairs(found)}. {label(second[1])}: {found.mean_b:.3f}. {remark}".rstrip()


def _wider_and_worse(study: Study, claim: Claim) -> Result:
    """At another value of the axis the bandwidth is wider and the metric lower."""
    axis: Any = study.record.axis
    method, value, wider = claim.methods[0], claim.options["value"], claim.options["wider"]
    broad = study.compare_settings(method, value, wider, axis.base)
    worse = study.compare_settings(method, axis.base, claim.metric, value)
    base, other = f"{axis.label} = {axis.base:g}", f"{axis.label} = {value:g}"
    if broad is None or worse is None:
        raise NotRunError(f"Needs {other} and {base} with {label(method)}.")
    width, score = (study.record.metric(name).title for name in (wider, claim.metric))
    return combine([broad.verdict, worse.verdict]), (
        f"From {base} to {other} the {width} changes by {interval(broad)}; "
        f"{score} of {label(method)} at {base} less that at {other}: {interval(worse)}."
    )


def _flat(study: Study, claim: Claim) -> Result:
    """The metric changes by no more than a margin at larger values of the axis."""
    axis: Any = study.record.axis
    method, margin = claim.methods[0], float(claim.options["margin"])
    larger = [value for value in study.settings if value > axis.base]
    known = {v: c for v in larger if (c := study.compare_settings(method, v, claim.metric, axis.base)) is not None}
    if not known:
        raise NotRunError(f"Needs {axis.label} = {axis.base:g} and larger values with {label(method)}.")
    evidence = (
        f"{study.record.metric(claim.metric).title} of {label(method)} against {axis.label} = {axis.base:g}: "
        f"{'; '.join(f'{axis.label} = {v:g} {interval(c)}' for v, c in known.items())}. "
        f"Intervals within ±{margin:g} count as the same."
    )
    if any(c.trials < FEWEST_TRIALS for c in known.values()):
        return UNKNOWN, f"{evidence} Fewer than {FEWEST_TRIALS} trials are too few."
    full = [c.mean_a == c.mean_b == 1 for c in known.values()]  # where no change could show
    verdicts = [UNKNOWN if one else _within(c, margin) for c, one in zip(known.values(), full, strict=True)]
    return combine(verdicts), evidence + (" All accuracies are 1, so no change could show." if all(full) else "")


def _regimes(study: Study, claim: Claim) -> Result:
    """The chosen rank lies between both ends of the bandwidths, and the slope peaks between them."""
    if not all(map(study.has, ("rank_median", "slope_median", "chosen_rank_median"))):
        raise NotRunError
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


def _timed(subject: Subject, method: str) -> str:
    """Return the experiment that has timed the search in enough trials, or at all."""
    names = dict.fromkeys(("loo", "selectors", "ablation", "gamma", *subject.studies))
    timed = {name: len(_search_times(subject.studies[name], method)) for name in names if name in subject.studies}
    name = max(timed, key=lambda name: min(timed[name], FEWEST_TRIALS), default="")
    return name if timed.get(name) else "loo" if subject.labeled else "regimes"


def _cost(study: Study, claim: Claim) -> Result:
    """The search takes more time than all that follows."""
    times = _search_times(study, claim.methods[0])
    if times.empty:
        raise NotRunError("No run has timed the search.")
    search, rest = times["search_seconds"], times["build_seconds"] - times["search_seconds"]
    found = compare_number(times.assign(value=np.log(search / rest), trial=range(len(rest))), 0.0)
    if found is None:
        return UNKNOWN, "The search was too fast for the clock."
    evidence = (
        f"{label(claim.methods[0])} on {times['nodes'].max():,.0f} nodes: the search takes {search.median():.2f} s and "
        f"the rest, from dimension to graph, {rest.median():.2f} s (medians). The search is "
        f"{(search / (search + rest)).median():.0%} of the whole, {np.exp(found.difference):.2f} times the rest"
    )
    if len(rest) >= FEWEST_TRIALS:
        return found.verdict, f"{evidence} [{np.exp(found.low):.2f}, {np.exp(found.high):.2f}]."
    return UNKNOWN, (
        f"{evidence}. Too few searches were timed, because experiments of one command share them. "
        f"`asbc experiment={study.record.name} rerun=true` on its own times one in every trial."
    )


def _search_times(study: Study, method: str) -> pd.DataFrame:
    """Return a row for each timed search, on the largest samples with several of them: its seconds and the build's."""
    own = study.rows[study.rows["method"] == method]
    own = own.reindex(columns=["samples", "nodes", "search_seconds", "build_seconds"])
    own = own[own["build_seconds"] > own["search_seconds"]]
    # Trials on the whole data set may share one search.
    each = own.groupby(["samples", "search_seconds"], as_index=False).median()
    several = each[each.groupby("samples")["nodes"].transform("size") >= FEWEST_TRIALS]
    each = each if several.empty else several
    return each[each["samples"] == last_level(each)] if len(each) else each


TESTS: dict[str, Callable[[Study, Claim], Result]] = {
    "order": _above,
    "above": _above,
    "at_least": _number,
    "ratio": _number,
    "closer": _closer,
    "wider_and_worse": _wider_and_worse,
    "flat": _flat,
    "regimes": _regimes,
    "cost": _cost,  # of the experiment that has timed it most often
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
