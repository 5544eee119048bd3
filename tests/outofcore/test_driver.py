"""Builds in blocks: the same bits as in one piece, whatever the blocks, the engine and the interruptions."""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import asbc
from asbc.bandwidth import ConstantNeighborhoodWarning, OneForAll, report_at
from asbc.neighbors import types as neighbors_module
from asbc.neighbors.options import OPTIONS
from asbc.outofcore import driver as driver_module
from asbc.outofcore import engine
from asbc.outofcore import plan as plan_module
from asbc.outofcore.command import main
from asbc.outofcore.driver import build_graph
from asbc.outofcore.engine import DaskEngine
from asbc.outofcore.errors import BuildError, EngineError
from asbc.outofcore.storage import GraphFileError, read_graph_manifest

N = 700


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(8, 10)) * 3
    X = (centres[rng.integers(0, 8, N)] + rng.normal(size=(N, 10))).astype(np.float32)
    X[100:120] = X[100]  # more equal points than there are neighbours: bandwidths of their own do not exist
    X[300:303] = X[300]
    return X


@pytest.fixture(scope="module")
def path(X, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "x.npy"
    np.save(path, X)
    return path


def files_of(folder):
    """All arrays of a finished build, byte for byte, and the manifest."""
    found = {str(f.relative_to(folder)): f.read_bytes() for f in Path(folder).rglob("*.npy")}
    return found | {"manifest.json": Path(folder, "manifest.json").read_bytes()}


def without_block(files):
    manifest = json.loads(files["manifest.json"])
    manifest.pop("block")
    return {**files, "manifest.json": manifest}


def build(path, folder, builder=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        builder = asbc.GraphBuilder(k_cand=12) if builder is None else builder
        return build_graph(path, folder, builder, **{"search": "exact", "block": 150, **options})


def assert_same_as_in_one_piece(X, folder, builder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantNeighborhoodWarning)
        builder.fit(X)
    graph = asbc.load_graph(folder)
    for name in ("indptr", "indices", "data"):
        assert (getattr(graph, name) == getattr(builder.graph_, name)).all(), name
    assert (asbc.load_rows(folder)[1] == builder.weights_).all()
    nodes = asbc.load_nodes(folder)
    if builder.bandwidth_ is None:
        assert nodes == {}
    else:
        assert (nodes.pop("dimension") == builder.dimension_).all()
        for name, values in nodes.items():
            np.testing.assert_array_equal(values, getattr(builder.bandwidth_, name), err_msg=name)


class HalfTheThird(asbc.Bandwidth):
    """A rule of a user's own that looks at nodes one by one."""

    local = True

    def choose(self, X, neighbors, dimension):
        return report_at(X, neighbors, np.maximum(neighbors.distances[:, 2] / 2, 1e-3), dimension)


class LargestScale(asbc.Bandwidth):
    """A rule of a user's own that needs all nodes, with a parameter."""

    uses_dimension = False

    def __init__(self, factor=1.0):
        self.factor = factor

    def summarize(self, X, neighbors, dimension):
        return {"last": neighbors.distances[:, -1].copy()}

    def resolve(self, summary):
        return OneForAll(self.factor * float(summary["last"].max()))


BUILDERS = {
    "nnk_sigma": {},
    "refined": {"bandwidth": asbc.SpectralBandwidth(gamma=0.8, n_grid=9, refine=True)},
    "perplexity": {"weights": "gaussian", "bandwidth": asbc.Perplexity()},
    "self_tuning": {"weights": "gaussian", "bandwidth": asbc.SelfTuning()},
    "self_tuning_nnk": {"bandwidth": asbc.SelfTuning()},
    "fixed": {"bandwidth": asbc.Fixed(0.7)},
    "mean_knn": {"bandwidth": asbc.Fixed("mean_knn")},
    "median_spectral": {"bandwidth": asbc.Fixed("median_spectral")},
    "log_log": {"weights": "gaussian", "bandwidth": asbc.LogLog()},
    "dimension_matching": {"weights": "gaussian", "bandwidth": asbc.DimensionMatching()},
    "max_min": {"weights": "gaussian", "bandwidth": asbc.DimensionMatching("max_min")},
    "density": {"weights": "gaussian", "bandwidth": asbc.DensityNormalized()},
    "density_of_spectral": {"bandwidth": asbc.DensityNormalized(asbc.SpectralBandwidth(), alpha=0.5)},
    "density_of_self_tuning": {"weights": "gaussian", "bandwidth": asbc.DensityNormalized(asbc.SelfTuning())},
    "own_local": {"bandwidth": HalfTheThird()},
    "own_global": {"weights": "gaussian", "bandwidth": LargestScale(factor=0.3), "sharpen": True},
    "uniform": {"weights": "uniform"},
    "sharpened": {"sharpen": True, "weights": "gaussian"},
    "mean": {"symmetrize": "mean"},
    "directed": {"symmetrize": None},
    "two_nn": {"dimension": "two_nn"},
    "two_nn_surveyed": {"dimension": "two_nn", "bandwidth": asbc.DimensionMatching()},
    "levina_bickel": {"dimension": "levina_bickel", "k_min": 0},
    "cosine": {"metric": "cosine"},
    "seed": {"random_state": 7, "n_rep": 2},
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_same_bits_as_the_estimator(X, path, tmp_path, name):
    builder = asbc.GraphBuilder(k_cand=12, **BUILDERS[name])
    build(path, tmp_path / "g", builder)
    assert_same_as_in_one_piece(X, tmp_path / "g", builder)


@pytest.mark.parametrize("block", [1, 64, 699, 100_000])
def test_any_block_size(path, tmp_path, block):
    if block == 1:  # one file per node: fewer nodes will do
        np.save(tmp_path / "few.npy", np.load(path)[90:150])
        path = tmp_path / "few.npy"
    options = {"search": "ivf", "search_options": {"n_lists": 5, "n_probe": 2}}
    build(path, tmp_path / "a", block=block, **options)
    build(path, tmp_path / "b", block=150, **options)
    assert without_block(files_of(tmp_path / "a")) == without_block(files_of(tmp_path / "b"))


@pytest.mark.parametrize("search", [kind for kind in OPTIONS if kind != "exact"])
def test_approximate_search_gives_what_the_function_gives(X, path, tmp_path, search):
    manifest = build(path, tmp_path / "g", search=search)
    wanted = asbc.search_neighbors(X, 12, search=search, sample=1000)
    found, _ = asbc.load_rows(tmp_path / "g")
    assert (found.indices == wanted.indices).all()
    assert found.recall == manifest["recall"]["value"] == wanted.recall > 0.9
    assert manifest["recall"]["sample"] == N


def test_poor_recall_is_said(path, tmp_path):
    with pytest.warns(asbc.LowRecallWarning, match=r"recall is 0\.\d+, measured on 700 nodes"):
        build(path, tmp_path / "g", search="ivf", search_options={"n_lists": 60, "n_probe": 1})


@pytest.mark.parametrize("form", ["float16", "float64", "fortran", "big-endian", "big-endian float64"])
def test_other_arrays(X, tmp_path, form):
    forms = {
        "float16": X.astype(np.float16),
        "float64": X.astype(float),
        "fortran": np.asfortranarray(X),
        "big-endian": X.astype(">f4"),
        # Numbers that single precision does not have: a cut would show.
        "big-endian float64": (X + np.random.default_rng(0).normal(size=X.shape) * 1e-9).astype(">f8"),
    }
    np.save(tmp_path / "x.npy", forms[form])
    builder = asbc.GraphBuilder(k_cand=12, metric="cosine" if form == "float16" else "euclidean")
    build(tmp_path / "x.npy", tmp_path / "g", builder, search="ivf", search_options={"n_lists": 4, "n_probe": 4})
    assert_same_as_in_one_piece(forms[form], tmp_path / "g", builder)


def test_constant_neighbourhoods_are_reported_once(path, tmp_path):
    with pytest.warns(ConstantNeighborhoodWarning, match="20 of 700 nodes") as caught:
        build_graph(path, tmp_path / "g", asbc.GraphBuilder(k_cand=12), search="exact", block=50)
    assert len([w for w in caught if w.category is ConstantNeighborhoodWarning]) == 1


def test_store_entry_and_url(X, path, tmp_path):
    entry = tmp_path / "entry"
    entry.mkdir()
    np.save(entry / "vectors.npy", X)
    (entry / "manifest.json").write_text(json.dumps({"dtype": "float32", "shape": [N, 10]}))
    build(path, tmp_path / "a")
    build(entry, tmp_path / "b")
    build(f"file://{path}", tmp_path / "c")
    plain = files_of(tmp_path / "a")
    assert files_of(tmp_path / "b") == plain
    copied = files_of(tmp_path / "c")
    copied.pop("source/vectors.npy")
    assert copied == plain
    (entry / "manifest.json").write_text(json.dumps({"dtype": "float32", "shape": [N, 11]}))
    with pytest.raises(GraphFileError, match=r"shape \(700, 10\), where \(700, 11\) is expected"):
        build(entry, tmp_path / "d")
    (entry / "manifest.json").write_text(json.dumps({"dtype": "float16", "shape": [N, 10]}))
    with pytest.raises(GraphFileError, match="dtype float32, where float16 is expected"):
        build(entry, tmp_path / "d")
    with pytest.raises(BuildError, match="cannot be read"):
        build("file:///nowhere/at/all.npy", tmp_path / "e")


def test_another_url_for_the_same_folder_is_refused(path, tmp_path):
    np.save(tmp_path / "other.npy", np.load(path)[::-1])
    manifest = build(f"file://{path}", tmp_path / "g")
    assert build(f"file://{path}", tmp_path / "g") == manifest
    with pytest.raises(BuildError, match=r"holds a copy of 'file://.*x\.npy', and now 'file://.*other\.npy' is given"):
        build(f"file://{tmp_path / 'other.npy'}", tmp_path / "g")


def test_a_url_that_ended_early_is_read_again(path, tmp_path):
    source = tmp_path / "x.npy"
    source.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BuildError, match=r"file://.*x\.npy: ends early.*the same command reads it again"):
        build(f"file://{source}", tmp_path / "g")
    assert list((tmp_path / "g" / "source").iterdir()) == []
    source.write_bytes(path.read_bytes())
    assert build(f"file://{source}", tmp_path / "g")["n"] == N


# --- interruptions ---

COMMAND = [sys.executable, "-m", "asbc.outofcore.command"]
ARGUMENTS = ["--k", "12", "--block", "100", "--n-lists", "6", "--n-probe", "2", "--quiet"]
STAGES = ["check", "assign", "lists", "neighbors", "rows", "transpose", "graph"]


def start(path, folder, *more, **options):
    return subprocess.Popen([*COMMAND, str(path), str(folder), *ARGUMENTS, *more], stderr=subprocess.PIPE, **options)


@pytest.fixture(scope="module")
def reference(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "g"
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    return files_of(folder)


def wait_for(condition, process, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.002)


def test_killed_over_and_over(path, tmp_path, reference):
    """kill -9 at moments spread over all stages; parts that were finished are not made again."""
    folder = tmp_path / "g"
    kills = 0
    for stage, block in zip(STAGES + ["neighbors", "rows", "graph"], [3, 3, 1, 2, 2, 2, 2, 5, 5, 5], strict=True):
        part = folder / "scratch" / stage / f"{block:06d}.{'npy' if stage in ('lists', 'transpose') else 'npz'}"
        if part.exists():
            continue
        process = start(path, folder)
        wait_for(lambda part=part, process=process: part.exists() or process.poll() == 0, process)
        process.kill()
        process.wait()
        kills += 1
        if process.returncode == 0:
            break
    assert kills >= 3
    if not (folder / "manifest.json").exists():
        before = {p: p.stat().st_mtime_ns for p in (folder / "scratch").rglob("*.np?")}
        process = start(path, folder)
        assert process.wait() == 0, process.stderr.read().decode()
        found = json.loads((folder / "timing.json").read_text())["blocks_found_finished"]
        assert sum(found.values()) == len([p for p in before if p.parent.name in STAGES])
    assert files_of(folder) == reference
    assert not (folder / "scratch").exists()


def test_ctrl_c_says_how_to_go_on(path, tmp_path, reference):
    # A shell starts what runs in its background deaf to Ctrl-C, and children inherit that.
    process = start(path, tmp_path / "g", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    part = tmp_path / "g" / "scratch" / "assign" / "000001.npz"
    wait_for(part.exists, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate()
    assert process.returncode == 130 and b"goes on from the last finished block" in error
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS]) == 0
    assert files_of(tmp_path / "g") == reference


def test_a_second_build_is_refused_while_the_first_runs_and_not_after_its_death(path, tmp_path, reference):
    folder = tmp_path / "g"
    first = start(path, folder)
    wait_for((folder / "scratch" / "check" / "000000.npz").exists, first)
    first.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(BuildError, match=f"another build is writing here \\(process {first.pid} on"):
            build(path, folder)
    finally:
        first.kill()
        first.wait()
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    assert files_of(folder) == reference


def test_a_disk_that_fills_up(path, tmp_path, reference):
    """A limit on the size of files fails writes for real, half-way; with room again the build goes on."""
    limit = 6000
    process = start(
        path,
        tmp_path / "g",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)),
    )
    _, error = process.communicate()
    assert process.returncode == 1 and b"Finished parts are kept: make room and start again" in error
    kept = list((tmp_path / "g" / "scratch").rglob("*.np?"))
    assert kept and not list((tmp_path / "g" / "scratch").rglob(".*.np?.*"))
    for part in kept:
        np.load(part)
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS]) == 0
    assert files_of(tmp_path / "g") == reference


def test_too_little_disk_is_known_before_work_starts(path, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match=r"needs at least \d+\.\d GB of disk, and 0\.0 GB are free"):
        build(path, tmp_path / "g")


def test_a_damaged_part_is_named(path, tmp_path):
    process = start(path, tmp_path / "g")
    part = tmp_path / "g" / "scratch" / "neighbors" / "000003.npz"
    wait_for(part.exists, process)
    process.kill()
    process.wait()
    for later in ("rows", "transpose", "graph"):
        shutil.rmtree(tmp_path / "g" / "scratch" / later, ignore_errors=True)
    (tmp_path / "g" / "manifest.json").unlink(missing_ok=True)
    part.write_bytes(part.read_bytes()[:1000])
    with pytest.raises(GraphFileError, match=r"000003\.npz: damaged .* remove it and start again"):
        build(path, tmp_path / "g", block=100, search="ivf", search_options={"n_lists": 6, "n_probe": 2})


# --- bad input ---


def test_a_finished_build_is_not_done_again_and_other_settings_are_refused(path, tmp_path):
    manifest = build(path, tmp_path / "g")
    stamp = (tmp_path / "g" / "graph" / "data.npy").stat().st_mtime_ns
    assert build(path, tmp_path / "g") == manifest == read_graph_manifest(tmp_path / "g")
    assert (tmp_path / "g" / "graph" / "data.npy").stat().st_mtime_ns == stamp
    with pytest.raises(BuildError, match="other settings: block was 150 and is now 151"):
        build(path, tmp_path / "g", block=151)
    np.save(tmp_path / "other.npy", np.load(path) + 1)
    with pytest.raises(BuildError, match="other settings: the vectors have changed"):
        build(tmp_path / "other.npy", tmp_path / "g")


def test_one_changed_row_is_noticed(path, tmp_path):
    build(path, tmp_path / "g")
    changed = np.load(path)
    changed[401, 3] += 1
    np.save(tmp_path / "other.npy", changed)
    with pytest.raises(BuildError, match="the vectors have changed"):
        build(tmp_path / "other.npy", tmp_path / "g")


def test_vectors_that_change_during_a_build_are_noticed_wherever_they_do(path, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_module, "COMPARED_ROWS", 2)  # the plan alone must not notice
    build_until("_fill_bandwidths", monkeypatch, path, tmp_path / "g")
    changed = np.load(path)
    changed[401, 3] += 1
    np.save(tmp_path / "other.npy", changed)
    with pytest.raises(BuildError, match="vectors have changed since this build began, somewhere in rows 300 to 449"):
        build(tmp_path / "other.npy", tmp_path / "g")
    build(path, tmp_path / "g")
    build(path, tmp_path / "h")
    assert files_of(tmp_path / "g") == files_of(tmp_path / "h")


def build_until(step, monkeypatch, path, folder, **options):
    """A build that is stopped where `step`, a method of the driver, would begin."""

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(driver_module._Build, step, stop)
        build(path, folder, **options)


def test_what_a_killed_writer_left_is_removed(path, tmp_path, monkeypatch):
    build_until("_fill_bandwidths", monkeypatch, path, tmp_path / "g")
    for name in ("scratch/rows/.000001.npz.0f", "graph/.data.npy.0f", "rows/.weights.npy.0f"):
        (tmp_path / "g" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "g" / name).write_bytes(b"half")
    build(path, tmp_path / "g")
    assert not list((tmp_path / "g").rglob(".*"))


def test_a_kill_as_the_plan_is_written_or_before_scratch_is_removed_costs_nothing(path, tmp_path):
    folder = tmp_path / "g"
    folder.mkdir()
    (folder / ".plan.json.0f").write_text("{")
    build(path, folder)
    assert not list(folder.glob(".*"))
    (folder / "scratch" / "rows").mkdir(parents=True)
    build(path, folder)
    assert not (folder / "scratch").exists()


@pytest.mark.parametrize("name", ["probes.npy", "members.npy", "lists/000001.npy", "index.faiss"])
def test_what_is_damaged_between_starts_is_named_and_made_anew(path, tmp_path, monkeypatch, name):
    search = {"search": "hnsw"} if name == "index.faiss" else {"search": "ivf", "search_options": {"n_lists": 20}}
    build_until("_survey", monkeypatch, path, tmp_path / "g", **search)
    file = tmp_path / "g" / "scratch" / name
    file.write_bytes(file.read_bytes()[:-50])
    shutil.rmtree(tmp_path / "g" / "scratch" / "neighbors")
    with pytest.raises(GraphFileError, match=rf"{file.name}.*Remove it and start again, and it is made anew"):
        build(path, tmp_path / "g", **search)
    file.unlink()
    build(path, tmp_path / "g", **search)
    build(path, tmp_path / "h", **search)
    assert files_of(tmp_path / "g") == files_of(tmp_path / "h")


def test_a_disk_that_fills_up_under_the_index(path, tmp_path):
    limit = (30_000, resource.RLIM_INFINITY)
    process = subprocess.run(
        [*COMMAND, str(path), str(tmp_path / "g"), "--k", "12", "--search", "hnsw"],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert process.returncode == 1 and b"Finished parts are kept: make room and start again" in process.stderr
    assert not list((tmp_path / "g" / "scratch").rglob(".*"))


def test_odd_places(path, tmp_path):
    with pytest.raises(BuildError, match="a file; the build needs a folder of its own"):
        build(path, path)
    with pytest.raises(FileNotFoundError, match=r"none\.npy: no such file"):
        build(tmp_path / "none.npy", tmp_path / "g")
    assert not (tmp_path / "g").exists()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "manifest.json").write_text("{}")
    with pytest.raises(BuildError, match="not a build of asbc"):
        build(path, tmp_path / "store")
    np.save(tmp_path / "empty.npy", np.ones((100, 0), np.float32))
    with pytest.raises(ValueError, match=r"empty.npy: must have at least one column; got shape \(100, 0\)"):
        build(tmp_path / "empty.npy", tmp_path / "g")


def test_the_setting_that_differs_is_named_alone(path, tmp_path):
    build(path, tmp_path / "g")
    with pytest.raises(BuildError, match=r"other settings: k_cand was 12 and is now 13\."):
        build(path, tmp_path / "g", asbc.GraphBuilder(k_cand=13))


def test_rows_without_weight_are_told_once(path, tmp_path):
    builder = asbc.GraphBuilder(k_cand=12, weights="gaussian", bandwidth=asbc.Fixed(1e-3))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        build(path, tmp_path / "g", builder)
    with pytest.warns(asbc.EmptyRowWarning) as expected:
        builder.fit(np.load(path))
    assert [str(w.message) for w in told if w.category is asbc.EmptyRowWarning] == [str(expected[0].message)]


@pytest.mark.parametrize("damage", ["cut", "longer", "gone", "manifest"])
def test_a_finished_build_that_was_damaged_says_what_to_do(path, tmp_path, damage):
    folder = tmp_path / "g"
    build(path, folder, asbc.GraphBuilder(k_cand=12, weights="uniform"))
    file = folder / ("manifest.json" if damage == "manifest" else "rows/weights.npy")
    content = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(content + b"12345678" if damage == "longer" else content[:-8])
    with pytest.raises(BuildError, match=rf"{file.name}: .*remove .*g and build it anew"):
        build(path, folder, asbc.GraphBuilder(k_cand=12, weights="uniform"))


def test_a_folder_with_other_things_is_left_alone(path, tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "thesis.tex").write_text("years of work")
    with pytest.raises(BuildError, match=r"not empty, and not a build of asbc \(it holds 'thesis.tex'\)"):
        build(path, tmp_path / "g")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((50, 4), np.int32), "must be float16, float32 or float64; got int32"),
        (np.zeros(50, np.float32), r"must have shape \(n_samples, n_features\); got \(50,\)"),
        (np.zeros((12, 4), np.float32), "k_cand=12 neighbours need more than 12 nodes"),
        (np.where(np.arange(200) == 170, np.nan, 1.0)[:, None] * np.ones((1, 3)), "row 170 holds NaN or infinity"),
    ],
)
def test_bad_vectors(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises((ValueError, TypeError), match=message):
        build(tmp_path / "x.npy", tmp_path / "g")


def test_a_zero_row_has_no_direction(tmp_path, X):
    np.save(tmp_path / "x.npy", np.where(np.arange(N)[:, None] == 444, 0, X))
    with pytest.raises(ValueError, match="row 444 is all zeros"):
        build(tmp_path / "x.npy", tmp_path / "g", asbc.GraphBuilder(k_cand=12, metric="cosine"))


def test_vectors_that_end_early(path, tmp_path):
    (tmp_path / "x.npy").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(GraphFileError, match="ends early"):
        build(tmp_path / "x.npy", tmp_path / "g")


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        ({"bandwidth": asbc.SpectralBandwidth(gamma=-1)}, "gamma must be a positive number"),
        ({"k_min": -2}, "k_min must be a whole number"),
        ({"random_state": None}, "random_state must be a whole number of at least 0"),
    ],
)
def test_bad_settings_are_refused_before_the_search(path, tmp_path, builder, message):
    with pytest.raises(ValueError, match=message):
        build(path, tmp_path / "g", asbc.GraphBuilder(k_cand=12, **builder))
    assert not (tmp_path / "g").exists()


@pytest.mark.parametrize(
    "builder",
    [{}, {"k_min": 100}, {"bandwidth": asbc.SelfTuning(k=90)}],
    ids=["plain", "k_min", "rule"],
)
def test_more_neighbours_than_nodes_are_refused_at_once(path, tmp_path, builder):
    with pytest.raises(ValueError, match="k_cand=4000 neighbours need more than 4000 nodes"):
        build(path, tmp_path / "g", asbc.GraphBuilder(k_cand=4000, **builder))


def test_many_neighbours_are_taken_in_smaller_pieces(path, tmp_path, monkeypatch):
    build(path, tmp_path / "a")
    monkeypatch.setattr(neighbors_module, "MOST_PAIRS", 40 * 12**2 // 2)  # 40 nodes at a time
    build(path, tmp_path / "b")
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


@pytest.mark.parametrize("rule", ["spectral", "mean_knn"])
def test_the_fewest_neighbours_on_the_command_line(path, tmp_path, rule):
    arguments = ["--k", "8", "--search", "exact", "--quiet", "--bandwidth", rule]
    assert main([str(path), str(tmp_path / "g"), *arguments]) == 0


def test_command_line_errors(path, tmp_path, capsys):
    assert main([str(tmp_path / "none.npy"), str(tmp_path / "g")]) == 1
    assert "no such file" in capsys.readouterr().err
    np.savez(tmp_path / "x.npz", np.load(path))
    assert main([str(tmp_path / "x.npz"), str(tmp_path / "g")]) == 1
    assert "an .npz archive; an .npy file (n, d) is wanted" in capsys.readouterr().err
    assert main([str(path), str(tmp_path / "h"), "--bandwidth", "wide"]) == 1
    assert (
        "--bandwidth must be spectral, perplexity, self_tuning, mean_knn, median_spectral, " in capsys.readouterr().err
    )
    assert main([str(path), str(tmp_path / "h"), "--ef-search", "9"]) == 1
    assert "search='ivf' has no option 'ef_search'" in capsys.readouterr().err


@pytest.mark.parametrize("rule", ["spectral", "perplexity", "self_tuning", "mean_knn", "0.8"])
def test_command_line(path, tmp_path, capsys, rule):
    folder = tmp_path / "g"
    more = ["--npz", str(tmp_path / "g.npz"), "--parquet", str(tmp_path / "g.parquet"), "--bandwidth", rule]
    assert main([str(path), str(folder), *ARGUMENTS[:-1], *more]) == 0
    output = capsys.readouterr().out
    assert "recall@12" in output and "700 x 10 float32" in output
    assert (tmp_path / "g.npz").stat().st_size and (tmp_path / "g.parquet").stat().st_size


# --- memory ---


def test_memory_is_bounded_by_the_block(tmp_path):
    """Four times the nodes may not take much more memory; the small run has paid for code and threads."""
    peaks = {}
    for n in (20_000, 80_000):
        rng = np.random.default_rng(0)
        np.save(tmp_path / f"{n}.npy", rng.normal(size=(n, 4)).astype(np.float32))
        out = tmp_path / f"g{n}"
        settings = ["--k", "8", "--block", "2000", "--weights", "gaussian", "--bandwidth", "0.5", "--quiet"]
        subprocess.run([*COMMAND, str(tmp_path / f"{n}.npy"), str(out), *settings], check=True)
        peaks[n] = json.loads((out / "timing.json").read_text())["peak_bytes"]
    arrays = 60_000 * (4 * 4 * 2 + 8 * 6)  # what maps and one number per node may add
    assert peaks[80_000] < peaks[20_000] + arrays + 40e6, peaks


# --- Dask ---

distributed = pytest.importorskip("distributed")


def test_dask_gives_the_bits_of_the_local_engine(path, tmp_path, reference):
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS, "--engine", "dask", "--workers", "2"]) == 0
    assert files_of(tmp_path / "g") == reference
    assert json.loads((tmp_path / "g" / "timing.json").read_text())["engine"] == "dask"


@pytest.fixture
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


def test_a_killed_worker_costs_its_blocks_only(path, tmp_path, reference, cluster):
    folder = tmp_path / "g"
    process = start(path, folder, "--engine", "dask", "--scheduler", cluster.scheduler_address)
    with distributed.Client(cluster) as client:
        victim = next(iter(client.run(os.getpid).values()))
        wait_for((folder / "scratch" / "check" / "000002.npz").exists, process)
        os.kill(victim, signal.SIGKILL)
        assert process.wait() == 0, process.stderr.read().decode()
        assert victim not in client.run(os.getpid).values()
    assert files_of(folder) == reference


def test_a_killed_dask_build_is_finished_by_the_local_engine(path, tmp_path, reference, cluster):
    folder = tmp_path / "g"
    process = start(path, folder, "--engine", "dask", "--scheduler", cluster.scheduler_address)
    wait_for((folder / "scratch" / "neighbors" / "000001.npz").exists, process)
    process.kill()
    process.wait()
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    assert files_of(folder) == reference


def test_nothing_large_goes_through_the_scheduler(path, tmp_path, cluster):
    sizes = []

    class Counting(distributed.diagnostics.plugin.SchedulerPlugin):
        def transition(self, key, start, finish, *args, nbytes=None, **kwargs):
            if finish == "memory" and nbytes:
                sizes.append(nbytes)

    cluster.scheduler.add_plugin(Counting(), name="counting")
    build(path, tmp_path / "g", engine="dask", scheduler=cluster.scheduler_address)
    assert len(sizes) >= 5 * 5 and max(sizes) < 1000


def test_an_unreachable_scheduler_is_an_error_in_seconds(path, tmp_path):
    begun = time.monotonic()
    with pytest.raises(EngineError, match=r"no Dask scheduler answers at 'tcp://127\.0\.0\.1:9'"):
        build(path, tmp_path / "g", engine="dask", scheduler="tcp://127.0.0.1:9")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"], ids=["silent", "http"]
)
def test_a_peer_that_is_not_dask_is_an_error_in_seconds(path, tmp_path, answer):
    def serve():
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            peers.append(peer)
            if answer:
                peer.sendall(answer)

    peers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        begun = time.monotonic()
        with pytest.raises(BuildError, match="no Dask scheduler answers at"):
            build(path, tmp_path / "g", engine="dask", scheduler=f"tcp://127.0.0.1:{server.getsockname()[1]}")
        assert time.monotonic() - begun < 20
        server.shutdown(socket.SHUT_RDWR)
    for peer in peers:
        peer.close()


def test_a_scheduler_that_dies_is_an_error_that_says_how_to_go_on(tmp_path):
    address = tmp_path / "scheduler.json"
    places = {"scheduler": ["--port", "0", "--no-dashboard"], "worker": ["--no-nanny", "--no-dashboard"]}
    processes = []
    try:
        for place, options in places.items():
            command = [sys.executable, "-m", "dask", place, "--scheduler-file", str(address), *options]
            processes.append(subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL))
        wait_for(address.exists, processes[0])

        def slow(folder, stage, block):
            time.sleep(0.1 if block == 0 else 60)

        with distributed.Client(scheduler_file=str(address)) as client:
            done = DaskEngine(client).run(slow, "", "rows", range(3))
            assert next(done) == 0
            processes[0].kill()
            with pytest.raises(BuildError, match=r"lost in stage 'rows'.*the same command goes on"):
                next(done)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_relative_folder_is_the_same_for_workers_elsewhere(path, tmp_path, reference, cluster, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([str(path), "g", *ARGUMENTS, "--engine", "dask", "--scheduler", cluster.scheduler_address]) == 0
    assert files_of(tmp_path / "g") == reference


def test_a_worker_that_sees_another_folder_is_named(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": asbc.__version__, "n": 1}))
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "source.json").write_text(json.dumps({"path": str(plan)}))
    stamp = engine._stamp(str(tmp_path))
    assert engine._sees(str(tmp_path), stamp) is None
    plan.write_text(json.dumps({"version": asbc.__version__, "n": 2}))
    assert "sees another folder" in engine._sees(str(tmp_path), stamp)
    (tmp_path / "scratch" / "source.json").write_text(json.dumps({"path": str(tmp_path / "none.npy")}))
    assert "cannot read the vectors" in engine._sees(str(tmp_path), engine._stamp(str(tmp_path)))


def test_an_error_on_a_worker_arrives(tmp_path, cluster):
    np.save(tmp_path / "x.npy", np.where(np.arange(200) == 170, np.nan, 1.0)[:, None] * np.ones((1, 3)))
    with pytest.raises(ValueError, match="row 170 holds NaN or infinity"):
        build(tmp_path / "x.npy", tmp_path / "g", engine="dask", scheduler=cluster.scheduler_address)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "engine must be 'local' or 'dask'; got 'spark'"),
        ({"engine": "dask", "workers": 0}, "workers must be a whole number of at least 1; got 0"),
        ({"scheduler": "tcp://1.2.3.4:5"}, "scheduler goes with engine='dask'"),
        ({"block": 0}, "block must be a whole number of at least 1; got 0"),
    ],
)
def test_bad_engines(path, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        build(path, tmp_path / "g", **options)
