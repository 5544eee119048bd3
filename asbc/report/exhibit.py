"""Run one experiment and show its figure or table: what the scripts in `experiments/` share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from asbc.report.canvas import save
from asbc.report.chart import Figure
from asbc.report.evidence import read_evidence
from asbc.report.parts import Part, Subject
from asbc.report.table import Table
from asbc.runs import command


def run(experiment: str, overrides: Sequence[str] | None = None) -> list[tuple[Subject, Part]]:
    """Run an experiment, or what is left of it, and give its rows.

    Parameters
    ----------
    experiment : str
        A leaf of `conf/experiment`.
    overrides : sequence of str, default=None
        As `asbc` takes them; None for those of the command line.

    Returns
    -------
    list of (Subject, Part)
        One entry per data set and encoder.
    """
    evidence = read_evidence(carry_out(experiment, overrides))
    return [(subject, subject.parts[experiment]) for subject in evidence.subjects]


def carry_out(experiment: str, overrides: Sequence[str] | None = None) -> list[str]:
    """Run an experiment, or what is left of it; where that fails, end this process with the same exit code.

    Parameters
    ----------
    experiment : str
        A leaf of `conf/experiment`.
    overrides : sequence of str, default=None
        As `asbc` takes them; None for those of the command line.

    Returns
    -------
    list of str
        Folders of its runs, for :func:`asbc.results.collect`.
    """
    arguments = list(sys.argv[1:] if overrides is None else overrides)
    out = next((Path(a.partition("=")[2]) for a in reversed(arguments) if a.startswith("out=")), Path("outputs"))
    before = set(out.rglob("job.json"))
    code = command.run_as([f"experiment={experiment}", *arguments])
    notes = sorted(set(out.rglob("job.json")) - before)  # every job has a folder of its own
    folders = [note["path"] for note in (json.loads(path.read_text()) for path in notes) if "path" in note]
    if code or not folders:
        sys.exit(code or 1)
    return list(dict.fromkeys(folders))


def show(subject: Subject, *exhibits: Figure | Table, out: str | Path = "figures") -> None:
    """Print tables; write figures as PNG and PDF, and say where.

    Parameters
    ----------
    subject : Subject
    *exhibits : Figure or Table
    out : str or Path, default="figures"
        Figures go to a folder in it, one per subject.
    """
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 160)
    for exhibit in exhibits:
        if isinstance(exhibit, Table):
            console.print(exhibit.rich())
        else:
            for path in save(exhibit, Path(out) / subject.slug):
                console.print(str(path), soft_wrap=True, highlight=False)
