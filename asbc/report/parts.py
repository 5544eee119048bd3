"""What a report is made of: runs, the rows that answer one question, and the embeddings that they are about."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.evaluate.bootstrap import Bootstrap
from asbc.report.words import by_size, named

if TYPE_CHECKING:
    import pandas as pd

BASE = "knn"  # the method that others are compared with
# The experiments, in the order in which a report shows them.
EXPERIMENTS = (
    "regimes",
    "alignment",
    "loo",
    "lp",
    "gamma",
    "ablation",
    "selectors",
    "regret",
    "k_cand",
    "n_grid",
)

# What a sweep varies, as a path into a run's settings.
AXES = {"gamma": "bandwidth.gamma", "k_cand": "k_cand", "n_grid": "bandwidth.n_grid"}

# Experiments that have something to measure where there are no labels; the others only score predictions.
WITHOUT_LABELS = ("regimes", "alignment", "gamma", "ablation", "k_cand", "n_grid")
# What only labels can tell.
SCORED = ("loo", "lp", "nmi", "ari", "regret")


@dataclass(frozen=True)
class Record:
    """One run.

    Attributes
    ----------
    id : str
    path : Path
        Its folder.
    status : dict
        Contents of its `status.json`.
    settings : dict
        The config that it was resolved to.
    rows : DataFrame or None
        Its rows so far; None where there are none yet.
    text : str
        The settings as they stand in its folder.
    """

    id: str
    path: Path
    status: dict[str, Any]
    settings: dict[str, Any]
    rows: pd.DataFrame | None
    text: str = ""

    @property
    def experiment(self) -> str:
        return str(self.status.get("experiment", "unknown"))

    @property
    def finished(self) -> bool:
        return self.status["state"] == "finished"

    def setting(self, path: str) -> Any:
        """A value of the settings by its dotted path, such as `bandwidth.gamma`; None where there is none."""
        value: Any = self.settings
        for key in path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Part:
    """Rows that answer one experiment's question; their settings are alike but for what the experiment varies.

    Attributes
    ----------
    experiment : str
    rows : DataFrame
        With a column `setting` beside those of the results: the swept value, where the experiment is a sweep.
    records : list of Record
        Where the rows come from.
    others : list of Record
        Runs of the same experiment with other settings, whose rows are not among them.
    bootstrap : Bootstrap
        Draws that all comparisons of a report share.
    kept : dict
        What was worked out of the rows before, so that claims, tables and figures share it.
    """

    experiment: str
    rows: pd.DataFrame
    records: list[Record]
    others: list[Record]
    bootstrap: Bootstrap = field(default_factory=Bootstrap, repr=False, compare=False)
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def of(self, metric: str) -> pd.DataFrame:
        """Rows of one metric."""
        key = ("rows", metric)
        if key not in self.kept:
            self.kept[key] = self.rows[self.rows["metric"] == metric]
        return self.kept[key]

    def has(self, metric: str) -> bool:
        """Whether there are rows of a metric."""
        return not self.of(metric).empty

    def levels(self, metric: str) -> list[Any]:
        """Levels of a metric by size; all samples come last."""
        return sorted(self.of(metric)["level"].unique().tolist(), key=by_size)

    def fullest(self, metric: str) -> Part:
        """For propagation, whose levels are labels: the part at the most samples per class that it has been run at.

        In leave-one-out the levels are samples, and the part stays as it is.
        """
        samples = sorted(self.of(metric)["samples"].unique().tolist(), key=by_size)
        return self if len(samples) < 2 or metric == "loo" else self.only(samples[-1])

    def only(self, samples: int) -> Part:
        """The part at one number of samples per class."""
        if (self.rows["samples"] == samples).all():
            return self
        key = ("only", samples)
        if key not in self.kept:
            self.kept[key] = replace(self, rows=self.rows[self.rows["samples"] == samples], kept={})
        return self.kept[key]

    @property
    def methods(self) -> list[str]:
        """Methods in the order they were run, without the candidates that were tuned with labels."""
        names = self.rows["method"].drop_duplicates().tolist()
        return [name for name in names if not name.startswith("tuned_")]

    @property
    def finished(self) -> bool:
        return all(record.finished for record in self.records)


@dataclass(frozen=True)
class Subject:
    """Embeddings that were studied: one data set seen by one encoder.

    Attributes
    ----------
    dataset, encoder : str
    parts : dict of Part
        By experiment.
    overrides : list of str
        What was typed about these embeddings.
    mark : str
        Tells other embeddings with the same name apart; empty where there are none.
    failed : dict of str
        Errors of experiments that were tried and gave no rows.
    labeled : bool
        Whether the embeddings have labels, as far as the runs tell.
    """

    dataset: str
    encoder: str
    parts: dict[str, Part]
    overrides: list[str]
    mark: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    labeled: bool = True

    @property
    def name(self) -> str:
        return named(self.dataset, self.encoder) + (f" ({self.mark})" if self.mark else "")

    @property
    def slug(self) -> str:
        """Name that is safe in files and links."""
        name = "-".join(part for part in dict.fromkeys((self.dataset, self.encoder, self.mark)) if part)
        return "".join(c if c.isalnum() else "-" for c in name.lower())

    @property
    def missing(self) -> list[str]:
        """Experiments that were not run and can be: without labels, only those that need none."""
        possible = EXPERIMENTS if self.labeled else WITHOUT_LABELS
        return [name for name in possible if name not in self.parts and name not in self.failed]

    def command(self, experiment: str) -> str:
        """The command that makes what is missing, with brackets in quotes as shells want them."""
        return shlex.join(["asbc", f"experiment={experiment}", *self.overrides])


@dataclass(frozen=True)
class Evidence:
    """All that was found in some folders.

    Attributes
    ----------
    subjects : list of Subject
        Embeddings that were studied, each with the rows of its experiments.
    records : list of Record
        All runs, oldest first.
    """

    subjects: list[Subject]
    records: list[Record]
