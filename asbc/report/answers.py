"""Which graph to build for these data: the best one per task, by how much, and whether the data can tell at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asbc.evaluate.hits import unpack_all
from asbc.evaluate.ranking import Gap, Ranking, rank_methods
from asbc.report import contrasts
from asbc.report.parts import BASE, Part, Subject
from asbc.report.recipes import recipe
from asbc.report.words import by_size, level_name


@dataclass(frozen=True)
class Task:
    """A task that graphs are built for.

    Attributes
    ----------
    name, measure : str
        What it is, and what is measured of it.
    metric : str
        Of the results.
    which : int
        Of the levels, for a task whose levels are labels per class: 0 the fewest, -1 the most; None for others.
    """

    name: str
    measure: str
    metric: str
    which: int | None = None


TASKS = (
    Task("Vote of the neighbours", "leave-one-out accuracy", "loo"),
    Task("Propagation from few labels", "accuracy of label propagation", "lp", 0),
    Task("Propagation from many labels", "accuracy of label propagation", "lp", -1),
    Task("Clustering", "adjusted Rand index of spectral clusters", "ari"),
)


@dataclass(frozen=True)
class Answer:
    """The best graph for one task.

    Attributes
    ----------
    task : Task
    where : str
        What it was measured on.
    part : Part
        The experiment that it comes from.
    ranking : Ranking
    line : str or None
        Python that builds the graph.
    """

    task: Task
    where: str
    part: Part
    ranking: Ranking
    line: str | None

    @property
    def method(self) -> str:
        """The graph to build: the best by its mean; plain kNN where the data cannot tell that one from it."""
        return BASE if BASE in self.ranking.alike and self.sure else self.ranking.methods[0]

    @property
    def sure(self) -> bool:
        """Whether there are trials enough to judge by."""
        return self.ranking.trials >= contrasts.FEWEST_TRIALS

    @property
    def clear(self) -> bool:
        """Whether it is the best beyond doubt: its interval against every other graph lies above zero."""
        return self.sure and not self.ranking.alike

    @property
    def runner_up(self) -> str:
        """The second by its mean."""
        return self.ranking.methods[1]

    def over(self, other: str) -> Gap | None:
        """By how much the best by its mean is above another; None where that is itself or was not run."""
        return self.ranking.gaps.get((self.ranking.methods[0], other))


def answer(subject: Subject) -> list[Answer]:
    """The best graph of every task that was run with at least two graphs.

    Parameters
    ----------
    subject : Subject

    Returns
    -------
    list of Answer
    """
    found: list[Answer] = []
    for task in TASKS:
        part = _fullest(list(subject.parts.values()), task.metric)
        if part is None:
            continue
        levels = part.levels(task.metric)
        level = None if task.which is None else levels[task.which]
        if task.which == -1 and len(levels) == 1:
            continue  # the same as with few labels
        ranking = _rank(part, task.metric, level)
        if ranking is not None:
            chosen = Answer(task, _where(part, task, level, ranking), part, ranking, None)
            line = recipe(part.records[-1], chosen.method)
            found.append(Answer(task, chosen.where, part, ranking, line))
    return found


def _fullest(parts: Sequence[Part], metric: str) -> Part | None:
    """The part that compares the most methods, at the most samples per class that it has."""
    found = []
    for part in parts:
        if not part.has(metric) or part.rows["setting"].nunique(dropna=True) > 1:
            continue  # a sweep has several values of everything
        samples = max(part.of(metric)["samples"].unique().tolist(), key=by_size)
        found.append((len(_candidates(part, metric)), by_size(samples), part, samples))
    if not found:
        return None
    _, _, part, samples = max(found, key=lambda item: item[:2])
    return part.only(samples)


def _candidates(part: Part, metric: str) -> list[str]:
    measured = contrasts.scores(part, metric)
    return [method for method in part.methods if method in measured]


def _rank(part: Part, metric: str, level: int | None) -> Ranking | None:
    measured = contrasts.scores(part, metric)
    names = _candidates(part, metric)
    if len(names) < 2:
        return None
    places = {n: {p for p in measured[n].values if level in (None, p[1])} for n in names}
    shared = set.union(*places.values())
    # A method that has not been measured everywhere cannot be ranked fairly with the others.
    names = [name for name in names if places[name] == shared]
    if len(names) < 2 or not shared:
        return None
    order = sorted(shared)
    hits = None
    if all(place in measured[name].hits for name in names for place in order):
        hits = {name: unpack_all([measured[name].hits[place] for place in order]) for name in names}
    return rank_methods(
        {name: [measured[name].values[place] for place in order] for name in names},
        trial=[place[2] for place in order],
        hits=hits,
        bootstrap=part.bootstrap,
    )


def _where(part: Part, task: Task, level: int | None, ranking: Ranking) -> str:
    samples = part.of(task.metric)["samples"].iloc[0]
    words = [f"{level_name(samples)} samples per class" if samples else "all samples"]
    if level is not None:
        words.insert(0, f"{level_name(level)} label{'' if level == 1 else 's'} per class")
    words += [f"{ranking.trials} trial{'' if ranking.trials == 1 else 's'}", f"{len(ranking.methods)} graphs compared"]
    return ", ".join(words)
