"""Where vectors come from: files, entries of the store, URLs."""

import numpy as np
import pytest

from asbc.outofcore import BuildError
from asbc.storage import DamagedFileError, write_json
from tests.outofcore.small import N, build, files_of


def test_store_entry_and_url(X, path, tmp_path):
    entry = tmp_path / "entry"
    entry.mkdir()
    np.save(entry / "vectors.npy", X)
    write_json(entry / "manifest.json", {"dtype": "float32", "shape": [N, 10]})
    build(path, tmp_path / "a")
    build(entry, tmp_path / "b")
    build(f"file://{path}", tmp_path / "c")
    plain = files_of(tmp_path / "a")
    assert files_of(tmp_path / "b") == plain
    copied = files_of(tmp_path / "c")
    copied.pop("source/vectors.npy")
    assert copied == plain
    write_json(entry / "manifest.json", {"dtype": "float32", "shape": [N, 11]})
    with pytest.raises(DamagedFileError, match=r"has shape \(700, 10\), expected \(700, 11\)"):
        build(entry, tmp_path / "d")
    write_json(entry / "manifest.json", {"dtype": "float16", "shape": [N, 10]})
    with pytest.raises(DamagedFileError, match="has dtype float32, expected float16"):
        build(entry, tmp_path / "d")
    with pytest.raises(BuildError, match="cannot be read"):
        build("file:///nowhere/at/all.npy", tmp_path / "e")


def test_another_url_for_the_same_folder_is_refused(path, tmp_path):
    np.save(tmp_path / "other.npy", np.load(path)[::-1])
    manifest = build(f"file://{path}", tmp_path / "g")
    assert build(f"file://{path}", tmp_path / "g") == manifest
    with pytest.raises(BuildError, match=r"holds a copy of 'file://.*x\.npy', not of 'file://.*other\.npy'"):
        build(f"file://{tmp_path / 'other.npy'}", tmp_path / "g")


def test_a_url_that_ended_early_is_read_again(path, tmp_path):
    source = tmp_path / "x.npy"
    source.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BuildError, match=r"file://.*x\.npy: not a .*incomplete.*the same command downloads it again"):
        build(f"file://{source}", tmp_path / "g")
    assert list((tmp_path / "g" / "source").iterdir()) == []
    source.write_bytes(path.read_bytes())
    assert build(f"file://{source}", tmp_path / "g")["n"] == N


def test_vectors_that_end_early(path, tmp_path):
    (tmp_path / "x.npy").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match="or an incomplete one"):
        build(tmp_path / "x.npy", tmp_path / "g")
