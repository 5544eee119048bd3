"""W&B's mirror of a run, read back from the files that offline mode writes."""

import sys

import pandas as pd
import pytest

from asbc.runs import command as cli
from asbc.runs.experiment import run
from asbc.runs.wandb_logger import WandbLogger, has_key, level_curves
from tests.runs.offline import TINY, config, items, offline, records

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def test_a_run_is_mirrored_offline_and_whole(tmp_path):
    assert not has_key()
    outcome = run(config(tmp_path, "logger=[csv,wandb]", "logger.wandb.tags=[trial]"), group="a-sweep")
    (path,) = offline(tmp_path)
    found = records(path)
    started = next(r.run for r in found if r.HasField("run"))
    assert started.run_group == "a-sweep" and started.run_id == f"{outcome.run_id}-1"
    assert set(started.tags) == {"default", "digits", "pixels", "trial"}
    settings = items(started.config.update)
    assert settings["gamma"] == 1.0 and settings["k_cand"] == 30 and settings["encoder"] == "pixels"
    assert settings["settings"]["trials"] == 2

    history = [items(r.history.item) for r in found if r.HasField("history")]
    logged = {
        (h["level"], h["trial"], method): h[f"loo/{method}"]
        for h in history
        for method in ("knn", "nnk_sigma")
        if f"loo/{method}" in h
    }
    table = outcome.table
    expected = {(r.level, r.trial, r.method): r.value for r in table.itertuples()}
    assert logged == pytest.approx(expected) and len(logged) == 8

    summary = {}
    for record in found:
        if record.HasField("summary"):
            summary |= items(record.summary.update)
    means = table.groupby("method")["value"].mean()
    assert summary["pixels/loo/nnk_sigma"] == pytest.approx(means["nnk_sigma"])
    assert any(h.get("results/_type") == "table-file" for h in history)
    assert any(h.get("figures/loo/_type") == "image-file" for h in history)
    artifacts = [r.artifact for r in found if r.HasField("artifact")]
    assert any(a.name == f"results-{outcome.run_id}" for a in artifacts)
    assert [r.exit.exit_code for r in found if r.HasField("exit")] == [0]

    mirror = pd.read_csv(outcome.path / "results.csv")
    assert len(mirror) == len(table) and "right" not in mirror
    assert mirror["value"].tolist() == pytest.approx(table["value"].tolist())


def test_a_failed_run_is_closed_with_an_error_and_the_next_attempt_is_another_run(tmp_path, monkeypatch):
    import asbc.evaluate.tasks as tasks

    whole, calls = tasks.loo_predict, []

    def fail_late(*args):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError("no room")
        return whole(*args)

    monkeypatch.setattr(tasks, "loo_predict", fail_late)
    with pytest.raises(MemoryError):
        run(config(tmp_path, "logger=wandb"))
    outcome = run(config(tmp_path, "logger=wandb"))
    files = {}
    for path in offline(tmp_path):
        found = records(path)
        ids = {r.run.run_id for r in found if r.HasField("run")}
        assert len(ids) == 1
        rows = sum("loo/knn" in items(r.history.item) for r in found if r.HasField("history"))
        files[ids.pop()] = ([r.exit.exit_code for r in found if r.HasField("exit")], rows)
    # The second has all four units, the one that was already on disk too.
    assert files == {f"{outcome.run_id}-1": ([1], 1), f"{outcome.run_id}-2": ([0], 4)}


def test_a_sweep_is_one_group_of_separate_runs(tmp_path, monkeypatch):
    arguments = ["asbc", "-m", "bandwidth.gamma=0.5,1", "logger=wandb", f"out={tmp_path}", *TINY]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    starts = [next(r.run for r in records(path) if r.HasField("run")) for path in offline(tmp_path)]
    assert len({s.run_id for s in starts}) == 2
    assert {s.run_group for s in starts} == {next((tmp_path / "sweeps").iterdir()).name}


def test_a_key_is_found_where_login_leaves_it(tmp_path, monkeypatch):
    file = tmp_path / "home" / "netrc"
    file.write_text("machine elsewhere login user password nothing\n")
    assert not has_key()
    file.write_text("machine api.wandb.ai login user password nothing\n")
    assert has_key()
    file.write_text("machine")
    assert not has_key()
    monkeypatch.setenv("WANDB_API_KEY", "nothing")
    assert has_key()


def test_options_and_figure():
    with pytest.raises(ValueError, match="online, offline or null; got 'sometimes'"):
        WandbLogger(mode="sometimes")
    table = pd.DataFrame(
        {"metric": "loo", "method": ["a", "a", "b", "b"], "level": [5, 10, 5, 10], "value": [0.1, 0.2, 0.3, 0.4]}
    )
    (axes,) = level_curves(table, "loo").axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
