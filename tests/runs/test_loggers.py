"""Mirrors of a run, which must never stop it."""

import pytest

from asbc.runs.results import read_status
from asbc.runs.run import run
from tests.runs.offline import config

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def test_trouble_with_a_mirror_does_not_stop_the_run(tmp_path, caplog, monkeypatch):
    import wandb

    def refuse(**kwargs):
        raise wandb.errors.CommError("no network")

    monkeypatch.setattr(wandb, "init", refuse)
    outcome = run(config(tmp_path, "logger=[csv,wandb]"))
    assert read_status(outcome.path)["state"] == "finished"
    assert "WandbLogger failed: CommError" in caplog.text and "no network" in caplog.text
    assert (outcome.path / "results.csv").exists()


def test_a_table_that_a_kill_kept_from_a_logger_is_made_at_the_next_start(tmp_path):
    outcome = run(config(tmp_path, "logger=csv"))
    text = (outcome.path / "results.csv").read_text()
    (outcome.path / "results.csv").unlink()
    again = run(config(tmp_path, "logger=csv"))
    assert again.skipped and (outcome.path / "results.csv").read_text() == text
