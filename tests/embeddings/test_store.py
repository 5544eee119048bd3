import os

import numpy as np
import pytest

from asbc.embeddings import Files
from asbc.embeddings.store import Entry, cache_folder, entry_folders, fingerprint, read_entry
from asbc.storage import DamagedFileError, read_json, write_json

MANIFEST = {"encoder": "e", "source": "timm", "dataset": "d", "split": "test", "precision": "32-true"}


def finished(tmp_path, rng, n=10, d=3, labeled=True):
    entry, vectors = Entry("key", tmp_path), rng.standard_normal((n, d)).astype(np.float32)
    entry.write(np.arange(n), vectors, np.arange(n) if labeled else None)
    entry.publish(n, MANIFEST)
    return entry.folder, vectors


def test_round_trip(tmp_path, rng):
    folder, vectors = finished(tmp_path, rng)
    entry = read_entry(folder)
    assert not entry.vectors.flags.writeable, "memory-mapped"
    assert np.array_equal(entry.vectors, vectors)
    assert np.array_equal(entry.labels, np.arange(10))
    assert (entry.name, entry.encoder) == ("d", "e")
    assert entry.fingerprint == fingerprint(vectors, np.arange(10)), "the same as of arrays from anywhere else"
    assert Entry("key", tmp_path).finished and not Entry("other", tmp_path).finished
    assert np.array_equal(np.load(folder / "vectors.npy"), vectors), "a plain .npy file"
    assert Files(str(folder)).load().fingerprint == entry.fingerprint


def test_batches_in_any_order_and_twice(tmp_path, rng):
    draft, vectors = Entry("key", tmp_path), rng.standard_normal((12, 4)).astype(np.float32)
    assert np.array_equal(draft.missing(12), np.arange(12))
    batches = np.array_split(np.arange(12), 5)
    for number in (3, 0, 4, 1):
        draft.write(batches[number], vectors[batches[number]], batches[number] * 2)
    assert np.array_equal(draft.missing(12), batches[2])
    with pytest.raises(RuntimeError, match="2 rows were never written, the first is 6"):
        draft.publish(12, MANIFEST)
    assert not draft.finished
    again = Entry("key", tmp_path)  # as a later job would
    again.write(batches[2], vectors[batches[2]], batches[2] * 2)
    again.write(batches[3], vectors[batches[3]], batches[3] * 2)
    again.write(batches[3][1:], vectors[batches[3][1:]], batches[3][1:] * 2)  # rows that another file has, too
    again.publish(12, MANIFEST)
    assert np.array_equal(read_entry(again.folder).vectors, vectors)
    assert np.array_equal(read_entry(again.folder).labels, np.arange(12) * 2)
    assert sorted(path.name for path in again.folder.iterdir()) == ["labels.npy", "manifest.json", "vectors.npy"]


def test_damaged_batches_are_computed_again(tmp_path, rng):
    """A cut file, a flipped bit, and a file of something else."""
    draft = Entry("key", tmp_path)
    for first in (0, 2, 4, 6):
        draft.write(np.arange(first, first + 2), rng.standard_normal((2, 4)), np.arange(2))
    files = sorted(draft.draft.iterdir())
    content = bytearray(files[1].read_bytes())
    files[1].write_bytes(content[:150])
    content[content.index(b"\n", 80) + 9] ^= 1
    files[2].write_bytes(content)
    (draft.draft / "words.npz").write_bytes(b"words")
    assert list(draft.missing(8)) == [2, 3, 4, 5]
    assert len(list(draft.draft.iterdir())) == 2, "they are removed"


def test_rows_of_zeros_count(tmp_path):
    draft = Entry("key", tmp_path)
    draft.write(np.array([1]), np.zeros((1, 4)), None)
    assert list(draft.missing(3)) == [0, 2]


def test_keys_follow_inputs():
    assert Entry.key({"a": 1, "b": 2}) == Entry.key({"b": 2, "a": 1}) != Entry.key({"a": 1, "b": 3})


@pytest.mark.parametrize("kind", ["bit", "rows", "nan", "labels", "cut", "gone"])
def test_damage_is_named(tmp_path, rng, kind):
    folder, _ = finished(tmp_path, rng)
    read_entry(folder)
    file = folder / ("labels.npy" if kind == "labels" else "vectors.npy")
    array = np.load(file, mmap_mode="r+")
    if kind == "bit":
        array.view(np.uint32)[7, 1] ^= 1
    elif kind == "rows":
        array[[6, 8]] = array[[8, 6]]
    elif kind == "nan":
        array[9, 2] = np.nan
    elif kind == "labels":
        array[3] += 1
    array.flush()
    if kind == "cut":
        os.truncate(file, 150)
    elif kind == "gone":
        file.unlink()
    for read in (read_entry, lambda folder: Files(str(folder)).load()):
        with pytest.raises(DamagedFileError, match=rf"{file.name}.*Remove the folder and embed again"):
            read(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "has format 99, expected 2"),
        ({"fingerprint": None}, "KeyError: 'fingerprint'"),
        ({"shape": None}, "KeyError: 'shape'"),
        ({"dtype": "float16"}, "has dtype float32, expected float16"),
        ({"shape": [10, 4]}, r"has shape \(10, 3\), expected \(10, 4\)"),
    ],
)
def test_a_manifest_that_does_not_fit(tmp_path, rng, change, message):
    folder, _ = finished(tmp_path, rng)
    path = folder / "manifest.json"
    write_json(path, {key: value for key, value in {**read_json(path), **change}.items() if value is not None})
    with pytest.raises(DamagedFileError, match=message):
        read_entry(path.parent)


def test_a_changed_manifest(tmp_path, rng):
    folder, _ = finished(tmp_path, rng)
    path = folder / "manifest.json"
    text = path.read_text()
    for changed in (text.replace('"split": "test"', '"split": "tess"'), text[:50], "[]", ""):
        path.write_text(changed)
        with pytest.raises(DamagedFileError, match=r"manifest\.json: damaged .*Remove the folder and embed again"):
            read_entry(path.parent)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("ASBC_CACHE", raising=False)
    assert cache_folder().name == "asbc"
    monkeypatch.setenv("ASBC_CACHE", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    assert cache_folder(tmp_path / "b") == tmp_path / "b"


def test_folders_of_an_empty_store(tmp_path):
    assert entry_folders(tmp_path / "nowhere") == []
