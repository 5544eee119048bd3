"""Where vectors come from: files, entries of the store, URLs."""

import numpy as np
import pytest

from asbc.outofcore import BuildError
from asbc.storage import DamagedFileError, write_array_blocks, write_json
from tests.outofcore.small import N, build, files_of


def write_entry(folder, X, **changes):
    """Write vectors as the embedding store does; `changes` go into the manifest."""
    vectors = folder / "vectors.npy"
    checksum = write_array_blocks(vectors, X.dtype, X.shape, iter([X]))
    manifest = {"dtype": str(X.dtype), "shape": list(X.shape), "checksums": {"vectors.npy": checksum}}
    write_json(folder / "manifest.json", manifest | changes)
    return folder


def test_store_entry_and_url(X, path, tmp_path):
    build(path, tmp_path / "a")
    build(write_entry(tmp_path / "entry", X), tmp_path / "b")
    build(f"file://{path}", tmp_path / "c")
    plain = files_of(tmp_path / "a")
    assert files_of(tmp_path / "b") == plain
    copied = files_of(tmp_path / "c")
    copied.pop("source/vectors.npy")
    assert copied == plain
    with pytest.raises(BuildError, match="cannot be read"):
        build("file:///nowhere/at/all.npy", tmp_path / "e")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [N, 11]}, r"has shape \(700, 10\), expected \(700, 11\)"),
        ({"dtype": "float16"}, "has dtype float32, expected float16"),
        ({"dtype": "os.system"}, r"manifest\.json: has no dtype, shape and checksum"),
        ({"shape": None}, r"manifest\.json: has no dtype, shape and checksum"),
        ({"checksums": {}}, r"manifest\.json: has no dtype, shape and checksum"),
        ({"checksums": {"vectors.npy": 1}}, r"vectors\.npy: damaged \(its checksum differs"),
    ],
)
def test_a_store_entry_that_does_not_fit_its_manifest(X, tmp_path, change, message):
    with pytest.raises(DamagedFileError, match=message):
        build(write_entry(tmp_path / "entry", X, **change), tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_a_store_entry_that_is_a_link_out_of_its_folder(X, path, tmp_path):
    (write_entry(tmp_path / "entry", X) / "vectors.npy").unlink()
    (tmp_path / "entry" / "vectors.npy").symlink_to(path)
    with pytest.raises(DamagedFileError, match="a link that leads outside the folder"):
        build(tmp_path / "entry", tmp_path / "g")


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
