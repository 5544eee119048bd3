import json
import math
import os
import re
import signal
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from asbc.configs import conf_dir
from asbc.embeddings import Digits
from asbc.runs import command as cli
from asbc.runs.results import collect, open_run, read_status
from tests import commands
from tests.commands import Process
from tests.runs.test_run import bare

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


def test_the_paper_is_a_list_of_commands():
    assert cli.stages(["experiment=loo", "seed=1"]) == [["experiment=loo", "seed=1"]]
    assert cli.stages(["-m", "experiment=loo,gamma"]) == [["-m", "experiment=loo,gamma"]]
    paper = cli.stages(["experiment=paper", "seed=1"])
    ours = {"choosing", "noise"}
    assert sorted(command[0] for command in paper) == [f"experiment={name}" for name in EXPERIMENTS if name not in ours]
    assert all(command[1] == "seed=1" for command in paper)
    assert cli.stages(["seed=1"]) == [["seed=1"]]


def test_a_sweep_over_experiments_and_those_that_have_their_own(tmp_path, monkeypatch, capsys):
    small = ["++evaluate.lp.labels=[1,2]"]
    assert asbc(monkeypatch, "-m", "experiment=lp,ablation", f"out={tmp_path / 'both'}", *TINY, *small) == 0
    assert set(collect(tmp_path / "both")["experiment"]) == {"lp", "ablation"}
    assert asbc(monkeypatch, "-m", "experiment=loo,gamma", f"out={tmp_path / 'own'}", *TINY) == 1
    assert "experiment=gamma has its own sweep, gamma=0.5,0.75,1,1.25,1.5,2" in capsys.readouterr().out
    assert set(collect(tmp_path / "own")["experiment"]) == {"loo"}
    words = ["-m", "experiment=loo,gamma", "gamma=0.5,2", f"out={tmp_path / 'own'}", *TINY]
    assert asbc(monkeypatch, *words) == 0
    table = collect(tmp_path / "own")
    assert set(table[table["experiment"] == "gamma"]["bandwidth.gamma"]) == {0.5, 2.0}


def test_several_stages_run_and_one_failure_is_remembered(tmp_path, monkeypatch):
    # Only the second has what is taken away.
    monkeypatch.setattr(cli, "stages", lambda words: [[f"experiment={n}", *words] for n in ("loo", "selectors")])
    assert asbc(monkeypatch, "~evaluate.lp", f"out={tmp_path}", *TINY) == 1
    assert collect(tmp_path)["experiment"].unique().tolist() == ["selectors"]


@pytest.mark.parametrize("key", ["gamma=0.5", "bandwidth.gamma=0.5", "n_grid=24"])
def test_settings_of_the_bandwidth_have_short_names(key, tmp_path, monkeypatch, capsys):
    assert asbc(monkeypatch, key, "method=[nnk_sigma]", f"out={tmp_path}", *TINY) == 0
    name, _, value = key.removeprefix("bandwidth.").partition("=")
    assert collect(tmp_path)[f"bandwidth.{name}"].unique().tolist() == [float(value)]
    (folder,) = tmp_path.glob("runs/*/")
    assert f"resolved config: {folder / 'config.yaml'}" in " ".join(capsys.readouterr().out.split())


def test_settings_of_an_experiment_have_short_names(tmp_path, monkeypatch):
    labels = Digits().load().labels
    np.save(tmp_path / "people.npy", np.where(np.arange(len(labels)) % 9 == 0, (labels + 1) % 10, labels))
    words = ["experiment=noise", "method=[knn]", "evaluate.noise.kinds=[]", "evaluate.noise.rivals=[]"]
    assert (
        asbc(
            monkeypatch,
            *words,
            f"noisy_labels={tmp_path / 'people.npy'}",
            f"out={tmp_path}",
            *TINY,
            "samples_per_class=[6]",
        )
        == 0
    )
    assert collect(tmp_path)["metric"].unique().tolist() == ["noise_human"]


def test_both_names_of_a_setting_are_one_run(tmp_path, monkeypatch):
    for key in ("gamma=0.5", "bandwidth.gamma=0.5"):
        assert asbc(monkeypatch, key, "method=[nnk_sigma]", f"out={tmp_path}", *TINY) == 0
    assert collect(tmp_path)["run_id"].nunique() == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["+gamm=0.5"], "there is no setting gamm; did you mean gamma?"),
        (["++foo.bar=0.5"], "there is no setting foo.bar"),
        (["+graph.foo=1"], "graph has no setting foo"),
        (["gamma=0.5", "bandwidth=perplexity"], "bandwidth=perplexity has no gamma"),
        (["gamma=0.5", "bandwidth.gamma=1"], "gamma and bandwidth.gamma are the same setting"),
    ],
)
def test_what_would_be_ignored_is_refused(words, why, tmp_path, monkeypatch, capfd):
    assert asbc(monkeypatch, *words, f"out={tmp_path}", *TINY) == 1
    assert why in "".join(capfd.readouterr())
    assert not list(tmp_path.glob("runs/*/"))


def test_a_job_returns_the_optimized_metric(tmp_path):
    value = {}
    for name, key in (("known", "loo/knn"), ("unknown", "loo/foo"), ("none", "null")):
        words = ["method=[knn]", f"optimized_metric={key}", f"out={tmp_path}", *TINY]
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            cfg = compose("config", overrides=words, return_hydra_config=True)
        cfg.hydra.runtime.output_dir = str(tmp_path / name)
        cfg.hydra.mode = "RUN"
        HydraConfig.instance().set_config(cfg)
        value[name] = cli.job(OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"]))
    table = collect(tmp_path)
    assert value["known"] == pytest.approx(table[table["metric"] == "loo"]["value"].mean())
    assert math.isnan(value["unknown"]) and value["none"] is None
    note = json.loads((tmp_path / "unknown" / "job.json").read_text())
    assert "optimized_metric=loo/foo was not measured; there are: loo/knn" in note["error"]


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path):
    process = Process("asbc.runs.command", [*TINY[:2], "trials=2000", f"out={tmp_path}"])
    while len(list(tmp_path.glob("runs/*/parts/*.parquet"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert "the same command resumes" in err and "Traceback" not in out + err
    (status,) = [json.loads(p.read_text()) for p in tmp_path.glob("runs/*/status.json")]
    assert status["state"] == "interrupted"
    assert len(collect(tmp_path)) >= 6


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["method=[knn,foo]"], "there is no method 'foo'. Available: blend, "),
        (["method=[knn,nnk_sigm]"], "there is no method 'nnk_sigm'; did you mean nnk_sigma?"),
        (["experiment=lop"], "there is no experiment 'lop'; did you mean lp? Available: ablation"),
        (["-m", "embedding=simclr,byo"], "there is no embedding 'byo'; did you mean byol?"),
        (["bandwidth.gama=1"], "there is no setting bandwidth.gama; did you mean bandwidth.gamma?"),
        (["bandwith.gamma=1"], "there is no setting bandwith.gamma; did you mean bandwidth.gamma?"),
        (["+gamma=0.5"], "gamma is a setting already; type it without the +"),
    ],
)
def test_unknown_names_get_the_closest_one(words, why, tmp_path, monkeypatch, capsys):
    assert asbc(monkeypatch, *words, f"out={tmp_path}") == 1
    shown = capsys.readouterr().err
    assert why in shown and "Traceback" not in shown and shown.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_options_of_another_folder_are_found(tmp_path, monkeypatch, capsys):
    (tmp_path / "method").mkdir()
    (tmp_path / "method" / "mine.yaml").write_text(
        "# @package methods.mine\n_target_: asbc.evaluate.Method\nweights: uniform\n"
    )
    assert asbc(monkeypatch, "--config-dir", str(tmp_path), "method=[mine]", f"out={tmp_path / 'out'}", *TINY) == 0
    assert set(collect(tmp_path / "out")["method"]) == {"mine"}
    for words in ("method=[knn,mien]", "+method=mien"):
        capsys.readouterr()
        assert asbc(monkeypatch, "--config-dir", str(tmp_path), words) == 1
        assert "there is no method 'mien'; did you mean mine?" in capsys.readouterr().err


def test_a_module_that_is_not_found_is_named_with_what_to_do(tmp_path, monkeypatch, capsys):
    (tmp_path / "method").mkdir()
    (tmp_path / "method" / "mine.yaml").write_text(
        "# @package methods.mine\n_target_: asbc.evaluate.Method\nweights: {_target_: no_such_module.Mine}\n"
    )
    assert asbc(monkeypatch, "--config-dir", str(tmp_path), "method=[mine]", f"out={tmp_path / 'out'}", *TINY) == 1
    (note,) = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("job.json")]
    assert "methods.mine: there is no module no_such_module; --config-dir" in note["error"]
    assert note["flags"][0] == "--config-dir"


def test_a_sweep_finds_modules_of_the_config_folder_in_its_workers(tmp_path):
    (tmp_path / "method").mkdir()
    (tmp_path / "my_even.py").write_text(
        "import asbc, numpy as np\n\n\nclass Even(asbc.Weights):\n"
        "    def rows(self, block):\n        return np.ones_like(block.neighbors.distances)\n"
    )
    (tmp_path / "method" / "mine.yaml").write_text(
        "# @package methods.mine\n_target_: asbc.evaluate.Method\ntitle: Even\nweights: {_target_: my_even.Even}\n"
    )
    words = ["-m", "--config-dir", ".", "hydra/launcher=joblib", "method=[mine]", "k_cand=10,12", *TINY]
    done = commands.run("asbc.runs.command", words, cwd=tmp_path, env={**os.environ, "PYTHONSAFEPATH": "1"})
    assert done.returncode == 0, done.stderr
    assert set(collect(tmp_path / "outputs")["k_cand"]) == {10, 12}


def test_the_title_of_a_method_does_not_change_its_run(tmp_path, monkeypatch):
    words = ["method=[knn]", f"out={tmp_path}", *TINY]
    assert asbc(monkeypatch, *words) == 0
    assert asbc(monkeypatch, *words, "++methods.knn.title=Plain", "++methods.knn.color='#123456'") == 0
    (folder,) = tmp_path.glob("runs/*/")
    record = open_run(folder).record
    assert (record.titles, record.colors) == ({"knn": "Plain"}, {"knn": "#123456"})


def test_debug_is_one_trial_on_the_digits(tmp_path, monkeypatch):
    assert asbc(monkeypatch, "experiment=loo", "debug=default", "method=[knn]", f"out={tmp_path}", "tags=[first]") == 0
    table = collect(tmp_path)
    assert set(table["dataset"]) == {"digits"} and set(table["trial"]) == {0} and set(table["samples"]) == {10}
    (folder,) = tmp_path.glob("runs/*/")
    assert read_status(folder)["tags"] == ["first"]


def test_the_docs_name_every_column(tmp_path, monkeypatch):
    text = (conf_dir().parent / "docs" / "results.md").read_text()
    named = {name for line in text.splitlines() if line.startswith("| `") for name in re.findall(r"`([\w.*]+)`", line)}
    words = ["method=[nnk_sigma]", "evaluate=[loo,lp,alignment,regimes,regret]"]
    small = ["evaluate.lp.labels=[1]", "evaluate.regimes.n_scales=3", "evaluate.regret.scales=[1.0]"]
    assert asbc(monkeypatch, *words, *small, f"out={tmp_path}", *TINY) == 0
    assert asbc(monkeypatch, "method=[solo_learn]", f"out={tmp_path}", *TINY) == 0
    columns = set(collect(tmp_path, per_node=True))
    tasks = ("loo.", "lp.", "alignment.", "regimes.", "regret.")
    unnamed = [c for c in columns if not c.startswith(tasks) and not {c, c.partition(".")[0] + ".*"} & named]
    assert len(columns) > 40 and not unnamed
