"""All that there is to say about one subject, worked out before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from asbc.report.answers import Answer, answer
from asbc.report.chart import Figure
from asbc.report.claims import Claim, judge
from asbc.report.figures import FIGURES
from asbc.report.hidden import Finding, hidden
from asbc.report.parts import Subject
from asbc.report.table import Table
from asbc.report.tables import TABLES, plain

Told = Callable[[str], None]  # called when a step is done, with its name


@dataclass(frozen=True)
class Findings:
    """What there is to say about one subject.

    Attributes
    ----------
    subject : Subject
    answers : sequence of Answer
    hidden : sequence of Finding
    claims : sequence of Claim
    figures : mapping of str to Figure
        By experiment.
    tables : mapping of str to sequence of Table
        By experiment.
    """

    subject: Subject
    answers: Sequence[Answer]
    hidden: Sequence[Finding]
    claims: Sequence[Claim]
    figures: Mapping[str, Figure]
    tables: Mapping[str, Sequence[Table]]


def find(subject: Subject, told: Told = lambda step: None) -> Findings:
    """Answers, claims, figures and tables of one subject.

    Parameters
    ----------
    subject : Subject
    told : callable, default=one that does nothing
        Called after each of :func:`steps`.

    Returns
    -------
    Findings
    """
    answers = answer(subject)
    told("answers")
    claims = judge(subject)
    told("claims")
    tables: dict[str, Sequence[Table]] = {}
    figures: dict[str, Figure] = {}
    for name, part in subject.parts.items():
        made = [make(part) for make in TABLES[name]] if name in TABLES else _plain(subject, name)
        filled = [table.filled() for table in made]
        tables[name] = [table for table in filled if len(table.header) > 1]  # names alone: nothing was scored
        figure = FIGURES[name](part) if name in FIGURES and drawable(subject, name) else None
        if figure is not None and figure.panels:
            figures[name] = figure
        told(name)
    return Findings(subject, answers, hidden(subject), claims, figures, tables)


def steps(subject: Subject) -> int:
    """How often :func:`find` says that a step is done."""
    return 2 + len(subject.parts)


def drawable(subject: Subject, name: str) -> bool:
    """Whether an experiment has measured what its figure shows; without labels some have not."""
    needed = {
        "regimes": "chosen_rank_median",
        "alignment": "spearman",
        "loo": "loo",
        "lp": "lp",
        "regret": "regret",
    }
    return name not in needed or subject.parts[name].has(needed[name])


def _plain(subject: Subject, name: str) -> Sequence[Table]:
    """Tables of a run under another name; none for experiments that are all figure."""
    return [] if name in FIGURES else plain(subject.parts[name])
