"""The page: the answers, verdicts, figures and tables of every subject, and the HTML that shows them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment

from asbc.evaluate.comparison import Comparison, Gap
from asbc.report.evidence import BASELINE, FEWEST_TRIALS, Evidence, Study, Subject, data_name
from asbc.report.figures import Drawing, draw_figures, figure_svgs, side_by_side
from asbc.report.names import full_label, level_name, level_order, listed
from asbc.report.tables import FilledTable, fill_tables
from asbc.report.verdicts import FAILS, HOLDS, NOT_RUN, UNKNOWN, Answer, Caveat, Verdict, answer, caveats, judge, recipe
from asbc.runs.experiments import EXPERIMENTS

GENERATOR = "asbc-report"
PAPER = "Geometry-Aware Graph Construction via Adaptive Spectral Bandwidth Control"
CLASSES = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "open", NOT_RUN: "idle"}
SHOWN_SETTINGS = ("k_cand", "neighbors.metric", "dimension.estimator", "bandwidth.gamma", "bandwidth.n_grid", "seed")
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


class SubjectReport:
    """The answers, caveats, verdicts, drawings and tables of one subject; the last two by experiment."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.answers = answer(subject)
        self.caveats = caveats(subject)
        self.verdicts = judge(subject)
        self.drawings = {name: draw_figures(study) for name, study in subject.studies.items()}
        self.tables = {name: fill_tables(study) for name, study in subject.studies.items()}


def draw_together(reports: Sequence[SubjectReport]) -> list[Drawing]:
    """Return the figures that show all subjects side by side; none for a single subject."""
    drawn = []
    for name in ("loo", "lp"):
        subjects = [report.subject for report in reports if name in report.subject.studies]
        studies = [(subject.name, subject.studies[name]) for subject in subjects]
        drawn.append(side_by_side(studies, EXPERIMENTS[name].figures[0], name))
    return [drawing for drawing in drawn if drawing is not None]


def render(evidence: Evidence, reports: Sequence[SubjectReport], together: Sequence[Drawing] = ()) -> str:
    """Return the page as HTML, with the figures of all subjects together. The same results give the same text."""
    here = files("asbc.report")
    templates = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters["label"] = full_label
    functions: tuple[Callable[..., Any], ...] = (
        setup, data_name, answer_text, rivals, recipe, tally, compare_graphs, compare_claims, column_spans,
        whisker, figure_svgs, listed,
    )  # fmt: skip
    templates.globals |= {function.__name__: function for function in functions}
    seen: dict[str, str] = {}

    def once(text: str, later: str = "") -> str:
        """Return `text` on its first use, and `later` on repeats."""
        if text in seen:
            return seen[text]
        seen[text] = later
        return text

    subjects: dict[Caveat, list[Subject]] = {}
    for report in reports:
        for caveat in report.caveats:
            subjects.setdefault(caveat, []).append(report.subject)
    ended = max(run.status.get("ended", run.status.get("started", 0.0)) for run in evidence.runs)
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
        caveats=subjects,
        classes=CLASSES,
        glossary=GLOSSARY,
        ended=time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(ended)),
        once=once,
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
        gain = f" ({found.ranking.means[found.method]:.3f}, {gap.difference:+.3f} over kNN)" if gap else ""
        tasks.setdefault(found.method, []).append(f"“{found.task}”{gain}")
    if not answers:
        first = f"The runs on {names} do not compare graphs on any task with at least {FEWEST_TRIALS} trials yet."
    elif len(reports) == 1:
        said = {method: "as good as any graph" if method == BASELINE else "recommended" for method in tasks}
        parts = [f"{full_label(method)} is {said[method]} for {listed(own)}" for method, own in tasks.items()]
        first = f"On {names}, {', and '.join(parts)}."
    else:
        best, *others = sorted(tasks, key=lambda method: -len(tasks[method]))
        share = f"{len(tasks[best])} of {len(answers)} comparisons of graphs"
        first = f"On {names}, {full_label(best)} is recommended in {share}"
        first += f" ({listed([f'{full_label(name)} in {len(tasks[name])}' for name in others])})." if others else "."
    verdicts = [one for report in reports for one in report.verdicts if one.of_paper]
    counted = listed([f"“{verdict}” in {count}" for verdict, count in tally(verdicts).items()])
    return [first, f"Of {len(verdicts)} tests of the paper's claims, the verdict is {counted}."]


def answer_text(found: Answer) -> tuple[str, str, str]:
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


def rivals(found: Answer) -> list[tuple[str, Gap, tuple[float, float]]]:
    """Return the lead of the best method over kNN and over the runner-up, with a shared scale."""
    best, second, *_ = found.ranking.methods
    names = {BASELINE: full_label(BASELINE), second: f"{full_label(second)} (runner-up)"}
    gaps = {text: gap for name, text in names.items() if (gap := found.over(name)) is not None}
    return [(f"{full_label(best)} − {text}", gap, _span(gaps.values())) for text, gap in gaps.items()]


def tally(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return how many claims of the paper have each verdict."""
    counts = Counter(one.verdict for one in verdicts if one.of_paper)
    return {verdict: counts[verdict] for verdict in CLASSES if counts[verdict]}


def setup(study: Study) -> str:
    """Return the settings of a study in one line."""
    samples = [level_name(level) for level in sorted(study.rows["samples"].unique().tolist(), key=level_order)]
    facts = [f"Samples per class: {', '.join(samples)}", f"trials: {study.rows['trial'].nunique()}"]
    for key in SHOWN_SETTINGS:
        value = study.runs[-1].setting(key)
        if value is not None and not (study.record.axis and study.record.axis.key == key):
            facts.append(f"{key.rpartition('.')[2]}: {value}")
    return "; ".join(facts) + "."


def compare_graphs(reports: Sequence[SubjectReport], task: str) -> dict[str, Any]:
    """Return what the table of one task shows for several subjects: the methods that most subjects have come first."""
    found = {report.subject.name: next((a for a in report.answers if a.task == task), None) for report in reports}
    times = Counter(method for a in found.values() if a for method in a.study.methods if method in a.ranking.means)
    metric = next(a.metric for a in found.values() if a)
    return {"metric": metric, "methods": [method for method, _ in times.most_common()], "answers": found}


def compare_claims(reports: Sequence[SubjectReport]) -> list[tuple[str, list[Verdict | None]]]:
    """Return every claim that was tested on any subject, with the verdict of each."""
    found = [{one.text: one for one in report.verdicts if one.verdict != NOT_RUN} for report in reports]
    texts = dict.fromkeys(one.text for report in reports for one in report.verdicts)
    return [(text, [own.get(text) for own in found]) for text in texts if any(text in own for own in found)]


def column_spans(table: FilledTable) -> list[tuple[float, float] | None]:
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
    values = {"zero": 0.0, "low": c.low, "middle": c.difference, "high": c.high}
    places = {name: round(4 + (value - low) / (high - low) * 64, 1) for name, value in values.items()}
    above, below = ("worse", "better") if less_is_better else ("better", "worse")
    return {**places, "kind": above if c.low > 0 else below if c.high < 0 else "tied"}
