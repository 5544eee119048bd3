import os
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from asbc.configs import conf_dir
from asbc.evaluate import tasks
from asbc.evaluate.comparison import compare_methods
from asbc.evaluate.tasks import unpack_hits
from asbc.runs.experiments import EXPERIMENTS
from asbc.runs.results import ResultsError, collect, open_run, read_status
from asbc.runs.run import ALL, draw, levels, run
from asbc.storage import write_json
from tests import commands

TINY = ("samples_per_class=[4,6]", "trials=2", "progress=false", "logger=none")
COLUMNS = {
    "run_id", "experiment", "dataset", "encoder", "method", "samples", "level", "trial", "seed", "metric", "value",
    "seconds", "nodes", "classes", "unlabelled", "short_classes",
    "weights", "bandwidth", "bandwidth.gamma", "k_cand", "neighbors.metric",
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
    table = table.drop(columns=["seconds", "search_seconds", "build_seconds"]).sort_values(keys + extra, kind="stable")
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
    (hits,) = unpack_hits([(row["scored"], row["right"])])
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
    assert not third.skipped and third.run_id == first.run_id and read_status(third.path)["attempt"] == 2
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
    calls = []
    whole = tasks.loo_predict

    def fail_late(*args):
        calls.append(1)
        if len(calls) == 15:
            raise MemoryError("no room")
        return whole(*args)

    monkeypatch.setattr(tasks, "loo_predict", fail_late)
    with pytest.raises(MemoryError):
        run(config(tmp_path))
    (folder,) = [p for p in (tmp_path / "runs").iterdir() if p.is_dir()]
    status = read_status(folder)
    assert status["state"] == "failed" and "fail_late" in status["traceback"]
    kept = collect(tmp_path)
    assert len(kept) == 24  # two whole units of six methods and two metrics; the torn third left nothing
    done = len(calls)
    outcome = run(config(tmp_path))
    assert len(outcome.table) == 48 and len(calls) - done == 12
    assert read_status(folder)["state"] == "finished" and read_status(folder)["attempt"] == 2


@pytest.mark.parametrize("names", [["z", "a", "m"], [-5, 1000, 0]])
def test_labels_may_be_strings_sparse_or_negative(tmp_path, names):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 4)) + 3 * np.eye(3, 4)[codes]
    overrides = write_files(tmp_path, X, np.array(names)[codes])
    cfg = config(tmp_path / "out", *overrides, "k_cand=10", "evaluate=[loo,lp]", "evaluate.lp.labels=[1]")
    assert run(cfg).table["value"].between(0, 1).all()


def test_without_labels_votes_are_refused_and_the_graph_still_builds(tmp_path, caplog):
    overrides = write_files(tmp_path, np.random.default_rng(0).normal(size=(60, 4)), None)
    with pytest.raises(ValueError, match=r"x has no labels, and without labels there is no loo; run experiment=reg"):
        run(config(tmp_path / "out", *overrides, "k_cand=10"))
    table = run(config(tmp_path / "out", *overrides, "k_cand=10", "evaluate=[loo,health]")).table
    assert (table[table["metric"] == "edges"]["value"] > 0).all() and (table["samples"] == 0).all()
    assert "skipped, because x has no labels: loo" in caplog.text
    assert not set(table["metric"]) & {"loo", "loo_balanced"}


REFUSED = {  # settings of a group, and what is said of them before vectors are looked for
    "bandwidth.gamma=x": "the bandwidth of knn_sigma: gamma must be a positive number; got 'x'",
    "bandwidth.gamma=-1": "the bandwidth of knn_sigma: gamma must be a positive number; got -1",
    "bandwidth.k_mle=x": "the bandwidth of knn_sigma: k_mle must be a whole number from 1 to .* got 'x'",
    "bandwidth.refine=5": "the bandwidth of knn_sigma: refine must be True or False; got 5",
    "graph.symmetrize=min": "graph.symmetrize must be 'mean', 'max' or None; got 'min'",
    "dimension.n_rep=x": "dimension: n_rep must be a whole number from 1 to .* got 'x'",
    "dimension.estimator=pca": "dimension: estimator must be 'mst', 'levina_bickel' or 'two_nn'; got 'pca'",
    "methods.nnk_sigma.weights=knn": "methods.nnk_sigma: weights must be .* got 'knn'",
}


def test_what_cannot_work_is_refused_before_any_work(tmp_path):
    rng = np.random.default_rng(0)
    overrides = write_files(tmp_path, rng.normal(size=(60, 4)), np.repeat([0, 1], 30))
    for extra, message in (
        (("samples_per_class=[1]",), "at least 2 samples per class"),
        (("evaluate=[lp]", "evaluate.lp.labels=[30]"), "30 labels per class needs a class with more than 30 samples"),
        (("samples_per_class=[]",), r"no samples_per_class of \[\] gives more than"),
        (
            ("samples_per_class=[5,most]",),
            r"samples_per_class \(or all\) must be a whole number of at least 1; got 'most'",
        ),
        (("samples_per_class=0",), "must be a whole number of at least 1; got 0"),
        (("trials=0",), "trials must be a whole number of at least 1"),
        (("trials=1.5",), r"trials must be a whole number of at least 1; got 1\.5"),
        (("seed=1.5",), r"seed must be a whole number from 0 .* got 1\.5"),
        (("threads=1.5",), r"threads must be a whole number of at least 1; got 1\.5"),
        (("embedding.path=null",), "path: no file of vectors given"),
        (
            ("embedding.path=nowhere.npy", "k_cand=9"),
            "of knn_sigma: k_mle must be a whole number from 1 to 9, .* got 10",
        ),
        *((("embedding.path=nowhere.npy", setting), message) for setting, message in REFUSED.items()),
    ):
        with pytest.raises(ValueError, match=message):
            run(config(tmp_path / "out", *overrides, *extra))
    for extra, message in (
        (("k_cand=3000",), "gives more than k_cand=3000 nodes"),
        (
            ("k_cand=5", "bandwidth.k_mle=4", "method=[nnk_sigma]"),
            "k of at least 8 for a spanning-tree dimension; got 5",
        ),
        (("graph.k_min=x",), "k_min must be a whole number from 0 to .* got 'x'"),
        (("neighbors.metric=manhattan",), "metric must be 'cosine' or 'euclidean'; got 'manhattan'"),
        (("neighbors.k=10",), "neighbors.k follows k_cand; set k_cand instead. Got neighbors.k=10"),
    ):
        with pytest.raises(Exception, match=message):
            run(config(tmp_path / "out", *extra))
    with pytest.raises(ResultsError, match="no results"):
        collect(tmp_path / "out")


def labeled_blobs(tmp_path, sizes, unlabeled=0):
    """Vectors of classes of these sizes around points far from each other, and some without a label."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(len(sizes) + 1), [*sizes, unlabeled])
    X = rng.normal(size=(len(labels), 6)) + 4 * rng.normal(size=(len(sizes) + 1, 6))[labels]
    labels[labels == len(sizes)] = -1
    return write_files(tmp_path, X, labels)


def test_a_class_with_fewer_samples_gives_all_it_has(tmp_path, caplog):
    data = labeled_blobs(tmp_path, [12, 9, 5, 1], unlabeled=7)
    tasks = ("evaluate=[loo,lp,clustering,health]", "evaluate.lp.labels=[1,5]", "method=[knn,nnk_sigma]", "k_cand=10")
    table = run(config(tmp_path / "out", *data, *tasks, "samples_per_class=[6,all]")).table
    assert "2 of 4 classes have fewer than 6 samples and give all they have" in caplog.text
    loo = table[table["metric"] == "loo"].groupby("samples").first()
    assert loo["nodes"].to_dict() == {0: 34, 6: 6 + 6 + 5 + 1 + 7}
    assert loo["short_classes"].to_dict() == {0: 0, 6: 2} and set(loo["unlabelled"]) == {7}
    scored = [
        np.flatnonzero(unpack_hits([tuple(row)])[0] >= 0) for row in loo[["scored", "right"]].itertuples(index=False)
    ]
    assert [len(nodes) for nodes in scored] == [27, 18] and max(scored[0]) < 27
    lp = table[(table["metric"] == "lp") & (table["samples"] == 6)]
    assert lp.groupby("level")["short_classes"].first().to_dict() == {1: 1, 5: 2}
    assert {"loo_balanced", "lp_balanced", "ari", "edges"} <= set(table["metric"])


def test_the_users_own_data_have_all_nodes_and_the_levels_that_their_classes_allow(tmp_path):
    auto = ("samples_per_class=auto", "k_cand=8", "method=[knn]", "trials=1")
    data = labeled_blobs(tmp_path, [17, 12, 30])
    outcome = run(config(tmp_path / "out", *data, *auto))
    assert set(outcome.table["samples"]) == {0, 5, 10}
    said = run(config(tmp_path / "out", *data, *auto[1:], "samples_per_class=[5,10,all]"))
    assert said.skipped and said.run_id == outcome.run_id, "the same levels are the same run"
    even = labeled_blobs(tmp_path, [10, 10])
    assert set(run(config(tmp_path / "out", *even, *auto)).table["samples"]) == {0, 5}, "10 is all there is"
    assert levels([3, 3.0, "all", 3]) == [3, 0]


@pytest.mark.parametrize(
    ("sizes", "unlabeled", "why"),
    [
        ([20], 9, r"one class only \(9 are -1, NaN, None or empty, which means no label\)"),
        ([1] * 29, 0, "no two samples of one class"),
    ],
)
def test_labels_that_cannot_be_scored(tmp_path, caplog, sizes, unlabeled, why):
    data = labeled_blobs(tmp_path, sizes, unlabeled)
    tiny = ("k_cand=8", "method=[knn]", "trials=1")
    with pytest.raises(ValueError, match=why):
        run(config(tmp_path / "out", *data, *tiny, "evaluate=[loo,clustering]"))
    table = run(config(tmp_path / "out", *data, *tiny, "evaluate=[lp,health]")).table
    assert set(table["nodes"]) == {29} and "lp" not in set(table["metric"])


def test_a_thousand_classes_and_more_classes_than_samples_of_each(tmp_path):
    data = labeled_blobs(tmp_path, [2] * 1000)
    tasks = ("evaluate=[loo,lp]", "evaluate.lp.labels=[1]", "k_cand=8", "method=[knn]", "trials=1")
    table = run(config(tmp_path / "out", *data, *tasks, "samples_per_class=all")).table
    assert set(table["classes"]) == {1000} and table["value"].between(0, 1).all()


def test_levels_too_small_for_k_are_left_out_aloud(tmp_path, caplog):
    table = run(config(tmp_path, "k_cand=50", "samples_per_class=[4,6]")).table
    assert table["samples"].unique().tolist() == [6]
    assert "samples_per_class [4] skipped: too few nodes for k_cand=50" in caplog.text


def test_a_results_folder_of_another_version_is_left_alone(tmp_path):
    outcome = run(config(tmp_path))
    write_json(outcome.path / "status.json", read_status(outcome.path) | {"format": 99})
    before = {p.name: p.read_bytes() for p in outcome.path.iterdir() if p.is_file()}
    with pytest.raises(ResultsError, match="results of format 99"):
        run(config(tmp_path))
    assert before == {p.name: p.read_bytes() for p in outcome.path.iterdir() if p.is_file()}


def die_after(goal, moment, overrides):
    """Run, and die once so many units are on disk: as the next one is computed, as it is written, or at once."""
    rename, hits, done = os.replace, tasks.loo_predict, []

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def replace(source, target):
        unit = Path(target).parent.name == "parts"
        if unit and len(done) == goal and moment == "writing":
            die()
        rename(source, target)
        done.extend([target] * unit)
        if len(done) == goal and moment == "written":
            die()

    def loo_predict(*args):
        if len(done) == goal and moment == "computing":
            die()
        return hits(*args)

    os.replace, tasks.loo_predict = replace, loo_predict
    run(composed(overrides))


def composed(overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return compose("config", overrides=overrides)


def test_killed_ten_times_loses_doubles_and_tears_nothing(tmp_path):
    overrides = ["embedding=digits", "samples_per_class=[4,6,8]", "trials=6", "progress=false", "logger=none"]
    killed, whole = ([*overrides, f"out={tmp_path / name}"] for name in ("killed", "whole"))
    done = []
    for attempt in range(10):
        words = [1 + attempt % 2, ["computing", "writing", "written"][attempt % 3], killed]
        assert commands.run(f"{__name__}:die_after", words).returncode == -signal.SIGKILL
        (folder,) = tmp_path.glob("killed/runs/*/")
        done.append(len(read_status(folder)["parts"]))
    # Of 18. A part that was written and has no checksum in status.json yet is computed again.
    assert done == [1, 3, 3, 5, 6, 7, 8, 10, 10, 12]
    half = collect(tmp_path / "killed")
    assert len(half) == 2 * 6 * done[-1] and not half.duplicated(["method", "metric", "samples", "trial"]).any()
    resumed, whole = run(composed(killed)), run(composed(whole))
    pd.testing.assert_frame_equal(bare(resumed.table), bare(whole.table))
    assert read_status(resumed.path)["attempt"] == 11
    pd.testing.assert_frame_equal(bare(collect(tmp_path / "killed", per_node=True)), bare(whole.table))


def test_a_run_s_folder_holds_the_record_of_its_experiment(tmp_path):
    own = run(config(tmp_path / "own", "experiment=loo", "samples_per_class=[4]"))
    assert open_run(own.path).record == EXPERIMENTS["loo"]
    other = run(config(tmp_path / "mine", "name=mine", "record={title: Mine, headline: [loo]}"))
    assert open_run(other.path).record.heading == "Mine"


def test_trials_on_the_same_nodes_share_what_needs_no_seed(tmp_path):
    cfg = config(tmp_path, "experiment=regimes")
    embeddings = instantiate(cfg.embedding).load()
    first = draw(cfg, embeddings, 6, 0)
    assert draw(cfg, embeddings, 6, 1, first).common is not first.common  # other nodes
    one = draw(cfg, embeddings, ALL, 0)
    two = draw(cfg, embeddings, ALL, 1, one)
    assert one.common is two.common and one.own is not two.own and one.neighbors is two.neighbors
    assert (one.dimension() != two.dimension()).any()


def test_every_parameter_is_a_column(tmp_path):
    power = "methods.mine={_target_: asbc.evaluate.Method, weights: {_target_: asbc.evaluate.cosine_weights, "
    power = f"+{power}_partial_: true, temperature: 0.5}}}}"
    data = labeled_blobs(tmp_path, [12, 12])
    table = run(
        config(tmp_path / "out", *data, power, "method=[nnk_sigma]", "k_cand=10", "samples_per_class=all")
    ).table
    first = table.drop_duplicates("method").set_index("method")
    assert first.loc["mine", "weights.temperature"] == 0.5
    assert first.loc["nnk_sigma", "bandwidth.n_grid"] == 12 and str(first["bandwidth.n_grid"].dtype) == "Int64"
    assert (table["embedding.encoder"] == "files").all() and (table["total_nodes"] == 24).all()
