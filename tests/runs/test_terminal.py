"""Runs that another version finished are named when they are skipped, and done again when that is asked for."""

import sys

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf

import asbc
from asbc.runs import command
from asbc.runs.command import SweepSummary, job_notes, show_run, show_sweep
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.record import Experiment
from asbc.runs.results import collect, headline, read_status, summary
from asbc.storage import write_json

TINY = ["samples_per_class=[4]", "trials=1", "method=[knn]", "logger=none", "progress=false"]


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["asbc", *arguments])
    with pytest.raises(SystemExit) as stopped:
        command.main()
    return stopped.value.code


def finished_by(folder, version):
    """As if another version had finished the run."""
    write_json(folder / "status.json", read_status(folder) | {"version": version})


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_a_run_of_another_version_says_so_when_it_is_skipped(tmp_path, monkeypatch, capsys):
    arguments = [f"out={tmp_path}", *TINY]
    assert call(monkeypatch, *arguments) == 0 and "already finished" not in said(capsys)
    (folder,) = [path.parent for path in tmp_path.glob("runs/*/status.json")]
    assert read_status(folder)["version"] == asbc.__version__
    assert call(monkeypatch, *arguments) == 0
    assert f"already finished by asbc {asbc.__version__}; rerun=true computes it again" in said(capsys)

    finished_by(folder, "0.0.7")
    rows = (folder / "results.parquet").read_bytes()
    assert call(monkeypatch, *arguments) == 0
    assert "already finished by asbc 0.0.7; rerun=true computes it again" in said(capsys)
    assert (folder / "results.parquet").read_bytes() == rows and read_status(folder)["version"] == "0.0.7"

    assert call(monkeypatch, *arguments, "rerun=true") == 0
    assert "already finished" not in said(capsys)
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
    assert text.count("skipped (finished by asbc 0.0.7)") == 1 and text.count("skipped (") == 2
    assert "rerun=true computes skipped runs again" in text

    assert call(monkeypatch, *arguments, "rerun=true") == 0
    assert "skipped" not in said(capsys)
    assert {read_status(folder)["version"] for folder in (first, second)} == {asbc.__version__}


def test_a_failed_job_of_a_sweep_has_no_version(tmp_path, capsys):
    note = {"overrides": ["k_cand=3000"], "state": "failed", "error": "ValueError: too many"}
    show_sweep([note], tmp_path)
    assert "1 of 1 failed" in capsys.readouterr().out


def test_brackets_in_names_are_no_markup_and_failures_count(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    names = f"embedding.path='{tmp_path}/no[/x].npy','{tmp_path}/nor[/x].npy'"
    assert call(monkeypatch, "-m", "embedding=files", names, f"out={tmp_path}", *TINY) == 1
    text = said(capsys)
    assert "2 of 2 failed" in text and "0 embedding.path=" in text and "no[/x].npy: no such file" in text


def test_brackets_of_overrides_are_shown(tmp_path, capsys):
    notes = [{"overrides": [word], "state": "interrupted"} for word in ("method=[knn]", "method=[nnk_sigma]")]
    show_sweep(notes, tmp_path / "[bold]")
    assert "method=[knn]" in (text := capsys.readouterr().out) and "sweep [bold]" in text


def test_a_killed_job_does_not_make_the_lines_of_the_others_longer(tmp_path, capsys):
    notes = [{"overrides": ["trials=2", f"seed={seed}"], "state": "finished"} for seed in (0, 1)]
    show_sweep([*notes, {"overrides": [], "state": "failed"}], tmp_path)
    assert "trials=2" not in (text := capsys.readouterr().out) and "seed=1" in text


def test_a_job_without_a_note_or_with_a_damaged_one_has_failed(tmp_path, monkeypatch):
    for number in range(3):
        write_json(tmp_path / str(number) / "job.json", {"overrides": [f"seed={number}"], "state": "interrupted"})
    (tmp_path / "1" / "job.json").unlink()
    path = tmp_path / "2" / "job.json"
    path.write_text(path.read_text().replace("interrupted", "finished"))
    (tmp_path / "multirun.yaml").touch()  # not a job
    notes = job_notes(tmp_path)
    assert [note["state"] for note in notes] == ["interrupted", "failed", "failed"]
    assert "no job.json" in notes[1]["error"] and "2/job.json: damaged" in notes[2]["error"]
    # Counted even where nothing can be printed.
    monkeypatch.setattr("asbc.runs.command.show_sweep", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SweepSummary().on_multirun_end(OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path)}}}))
    assert SweepSummary.failed == 2
    SweepSummary.failed = 0


def row(metric, value, samples=20, level=20, trial=0, **more):
    fixed = {
        "experiment": "x",
        "dataset": "d",
        "encoder": "e",
        "method": "knn",
        "seconds": 0.1,
        "nodes": 40,
        "total_nodes": 50,
        "classes": 2,
    }
    parts = {"samples": samples, "level": level, "trial": trial, "unlabelled": 3, "short_classes": 1}
    return {**fixed, **parts, "metric": metric, "value": value, **more}


def test_a_headline_is_of_one_level_and_of_what_was_chosen(tmp_path, capsys):
    """No average over levels, bandwidths, targets or numbers of labels."""
    table = pd.DataFrame(
        [row("loo", 0.2, samples=5, level=5), row("loo", 0.8), row("loo", 0.6, trial=1)]
        + [row("loo_balanced", 0.5), row("lp", 0.3, level=1), row("lp", 0.4, level=2), row("lp", 0.9, level=5)]
        + [row("rank_median", 30.0, scale=0.05), row("rank_median", 6.0), row("chosen_rank_median", 6.5)]
        + [row("spearman", 0.7, target="mst", estimator="mst"), row("spearman", 0.1, target="two_nn", estimator="mst")]
        + [row("components", 3.0)]
    )
    own = Experiment("x")
    shown = {column.title: column.values["knn"] for column in headline(table, own)}
    assert shown == pytest.approx(
        {"LOO": 0.7, "LOO balanced": 0.5, "LP, 1 labels": 0.3, "LP, 5 labels": 0.9, "pieces": 3.0, "median r": 6.0}
    )
    assert summary(table, own)["lp/knn"] == 0.9
    shown = [column.title for column in headline(table, EXPERIMENTS["regimes"])]
    assert shown[0] == "median chosen rank"
    shown = {column.title: column.values["knn"] for column in headline(table, EXPERIMENTS["alignment"])}
    assert shown["Spearman(r, d), d by mst"] == 0.7
    show_run(table, own, tmp_path)
    assert capsys.readouterr().out.startswith("x: d, e (20 per class, mean of 2 trials; 40 nodes, 2 classes)\n")
    everything = pd.concat([table, pd.DataFrame([row("loo", 0.9, samples=0, level=0)])])
    assert headline(everything, own)[0].values.tolist() == [0.9]
    show_run(table.assign(total_nodes=40), own, tmp_path)
    assert "(all nodes, 2 seeds; 40 nodes, 2 classes)" in capsys.readouterr().out


def test_a_metric_that_nobody_has_described_is_printed(tmp_path, capsys):
    table = pd.DataFrame([row("edge_agreement", 0.25)])
    assert [column.title for column in headline(table, Experiment("x"))] == ["edge agreement"]
    show_run(table, Experiment("x"), tmp_path)
    assert "0.250" in capsys.readouterr().out


def test_data_without_labels_run_what_needs_none_and_say_what_was_left_out(tmp_path, monkeypatch, capfd):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 4)))
    data = ["embedding=files", f"embedding.path={tmp_path / 'x.npy'}", f"out={tmp_path / 'out'}", "k_cand=10", *TINY]
    assert call(monkeypatch, "evaluate=[loo]", *data) == 1
    assert "x has no labels, and without labels there is no loo; run experiment=regimes" in capfd.readouterr().out
    with_sigma = [word.replace("[knn]", "[knn_sigma]") for word in data]
    monkeypatch.setattr(command, "stages", lambda words: [["experiment=regimes", *words], ["experiment=loo", *words]])
    assert call(monkeypatch, *with_sigma) == 0
    assert "left out: x has no labels" in capfd.readouterr().out
    assert collect(tmp_path / "out")["experiment"].unique().tolist() == ["regimes"]


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("+gama", "there is no setting gama; did you mean gamma?"),
        ("+bandwidth.gama", "unexpected keyword argument 'gama'; did you mean gamma?"),
        ("+evaluate.lp.label", "unexpected keyword argument 'label'; did you mean labels?"),
    ],
)
def test_a_misspelt_setting_with_a_plus_gets_the_closest_one(key, why, tmp_path, monkeypatch, capfd):
    assert call(monkeypatch, f"{key}=1", "evaluate=[lp]", f"out={tmp_path}") == 1
    assert why in capfd.readouterr().out
    assert not (tmp_path / "runs").exists()


def test_a_sweep_says_where_its_rows_are_and_no_best_method_of_graphs_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(40, 4)))
    data = ["embedding=files", f"embedding.path={tmp_path / 'x.npy'}", f"out={tmp_path / 'out'}", *TINY]
    assert call(monkeypatch, "-m", "k_cand=10,12", "evaluate=[health]", *data) == 0
    text = said(capsys)
    assert "k_cand=12" in text and "pieces" not in text and f"rows: {tmp_path / 'out' / 'runs'}" in text


def test_a_summary_is_readable_on_a_narrow_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    methods = ["dimension_matching_gaussian", "nnk"]
    metrics = ["loo", "loo_balanced", "nmi", "ari", "noise_near", "noise_uniform", "regret"]
    rows = [row(name, 0.1 + i, method=method) for method in methods for i, name in enumerate(metrics)]
    show_run(pd.DataFrame(rows), Experiment("x"), tmp_path)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines()[:-2])) <= 80
    assert all(f"{0.1 + i:.4f}" in printed for i in range(len(metrics)))
