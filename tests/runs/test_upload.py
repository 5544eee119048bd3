"""The command asbc-upload."""

import shutil
import sys
from pathlib import Path

import pytest

from asbc.runs import upload as upload_module
from asbc.runs.experiment import run
from tests.runs.offline import config, items, offline, records

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def upload(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["asbc-upload", *map(str, arguments)])
    try:
        upload_module.main()
    except SystemExit as stopped:
        return stopped.code
    return 0


def test_upload_sends_finished_runs_once(tmp_path, monkeypatch, capsys):
    first = run(config(tmp_path / "out", "logger=none"))
    run(config(tmp_path / "out", "logger=none", "seed=1"))
    assert not offline(tmp_path)
    assert upload(monkeypatch, tmp_path / "out") == 2
    assert "no key" in capsys.readouterr().err

    assert upload(monkeypatch, tmp_path / "out", "--offline", "--tag", "late") == 0
    said = capsys.readouterr().out
    assert "2 run(s) written, not sent, 0 there already" in said
    folders = [Path(line.removeprefix("wandb sync ")) for line in said.splitlines() if line.startswith("wandb sync ")]
    assert sorted(folder.resolve() for folder in folders) == [path.parent.resolve() for path in offline(tmp_path)]
    found = [r for path in offline(tmp_path) for r in records(path)]
    starts = [r.run for r in found if r.HasField("run")]
    assert {s.run_id for s in starts} >= {f"{first.run_id}-1"} and all("late" in s.tags for s in starts)
    assert sum("loo/knn" in items(r.history.item) for r in found if r.HasField("history")) == 8

    # Offline files are not yet sent; only what went online is marked, and then left alone.
    assert not list(tmp_path.rglob("uploaded.txt"))
    (first.path / "uploaded.txt").write_text("x\n")
    assert upload(monkeypatch, tmp_path / "out", "--offline") == 0
    assert "0 run(s) written, not sent, 2 there already" in capsys.readouterr().out
    assert len(offline(tmp_path)) == 2
    # Where the files are gone, they are written again.
    for path in offline(tmp_path):
        shutil.rmtree(path.parent)
    assert upload(monkeypatch, tmp_path / "out", "--offline") == 0
    assert "1 run(s) written, not sent, 1 there already" in capsys.readouterr().out
    assert upload(monkeypatch, tmp_path / "nowhere", "--offline") == 1
    assert "no such folder" in capsys.readouterr().err


def test_what_cannot_be_sent_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    import wandb

    assert upload(monkeypatch, tmp_path, "--offline", "--dashboard", "--entity", "me") == 2
    assert capsys.readouterr().err.count("\n") == 1

    def unreachable(folder, logger):
        raise wandb.errors.CommError("failed to connect:\nno route to host")

    monkeypatch.setattr(upload_module, "must_answer", lambda: None)
    monkeypatch.setattr(upload_module, "upload_runs", unreachable)
    monkeypatch.setattr(upload_module, "has_key", lambda: True)
    assert upload(monkeypatch, tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "W&B did not answer (failed to connect: no route to host)" in said


def test_no_network_is_told_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert upload(monkeypatch, tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "W&B did not answer (http://127.0.0.1:9: " in said
