import json
import signal
import sys
import time

import pandas as pd
import pytest

from asbc.configs import conf_dir
from asbc.runs import command as cli
from asbc.runs.results import collect
from tests.commands import Process, run
from tests.runs.test_experiment import bare

EXPERIMENTS = sorted(p.stem for p in (conf_dir() / "experiment").glob("*.yaml") if p.stem != "paper")
TINY = ["embedding=digits", "samples_per_class=[4]", "trials=1", "logger=none", "progress=false"]


def asbc(monkeypatch, *arguments):
    """The command in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["asbc", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_tiny_sweep_of_every_experiment(name, tmp_path, monkeypatch, capsys):
    small = {"lp": ["evaluate.lp.labels=[1,2]"], "regimes": ["evaluate.regimes.n_scales=3"]}
    small["ablation"] = small["selectors"] = small["lp"]
    small["regret"] = ["evaluate.regret.scales=[0.5,1.0]"]
    small["k_cand"] = ["k_cand=15,30"]
    small["choosing"] = ["evaluate.lp.labels=[1,2]"]
    small["noise"] = ["samples_per_class=[6]", "evaluate.noise.rivals=[]"]
    assert asbc(monkeypatch, f"experiment={name}", f"out={tmp_path}", *TINY, *small.get(name, [])) == 0
    table = collect(tmp_path, finished_only=True)
    assert (table["experiment"] == name).all() and table["value"].notna().mean() > 0.9
    swept = {
        "gamma": ("bandwidth.gamma", [0.5, 0.75, 1, 1.25, 1.5, 2]),
        "k_cand": ("k_cand", [15, 30]),
        "n_grid": ("bandwidth.n_grid", [6, 12, 24, 48]),
    }
    key, values = swept.get(name, ("trial", [0]))
    assert sorted(table[key].unique()) == values
    jobs = len(values)
    assert table["run_id"].nunique() == jobs
    shown = capsys.readouterr().out
    assert ("sweep 20" in shown) == (jobs > 1)


@pytest.mark.parametrize("sweep", ["bandwidth.gamma=0.5,2", "k_cand=15,60", "bandwidth.n_grid=6,48"])
def test_sweeps_work_as_written(sweep, tmp_path, monkeypatch):
    small = [
        "embedding=digits",
        "samples_per_class=[7]",
        "trials=1",
        "method=[nnk_sigma]",
        "progress=false",
        f"out={tmp_path}",
    ]
    assert asbc(monkeypatch, "-m", sweep, *small) == 0
    key, _, values = sweep.partition("=")
    assert sorted(collect(tmp_path)[key].unique()) == sorted(float(v) for v in values.split(","))


def test_any_launcher_and_number_of_workers_gives_the_same_table(tmp_path, monkeypatch):
    arguments = [
        "-m",
        "embedding=digits",
        "bandwidth.gamma=0.5,2",
        "samples_per_class=[4,6]",
        "trials=1",
        "logger=none",
    ]
    arguments += ["evaluate=[loo,lp]", "evaluate.lp.labels=[1]", "progress=false"]
    launchers = {
        "basic": [],
        "one": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=1"],
        "two": ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
    }
    tables = {}
    for name, launcher in launchers.items():
        assert asbc(monkeypatch, *arguments, *launcher, f"out={tmp_path / name}") == 0
        tables[name] = bare(collect(tmp_path / name))
    pd.testing.assert_frame_equal(tables["basic"], tables["one"])
    pd.testing.assert_frame_equal(tables["basic"], tables["two"])


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_failing_job_stops_no_other_and_is_listed(launcher, tmp_path, monkeypatch, capsys):
    arguments = ["-m", "k_cand=3000,15,12", f"hydra/launcher={launcher}", f"out={tmp_path}", *TINY]
    assert asbc(monkeypatch, *arguments) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 of 3 failed" in shown and "The same command tries these again" in shown
    assert sorted(collect(tmp_path)["k_cand"].unique()) == [12, 15]
    states = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/status.json")]
    (failed,) = [s for s in states if s["state"] == "failed"]
    assert "k_cand=3000" in failed["traceback"]
    # Started again, only the failed job is tried.
    assert asbc(monkeypatch, *arguments) == 1
    notes = [json.loads(p.read_text())["state"] for p in tmp_path.glob("sweeps/*/*/job.json")]
    assert sorted(notes) == ["failed", "failed", "finished", "finished", "skipped", "skipped"]


def test_a_single_failure_is_told_in_one_line(tmp_path, monkeypatch, capfd):
    assert asbc(monkeypatch, "embedding=files", "embedding.path=nowhere.npy", f"out={tmp_path}", *TINY[1:]) == 1
    shown = capfd.readouterr()
    text = shown.out + shown.err
    assert "nowhere.npy: no such file" in text and "Traceback" not in text


def test_experiments_in_a_row_are_commands_of_their_own():
    assert cli.stages(["experiment=loo", "seed=1"]) == [["experiment=loo", "seed=1"]]
    assert cli.stages(["-m", "experiment=loo,gamma"]) == [["-m", "experiment=loo"], ["-m", "experiment=gamma"]]
    paper = cli.stages(["experiment=paper", "seed=1"])
    ours = {"choosing", "noise"}
    assert sorted(command[0] for command in paper) == [f"experiment={name}" for name in EXPERIMENTS if name not in ours]
    assert all(command[1] == "seed=1" for command in paper)
    assert cli.stages(["seed=1"]) == [["seed=1"]]


def test_a_sweep_over_a_group_takes_settings_of_its_leaves():
    swept = ["-m", "experiment=loo", "embedding=simclr,byol", "embedding.source=lightly", "k_cand=20"]
    there = cli.settings_of_swept_groups(swept)
    assert there == ["-m", "experiment=loo", "embedding=simclr,byol", "++embedding.source=lightly", "k_cand=20"]
    alone = ["embedding=simclr", "embedding.source=lightly"]
    assert cli.settings_of_swept_groups(["-m", *alone]) == ["-m", *alone]
    assert cli.settings_of_swept_groups(["embedding=simclr,byol", *alone[1:]]) == ["embedding=simclr,byol", *alone[1:]]
    with pytest.raises(ValueError, match=r"embedding=byol has no setting embedding\.sorce; did you mean .*\.source\?"):
        cli.settings_of_swept_groups(["-m", "embedding=byol,clinc100", "embedding.sorce=lightly"])
    with pytest.raises(ValueError, match=r"embedding=clinc100 has no setting embedding\.source"):
        cli.settings_of_swept_groups(["-m", "embedding=byol,clinc100", "embedding.source=lightly"])


def test_several_experiments_run_and_one_failure_is_remembered(tmp_path):
    # Only the second has what is taken away.
    done = run("asbc.runs.command", ["experiment=loo,selectors", "~evaluate.lp", f"out={tmp_path}", *TINY])
    assert done.returncode == 1
    assert "evaluate.lp" in done.stdout + done.stderr
    assert collect(tmp_path)["experiment"].unique().tolist() == ["selectors"]


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    process = Process("asbc.runs.command", [*TINY[:2], "trials=2000", f"out={tmp_path}"])
    while not list(tmp_path.glob("runs/*/parts/*.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "the same command goes on from there" in err and "Traceback" not in out + err
    (status,) = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/status.json")]
    assert status["state"] == "interrupted"
    assert len(collect(tmp_path)) >= 6


def test_unknown_names_in_lists_are_told_with_those_there_are(tmp_path, monkeypatch, capsys):
    assert asbc(monkeypatch, "method=[knn,foo]", f"out={tmp_path}") == 1
    shown = capsys.readouterr().err
    assert "there is no method 'foo'" in shown and "knn_sigma, " in shown and "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []
    assert "no evaluate 'foo'; did you mean loo? There are alignment, " in cli.unknown_leaves(["evaluate=[foo]"])
    assert "there are csv, none, wandb" in cli.unknown_leaves(["-m", "logger=[csv],[foo]"])
    for good in ("method=[knn,nnk_sigma]", "logger=[]", "samples_per_class=[4,6]", "evaluate=['loo']", "k_cand=15,30"):
        assert cli.unknown_leaves([good]) is None
    for good in ("experiment=loo,lp", "embedding=glob(*)", "hydra/launcher=joblib", "experiment=null", "seed=foo"):
        assert cli.unknown_leaves([good]) is None
    assert "there is no experiment 'lop'; did you mean lp? There are ablation" in cli.unknown_leaves(["experiment=lop"])
    assert "no embedding 'byo'; did you mean byol?" in cli.unknown_leaves(["-m", "embedding=simclr,byo"])
    (tmp_path / "method").mkdir()
    (tmp_path / "method" / "foo.yaml").write_text("")
    for flags in (["--config-dir", str(tmp_path)], [f"--config-dir={tmp_path}"], ["-cd", str(tmp_path)]):
        assert cli.unknown_leaves([*flags, "method=[knn,foo]"]) is None
        assert "'bar'" in cli.unknown_leaves([*flags, "method=[bar]"])
