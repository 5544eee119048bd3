"""The page: the answers, verdicts, figures and tables of every subject, and the HTML that shows them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import count
from typing import Any

from asbc.evaluate.scores import Comparison, Gap
from asbc.report.evidence import BASELINE, FEWEST_TRIALS, Evidence, Study, Subject, subject_name
from asbc.report.figures import Drawing, draw_figures, figure_svgs, side_by_side
from asbc.report.style import full_label, label, level_name, level_order, listed
from asbc.report.tables import FilledTable, fill_tables
from asbc.report.verdicts import FAILS, HOLDS, NOT_RUN, UNKNOWN, Answer, Caveat, Verdict, answer, caveats, judge, recipe
from asbc.runs.experiments import EXPERIMENTS

GENERATOR = "asbc-report"
PAPER = "Geometry-Aware Graph Construction via Adaptive Spectral Bandwidth Control"
CLASSES = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open", NOT_RUN: "idle"}
COUNTED = {  # in sentences, of one and of several claims
    HOLDS: ("holds", "hold"),
    FAILS: ("does not hold", "do not hold"),
    UNKNOWN: ("cannot be decided", "cannot be decided"),
    NOT_RUN: ("was not run", "were not run"),
}

GLOSSARY = {
    "kNN": "The plain graph: each node is joined to its k nearest neighbours with equal weights.",
    "NNK": "Non-negative kernel regression: weights that reconstruct a node from its neighbours in the kernel space. "
    "A neighbour that lies behind another one gets weight 0.",
    "σ (sigma)": "The bandwidth: the width of the Gaussian kernel around a node. In a method's name: chosen per node "
    "by the spectral rule.",
    "fixed": "One bandwidth for all nodes: the mean distance to the 10th neighbour.",
    "α (alpha)": "In a method's name: rows are sharpened, raised to a power that falls with the node's bandwidth.",
    "r, effective rank": "The number of directions that a local kernel distinguishes: from 1 (all neighbours look "
    "alike) to the number of neighbours (all are distinct).",
    "dimMST": "The intrinsic dimension around a node, estimated from minimum spanning trees of its neighbours.",
    "Levina–Bickel, TwoNN": "Other estimates of the dimension, from ratios of distances to the nearest neighbours.",
    "γ (gamma)": "The bandwidth is chosen so that the effective rank is γ × dimension.",
    "k_cand": "Candidate neighbours per node, from which the weights select.",
    "LOO": "Leave-one-out accuracy: the share of nodes whose label is the weighted vote of their neighbours.",
    "LP": "Label propagation: accuracy on the unlabelled nodes when a few labels per class spread over the graph.",
    "balanced": "Mean over classes of each class's accuracy, so that small and large classes count the same.",
    "NMI, ARI": "Agreement of spectral clusters with the classes: 1 if they are the same; ARI is about 0 by chance.",
    "trial": "One repetition with its own seed. Methods are compared within a trial, on the same nodes.",
    "interval": "A 95% bootstrap interval: trials and nodes are resampled.",
}


def glossary_markdown() -> str:
    """Return the glossary as the table of ``docs/glossary.md``.

    Examples
    --------
    >>> from asbc.report.page import glossary_markdown
    >>> print(glossary_markdown().splitlines()[0])
    | word | meaning |
    """
    return "\n".join(
        ["| word | meaning |", "| --- | --- |", *(f"| {word} | {text} |" for word, text in GLOSSARY.items())]
    )


@dataclass(frozen=True)
class SubjectReport:
    """The answers, caveats, verdicts, drawings and tables of one subject; the last two by experiment."""

    subject: Subject
    answers: list[Answer]
    caveats: list[Caveat]
    verdicts: list[Verdict]
    drawings: dict[str, list[Drawing]]
    tables: dict[str, list[FilledTable]]


def analyze(subject: Subject) -> SubjectReport:
    """Compute the answers, verdicts, figures and tables of one subject."""
    return SubjectReport(
        subject,
        answer(subject),
        caveats(subject),
        judge(subject),
        {name: draw_figures(study) for name, study in subject.studies.items()},
        {name: fill_tables(study) for name, study in subject.studies.items()},
    )


def draw_together(reports: Sequence[SubjectReport]) -> list[Drawing]:
    """Return the figures that show all subjects side by side; none for a single subject."""
    drawn = []
    for name in ("loo", "lp"):
        named = [(report.subject.name, report.subject.studies[name]) for report in reports
                 if name in report.subject.studies]  # fmt: skip
        drawn.append(side_by_side(named, EXPERIMENTS[name].figures[0], name))
    return [drawing for drawing in drawn if drawing is not None]


def render(evidence: Evidence, reports: Sequence[SubjectReport], together: Sequence[Drawing] = ()) -> str:
    """Return the page as HTML, with the figures of all subjects together. The same results give the same text."""
    from jinja2 import Environment

    here = files("asbc.report")
    templates = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"minus": _minus, "label": full_label}
    ended = max(run.status.get("ended", run.status.get("started", 0.0)) for run in evidence.runs)
    seen: dict[str, str] = {}
    numbers = count()

    def once(text: str, where: str = "") -> str:
        """Return a paragraph the first time; later nothing, or a reference to where it was."""
        if text not in seen:
            seen[text] = where
            return text
        return f"Same settings as {seen[text]}." if seen[text] else ""

    caveat_subjects: dict[Caveat, list[str]] = {}
    code_places: dict[str, list[tuple[Subject, str]]] = {}
    for report in reports:
        for caveat in report.caveats:
            caveat_subjects.setdefault(caveat, []).append(report.subject.name)
        for found in report.answers:
            code_places.setdefault(_code(found), []).append((report.subject, found.task))
    shown = {r.subject.name: [c for c in r.caveats if caveat_subjects[c][0] == r.subject.name] for r in reports}

    return templates.from_string((here / "report.html").read_text(encoding="utf-8")).render(
        generator=GENERATOR,
        css=(here / "page.css").read_text(encoding="utf-8"),
        paper=PAPER,
        names=", ".join(report.subject.name for report in reports),
        summary=summarize(reports),
        evidence=evidence,
        reports=reports,
        together=together,
        tasks=list(dict.fromkeys(found.task for report in reports for found in report.answers)),
        glossary=GLOSSARY,
        ended=time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(ended)),
        once=once,
        anchor=anchor,
        heading=heading,
        setup=_setup,
        unfinished=_unfinished,
        run_name=_run_names(evidence),
        answer_text=_answer_text,
        rivals=_rivals,
        caveats=shown,
        caveat_subjects=caveat_subjects,
        code=_code,
        code_places=code_places,
        code_uses=lambda places: listed(
            [f"“{task}”{f' on {subject.name}' if len(reports) > 1 else ''}" for subject, task in places]
        ),
        listed=listed,
        tally=_tally,
        classes=CLASSES,
        all_methods=_all_methods,
        all_claims=_all_claims,
        column_spans=_column_spans,
        whisker=whisker,
        svgs=lambda drawing: figure_svgs(drawing, f"figure {next(numbers)}"),
        is_comparison=lambda cell: isinstance(cell, Comparison),
        without_labels=listed([r.heading for r in EXPERIMENTS.values() if r.needs_labels and r.suggested]),
        baseline=BASELINE,
    )


def summarize(reports: Sequence[SubjectReport]) -> list[str]:
    """Return two sentences that open the page: the best graphs, and how many claims of the paper hold."""
    answers = [found for report in reports for found in report.answers if found.enough]
    names = listed([report.subject.name for report in reports], 3)
    tasks: dict[str, list[str]] = {}
    for found in answers:
        gap = found.over(BASELINE) if found.method != BASELINE else None
        gain = (
            f" ({found.ranking.means[found.method]:.3f}, {gap.difference:+.3f} over {label(BASELINE)})" if gap else ""
        )
        tasks.setdefault(found.method, []).append(f"“{found.task}”{gain}")
    if not answers:
        first = f"The runs on {names} do not compare graphs on any task with at least {FEWEST_TRIALS} trials yet."
    elif len(reports) == 1:
        verdict = {BASELINE: "as good as any graph"}
        parts = [f"{full_label(m)} is {verdict.get(m, 'recommended')} for {listed(own)}" for m, own in tasks.items()]
        first = f"On {names}, {', and '.join(parts)}."
    else:
        (best, own), *others = sorted(tasks.items(), key=lambda item: -len(item[1]))
        first = f"On {names}, {full_label(best)} is recommended in {len(own)} of {len(answers)} comparisons of graphs"
        first += f" ({listed([f'{full_label(name)} in {len(some)}' for name, some in others])})." if others else "."
    counted = _tally([one for report in reports for one in report.verdicts])
    tests = sum(one.of_paper for report in reports for one in report.verdicts)
    return [_minus(first), f"Of {tests} tests of the paper's claims, {listed([text for _, text in counted])}."]


def _code(found: Answer) -> str:
    return recipe(found.study.runs[-1], found.method) or ""


def heading(subject: Subject, experiment: str) -> str:
    """Return the title of an experiment's section."""
    if experiment in subject.studies:
        return subject.studies[experiment].record.heading
    return EXPERIMENTS[experiment].heading if experiment in EXPERIMENTS else experiment


def anchor(subject: Subject, experiment: str) -> str:
    """Return the id of an experiment's section."""
    safe = "".join(c if c.isalnum() or c == "_" else "-" for c in experiment)
    number = list(subject.studies).index(experiment) if experiment not in EXPERIMENTS else ""
    return f"{safe}{number}-{subject.slug}"


def _answer_text(found: Answer) -> tuple[str, str, str]:
    """Return the verdict on an answer, its class, and a sentence about it."""
    best, tied = full_label(found.ranking.methods[0]), [full_label(name) for name in found.ranking.alike]
    if not found.enough:
        verdict = f"cannot tell: {found.ranking.trials} of {FEWEST_TRIALS} trials"
        return verdict, "open", f"{best} has the highest mean, but the verdict needs at least {FEWEST_TRIALS} trials."
    if found.clear:
        return "best", "holds", f"{best} is better than every other graph that was compared."
    if BASELINE in found.ranking.alike:
        text = f"It is statistically tied with {best}, which has the highest mean, so the plain graph is enough."
        return "tied with the best", "open", text
    return "tied for best", "open", f"It has the highest mean, and is statistically tied with {listed(tied, 6)}."


def _rivals(found: Answer) -> list[tuple[str, Gap, tuple[float, float]]]:
    """Return the lead of the best method over kNN and over the runner-up, with a shared scale."""
    gaps = {name: gap for name in dict.fromkeys([BASELINE, found.runner_up]) if (gap := found.over(name)) is not None}
    span = _span(gaps.values())
    best = full_label(found.ranking.methods[0])
    return [
        (f"{best} − {full_label(name)}{' (runner-up)' if name == found.runner_up else ''}", gap, span)
        for name, gap in gaps.items()
    ]


def _tally(verdicts: Sequence[Verdict]) -> list[tuple[str, str]]:
    """Return how many claims of the paper have each verdict: its class, and the text."""
    counts = Counter(one.verdict for one in verdicts if one.of_paper)
    return [
        (CLASSES[verdict], f"{counts[verdict]} {words[counts[verdict] > 1]}")
        for verdict, words in COUNTED.items()
        if counts[verdict]
    ]


def _unfinished(study: Study) -> str:
    """Return which runs of a study are not finished, and how far they are."""
    parts = []
    for run in study.runs:
        if not run.finished and run.rows is not None:
            done = len(run.rows[["samples", "trial"]].drop_duplicates())
            parts.append(f"{run.id} is {run.status['state']}, {done} of {run.status.get('units', '?')} subsamples")
    return "; ".join(parts)


def _setup(study: Study) -> str:
    get = study.runs[-1].setting
    swept = study.record.axis.key if study.record.axis else ""
    samples = ", ".join(map(level_name, sorted(study.rows["samples"].unique().tolist(), key=level_order)))
    facts = [
        f"{samples} samples per class" if samples != "all" else "all samples",
        f"{study.rows['trial'].nunique()} trials",
        *(
            text.format(get(key))
            for key, text in (
                ("k_cand", "k_cand = {}"),
                ("neighbors.metric", "{} metric"),
                ("dimension.estimator", "dimension by {}"),
                ("bandwidth.gamma", "γ = {}"),
                ("bandwidth.n_grid", "{} grid points"),
                ("seed", "seed {}"),
            )
            if key != swept and get(key) is not None
        ),
    ]
    return ", ".join(facts) + "."


def _run_names(evidence: Evidence) -> dict[str, str]:
    """Return the name of the data of each run."""
    names = {
        run.id: subject_name(*(str(run.status.get(key, "?")) for key in ("dataset", "encoder")))
        for run in evidence.runs
    }
    for subject in evidence.subjects:
        for study in subject.studies.values():
            names |= {run.id: subject.name for run in (*study.runs, *study.others)}
    return names


def _all_methods(reports: Sequence[SubjectReport], task: str) -> dict[str, Any]:
    """Return what the table of one task shows for several subjects: the methods that most subjects have come first."""
    found = {report.subject.name: next((a for a in report.answers if a.task == task), None) for report in reports}
    times = Counter(method for a in found.values() if a for method in a.study.methods if method in a.ranking.means)
    metric = next(a.metric for a in found.values() if a)
    return {"metric": metric, "methods": sorted(times, key=lambda method: -times[method]), "answers": found}


def _all_claims(reports: Sequence[SubjectReport]) -> list[tuple[str, list[Verdict | None]]]:
    """Return every claim that was tested on any subject, with the verdict of each."""
    found = [{one.text: one for one in report.verdicts if one.verdict != NOT_RUN} for report in reports]
    texts = dict.fromkeys(one.text for report in reports for one in report.verdicts)
    return [(text, [own.get(text) for own in found]) for text in texts if any(text in own for own in found)]


def _column_spans(table: FilledTable) -> list[tuple[float, float] | None]:
    """Return the scale of each column of differences; None for other columns."""
    columns = ([cell for cell in column if isinstance(cell, Comparison)] for column in zip(*table.rows, strict=True))
    return [_span(found) if found else None for found in columns]


def _span(found: Iterable[Comparison | Gap]) -> tuple[float, float]:
    """Return the ends of all intervals, zero included."""
    ends = [0.0, *(end for c in found for end in (c.low, c.high))]
    return min(ends), max(ends)


def whisker(c: Comparison | Gap, span: tuple[float, float], less_is_better: bool = False) -> dict[str, Any]:
    """Return what draws a difference with its interval: places in a strip of 72 pixels, and the class of its colour."""
    low, high = span if span[1] > span[0] else (-1.0, 1.0)
    names = ("zero", "low", "middle", "high")
    places = {
        name: round(4 + (value - low) / (high - low) * 64, 1)
        for name, value in zip(names, (0.0, c.low, c.difference, c.high), strict=True)
    }
    above, below = ("worse", "better") if less_is_better else ("better", "worse")
    return {**places, "kind": above if c.low > 0 else below if c.high < 0 else "tied"}


def _minus(text: str) -> str:
    """Return text with minus signs in front of digits."""
    return re.sub(r"-(?=[0-9])", "−", text)
