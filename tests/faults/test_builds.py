"""Builds that are killed, whose files are damaged, or whose vectors change while they run."""

import json
import os
import shutil
from collections import Counter

import numpy as np
import pytest

import asbc
from asbc.outofcore import BuildError, driver
from asbc.outofcore.folder import read_graph_manifest
from asbc.storage import DamagedFileError
from tests.faults.builds import KINDS, build, built_files, write_vectors
from tests.faults.flips import flip, flipped
from tests.faults.kills import killed_at, operations


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_vectors(tmp_path_factory.mktemp("vectors"))


@pytest.fixture(scope="module")
def finished(path, tmp_path_factory):
    """Folders of finished builds by kind, made when they are asked for."""
    top, made = tmp_path_factory.mktemp("finished"), {}

    def folder(kind):
        if kind not in made:
            build(path, top / kind, kind)
            made[kind] = top / kind
        return made[kind]

    return folder


# ----------------------------------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_every_file_operation(path, finished, memory, some, counted, campaign, kind):
    if kind != "exact" and not campaign:
        pytest.skip("all kinds of search: make faults")
    wanted = built_files(path, finished(kind), kind)
    done = operations(build, [path, memory / "whole", kind], memory / "whole")
    numbers = some(range(len(done)), 8)
    for number in numbers:
        folder = memory / str(number)
        killed_at(number, build, [path, folder, kind], folder)
        assert built_files(path, folder, kind) == wanted, f"killed at {done[number]}"
        shutil.rmtree(folder)
    counted("kill -9 at a file operation", f"a build, search: {kind}", {"resumed to the same bytes": len(numbers)})


# ----------------------------------------------------------------------------------------------------------- flips


def everything(folder):
    """All that can be read of a finished graph, verified."""
    nodes, (neighbors, weights) = asbc.load_nodes(folder, verify=True), asbc.load_rows(folder, verify=True)
    graph = asbc.load_graph(folder, verify=True)
    arrays = [*nodes.values(), neighbors.indices, neighbors.distances, weights, graph.indptr, graph.indices, graph.data]
    return json.dumps(read_graph_manifest(folder)), [array.tobytes() for array in arrays]


@pytest.mark.parametrize("kind", KINDS)
def test_flips_in_a_finished_graph(finished, tmp_path, counted, campaign, kind):
    if kind != "exact" and not campaign:
        pytest.skip("all kinds of search: make faults")
    folder = shutil.copytree(finished(kind), tmp_path / "g")
    pristine, seen = everything(folder), Counter()
    files = [folder / "manifest.json", *sorted(folder.rglob("*.npy"))]
    for file in files:
        for bit in flipped(file, 8 if campaign else 1):
            try:
                same = everything(folder) == pristine
            except (DamagedFileError, FileNotFoundError) as error:
                assert file.name in str(error)
                seen["were refused, the file named"] += 1
                continue
            assert same, f"bit {bit} of {file.name} changes what is read, and nobody says so"
            seen["changed nothing that is read"] += 1
    counted("a bit flipped", f"a finished graph, search: {kind}", seen)


@pytest.mark.parametrize("kind", KINDS)
def test_flips_in_a_half_finished_build(path, finished, tmp_path, monkeypatch, some, counted, campaign, kind):
    if kind != "lists, cosine" and not campaign:
        pytest.skip("all kinds of search: make faults")

    def stop(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(driver._Build, "_join", stop)
        build(path, tmp_path / "half", kind)
    wanted, seen = built_files(path, finished(kind), kind), Counter()
    files = sorted(file for file in (tmp_path / "half").rglob("*") if file.is_file() and file.stat().st_size)
    rng = np.random.default_rng(1)
    for file in some(files, 6):
        for _ in range(2 if campaign else 1):
            folder = shutil.copytree(tmp_path / "half", tmp_path / "g")
            damaged = folder / file.relative_to(tmp_path / "half")
            flip(damaged, int(rng.integers(8 * file.stat().st_size)))
            try:
                same = built_files(path, folder, kind) == wanted
            except (BuildError, DamagedFileError) as error:
                assert damaged.name.removesuffix(".crc32") in str(error), error
                seen["were refused, the file named"] += 1
            else:
                assert same, f"a bit of {file.name} changes the graph, and nobody says so"
                seen["resumed to the same bytes"] += 1
            shutil.rmtree(folder)
    counted("a bit flipped", f"a resumed build, search: {kind}", seen)


def test_flipped_indices_do_not_crash_without_verification(finished, tmp_path, counted, campaign):
    folder = shutil.copytree(finished("exact"), tmp_path / "g")
    seen = Counter()
    for name in ("graph/indptr.npy", "graph/indices.npy", "rows/indices.npy"):
        for _ in flipped(folder / name, 20 if campaign else 4):
            try:
                graph = asbc.load_graph(folder)
                (graph @ np.ones(graph.shape[0])).sum() + graph.maximum(graph.T).sum() + graph[::-1].sum()
                asbc.to_graph(*asbc.load_rows(folder))
            except ValueError as error:
                assert "damaged" in str(error) or name.split("/")[1] in str(error) or "neighbors" in str(error), error
                seen["were refused"] += 1
            else:
                seen["stayed in range: no crash, found by verify=True"] += 1
            with pytest.raises(DamagedFileError, match=name.split("/")[1]):
                everything(folder)
    counted("a bit flipped", "indices of a graph that is opened without verify=True", seen)


# ------------------------------------------------------------------------------------------------- vectors that change


@pytest.mark.parametrize("how", ["in place", "another file"])
@pytest.mark.parametrize("moment", ["_search", "_survey", "_fill_bandwidths"])
def test_vectors_that_change_while_a_build_runs(path, finished, tmp_path, monkeypatch, how, moment):
    vectors = shutil.copy(path, tmp_path / "x.npy")
    meanwhile = getattr(driver._Build, moment)

    def change(self):
        other = np.load(path)
        other[17] += 1
        if how == "in place":
            np.lib.format.open_memmap(vectors, "r+")[:] = other
        else:
            np.save(tmp_path / "new.npy", other)
            os.replace(tmp_path / "new.npy", vectors)
        meanwhile(self)

    with monkeypatch.context() as patch, pytest.raises(BuildError, match="changed since this build began"):
        patch.setattr(driver._Build, moment, change)
        build(vectors, tmp_path / "g", "exact")
    assert not (tmp_path / "g" / "manifest.json").exists()
    with pytest.raises(DamagedFileError, match="not finished"):
        asbc.load_graph(tmp_path / "g")
    # With the old vectors back, nothing that was made of the new ones is used.
    shutil.copy(path, vectors)
    assert built_files(vectors, tmp_path / "g", "exact") == built_files(path, finished("exact"), "exact")


# ------------------------------------------------------------------------------------------------- mistaken beginnings


def test_a_missing_search_library_leaves_no_plan(path, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ImportError, match=r"search='hnsw' needs faiss: pip install"):
        build(path, tmp_path / "g", "hnsw")
    assert build(path, tmp_path / "g", "exact")["n"] == 120
