"""Read runs from folders, and sort them by data set and experiment."""

from __future__ import annotations

import json
import logging
import shlex
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from asbc.evaluate.comparison import Bootstrap
from asbc.report.study import StoredRun, Study, Sweep, default_target, is_number
from asbc.report.style import level_order, own_methods
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment, read_record
from asbc.runs.results import (
    ResultsError,
    collect,
    flat_settings,
    read_settings,
    read_status,
    settings_text,
    varying_settings,
)

log = logging.getLogger("asbc")

# Settings of the paper. Claims come from the runs that are nearest to them.
PAPER_DEFAULTS = {
    "k_cand": 30,
    "bandwidth.gamma": 1.0,
    "bandwidth.n_grid": 12,
    "dimension.n_rep": 5,
    "graph.k_min": 6,
    "neighbors.metric": "cosine",
    "seed": 0,
}
SCORE = ("method", "level", "trial", "value", "scored", "right")
REQUIRED = {"dataset", "encoder", "method", "samples", "level", "trial", "metric", "value"}


@dataclass(frozen=True)
class Subject:
    """Embeddings that were studied: one data set seen by one encoder."""

    dataset: str
    encoder: str
    studies: dict[str, Study]  # by experiment
    overrides: list[str]  # what was typed about these embeddings
    mark: str = ""  # start of their fingerprint, if other embeddings have the same name
    failed: dict[str, str] = field(default_factory=dict)  # errors of experiments that have no rows
    labeled: bool = True

    @property
    def name(self) -> str:
        return subject_name(self.dataset, self.encoder) + (f" ({self.mark})" if self.mark else "")

    @property
    def slug(self) -> str:
        """Name for files and links."""
        name = "-".join(part for part in dict.fromkeys((self.dataset, self.encoder, self.mark)) if part)
        return "".join(c if c.isalnum() else "-" for c in name.lower())

    @property
    def missing(self) -> list[str]:
        """Experiments that were not run and can be run: without labels, only those that need none."""
        return [
            name
            for name, record in EXPERIMENTS.items()
            if record.suggested
            and (self.labeled or not record.needs_labels)
            and name not in self.studies
            and name not in self.failed
        ]

    def command(self, experiment: str) -> str:
        """Return the command that runs an experiment on these embeddings."""
        return shlex.join(["asbc", f"experiment={experiment}", *self.overrides])


@dataclass(frozen=True)
class Evidence:
    """Everything that was found in some folders: subjects, runs (oldest first), and why folders were skipped."""

    subjects: list[Subject]
    runs: list[StoredRun]
    skipped: dict[str, str] = field(default_factory=dict)

    def own_methods(self) -> AbstractContextManager[None]:
        """Return a context in which the titles and colours of the runs' methods are used."""
        tables = [run.rows["method"].unique().tolist() for run in self.runs if run.rows is not None]
        return own_methods([run.record for run in self.runs], [name for names in tables for name in names])


def subject_name(dataset: str, encoder: str) -> str:
    return dataset if dataset == encoder else f"{dataset} · {encoder}"


def read_evidence(folders: Iterable[str | Path]) -> Evidence:
    """Read all runs under some folders. Nothing that the files name is imported.

    Parameters
    ----------
    folders : iterable of str or Path
        Results folders (`outputs`), single runs, or folders above them. A run that is found twice counts once.

    Returns
    -------
    Evidence

    See Also
    --------
    asbc.collect : the rows alone, as one table.
    asbc.report.make_report : the page.

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
    >>> subject.name, list(subject.studies)
    ('mine · files', ['loo'])
    """
    roots = [Path(folder) for folder in folders]
    found: dict[str, StoredRun] = {}
    skipped: dict[str, str] = {}
    for folder in roots:
        if not folder.exists():
            raise ResultsError(f"{folder}: no such folder")
        paths = [path.parent for path in sorted(folder.rglob("status.json")) if ".replaced-" not in path.parent.name]
        if not paths:
            raise ResultsError(
                f"{folder}: no runs in it; give a folder that `asbc` wrote (`outputs` by default), "
                "or run an experiment first: asbc experiment=loo"
            )
        for path in paths:
            run = _read(path, skipped)
            if run is not None and (run.id not in found or (run.finished and not found[run.id].finished)):
                found[run.id] = run
    stored = sorted(found.values(), key=lambda run: run.status.get("started", 0.0))
    if all(run.rows is None for run in stored):
        states = [f"{run.id} {run.status['state']}" for run in stored]
        states += [f"{path} skipped ({reason})" for path, reason in skipped.items()]
        raise ResultsError(f"{', '.join(map(str, roots))}: no run has results yet ({', '.join(states)})")
    typed = _typed_overrides(roots)
    bootstrap = Bootstrap()
    groups: dict[tuple[str, str, str], list[StoredRun]] = {}
    for run in stored:
        dataset, encoder = (str(run.status.get(key, "unknown")) for key in ("dataset", "encoder"))
        vectors = str(run.status.get("vectors", run.status.get("fingerprint", "")))
        groups.setdefault((dataset, encoder, vectors), []).append(run)
    subjects = []
    for (dataset, encoder, vectors), group in groups.items():
        studies = _studies(group, bootstrap)
        if studies:
            overrides = next((typed[run.id] for run in reversed(group) if run.id in typed), [])
            failed = {
                run.experiment: str(run.status.get("error") or "no reason was recorded")
                for run in group
                if run.status["state"] == "failed" and run.experiment not in studies
            }
            labeled = any(run.status.get("labelled", True) for run in group)
            subjects.append((Subject(dataset, encoder, studies, overrides, failed=failed, labeled=labeled), vectors))
    return Evidence(_distinct(subjects), stored, skipped)


def _read(path: Path, skipped: dict[str, str]) -> StoredRun | None:
    """Read a run; one that cannot be read is named in `skipped`."""
    try:
        status, settings = read_status(path), read_settings(path)
        has_rows = (path / "results.parquet").exists() or any((path / "parts").glob("*.parquet"))
        rows = collect(path, per_node=True) if has_rows else None
        if rows is not None and rows.empty:
            rows = None
        if rows is not None and (missing := REQUIRED - set(rows.columns)):
            raise ResultsError(f"the rows have no {', '.join(sorted(missing))}; `asbc` did not write them")
        record = read_record(path, str(status.get("experiment", "unknown")))
        return StoredRun(str(status.get("run_id", path.name)), status, settings, rows, settings_text(path), record)
    except (ResultsError, ValueError, OSError, RecursionError, MemoryError) as error:
        skipped[str(path)] = str(error).removeprefix(f"{path}: ")
        log.warning("%s: skipped (%s)", path, skipped[str(path)])
    return None


def _distinct(subjects: list[tuple[Subject, str]]) -> list[Subject]:
    """Give subjects with the same name the start of their fingerprint, so that names and slugs differ."""
    plain = Counter(subject.slug for subject, _ in subjects)
    taken = {slug for slug, times in plain.items() if times == 1}
    out: list[Subject] = []
    for subject, fingerprint in subjects:
        if plain[subject.slug] > 1:
            start = fingerprint[:6] or "unknown"
            marks = (start if number == 1 else f"{start}-{number}" for number in count(1))
            subject = next(s for s in (replace(subject, mark=mark) for mark in marks) if s.slug not in taken)
            taken.add(subject.slug)
        out.append(subject)
    return out


# Studies


def _studies(group: list[StoredRun], bootstrap: Bootstrap) -> dict[str, Study]:
    """Return the studies of one subject: asbc's own experiments first, then others in the order of their runs."""
    usable = [run for run in group if run.rows is not None]
    others = [run for run in usable if run.experiment not in EXPERIMENTS]
    studies: dict[str, Study] = {}
    for name, record in EXPERIMENTS.items():
        study = _study([run for run in usable if run.experiment == name], bootstrap)
        if study is None and record.accepts:
            accepted = [run for run in others if run.rows is not None and (run.rows["metric"] == record.accepts).any()]
            measured = [replace(run, record=record.described(run.record.metrics)) for run in accepted]
            study = _study(measured, bootstrap, least=2 if record.axis else 1)
        if study is not None:
            studies[name] = study
    shown = {run.id for study in studies.values() for run in study.runs}
    swept: list[set[str]] = []
    for study in studies.values():  # the same runs may be shown as several experiments
        ids = {run.id for run in (*study.runs, *study.others)}
        if study.sweep is not None and ids in swept:
            study.sweep = None
        swept.append(ids)
    for name in dict.fromkeys(run.experiment for run in others):
        named = [run for run in others if run.experiment == name]
        # A plain `asbc` run that another section shows adds nothing.
        if not (name == "default" and all(run.id in shown for run in named)):
            study = _study(named, bootstrap)
            if study is not None:
                studies[name] = study
    return studies


def _study(group: list[StoredRun], bootstrap: Bootstrap, least: int = 1) -> Study | None:
    """Return the study of one experiment: its runs nearest to the settings of the paper.

    Runs that differ only in the setting that the experiment sweeps belong together.
    """
    import pandas as pd

    if not group:
        return None
    record = max(group, key=lambda run: run.status.get("started", 0.0)).record
    axis = record.axis.key if record.axis else None
    series: dict[str, dict[Any, StoredRun]] = {}
    for run in group:
        value = run.setting(axis) if axis else None
        if axis and not isinstance(value, int | float):
            continue
        own = series.setdefault(_other_settings(run, axis), {})
        if value not in own or run.finished or not own[value].finished:
            own[value] = run
    if not series:
        return None

    def preference(own: dict[Any, StoredRun]) -> tuple[Any, ...]:
        runs = own.values()
        away = sum(
            run.setting(key) not in (None, value)
            for run in runs
            for key, value in PAPER_DEFAULTS.items()
            if key != axis
        )
        newest = max(run.status.get("started", 0.0) for run in runs)
        return len(own) > 1, all(run.finished for run in runs), -away / len(own), len(own), newest

    best = max(series.values(), key=preference)
    if len(best) < least:
        return None
    chosen = sorted(best.items(), key=lambda item: (item[0] is not None, item[0]))
    tables = [run.rows.assign(setting=value) for value, run in chosen if run.rows is not None]
    rows = pd.concat(tables, ignore_index=True)
    kept = [run for _, run in chosen]
    ids = {run.id for run in kept}
    others = [run for run in group if run.id not in ids]
    return Study(record, rows, kept, others, bootstrap, _sweep(group, kept[-1], record, bootstrap) if others else None)


def _sweep(group: list[StoredRun], nearest: StoredRun, record: Experiment, bootstrap: Bootstrap) -> Sweep | None:
    """Return all runs of an experiment with the settings in which they differ; None if these cannot be compared."""
    import pandas as pd

    flat = {run.id: _settings(run) for run in group}
    axes = varying_settings(list(flat.values()))
    tables: dict[str, Any] = {run.id: run.rows for run in group}
    measured = [name for name in record.headline if any((rows["metric"] == name).any() for rows in tables.values())]
    metric = record.metric(measured[0] if measured else str(tables[group[-1].id]["metric"].iloc[0]))
    frames = []
    for run in sorted(group, key=lambda run: run.finished):
        rows = default_target(tables[run.id][tables[run.id]["metric"] == metric.name])
        rows = rows[~rows["method"].str.startswith("tuned_")]
        if len(rows):
            rows = rows[rows["samples"] == max(rows["samples"].unique().tolist(), key=level_order)]
            rows = rows[[name for name in SCORE if name in rows]]
            frames.append(rows.assign(**{name: _plain(flat[run.id].get(key)) for key, name in axes.items()}))
    if len(frames) < 2 or not axes:
        return None
    frame = pd.concat(frames, ignore_index=True)
    frame = frame.drop_duplicates([*axes.values(), "method", "level", "trial"], keep="last")
    usual = {name: _plain(flat[nearest.id].get(key)) for key, name in axes.items()}
    if record.axis is not None and record.axis.key in axes:
        usual[axes[record.axis.key]] = record.axis.base
    return Sweep(metric, usual, frame, bootstrap)


def _plain(value: Any) -> Any:
    """Return a number as it is, and everything else (lists, maps, missing values) as text."""
    return value if is_number(value) else str(value)


def _settings(run: StoredRun) -> dict[str, Any]:
    """Return the settings of a run by dotted path."""
    return flat_settings({key: value for key, value in run.settings.items() if key != "data"})


def _other_settings(run: StoredRun, axis: str | None) -> str:
    """Return a key that is equal for runs that differ only in the swept setting."""
    flat = _settings(run)
    if axis:
        # Methods hold copies of the bandwidth's settings, and the search holds one of k_cand.
        last = axis.rpartition(".")[2]
        copies = {axis, "neighbors.k"} if axis == "k_cand" else {axis}
        flat = {key: value for key, value in flat.items() if key not in copies and not key.endswith("." + last)}
    flat["fingerprint"] = run.status.get("fingerprint")
    return json.dumps(flat, sort_keys=True, default=str)


def _typed_overrides(folders: list[Path]) -> dict[str, list[str]]:
    """Return what was typed on the command line about the embeddings and the folder, by run."""
    typed = {}
    for folder in folders:
        above = next((path.parent for path in (folder, folder.parent) if path.name == "runs"), folder)
        for path in sorted(above.rglob("job.json")):
            with suppress(OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
                note = json.loads(path.read_text())
                typed[note["run_id"]] = [o for o in note["overrides"] if o.startswith(("embedding", "out="))]
                typed[note["run_id"]] += [str(flag) for flag in note.get("flags", [])]
    return typed
