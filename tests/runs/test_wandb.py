"""W&B: runs read back from the files that offline mode writes, `asbc-upload`, and the workspace."""

import shutil
import sys
from pathlib import Path

import pandas as pd
import pytest

from asbc.runs import command as cli
from asbc.runs import wandb as module
from asbc.runs.record import find_record
from asbc.runs.run import run
from asbc.runs.wandb import WandbLogger, has_key, level_curves, workspace
from tests.runs.offline import TINY, config, items, offline, records

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def test_a_run_is_mirrored_offline_and_whole(tmp_path):
    assert not has_key()
    outcome = run(
        config(tmp_path, "logger=[csv,wandb]", "logger.wandb.tags=[trial]", "name=loo", "tags=[mine]"), group="a-sweep"
    )
    (path,) = offline(tmp_path)
    found = records(path)
    started = next(r.run for r in found if r.HasField("run"))
    assert started.run_group == "a-sweep" and started.run_id == f"{outcome.run_id}-1"
    assert set(started.tags) == {"loo", "digits", "pixels", "trial", "mine"}
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
    last = table[(table["metric"] == "loo") & (table["samples"] == 6)].groupby("method")["value"].mean()
    assert summary["loo/nnk_sigma"] == pytest.approx(last["nnk_sigma"])
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
    (axes,) = level_curves(table, "loo", find_record("loo")).axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


def upload(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["asbc-upload", *map(str, arguments)])
    try:
        module.main()
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
    assert "2 run(s) written, not sent, 0 already there" in said
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
    assert "0 run(s) written, not sent, 2 already there" in capsys.readouterr().out
    assert len(offline(tmp_path)) == 2
    # Where the files are gone, they are written again.
    for path in offline(tmp_path):
        shutil.rmtree(path.parent)
    assert upload(monkeypatch, tmp_path / "out", "--offline") == 0
    assert "1 run(s) written, not sent, 1 already there" in capsys.readouterr().out
    assert upload(monkeypatch, tmp_path / "nowhere", "--offline") == 1
    assert "no such folder" in capsys.readouterr().err


def test_what_cannot_be_sent_is_told_in_one_line(tmp_path, monkeypatch, capsys):
    import wandb

    assert upload(monkeypatch, tmp_path, "--offline", "--dashboard", "--entity", "me") == 2
    assert capsys.readouterr().err.count("\n") == 1

    def unreachable(folder, logger):
        raise wandb.errors.CommError("failed to connect:\nno route to host")

    monkeypatch.setattr(module, "check_connection", lambda: None)
    monkeypatch.setattr(module, "upload_runs", unreachable)
    monkeypatch.setattr(module, "has_key", lambda: True)
    assert upload(monkeypatch, tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "W&B did not answer (failed to connect: no route to host)" in said


def test_no_network_is_told_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    assert upload(monkeypatch, tmp_path) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "W&B did not answer (http://127.0.0.1:9: " in said


def test_the_dashboard_has_a_section_for_each_experiment(tmp_path):
    pytest.importorskip("wandb_workspaces")
    for gamma in (0.5, 1):
        run(config(tmp_path, "logger=none", "name=gamma", f"gamma={gamma}", "evaluate=[loo,health]"))
    run(config(tmp_path, "logger=none", "name=ablation"))
    found = {section.name: section.panels for section in workspace(tmp_path, "someone", "asbc").sections}
    assert set(found) == {"Gamma", "Ablation"}
    (bars,) = found["Ablation"]
    assert bars.title == "ablation: LOO" and [m.name for m in bars.metrics] == ["loo/knn", "loo/nnk_sigma"]
    titles = [panel.title for panel in found["Gamma"]]
    assert "rank_median/nnk_sigma against gamma" in titles
    curve = found["Gamma"][titles.index("loo/nnk_sigma against gamma")]
    assert curve.x.name == "gamma" and curve.y.name == "loo/nnk_sigma"
