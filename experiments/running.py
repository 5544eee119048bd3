"""Run experiments for the scripts in this folder."""

import json
import subprocess
import sys
from pathlib import Path

from asbc.report.evidence import read_evidence


def run(experiment, overrides=None):
    """Run an experiment, or what is left of it; return (subject, study) for each data set and encoder."""
    evidence = read_evidence(run_folders(experiment, overrides))
    return [(subject, subject.studies[experiment]) for subject in evidence.subjects]


def run_folders(experiment, overrides=None):
    """Run an experiment, or what is left of it, and return the folders of its runs. Exit if it fails.

    Overrides are those of `asbc`; None takes them from the command line.
    """
    arguments = list(sys.argv[1:] if overrides is None else overrides)
    out = next((Path(a.partition("=")[2]) for a in reversed(arguments) if a.startswith("out=")), Path("outputs"))
    before = set(out.rglob("job.json"))
    done = subprocess.run([sys.executable, "-m", "asbc.runs.command", f"experiment={experiment}", *arguments])
    notes = sorted(set(out.rglob("job.json")) - before)  # each job has a folder
    folders = [note["path"] for note in (json.loads(path.read_text()) for path in notes) if "path" in note]
    if done.returncode or not folders:
        sys.exit(done.returncode or 1)
    return list(dict.fromkeys(folders))
