"""Which runs there are, and which of them answer which question."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asbc.evaluate.bootstrap import Bootstrap
from asbc.report.parts import AXES, EXPERIMENTS, SCORED, Evidence, Part, Record, Subject
from asbc.runs.identity import canonical
from asbc.runs.results import ResultsError, collect, runs
from asbc.runs.settings import read_settings, settings_text

if TYPE_CHECKING:
    import pandas as pd

# A run under another name, such as a plain `asbc` or `asbc name=mine`, can stand in for these if it has measured this.
_STAND_INS = {
    "regimes": "chosen_rank_median",
    "alignment": "spearman",
    "loo": "loo",
    "lp": "lp",
    "gamma": "loo",
    "regret": "regret",
    "k_cand": "loo",
    "n_grid": "loo",
}


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
    bootstrap = Bootstrap()
    vectors = {
        r.status["fingerprint"]: r.status["vectors"] for r in records if {"fingerprint", "vectors"} <= {*r.status}
    }
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        dataset, encoder = (str(record.status.get(key, "unknown")) for key in ("dataset", "encoder"))
        groups.setdefault((dataset, encoder, _made_of(record, vectors)), []).append(record)
    subjects = {}
    for (dataset, encoder, made_of), group in groups.items():
        overrides = next((typed[r.id] for r in reversed(group) if r.id in typed), [])
        parts = _parts(group, bootstrap)
        if parts:
            subjects[dataset, encoder, made_of] = Subject(
                dataset, encoder, parts, overrides, failed=_failed(group, parts), labeled=_labeled(group)
            )
    return Evidence(_distinct([(subject, key[2]) for key, subject in subjects.items()]), records)


def _made_of(record: Record, vectors: Mapping[str, str]) -> str:
    """What tells embeddings of one name apart: their vectors, with labels or without.

    Earlier versions noted vectors and labels together; `vectors` says which vectors these were, where that is known.
    """
    both = str(record.status.get("fingerprint", ""))
    return str(record.status.get("vectors", vectors.get(both, both)))


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
        if record.status["state"] == "failed" and record.experiment not in parts
    }


def _labeled(records: list[Record]) -> bool:
    """Whether there are labels: as the runs noted it, or else by what they measured and how they sampled."""
    noted = [record.status["labelled"] for record in records if "labelled" in record.status]
    if noted:
        return any(noted)
    tables = [record.rows for record in records if record.rows is not None]
    return any(rows["metric"].isin(SCORED).any() or (rows["samples"] != 0).any() for rows in tables)


def _read(path: Path, status: dict[str, Any]) -> Record:
    settings = read_settings(path)
    has_rows = (path / "results.parquet").exists() or any((path / "parts").glob("*.parquet"))
    rows = collect(path) if has_rows else None
    if rows is not None and rows.empty:
        rows = None
    if rows is not None:
        missing = {"dataset", "encoder", "method", "samples", "level", "trial", "metric", "value"} - set(rows.columns)
        if missing:
            raise ResultsError(f"{path}: rows without {', '.join(sorted(missing))}; not what `asbc` writes")
    return Record(str(status.get("run_id", path.name)), path, status, settings, rows, settings_text(path))


def _parts(records: list[Record], bootstrap: Bootstrap) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    usable = [record for record in records if record.rows is not None]
    others = [record for record in usable if record.experiment not in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        own = [record for record in usable if record.experiment == experiment]
        part = _choose(experiment, own, bootstrap)
        if part is None and experiment in _STAND_INS:
            metric = _STAND_INS[experiment]
            measured = [record for record in others if (_rows(record)["metric"] == metric).any()]
            part = _choose(experiment, measured, bootstrap, least=2 if experiment in AXES else 1)
        if part is not None:
            parts[experiment] = part
    shown = {record.id for part in parts.values() for record in part.records}
    for name in dict.fromkeys(record.experiment for record in others):
        named = [record for record in others if record.experiment == name]
        # A plain `asbc` that another section shows has nothing more to say.
        if not (name == "default" and all(record.id in shown for record in named)):
            part = _choose(name, named, bootstrap)
            assert part is not None
            parts[name] = part
    return parts


def _choose(experiment: str, records: list[Record], bootstrap: Bootstrap, least: int = 1) -> Part | None:
    """The runs to show: alike in all settings but the swept one; the fullest sweep, else the newest run."""
    import pandas as pd

    axis = AXES.get(experiment)
    groups: dict[str, dict[Any, Record]] = {}
    for record in records:
        key = _alike(record, axis)
        value = record.setting(axis) if axis else None
        if axis and not isinstance(value, int | float):
            continue
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
    return Part(experiment, rows, chosen, [record for record in records if record not in chosen], bootstrap)


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
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) and isinstance(note.get("overrides"), list) else {}
