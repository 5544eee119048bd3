"""W&B: runs read back from the files that offline mode writes, `asbc-upload`, workspaces, and an online run."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from asbc.report.figures import LOOKS
from asbc.runs import command as cli
from asbc.runs import wandb as module
from asbc.runs.command import show_run
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.results import StoredRun, flat_settings
from asbc.runs.run import run
from asbc.runs.wandb import WandbLogger, has_key, history, run_name
from tests.runs.offline import TINY, config, items, offline, records
from tests.runs.server import running

pytest.importorskip("wandb")
pytestmark = pytest.mark.usefixtures("no_account")


def test_a_run_is_mirrored_offline_and_whole(tmp_path, capsys):
    assert not has_key()
    cfg = config(tmp_path, "logger=[csv,wandb]", "logger.wandb.tags=[trial]", "name=loo", "tags=[mine]", "gamma=0.5")
    outcome = run(cfg, group="a-sweep", overrides=["experiment=loo", "gamma=0.5", "tags=[mine]"])
    (path,) = offline(tmp_path)
    found = records(path)
    started = next(r.run for r in found if r.HasField("run"))
    assert started.run_group == "a-sweep" and started.run_id == f"{outcome.run_id}-1" and started.job_type == "loo"
    assert started.display_name == "loo pixels gamma=0.5"
    assert set(started.tags) == {"loo", "digits", "pixels", "trial", "mine"}
    settings = items(started.config.update)
    typed = {
        "experiment": "loo", "dataset": "digits", "encoder": "pixels", "method": ["knn", "nnk_sigma"],
        "gamma": 0.5, "k_cand": 30, "n_grid": 12, "samples_per_class": [4, 6], "trials": 2, "seed": 0,
    }  # fmt: skip
    assert {key: settings[key] for key in typed} == typed
    nested = flat_settings(settings)
    assert nested["bandwidth.gamma"] == 0.5 and nested["methods.nnk_sigma.bandwidth.n_grid"] == 12

    table = outcome.table
    rows = [items(r.history.item) for r in found if r.HasField("history")]
    levels = [row for row in rows if "samples_per_class" in row]
    assert [row["samples_per_class"] for row in levels] == [4, 6]
    for row in levels:
        for method in ("knn", "nnk_sigma"):
            own = table[(table["metric"] == "loo") & (table["method"] == method)]
            values = own.loc[own["level"] == row["samples_per_class"], "value"]
            assert row[f"loo/{method}"] == pytest.approx(values.mean())
            # Of two trials, a draw has both, or one of them twice.
            assert row[f"loo/{method}/low"] == pytest.approx(values.min())
            assert row[f"loo/{method}/high"] == pytest.approx(values.max())

    summary = {}
    for record in found:
        if record.HasField("summary"):
            summary |= items(record.summary.update)
    capsys.readouterr()
    show_run(table, outcome.record, outcome.path)
    printed = capsys.readouterr().out
    for method in ("knn", "nnk_sigma"):
        (line,) = [line for line in printed.splitlines() if line.startswith(f"{method} ")]
        assert f"{summary[f'loo/{method}']:.4f}" in line
    assert summary["loo/nnk_sigma/high"] == levels[-1]["loo/nnk_sigma/high"]

    (results,) = [row for row in rows if row.get("results/_type") == "table-file"]
    stored = json.loads((path.parent / "files" / results["results/path"]).read_text())
    assert len(stored["data"]) == len(table) and {"method", "value", "k_cand"} <= set(stored["columns"])
    artifacts = [r.artifact for r in found if r.HasField("artifact")]
    assert any(a.name == f"results-{outcome.run_id}" for a in artifacts)
    assert [r.exit.exit_code for r in found if r.HasField("exit")] == [0]

    mirror = pd.read_csv(outcome.path / "results.csv")
    assert len(mirror) == len(table) and "right" not in mirror
    assert mirror["value"].tolist() == pytest.approx(table["value"].tolist())

    # The same command again sends nothing.
    assert run(config(tmp_path, "logger=wandb", "name=loo", "gamma=0.5")).skipped
    assert offline(tmp_path) == [path]


def test_a_finished_run_is_sent_under_the_group_and_tags_of_the_command_that_sends_it(tmp_path):
    assert run(config(tmp_path, "tags=[first]"), group="first").skipped is False
    outcome = run(config(tmp_path, "tags=[second]", "logger=wandb"), group="second")
    (path,) = offline(tmp_path)
    started = next(r.run for r in records(path) if r.HasField("run"))
    assert outcome.skipped and started.run_group == "second" and "second" in started.tags
    # A kill while W&B writes leaves a folder with a part of its files, which does not count.
    killed = path.parent.rename(path.parent.with_name(f"offline-run-20200101_000000-{outcome.run_id}-1"))
    (killed / module.COMPLETE).unlink()
    run(config(tmp_path, "logger=wandb"))
    assert len(offline(tmp_path)) == 2
    run(config(tmp_path, "logger=wandb"))
    assert len(offline(tmp_path)) == 2


def test_history_has_a_row_per_level_of_each_axis():
    shared = {"experiment": "ablation", "method": "knn", "trial": 0, "nodes": 40, "classes": 4, "total_nodes": 99}
    rows = [
        {**shared, "samples": 5, "metric": "loo", "level": 5, "value": 0.5},
        {**shared, "samples": 0, "metric": "loo", "level": 0, "value": 0.75},  # all nodes
        {**shared, "samples": 5, "metric": "lp", "level": 1, "value": 0.1},
        {**shared, "samples": 0, "metric": "lp", "level": 1, "value": 0.25},
        {**shared, "samples": 0, "metric": "lp", "level": 3, "value": 0.5},
        {**shared, "samples": 0, "metric": "rank_median", "level": 0, "value": 2.0, "scale": 0.5},
        {**shared, "samples": 0, "metric": "slope", "level": 0, "value": 1.0, "target": "mst", "estimator": "two_nn"},
        {**shared, "samples": 0, "metric": "loo", "level": 0, "value": 0.9, "method": "tuned_gaussian"},
    ]
    record = EXPERIMENTS["ablation"]
    assert history(pd.DataFrame(rows), record) == [
        {"labels_per_class": 1, "lp/knn": 0.25},
        {"labels_per_class": 3, "lp/knn": 0.5},
        {"samples_per_class": 5, "loo/knn": 0.5},
        {"samples_per_class": 10, "loo/knn": 0.75, "slope/knn/mst/two_nn": 1.0},
        {"scale": 0.5, "rank_median/knn": 2.0},
    ]
    seeds = pd.DataFrame([{**rows[0], "trial": trial, "value": 0.5 + trial} for trial in (0, 1)])
    assert set(history(seeds, record)[0]) == {"samples_per_class", "loo/knn", "loo/knn/low", "loo/knn/high"}
    whole = seeds.assign(nodes=99, samples=0, level=0)  # of 99 in 4 classes; trials are only seeds
    first, second = history(pd.concat([seeds, whole]), record)
    assert "loo/knn/low" in first and second == {"samples_per_class": 24, "loo/knn": 1.0}
    revealed = whole.assign(metric="lp", level=1)  # they differ in the labels that are shown
    assert set(history(revealed, record)[0]) == {"labels_per_class", "lp/knn", "lp/knn/low", "lp/knn/high"}


def test_names_of_runs_have_what_was_typed(tmp_path):
    def name(*typed, dataset="cifar100"):
        facts = {"experiment": "loo", "encoder": "simclr", "dataset": dataset, "overrides": list(typed)}
        return run_name(StoredRun(tmp_path, facts, {}, EXPERIMENTS["loo"]))

    assert name("experiment=loo", "embedding=simclr", "gamma=0.5", "k_cand=15") == "loo simclr gamma=0.5 k_cand=15"
    assert name("embedding.dataset=cifar10", "out=x", "hydra/launcher=joblib", dataset="cifar10") == (
        "loo simclr dataset=cifar10"
    )
    assert (
        name("embedding.path=a/b.npy", "+bandwidth.refine=true", dataset="b")
        == "loo simclr dataset=b bandwidth.refine=true"
    )
    assert name("logger=[csv,wandb]", "logger.wandb.project=x", "tags=[a]", "rerun=true") == "loo simclr"


def test_a_failed_run_is_not_sent_and_the_next_attempt_is(tmp_path, monkeypatch):
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
    assert not offline(tmp_path)
    outcome = run(config(tmp_path, "logger=wandb"))
    (path,) = offline(tmp_path)
    found = records(path)
    assert {r.run.run_id for r in found if r.HasField("run")} == {f"{outcome.run_id}-2"}
    # Means of both levels need the units of the first attempt too.
    assert sum("loo/knn" in items(r.history.item) for r in found if r.HasField("history")) == 2
    assert [r.exit.exit_code for r in found if r.HasField("exit")] == [0]


def test_a_sweep_is_one_group_of_separate_runs(tmp_path, monkeypatch):
    arguments = ["asbc", "-m", "bandwidth.gamma=0.5,1", "logger=wandb", f"out={tmp_path}", *TINY]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    starts = [next(r.run for r in records(path) if r.HasField("run")) for path in offline(tmp_path)]
    assert len({s.run_id for s in starts}) == 2
    assert {s.run_group for s in starts} == {next((tmp_path / "sweeps").iterdir()).name}
    # Names have what differs between the jobs; the group and the config have the rest.
    assert {s.display_name for s in starts} == {f"default pixels bandwidth.gamma={gamma}" for gamma in ("0.5", "1")}


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


def test_options():
    with pytest.raises(ValueError, match="online, offline or null; got 'sometimes'"):
        WandbLogger(mode="sometimes")


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
    assert sum("loo/knn" in items(r.history.item) for r in found if r.HasField("history")) == 4

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


@pytest.mark.parametrize("key", ["gamma", "k_cand", "n_grid", "encoder"])
def test_the_dashboard_of_a_sweep_shows_what_varies(tmp_path, key):
    pytest.importorskip("wandb_workspaces")
    from asbc.runs.wandb import dashboards, workspace

    values = {"gamma": (0.5, 1), "k_cand": (15, 30), "n_grid": (6, 12), "encoder": ("simclr", "byol")}[key]
    digits = load_digits()
    for number, value in enumerate(values):
        cfg = config(tmp_path, "logger=none", *([f"{key}={value}"] if key != "encoder" else []))
        if key == "encoder":
            path = tmp_path / f"{value}.npz"
            np.savez(path, vectors=digits.data + number, labels=digits.target)
            cfg.embedding = {"_target_": "asbc.embeddings.Files", "path": str(path), "encoder": value}
        run(cfg)
    (found,) = dashboards(tmp_path)
    panels = [panel for own in found.sections.values() for panel in own]
    assert len(panels) >= (4 if key != "encoder" else 3)
    assert list(found.sections) == ["Levels", key, "All runs"]
    lines = found.sections["Levels"][0]
    assert lines.x == "samples_per_class" and lines.y == ["loo/knn", "loo/nnk_sigma"]
    if key == "encoder":  # lines of single runs
        assert lines.groupby is None
        assert sorted(lines.line_titles.values()) == sorted(f"{m}, {e}" for m in ("kNN", "NNK-σ") for e in values)
        assert set(lines.line_colors.values()) == {LOOKS["knn"].color, LOOKS["nnk_sigma"].color}
    else:
        assert lines.title == f"LOO against samples per class, mean over {key}" and lines.groupby.name == "encoder"
    if key == "encoder":
        (bars,) = found.sections[key]
        assert bars.groupby.name == "encoder" and [m.name for m in bars.metrics] == ["loo/knn", "loo/nnk_sigma"]
    else:
        assert [(panel.x.name, panel.y.name) for panel in found.sections[key]] == [
            (key, "loo/knn"),
            (key, "loo/nnk_sigma"),
        ]
    view = workspace(found, "someone", "asbc")
    assert view.runset_settings.filters == "Config(\"experiment\") == 'default'"
    assert view.runset_settings.pinned_columns[1:] == [
        f"config:{key}.value", "summary:loo/knn", "summary:loo/nnk_sigma",
    ]  # fmt: skip


def test_titles_and_colors_of_own_methods_reach_wandb(tmp_path):
    pytest.importorskip("wandb_workspaces")
    from asbc.runs.wandb import dashboards

    own = "{_target_: asbc.evaluate.Method, weights: uniform, title: 'Mine²', color: '#aa3377'}"
    outcome = run(config(tmp_path, "logger=wandb", f"+methods.mine={own}"))
    started = next(r.run for r in records(offline(tmp_path)[0]) if r.HasField("run"))
    settings = items(started.config.update)
    assert settings["titles"] == {"mine": "Mine²"} and settings["colors"] == {"mine": "#aa3377"}
    (found,) = dashboards(tmp_path)
    lines = found.sections["Levels"][0]
    names = {
        "knn": ("kNN", LOOKS["knn"].color),
        "nnk_sigma": ("NNK-σ", LOOKS["nnk_sigma"].color),
        "mine": ("Mine²", "#aa3377"),
    }
    assert lines.line_titles == {f"{outcome.run_id}-1:loo/{name}": title for name, (title, _) in names.items()}
    assert lines.line_colors == {f"{outcome.run_id}-1:loo/{name}": color for name, (_, color) in names.items()}
    assert lines.groupby is None and lines.title == "LOO against samples per class"
    run(config(tmp_path, "logger=none", f"+methods.mine={own}", "gamma=0.5"))
    (found,) = dashboards(tmp_path)
    assert "LOO against gamma, Mine²" in [panel.title for panel in found.sections["gamma"]]


def test_experiments_and_settings_have_separate_panels(tmp_path):
    pytest.importorskip("wandb_workspaces")
    from asbc.runs.wandb import dashboards

    for gamma in (0.5, 1):
        for k_cand in (15, 30):
            swept = [f"gamma={gamma}", f"k_cand={k_cand}", "samples_per_class=[6]"]
            run(config(tmp_path, "logger=none", "name=gamma", "evaluate=[loo,health]", *swept))
    run(config(tmp_path, "logger=none", "name=ablation", "samples_per_class=[6]"))
    found = {dashboard.record.name: dashboard.sections for dashboard in dashboards(tmp_path)}
    assert set(found) == {"gamma", "ablation"}
    assert set(found["gamma"]) == {"gamma", "k_cand", "All runs"}  # one level: nothing to draw against it
    titles = [panel.title for panel in found["gamma"]["gamma"]]
    assert {"LOO against gamma, kNN", "median r against gamma, NNK-σ"} <= set(titles)
    _, settings = found["gamma"]["All runs"]
    assert {column.metric.name for column in settings.columns} == {"gamma", "k_cand", "loo/nnk_sigma"}
    (bars,) = found["ablation"]["Levels"]
    assert bars.title == "LOO" and [m.name for m in bars.metrics] == ["loo/knn", "loo/nnk_sigma"]


def test_an_online_run_and_a_second_upload(tmp_path, monkeypatch, capsys):
    import wandb

    pytest.importorskip("wandb_workspaces")
    with running() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.address)
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        wandb.teardown()  # it reads its environment once per process
        try:
            online = ["logger=wandb", "logger.wandb.dashboard=true", f"out={tmp_path / 'out'}", "gamma=0.5", *TINY]
            monkeypatch.setattr(sys, "argv", ["asbc", *online])
            with pytest.raises(SystemExit) as stopped:
                cli.main()
            assert stopped.value.code == 0
            ((id, sent),) = server.runs.items()
            assert sent["displayName"].startswith("default pixels gamma=0.5 ") and sent["jobType"] == "default"
            assert sorted(sent["tags"]) == ["default", "digits", "pixels"]
            assert json.loads(sent["config"])["gamma"]["value"] == 0.5
            levels = [row for row in server.history[id] if "samples_per_class" in row]
            assert [row["samples_per_class"] for row in levels] == [4, 6]
            assert server.summary[id]["loo/nnk_sigma"] == pytest.approx(levels[-1]["loo/nnk_sigma"])
            assert server.summary[id]["loo/nnk_sigma/low"] == pytest.approx(levels[-1]["loo/nnk_sigma/low"])
            assert f"results-{id.removesuffix('-1')}" in server.artifacts
            (view,) = server.views.values()
            assert view["displayName"] == "asbc default" and view["projectName"] == "asbc"
            (file,) = (tmp_path / "out").rglob("uploaded.txt")
            capsys.readouterr()

            # A second upload sends what is new, updates the workspace, and adds the report.
            run(config(tmp_path / "out", "logger=none", "gamma=1"))
            assert upload(monkeypatch, tmp_path / "out", "--report") == 0
            said = capsys.readouterr().out
            assert "1 run(s) sent, 1 already there" in said and said.count(f"{server.address}/someone/asbc") == 2
            assert len(server.runs) == 2
            views = {view["type"]: json.loads(view["spec"]) for view in server.views.values()}
            assert set(views) == {"project-view", "runs"}
            spec = views["project-view"]["section"]
            panels = [panel for own in spec["panelBankConfig"]["sections"] for panel in own["panels"]]
            drawn = [(panel["viewType"], panel["config"].get("chartTitle")) for panel in panels]
            assert drawn == [
                ("Run History Line Plot", "LOO against samples per class, mean over gamma"),
                ("Scatter Plot", "LOO against gamma, kNN"),
                ("Scatter Plot", "LOO against gamma, NNK-σ"),
                ("Run Comparer", None),
            ]
            assert panels[0]["config"]["metrics"] == ["loo/knn", "loo/nnk_sigma"]
            assert panels[2]["config"]["xAxis"] == "config:gamma.value"
            assert panels[2]["config"]["yAxis"] == "summary:loo/nnk_sigma"
            # Every panel shows the runs of this filter, and the names are those that the runs sent.
            (only,) = spec["runSets"][0]["filters"]["filters"]
            assert only["key"] == {"section": "config", "name": "experiment"} and only["value"] == "default"
            for each in server.runs.values():
                assert {"gamma", "experiment"} <= set(json.loads(each["config"]))
            assert all("loo/nnk_sigma" in sent for sent in server.summary.values())

            # If the note of the first upload is lost, W&B refuses a second copy.
            before = len(server.history[id])
            file.unlink()
            assert upload(monkeypatch, tmp_path / "out") == 0
            assert "0 run(s) sent, 2 already there" in capsys.readouterr().out
            assert len(server.history[id]) == before
        finally:
            wandb.teardown()
