"""Runs that another version finished are named when they are skipped, and done again when that is asked for."""

import sys

import pytest

import asbc
from asbc.runs import command
from asbc.runs.results import read_status
from asbc.runs.sealed import write_note
from asbc.runs.summary import show_sweep, skipped_because

TINY = ["samples_per_class=[4]", "trials=1", "method=[knn]", "logger=none", "progress=false"]


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["asbc", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    return stopped.value.code


def finished_by(folder, version):
    """As if another version had finished the run."""
    write_note(folder / "status.json", read_status(folder) | {"version": version})


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_run_of_another_version_says_so_when_it_is_skipped(tmp_path, monkeypatch, capsys):
    arguments = [f"out={tmp_path}", *TINY]
    assert call(monkeypatch, *arguments) == 0 and "finished before" not in said(capsys)
    (folder,) = [path.parent for path in tmp_path.glob("runs/*/status.json")]
    assert read_status(folder)["version"] == asbc.__version__
    assert call(monkeypatch, *arguments) == 0
    assert "finished before; rerun=true does it again" in said(capsys)

    finished_by(folder, "0.0.7")
    rows = (folder / "results.parquet").read_bytes()
    assert call(monkeypatch, *arguments) == 0
    assert f"finished before by asbc 0.0.7 (this is {asbc.__version__}); rerun=true does it again" in said(capsys)
    assert (folder / "results.parquet").read_bytes() == rows and read_status(folder)["version"] == "0.0.7"

    assert call(monkeypatch, *arguments, "rerun=true") == 0
    assert "finished before" not in said(capsys)
    assert read_status(folder)["version"] == asbc.__version__
    assert read_status(folder.with_name(f"{folder.name}.replaced-1"))["version"] == "0.0.7"


def test_a_sweep_says_which_of_its_runs_another_version_finished(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    arguments = ["-m", "seed=1,2", f"out={tmp_path}", *TINY]
    assert call(monkeypatch, *arguments) == 0
    capsys.readouterr()
    first, second = sorted(path.parent for path in tmp_path.glob("runs/*/status.json"))
    finished_by(first, "0.0.7")
    assert call(monkeypatch, *arguments) == 0
    text = said(capsys)
    assert text.count("skipped (asbc 0.0.7)") == 1 and text.count("skipped") == 2
    assert f"1 of 2 were finished before by asbc 0.0.7 (this is {asbc.__version__}); rerun=true does them again" in text

    assert call(monkeypatch, *arguments, "rerun=true") == 0
    assert "skipped" not in said(capsys)
    assert {read_status(folder)["version"] for folder in (first, second)} == {asbc.__version__}
    assert call(monkeypatch, *arguments) == 0
    assert "finished before by" not in said(capsys)


def test_a_version_that_left_no_number_is_another_one_too():
    assert skipped_because("unknown") == (
        f"finished before by asbc unknown (this is {asbc.__version__}); rerun=true does it again"
    )


def test_a_failed_job_of_a_sweep_has_no_version(tmp_path, capsys):
    note = {"overrides": ["k_cand=3000"], "state": "failed", "error": "ValueError: too many"}
    assert show_sweep([note], tmp_path) == 1
    assert "1 of 1 failed" in capsys.readouterr().out
