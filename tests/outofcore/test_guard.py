"""A build's folder kept safe: from other builds, from full disks, and from what killed writers leave."""

import numpy as np
import pytest

from asbc.outofcore import BuildError
from asbc.outofcore.command import main
from tests.outofcore.small import ARGUMENTS, Started, build, build_until, files_of
from tests.searches import needs_library


def test_a_second_build_is_refused_while_the_first_runs_and_not_after_its_death(path, tmp_path, reference):
    folder = tmp_path / "g"
    first = Started(path, folder, *ARGUMENTS, hold="assign/000001.npz").wait_until_held()
    with pytest.raises(BuildError, match=f"in use by process {first.pid} on .*Another build is writing there"):
        build(path, folder)
    first.kill()
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    assert files_of(folder) == reference


@pytest.mark.parametrize("mine", [False, True], ids=["new_folder", "own_folder"])
def test_a_file_that_is_refused_leaves_nothing(tmp_path, mine):
    np.save(tmp_path / "x.npy", np.zeros((50, 4), np.int32))
    if mine:
        (tmp_path / "made").mkdir()
    with pytest.raises(TypeError, match="got int32"):
        build(tmp_path / "x.npy", tmp_path / "made" / "deep" / "g")
    assert sorted(path.name for path in tmp_path.rglob("*")) == (["made"] if mine else []) + ["x.npy"]


def test_a_disk_that_fills_up(path, tmp_path, reference):
    """A limit on the size of files fails writes for real, half-way; with room again the build goes on."""
    stopped = Started(path, tmp_path / "g", *ARGUMENTS, largest_file=30_000)
    assert stopped.wait() == 1 and "finished parts are kept" in stopped.read()[1]
    kept = list((tmp_path / "g" / "scratch").rglob("*.np?"))
    assert kept and not list((tmp_path / "g" / "scratch").rglob(".*.np?.*"))
    for part in kept:
        np.load(part)
    assert main([str(path), str(tmp_path / "g"), *ARGUMENTS]) == 0
    assert files_of(tmp_path / "g") == reference


def test_a_disk_that_fills_up_under_the_index(path, tmp_path):
    needs_library("hnsw")
    stopped = Started(path, tmp_path / "g", "--k", "12", "--search", "hnsw", largest_file=30_000)
    assert stopped.wait() == 1 and "finished parts are kept" in stopped.read()[1]
    assert not list((tmp_path / "g" / "scratch").rglob(".*"))


def test_what_a_killed_writer_left_is_removed(path, tmp_path, monkeypatch):
    build_until("_fill_bandwidths", monkeypatch, path, tmp_path / "g")
    for name in ("scratch/rows/.000001.npz.", "graph/.data.npy.", "rows/.weights.npy."):
        (tmp_path / "g" / (name + 32 * "f")).parent.mkdir(exist_ok=True)
        (tmp_path / "g" / (name + 32 * "f")).write_bytes(b"half")
    build(path, tmp_path / "g")
    assert not list((tmp_path / "g").rglob(".*"))
