"""What is refused before a build begins."""

import shutil

import numpy as np
import pytest

import asbc
from asbc.outofcore import BuildError
from tests.outofcore.small import N, build, build_until, files_of


def test_too_little_disk_is_known_before_work_starts(path, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BuildError, match=r"needs at least \d+\.\d GB of disk, but only 0\.0 GB is free"):
        build(path, tmp_path / "g")


@pytest.mark.parametrize(
    ("builder", "message"),
    [
        ({"bandwidth": asbc.SpectralBandwidth(gamma=-1)}, "gamma must be a positive number"),
        ({"k_min": -2}, "k_min must be a whole number"),
        ({"random_state": None}, "random_state must be a whole number from 0"),
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


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((50, 4), np.int32), "must be float16, float32 or float64; got int32"),
        (np.zeros(50, np.float32), r"must have shape \(n_samples, n_features\); got \(50,\)"),
        (np.zeros((12, 4), np.float32), "k_cand=12 neighbours need more than 12 nodes"),
        (np.where(np.arange(200) == 170, np.nan, 1.0)[:, None] * np.ones((1, 3)), "row 170 holds NaN or infinity"),
    ],
)
def test_bad_vectors(path, tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises((ValueError, TypeError), match=message):
        build(tmp_path / "x.npy", tmp_path / "g")
    build(path, tmp_path / "g")
    assert asbc.load_graph(tmp_path / "g").shape == (N, N), "what was refused stands in the way of other vectors"


def test_a_plan_that_something_was_built_of_stays(path, tmp_path, X, monkeypatch):
    np.save(tmp_path / "x.npy", X[::-1])
    build_until("_survey", monkeypatch, path, tmp_path / "g")
    with pytest.raises(BuildError, match="holds a build with other settings: the vectors have changed"):
        build(tmp_path / "x.npy", tmp_path / "g")
    with pytest.raises(BuildError, match="holds a build with other settings: block was 150 and is now 200"):
        build(path, tmp_path / "g", block=200)


def test_a_zero_row_has_no_direction(tmp_path, X):
    np.save(tmp_path / "x.npy", np.where(np.arange(N)[:, None] == 444, 0, X))
    with pytest.raises(ValueError, match="row 444 is all zeros"):
        build(tmp_path / "x.npy", tmp_path / "g", asbc.GraphBuilder(k_cand=12, metric="cosine"))


def test_settings_may_be_numpy_numbers(path, tmp_path):
    plain = {
        "k_cand": 80,
        "k_min": 70,
        "n_rep": 2,
        "random_state": 3,
        "sharpen": True,
        "search_options": {"n_probe": 2},
    }
    numbers = {name: np.array(value)[()] for name, value in plain.items() if name != "search_options"}
    numbers["search_options"] = {"n_probe": np.int64(2)}
    for folder, settings, k in (("plain", plain, 75), ("numpy", numbers, np.int32(75))):
        build(path, tmp_path / folder, asbc.GraphBuilder(bandwidth=asbc.SelfTuning(k=k), **settings), search="ivf")
    assert files_of(tmp_path / "plain") == files_of(tmp_path / "numpy")
