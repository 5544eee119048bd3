"""Which runs there are, and which of them answer which question."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.runs.identity import canonical
from asbc.runs.results import ResultsError, collect, read_settings, runs

if TYPE_CHECKING:
    import pandas as pd

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

# A plain `asbc`, without `experiment=`, can stand in for these if it has measured this.
_STAND_INS = {"loo": "loo", "lp": "lp", "gamma": "loo", "k_cand": "loo", "n_grid": "loo"}


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
    """

    id: str
    path: Path
    status: dict[str, Any]
    settings: dict[str, Any]
    rows: pd.DataFrame | None

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
    """

    experiment: str
    rows: pd.DataFrame
    records: list[Record]
    others: list[Record]

    def of(self, metric: str) -> pd.DataFrame:
        """Rows of one metric."""
        return self.rows[self.rows["metric"] == metric]

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
    """

    dataset: str
    encoder: str
    parts: dict[str, Part]
    overrides: list[str]
    mark: str = ""
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.dataset} · {self.encoder}" + (f" ({self.mark})" if self.mark else "")

    @property
    def slug(self) -> str:
        """Name that is safe in files and links."""
        name = "-".join(part for part in (self.dataset, self.encoder, self.mark) if part)
        return "".join(c if c.isalnum() else "-" for c in name.lower())

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


def read_evidence(folders: Iterable[str | Path]) -> Evidence:
    """Read all runs under some folders.

    Parameters
    ----------
    folders : iterable of str or Path
        Results folders (`outputs`), single runs, or folders above them. A run found twice counts once.

    Returns
    -------
    Evidence

    See Also
    --------
    asbc.results.collect : the rows alone, in one table.
    asbc.report.command.make_report : the page made of it.

    Examples
    --------
    >>> import tempfile
    >>> from asbc.report.evidence import read_evidence
    >>> from asbc.runs.results import Run
    >>> row = {"dataset": "mine", "encoder": "files", "method": "knn", "samples": 20, "level": 20, "trial": 0}
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with Run(root, "abc", {"k_cand": 30}) as run:
    ...         done = run.begin(experiment="loo", dataset="mine", encoder="files")
    ...         run.append("trial-0", [{**row, "metric": "loo", "value": 0.9}])
    ...         table = run.finish()
    ...     (subject,) = read_evidence([root]).subjects
    >>> subject.name, list(subject.parts)
    ('mine · files', ['loo'])
    """
    roots = [Path(folder) for folder in folders]
    found: dict[str, Record] = {}
    for folder in roots:
        empty = True
        for path, status in runs(folder):
            empty = False
            record = _read(path, status)
            if record.id not in found or (record.finished and not found[record.id].finished):
                found[record.id] = record
        if empty:
            raise ResultsError(
                f"{folder}: no runs in it; give a folder that `asbc` wrote (`outputs` by default), "
                "or make one now: asbc experiment=loo"
            )
    records = sorted(found.values(), key=lambda record: record.status.get("started", 0.0))
    if all(record.rows is None for record in records):
        states = ", ".join(f"{record.id} {record.status['state']}" for record in records)
        raise ResultsError(f"{', '.join(map(str, roots))}: there are runs, but none has rows yet ({states})")
    typed = _typed(roots)
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        # Files of one name can hold different vectors, so the name alone does not say what was studied.
        dataset, encoder = (str(record.status.get(key, "unknown")) for key in ("dataset", "encoder"))
        groups.setdefault((dataset, encoder, str(record.status.get("fingerprint", ""))), []).append(record)
    subjects = {}
    for (dataset, encoder, made_of), group in groups.items():
        overrides = next((typed[r.id] for r in reversed(group) if r.id in typed), [])
        parts = _parts(group)
        if parts:
            subjects[dataset, encoder, made_of] = Subject(
                dataset, encoder, parts, overrides, failed=_failed(group, parts)
            )
    return Evidence(_distinct([(subject, key[2]) for key, subject in subjects.items()]), records)


def _distinct(subjects: list[tuple[Subject, str]]) -> list[Subject]:
    """Subjects whose names and slugs differ: where they would not, each gets the start of its fingerprint."""
    plain = Counter(subject.slug for subject, _ in subjects)
    out: list[Subject] = []
    taken: set[str] = {slug for slug, times in plain.items() if times == 1}
    for subject, fingerprint in subjects:
        if plain[subject.slug] > 1:
            start = fingerprint[:6] or "unknown"
            marks = (start if number == 1 else f"{start}-{number}" for number in count(1))
            subject = next(s for s in (replace(subject, mark=mark) for mark in marks) if s.slug not in taken)
            taken.add(subject.slug)
        out.append(subject)
    return out


def _failed(records: list[Record], parts: Mapping[str, Part]) -> dict[str, str]:
    """Errors of failed runs, the newest of each experiment that has nothing to show."""
    return {
        record.experiment: str(record.status.get("error") or "no reason was noted")
        for record in records
        if record.status["state"] == "failed" and record.experiment in EXPERIMENTS and record.experiment not in parts
    }


def _read(path: Path, status: dict[str, Any]) -> Record:
    settings = read_settings(path)
    has_rows = (path / "results.parquet").exists() or any((path / "parts").glob("*.parquet"))
    rows = collect(path) if has_rows else None
    if rows is not None:
        missing = {"dataset", "encoder", "method", "samples", "level", "trial", "metric", "value"} - set(rows.columns)
        if missing:
            raise ResultsError(f"{path}: rows without {', '.join(sorted(missing))}; not what `asbc` writes")
    return Record(str(status.get("run_id", path.name)), path, status, settings, rows)


def _parts(records: list[Record]) -> dict[str, Part]:
    parts = {}
    usable = [record for record in records if record.rows is not None]
    for experiment in EXPERIMENTS:
        own = [record for record in usable if record.experiment == experiment]
        part = _choose(experiment, own)
        if part is None and experiment in _STAND_INS:
            metric = _STAND_INS[experiment]
            plain = [r for r in usable if r.experiment == "default" and (_rows(r)["metric"] == metric).any()]
            part = _choose(experiment, plain, least=2 if experiment in AXES else 1)
        if part is not None:
            parts[experiment] = part
    return parts


def _choose(experiment: str, records: list[Record], least: int = 1) -> Part | None:
    """The runs to show: alike in all settings but the swept one; the fullest sweep, else the newest run."""
    import pandas as pd

    axis = AXES.get(experiment)
    groups: dict[str, dict[Any, Record]] = {}
    for record in records:
        key = _alike(record, axis)
        value = record.setting(axis) if axis else None
        kept = groups.setdefault(key, {}).get(value)
        if kept is None or record.finished or not kept.finished:
            groups[key][value] = record
    if not groups:
        return None

    def worth(group: dict[Any, Record]) -> tuple[int, bool, float]:
        newest = max(record.status.get("started", 0.0) for record in group.values())
        return len(group), all(record.finished for record in group.values()), newest

    best = max(groups.values(), key=worth)
    if len(best) < least:
        return None
    ordered = sorted(best.items(), key=lambda item: (item[0] is not None, item[0]))
    rows = pd.concat([_rows(record).assign(setting=value) for value, record in ordered], ignore_index=True)
    chosen = [record for _, record in ordered]
    return Part(experiment, rows, chosen, [record for record in records if record not in chosen])


def _rows(record: Record) -> pd.DataFrame:
    assert record.rows is not None
    return record.rows


def _alike(record: Record, axis: str | None) -> str:
    """Equal for runs that differ in nothing but the swept setting."""
    flat = _flatten(canonical({key: value for key, value in record.settings.items() if key != "data"}))
    if axis == "k_cand":
        flat.pop("k_cand", None)
        flat.pop("neighbors.k", None)
    elif axis:
        # Methods hold copies of the bandwidth's settings.
        flat = {key: value for key, value in flat.items() if not key.endswith("." + axis.rpartition(".")[2])}
    flat["fingerprint"] = record.status.get("fingerprint")
    return json.dumps(flat, sort_keys=True, default=str)


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _typed(folders: list[Path]) -> dict[str, list[str]]:
    """For each run, what was typed on the command line about the embeddings and the folder."""
    typed = {}
    for folder in folders:
        # `asbc` notes its jobs beside the runs.
        above = (
            folder.parent.parent if folder.parent.name == "runs" else folder.parent if folder.name == "runs" else folder
        )
        for path in sorted(above.rglob("job.json")):
            note = _note(path)
            if "run_id" in note:
                typed[note["run_id"]] = [o for o in note["overrides"] if o.startswith(("embedding", "out="))]
    return typed


def _note(path: Path) -> dict[str, Any]:
    """What `asbc` wrote about a job; nothing where that cannot be read, for it only helps to word a command."""
    try:
        note = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) and isinstance(note.get("overrides"), list) else {}
