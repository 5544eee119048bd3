"""W&B's mirror, read back from the files that offline mode writes."""

import json
import shutil
import struct
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir
from asbc.runs import command as cli
from asbc.runs import upload as upload_module
from asbc.runs.experiment import run
from asbc.runs.loggers import Mirror, Session
from asbc.runs.results import collect, read_status
from asbc.runs.wandb_logger import WandbLogger, has_key, level_curves

pytest.importorskip("wandb")
TINY = ["embedding=digits", "samples_per_class=[4,6]", "trials=2", "progress=false", "method=[knn,nnk_sigma]"]


@pytest.fixture(autouse=True)
def no_account(monkeypatch, tmp_path):
    """W&B as on a machine where nobody has logged in."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "home" / "netrc"))
    (tmp_path / "home").mkdir()


def config(out, *overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return compose("config", overrides=[*TINY, f"out={out}", *overrides])


def records(path):
    """All records of a .wandb file; W&B's own process may still be writing the last of them."""
    deadline = time.monotonic() + 30
    found = read_records(path)
    while not any(record.HasField("exit") for record in found) and time.monotonic() < deadline:
        time.sleep(0.1)
        found = read_records(path)
    return found


def read_records(path):
    """The records of a .wandb file so far: LevelDB's log format, 32 kB blocks after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2 as pb

    raw = Path(path).read_bytes()
    assert raw[:4] in (b"", b":W&B")
    position, pending, found = 7, b"", []
    while position + 7 <= len(raw):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack("<IHB", raw[position : position + 7])
        if position + 7 + length > len(raw):
            break
        pending += raw[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or last piece
            record = pb.Record()
            record.ParseFromString(pending)
            found.append(record)
            pending = b""
    return found


def offline(out):
    return sorted(Path(out).rglob("*.wandb"))


def items(list_of_items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in list_of_items}


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

    whole, calls = tasks.loo_hits, []

    def fail_late(*args):
        calls.append(1)
        if len(calls) == 4:
            raise MemoryError("no room")
        return whole(*args)

    monkeypatch.setattr(tasks, "loo_hits", fail_late)
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


def test_trouble_with_a_mirror_does_not_stop_the_run(tmp_path, caplog, monkeypatch):
    import wandb

    def refuse(**kwargs):
        raise wandb.errors.CommError("no network")

    monkeypatch.setattr(wandb, "init", refuse)
    outcome = run(config(tmp_path, "logger=[csv,wandb]"))
    assert read_status(outcome.path)["state"] == "finished"
    assert "WandbSession gave up" in caplog.text and "no network" in caplog.text
    assert (outcome.path / "results.csv").exists()


def test_a_mirror_that_breaks_midway_is_closed_once():
    class Fragile(Session):
        closed = 0

        def log(self, rows):
            raise OSError("disk full")

        def __exit__(self, *args):
            Fragile.closed += 1

    with Mirror(Fragile()) as mirror:
        mirror.log([])
        mirror.log([])
        mirror.conclude(None)
    assert Fragile.closed == 1


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


def test_the_dashboard_has_curves_an_encoder_and_the_ablation(tmp_path):
    pytest.importorskip("wandb_workspaces")
    from asbc.runs.dashboard import workspace

    for gamma in (0.5, 1):
        run(config(tmp_path, "logger=none", "name=gamma", f"bandwidth.gamma={gamma}", "evaluate=[loo,health]"))
    run(config(tmp_path, "logger=none", "name=ablation"))
    assert collect(tmp_path)["experiment"].nunique() == 2
    (section,) = workspace(tmp_path, "someone", "asbc").sections
    assert section.name == "pixels"
    titles = [panel.title for panel in section.panels]
    assert "loo of nnk_sigma against gamma" in titles and "rank_median of nnk_sigma against gamma" in titles
    bars = section.panels[titles.index("ablation: loo")]
    assert [metric.name for metric in bars.metrics] == ["pixels/loo/knn", "pixels/loo/nnk_sigma"]
    curve = section.panels[titles.index("loo of nnk_sigma against gamma")]
    assert curve.x.name == "gamma" and curve.y.name == "pixels/loo/nnk_sigma"
