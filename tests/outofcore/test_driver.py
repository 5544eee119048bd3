"""Builds that search approximately, are stopped, damaged or finished: what is computed again, and what is not."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import asbc
from asbc.neighbors import search as search_module
from asbc.neighbors.search import OPTIONS
from asbc.outofcore import BuildError
from asbc.outofcore.command import main
from asbc.outofcore.folder import read_graph_manifest
from asbc.storage import DamagedFileError, write_json
from tests.commands import run
from tests.outofcore.small import ARGUMENTS, BUILDERS, STAGES, HalfTheThird, Started, build, build_until, files_of
from tests.searches import needs_library

KINDS = [kind for kind in OPTIONS if kind != "exact"]


@pytest.mark.parametrize("search", KINDS)
def test_approximate_search_gives_what_the_function_gives(X, path, tmp_path, search, monkeypatch):
    needs_library(search)
    monkeypatch.setattr(search_module, "MAX_SCANNED_SHARE", 1.0)  # otherwise few rows are searched exactly
    manifest = build(path, tmp_path / "g", search=search)
    wanted = asbc.search_neighbors(X, 12, search=search, metric="cosine")
    found, _ = asbc.load_rows(tmp_path / "g")
    assert (found.indices == wanted.indices).all()
    assert found.recall == manifest["recall"]["value"] == wanted.recall > 0.9
    assert manifest["recall"]["sample"] == 500


def test_poor_recall_is_a_warning(path, tmp_path):
    with pytest.warns(asbc.LowRecallWarning, match=r"recall is 0\.\d+, measured on 500 nodes"):
        build(path, tmp_path / "g", search="ivf", search_options={"n_lists": 60, "n_probe": 1})


def test_killed_over_and_over(path, tmp_path, reference):
    """kill -9 in every stage, a part written and not yet named; finished parts are not computed again."""
    folder = tmp_path / "g"
    for stage, block in (("assign", 3), ("neighbors", 2), ("rows", 5), ("transpose", 2), ("graph", 5)):
        suffix = "npy" if stage == "transpose" else "npz"
        Started(path, folder, *ARGUMENTS, hold=f"scratch/{stage}/{block:06d}.{suffix}").wait_until_held().kill()
        assert len(list((folder / "scratch" / stage).glob("0*.np?"))) == block
    before = len([part for part in (folder / "scratch").rglob("0*.np?") if part.parent.name in STAGES])
    assert main([str(path), str(folder), *ARGUMENTS]) == 0
    found = json.loads((folder / "timing.json").read_text())["blocks_found_finished"]
    assert sum(found.values()) == before
    assert files_of(folder) == reference
    assert not (folder / "scratch").exists()


@pytest.mark.parametrize(
    ("rule", "hold"),
    [
        ("log_log", "survey-0/at_last.npy"),
        ("density", "survey-1/000003.npz"),
    ],
)
def test_killed_in_the_middle_of_a_survey(path, tmp_path, rule, hold):
    more = ["--weights", "gaussian", "--bandwidth", rule]
    Started(path, tmp_path / "g", *ARGUMENTS, *more, hold=hold).wait_until_held().kill()
    for folder in ("g", "whole"):
        assert main([str(path), str(tmp_path / folder), *ARGUMENTS, *more]) == 0
    found = json.loads((tmp_path / "g" / "timing.json").read_text())["blocks_found_finished"]
    assert found[hold.split("/")[0]] == (7 if hold.endswith("at_last.npy") else 3) and found["rows"] == 0
    assert files_of(tmp_path / "g") == files_of(tmp_path / "whole")


def test_a_damaged_part_is_named(path, tmp_path, monkeypatch):
    search = {"block": 100, "search": "ivf", "search_options": {"n_lists": 6, "n_probe": 2}}
    build_until("_survey", monkeypatch, path, tmp_path / "g", **search)
    part = tmp_path / "g" / "scratch" / "neighbors" / "000003.npz"
    part.write_bytes(part.read_bytes()[:1000])
    with pytest.raises(DamagedFileError, match=r"000003\.npz: damaged .* Remove it and run the same command again"):
        build(path, tmp_path / "g", **search)


@pytest.mark.parametrize("name", ["probes.npy", "residuals.npy", "hnsw.npy"])
def test_what_is_damaged_between_starts_is_named_and_recomputed(path, tmp_path, monkeypatch, name):
    lists = {"search": "ivf", "search_options": {"n_lists": 20, "n_probe": 8}}
    search = {"search": "hnsw"} if name == "hnsw.npy" else lists
    needs_library(search["search"])
    build_until("_survey", monkeypatch, path, tmp_path / "g", **search)
    file = tmp_path / "g" / "scratch" / name
    file.write_bytes(file.read_bytes()[:-50])
    shutil.rmtree(tmp_path / "g" / "scratch" / "neighbors")
    with pytest.raises(DamagedFileError, match=rf"{file.name}.*Remove it and run the same command again"):
        build(path, tmp_path / "g", **search)
    file.unlink()
    build(path, tmp_path / "g", **search)
    build(path, tmp_path / "h", **search)
    assert files_of(tmp_path / "g") == files_of(tmp_path / "h")


def test_resuming_imports_nothing_that_a_file_names(path, tmp_path, monkeypatch):
    """Rules come from the caller: neither the plan nor the scratch files of somebody else's build can name another."""
    (tmp_path / "stranger.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Rule: pass")
    monkeypatch.syspath_prepend(str(tmp_path))
    builder = asbc.GraphBuilder(k_cand=12, **BUILDERS["log_log"])
    build_until("_fill_bandwidths", monkeypatch, path, tmp_path / "g", builder=builder)
    scratch = tmp_path / "g" / "scratch"
    shutil.rmtree(scratch / "rows")
    stranger = {"rule": "stranger:Rule", "parameters": {}}
    for name in ("rule.json", "rule-1/rule.json", "survey-0/rule.json"):
        write_json(scratch / name, {"surveys": 1, **stranger})
    build(path, tmp_path / "g", builder)
    build(path, tmp_path / "whole", builder)
    assert files_of(tmp_path / "g") == files_of(tmp_path / "whole")
    for name in ("bandwidth", "weights"):
        build_until("_survey", monkeypatch, path, tmp_path / name)
        plan = json.loads((tmp_path / name / "plan.json").read_text())
        write_json(tmp_path / name / "plan.json", plan | {name: stranger})
        with pytest.raises(BuildError, match=r"other settings: .* was 'stranger:Rule' and is now|other settings"):
            build(path, tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_vectors_that_change_during_a_build_are_noticed_wherever_they_do(path, tmp_path, monkeypatch):
    build_until("_fill_bandwidths", monkeypatch, path, tmp_path / "g")
    changed = np.load(path)
    changed[401, 3] += 1
    np.save(tmp_path / "other.npy", changed)
    with pytest.raises(BuildError, match="other settings: the vectors have changed"):
        build(tmp_path / "other.npy", tmp_path / "g")
    build(path, tmp_path / "g")
    build(path, tmp_path / "h")
    assert files_of(tmp_path / "g") == files_of(tmp_path / "h")


def test_a_finished_build_is_not_done_again_and_other_settings_are_refused(path, tmp_path):
    manifest = build(path, tmp_path / "g")
    stamp = (tmp_path / "g" / "graph" / "data.npy").stat().st_mtime_ns
    assert build(path, tmp_path / "g") == manifest == read_graph_manifest(tmp_path / "g")
    assert (tmp_path / "g" / "graph" / "data.npy").stat().st_mtime_ns == stamp
    with pytest.raises(BuildError, match=r"other settings: block was 150 and is now 151\."):
        build(path, tmp_path / "g", block=151)
    with pytest.raises(BuildError, match=r"other settings: k_cand was 12 and is now 13\."):
        build(path, tmp_path / "g", asbc.GraphBuilder(k_cand=13))
    other = np.load(path)
    other[401, 3] += 1
    np.save(tmp_path / "other.npy", other)
    with pytest.raises(BuildError, match="other settings: the vectors have changed"):
        build(tmp_path / "other.npy", tmp_path / "g")


@pytest.mark.parametrize("damage", ["flip", "longer", "gone", "manifest"])
def test_a_finished_build_that_was_damaged_says_what_to_do(path, tmp_path, damage):
    folder = tmp_path / "g"
    build(path, folder, asbc.GraphBuilder(k_cand=12, weights="uniform"))
    file = folder / ("manifest.json" if damage == "manifest" else "rows/weights.npy")
    content = file.read_bytes()
    file.unlink()
    if damage != "gone":
        file.write_bytes(content + b"12345678" if damage == "longer" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(BuildError, match=rf"{file.name}: .*remove .*g and build it again"):
        build(path, folder, asbc.GraphBuilder(k_cand=12, weights="uniform"))


def test_a_kill_as_the_plan_is_written_or_before_scratch_is_removed_costs_nothing(path, tmp_path):
    folder = tmp_path / "g"
    folder.mkdir()
    (folder / f".plan.json.{32 * '0'}").write_text("{")
    build(path, folder)
    assert not list(folder.glob(".*"))
    (folder / "scratch" / "rows").mkdir(parents=True)
    build(path, folder)
    assert not (folder / "scratch").exists()


def test_a_folder_with_other_things_is_left_alone(path, tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "thesis.tex").write_text("years of work")
    with pytest.raises(BuildError, match=r"not empty, and not a build of asbc \(it holds 'thesis.tex'\)"):
        build(path, tmp_path / "g")
    assert [entry.name for entry in (tmp_path / "g").iterdir()] == ["thesis.tex"]


def test_odd_places(path, tmp_path):
    with pytest.raises(BuildError, match="is a file; the build needs a folder"):
        build(path, path)
    with pytest.raises(FileNotFoundError, match=r"none\.npy: no such file"):
        build(tmp_path / "none.npy", tmp_path / "g")
    assert not (tmp_path / "g").exists()
    np.save(tmp_path / "empty.npy", np.ones((100, 0), np.float32))
    with pytest.raises(ValueError, match=r"empty.npy: must .* at least one column; got shape \(100, 0\)"):
        build(tmp_path / "empty.npy", tmp_path / "g")


def test_memory_is_bounded_by_the_block(tmp_path):
    """Four times the nodes may not take much more memory; the small run has paid for code and threads."""
    peaks = {}
    for n in (20_000, 80_000):
        rng = np.random.default_rng(0)
        np.save(tmp_path / f"{n}.npy", rng.normal(size=(n, 4)).astype(np.float32))
        out = tmp_path / f"g{n}"
        settings = ["--k=8", "--block=2000", "--weights=gaussian", "--bandwidth=0.5", "--metric=euclidean", "--quiet"]
        done = run("asbc.outofcore.command", [str(tmp_path / f"{n}.npy"), str(out), *settings])
        assert done.returncode == 0, done.stderr
        peaks[n] = json.loads((out / "timing.json").read_text())["peak_bytes"]
    arrays = 60_000 * (4 * 4 * 2 + 8 * 6)  # what maps and one number per node may add
    assert peaks[80_000] < peaks[20_000] + arrays + 40e6, peaks


class CountsMaps(HalfTheThird):
    """A rule that counts how often the process has mapped a file, while nodes are worked on."""

    counted: ClassVar[set[int]] = set()
    name: ClassVar[str] = ""

    def choose(self, X, neighbors, dimension):
        self.counted.add(Path("/proc/self/maps").read_text().count(self.name))
        return super().choose(X, neighbors, dimension)


@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="needs Linux's list of memory maps")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_the_vectors_are_mapped_once(X, tmp_path, dtype):
    """Pages of a second map would count as memory too; float16 is converted first, and then not needed any more."""
    path = tmp_path / "mapped_vectors.npy"
    np.save(path, X.astype(dtype))
    CountsMaps.name = str(path)
    CountsMaps.counted.clear()
    build(path, tmp_path / "g", asbc.GraphBuilder(k_cand=12, bandwidth=CountsMaps(), metric="euclidean"))
    assert CountsMaps.counted == ({1} if dtype == np.float32 else {0})
