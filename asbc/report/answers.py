"""Which graph to build: the best one per task, whether the results can tell, and what averages hide."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asbc.evaluate.comparison import Comparison, Gap, Ranking, rank_methods, unpack_hits
from asbc.evaluate.metrics import PER_SAMPLE, Metric
from asbc.report.evidence import Subject
from asbc.report.study import BASELINE, FEWEST_TRIALS, StoredRun, Study, packed_hits
from asbc.report.style import label, level_name, level_order, listed
from asbc.report.tables import interval


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
        found = (study.record.metric(name) for name in study.rows["metric"].unique())
        metrics |= {metric.name: metric for metric in found if metric.task and metric.name not in metrics}
    answers = []
    for metric in metrics.values():
        chosen = _most_methods(list(subject.studies.values()), metric.name)
        if chosen is None:
            continue
        study = chosen
        levels: list[Any] = [None]
        if metric.level != PER_SAMPLE:
            found_levels = study.levels(metric.name)
            levels = list(dict.fromkeys([found_levels[0], found_levels[-1]]))
        for level in levels:
            ranking = _rank(study, metric.name, level)
            if ranking is not None:
                task = metric.task if level is None else f"{metric.task}, {level_name(level)} {_unit(metric, level)}"
                answers.append(Answer(task, metric, _place(study, metric, ranking), study, ranking))
    return answers


def _most_methods(studies: Sequence[Study], metric: str) -> Study | None:
    """Return the study that compares the most methods, at its largest samples. Sweeps do not count."""
    found = []
    for study in studies:
        if study.has(metric) and len(study.settings) < 2:
            samples = max(study.of(metric)["samples"].unique().tolist(), key=level_order)
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
    bits = {name: packed_hits(own) for name, own in scores.items()}
    hits = {name: unpack_hits(own) for name, own in bits.items() if own}
    return rank_methods(
        {name: own["value"].to_numpy(float) for name, own in scores.items()},
        trial=[trial for _, _, trial in sorted(every)],
        hits=hits if len(hits) == len(scores) else None,
        bootstrap=study.bootstrap,
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


def _unit(metric: Metric, level: float) -> str:
    return metric.level.replace("labels", "label") if level == 1 else metric.level


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
    try:
        if isinstance(weights, Mapping) and weights.get("_partial_"):
            return _function_recipe(run, weights, search)
        arguments: dict[str, Any] = {"weights": weights, "k_cand": run.setting("k_cand")}
        if weights != "uniform":
            arguments |= {
                "bandwidth": node.get("bandwidth"),
                "k_min": graph.get("k_min", 6),
                "dimension": dimension.get("estimator", "mst"),
                "n_rep": dimension.get("n_rep", 5),
                "sharpen": bool(node.get("sharpen")),
            }
        arguments |= {key: value for key, value in search.items() if not key.startswith("_") and key != "k"}
        arguments["symmetrize"] = graph.get("symmetrize")
        given = ", ".join(f"{key}={_python(value)}" for key, value in arguments.items() if value is not None)
    except ValueError:
        return None
    return f"import asbc\nA = asbc.GraphBuilder({given}).fit_transform(X)"


def _function_recipe(run: StoredRun, weights: Mapping[str, Any], search: Mapping[str, Any]) -> str:
    given = {"k": run.setting("k_cand")} | {k: v for k, v in search.items() if not k.startswith("_") and k != "k"}
    options = ", ".join(f"{key}={_python(value)}" for key, value in given.items())
    rows = _python(weights, first="neighbors")
    symmetrize = _python(run.setting("graph.symmetrize"))
    room = str(weights["_target_"]).rpartition(".")[0]
    return (
        f"import {', '.join(sorted({'asbc', room}))}\nneighbors = asbc.search_neighbors(X, {options})\n"
        f"A = asbc.to_graph(neighbors, {rows}, symmetrize={symmetrize})"
    )


def _python(value: Any, first: str = "") -> str:
    """Return a setting as Python: a value, or a call of one of asbc's own names."""
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
    target = str(value.get("_target_", ""))
    if not target.startswith("asbc.") or not all(part.isidentifier() for part in target.split(".")):
        raise ValueError(target)
    options = [f"{key}={_python(option)}" for key, option in value.items() if not key.startswith("_")]
    return f"{target}({', '.join(([first] if first else []) + options)})"


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
    text = "; ".join(f"{label(m)} at {_span(study, tuple(at), metric)}" for m, at in leaders.items())
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


def _span(study: Study, levels: tuple[int, ...], metric: str) -> str:
    """Return levels in words: "1 label per class", "2 and 5 labels per class", "5 or more labels per class"."""
    every, unit = study.levels(metric), study.record.metric(metric).level
    if len(levels) > 1 and list(levels) == every[-len(levels) :]:
        return f"{level_name(levels[0])} or more {unit}"
    return (
        f"{listed([level_name(level) for level in levels])} {unit.replace('s per', ' per') if levels == (1,) else unit}"
    )
