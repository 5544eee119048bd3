import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir
from asbc.evaluate.comparison import compare_methods
from asbc.evaluate.hits import unpack_hits
from asbc.runs.experiment import run
from asbc.runs.results import ResultsError, collect, read_status

ROOT = Path(__file__).resolve().parents[2]
TINY = ("samples_per_class=[4,6]", "trials=2", "progress=false", "logger=none")
COLUMNS = {
    "run_id", "experiment", "dataset", "encoder", "method", "samples", "level", "trial", "seed", "metric", "value",
    "seconds", "weights", "bandwidth", "bandwidth.gamma", "k_cand", "neighbors.metric",
    "dimension.estimator", "graph.k_min", "graph.symmetrize",
}  # fmt: skip


def config(out, *overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        embedding = [] if any(o.startswith("embedding=") for o in overrides) else ["embedding=digits"]
        return compose("config", overrides=[*TINY, *embedding, f"out={out}", *overrides])


def bare(table):
    """A table without what may differ between equal runs, in a fixed order."""
    keys = ["experiment", "method", "samples", "level", "trial", "metric"]
    extra = [c for c in ("scale", "per_node", "target", "estimator", "bandwidth.gamma") if c in table]
    table = table.drop(columns=["seconds"]).sort_values(keys + extra, kind="stable")
    return table.reset_index(drop=True)


def write_files(tmp_path, X, labels):
    np.save(tmp_path / "x.npy", X)
    overrides = ["embedding=files", f"embedding.path={tmp_path / 'x.npy'}"]
    if labels is not None:
        np.save(tmp_path / "y.npy", labels)
        overrides.append(f"embedding.labels={tmp_path / 'y.npy'}")
    return overrides


def test_a_run_gives_one_row_per_method_level_trial_and_metric(tmp_path):
    outcome = run(config(tmp_path, "evaluate=[loo,lp]", "evaluate.lp.labels=[1,3]"))
    table = outcome.table
    assert set(table.columns) >= COLUMNS
    assert not table.duplicated(["method", "samples", "level", "trial", "metric"]).any()
    loo = table[table["metric"] == "loo"]
    assert len(loo) == 6 * 2 * 2
    assert len(table[table["metric"] == "lp"]) == 6 * 2 * 2 * 2
    assert table["value"].between(0, 1).all() and (table["seconds"] > 0).all()
    row = loo.iloc[-1]
    hits = unpack_hits(row["scored"], row["right"])
    assert (hits >= 0).sum() == row["samples"] * 10
    assert (hits == 1).sum() / (hits >= 0).sum() == pytest.approx(row["value"])
    assert loo[loo["method"] == "knn"]["bandwidth"].isna().all()
    assert (loo[loo["method"] == "nnk_sigma"]["bandwidth.gamma"] == 1.0).all()
    assert compare_methods(table, "nnk_sigma", "knn").trials == 2
    status = read_status(outcome.path)
    assert status["state"] == "finished" and status["rows"] == len(table) and status["units"] == 4


def test_a_finished_run_is_skipped_unless_told(tmp_path):
    first = run(config(tmp_path))
    changed = (first.path / "results.parquet").stat().st_mtime_ns
    second = run(config(tmp_path, "threads=1", "progress=false"))  # how it runs is not what it is
    assert second.skipped and second.run_id == first.run_id
    assert (first.path / "results.parquet").stat().st_mtime_ns == changed
    pd.testing.assert_frame_equal(second.table, first.table)
    third = run(config(tmp_path, "rerun=true"))
    assert not third.skipped and third.run_id == first.run_id
    pd.testing.assert_frame_equal(bare(third.table), bare(first.table))
    assert run(config(tmp_path, "seed=1")).run_id != first.run_id
    assert len(collect(tmp_path)) == 2 * len(first.table)


def test_the_id_follows_the_data_not_its_place(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 5)), np.repeat(np.arange(8), 10)
    ids = []
    for name, shift in (("a", 0.0), ("b", 0.0), ("c", 1.0)):
        (tmp_path / name).mkdir()
        overrides = write_files(tmp_path / name, X + shift, y)
        ids.append(run(config(tmp_path / "out", "embedding.name=x", "k_cand=10", *overrides)).run_id)
    assert ids[0] == ids[1] != ids[2]


def test_one_or_two_threads_give_identical_tables(tmp_path):
    tables = [
        run(config(tmp_path / str(n), "evaluate=[loo,lp,clustering]", "evaluate.lp.labels=[1,3]"), threads=n).table
        for n in (1, 2)
    ]
    pd.testing.assert_frame_equal(bare(tables[0]), bare(tables[1]))


def test_neighbours_dimension_and_sigma_are_computed_once_per_subsample(tmp_path, monkeypatch):
    import asbc.bandwidth
    from asbc import dimension as shared

    counts = {"dimension": 0, "spectral": 0}
    dim_mst, select = shared.dim_mst, asbc.bandwidth.SpectralBandwidth.choose

    def count_dimension(*args, **kwargs):
        counts["dimension"] += 1
        return dim_mst(*args, **kwargs)

    def count_select(self, *args):
        counts["spectral"] += 1
        return select(self, *args)

    monkeypatch.setattr(shared, "dim_mst", count_dimension)
    monkeypatch.setattr(asbc.bandwidth.SpectralBandwidth, "choose", count_select)
    run(config(tmp_path))
    assert counts == {"dimension": 4, "spectral": 4}  # 2 levels x 2 trials, not x 6 methods


def test_a_failed_run_is_noted_and_tried_again(tmp_path, monkeypatch):
    import asbc.evaluate.tasks as tasks

    calls = []
    whole = tasks.loo_hits

    def fail_late(*args):
        calls.append(1)
        if len(calls) == 15:
            raise MemoryError("no room")
        return whole(*args)

    monkeypatch.setattr(tasks, "loo_hits", fail_late)
    with pytest.raises(MemoryError):
        run(config(tmp_path))
    (folder,) = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
    status = read_status(folder)
    assert status["state"] == "failed" and "fail_late" in status["traceback"]
    kept = collect(tmp_path)
    assert len(kept) == 12  # two whole units of six methods; the torn third left nothing
    done = len(calls)
    outcome = run(config(tmp_path))
    assert len(outcome.table) == 24 and len(calls) - done == 12
    assert read_status(folder)["state"] == "finished" and read_status(folder)["attempt"] == 2


@pytest.mark.parametrize("names", [["z", "a", "m"], [-5, 1000, 0]])
def test_labels_may_be_strings_sparse_or_negative(tmp_path, names):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[codes]
    overrides = write_files(tmp_path, X, np.array(names)[codes])
    cfg = config(tmp_path / "out", *overrides, "k_cand=10", "evaluate=[loo,lp]", "evaluate.lp.labels=[1]")
    assert run(cfg).table["value"].between(0, 1).all()


def test_without_labels_votes_are_refused_and_the_graph_still_builds(tmp_path):
    overrides = write_files(tmp_path, np.random.default_rng(0).normal(size=(60, 4)), None)
    with pytest.raises(ValueError, match=r"has no labels, and these evaluations need them: loo"):
        run(config(tmp_path / "out", *overrides, "k_cand=10"))
    table = run(config(tmp_path / "out", *overrides, "k_cand=10", "evaluate=[health]")).table
    assert (table[table["metric"] == "edges"]["value"] > 0).all() and (table["samples"] == 0).all()


def test_what_cannot_work_is_refused_before_any_work(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.array([0] * 30 + [1] * 29 + [7])
    overrides = write_files(tmp_path, rng.normal(size=(60, 4)), labels)
    for extra, message in (
        ((), r"samples_per_class has 4, but class 7 of x has only 1 samples"),
        (("samples_per_class=[1]",), "at least 2 samples per class"),
        (("evaluate=[lp]", "samples_per_class=[20]"), "20 labels per class needs more than 20 samples"),
        (("samples_per_class=[]",), "must not be empty"),
        (("trials=0",), "trials must be at least 1"),
        (("embedding.path=null",), "path: the .npy or .npz file"),
    ):
        with pytest.raises(ValueError, match=message):
            run(config(tmp_path / "out", *overrides, *extra))
    for extra, message in (
        (("k_cand=3000",), "gives more than k_cand=3000 nodes"),
        (("neighbors.k=10",), "neighbors.k follows k_cand .* give k_cand=10"),
        (("bandwidth.gamma=-1",), "gamma must be a positive number"),
        (("dimension.estimator=pca",), "'mst', 'levina_bickel' or 'two_nn'"),
        (("neighbors.metric=manhattan",), "'euclidean' or 'cosine'; got 'manhattan'"),
    ):
        with pytest.raises(Exception, match=message):
            run(config(tmp_path / "out", *extra))
    with pytest.raises(ResultsError, match="no results"):
        collect(tmp_path / "out")


def test_levels_too_small_for_k_are_left_out_aloud(tmp_path, caplog):
    table = run(config(tmp_path, "k_cand=50", "samples_per_class=[4,6]")).table
    assert table["samples"].unique().tolist() == [6]
    assert "samples_per_class [4] left out: too few nodes for k_cand=50" in caplog.text


def test_a_results_folder_of_another_version_is_left_alone(tmp_path):
    outcome = run(config(tmp_path))
    text = (outcome.path / "status.json").read_text().replace('"format": 1', '"format": 99')
    (outcome.path / "status.json").write_text(text)
    before = {p.name: p.read_bytes() for p in outcome.path.iterdir() if p.is_file()}
    with pytest.raises(ResultsError, match="results of format 99"):
        run(config(tmp_path))
    assert before == {p.name: p.read_bytes() for p in outcome.path.iterdir() if p.is_file()}


DRIVER = """
import os, signal, sys
from pathlib import Path
from hydra import compose, initialize_config_dir
from asbc.configs import conf_dir
from asbc.evaluate import tasks
from asbc.runs.experiment import run

with initialize_config_dir(str(conf_dir()), version_base="1.3"):
    cfg = compose("config", overrides=["out=" + sys.argv[1], *sys.argv[2:]])
rename, hits = os.replace, tasks.loo_hits

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def start(goal, moment):
    # Die once so many units are on disk: as the next one is computed, as it is written, or at once.
    done = []
    def replace(source, target):
        unit = Path(target).parent.name == "parts"
        if unit and len(done) == goal and moment == "writing":
            die()
        rename(source, target)
        done.extend([target] * unit)
        if len(done) == goal and moment == "written":
            die()
    def loo_hits(*args):
        if len(done) == goal and moment == "computing":
            die()
        return hits(*args)
    os.replace, tasks.loo_hits = replace, loo_hits
    run(cfg)

for attempt in range(10):
    child = os.fork()
    if child == 0:
        start(1 + attempt % 2, ["computing", "writing", "written"][attempt % 3])
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code, len(list(Path(sys.argv[1]).glob("runs/*/parts/*.parquet"))), flush=True)
"""


def test_killed_ten_times_loses_doubles_and_tears_nothing(tmp_path):
    overrides = ["embedding=digits", "samples_per_class=[4,6,8]", "trials=6", "progress=false", "logger=none"]
    # One process that only forks: each child is a fresh start, without the seconds that imports take.
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path / "killed"), *overrides],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert driver.returncode == 0, driver.stderr
    lines = [[int(word) for word in line.split()] for line in driver.stdout.splitlines()]
    assert [code for code, _ in lines] == [-signal.SIGKILL] * 10
    done = [parts for _, parts in lines]
    assert done == [1, 3, 4, 6, 7, 9, 10, 12, 13, 15]  # of 18
    half = collect(tmp_path / "killed")
    assert len(half) == 6 * done[-1] and not half.duplicated(["method", "samples", "trial"]).any()
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        cfgs = [compose("config", overrides=[*overrides, f"out={tmp_path / name}"]) for name in ("killed", "whole")]
    resumed, whole = (run(cfg) for cfg in cfgs)
    pd.testing.assert_frame_equal(bare(resumed.table), bare(whole.table))
    assert read_status(resumed.path)["attempt"] == 11
    pd.testing.assert_frame_equal(bare(collect(tmp_path / "killed")), bare(whole.table))
