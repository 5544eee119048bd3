import json
import os

import numpy as np
import pytest

from asbc import checksums
from asbc.embeddings import blocks
from asbc.embeddings.arrays import fingerprint
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.sources import Files
from asbc.embeddings.store import Store, read_entry

MANIFEST = {"encoder": "e", "source": "timm", "dataset": "d", "split": "test", "precision": "32-true"}


def finished(tmp_path, rng, n=10, d=3, labeled=True):
    store, vectors = Store(tmp_path), rng.standard_normal((n, d)).astype(np.float32)
    draft = store.draft("key")
    draft.create(n, d, labeled)
    draft.write(np.arange(n), vectors, np.arange(n) if labeled else None)
    draft.publish(MANIFEST, store.folder / "key")
    return store, vectors


def test_round_trip(tmp_path, rng):
    store, vectors = finished(tmp_path, rng)
    entry = read_entry(store.find("key"))
    assert isinstance(entry.vectors, np.memmap)
    assert np.array_equal(entry.vectors, vectors)
    assert np.array_equal(entry.labels, np.arange(10))
    assert (entry.name, entry.encoder) == ("d", "e")
    assert entry.fingerprint == fingerprint(vectors, np.arange(10)), "the same as of arrays from anywhere else"
    assert store.find("other") is None
    assert np.array_equal(np.load(store.find("key") / "vectors.npy"), vectors), "a plain .npy file"
    assert Files(str(store.find("key"))).load().fingerprint == entry.fingerprint


def test_rows_in_any_order_and_twice(tmp_path, rng):
    store, vectors = Store(tmp_path), rng.standard_normal((12, 4)).astype(np.float32)
    draft = store.draft("key")
    draft.create(12, 4, True)
    assert np.array_equal(draft.missing(), np.arange(12))
    order = rng.permutation(12)
    for rows in np.array_split(order, 5)[:4]:
        draft.write(rows, vectors[rows], rows * 2)
    assert np.array_equal(draft.missing(), np.sort(np.array_split(order, 5)[4]))
    with pytest.raises(RuntimeError, match="2 rows were never written"):
        draft.publish(MANIFEST, store.folder / "key")
    assert store.find("key") is None
    again = store.draft("key")  # as a later job would
    again.create(12, 4, True)
    again.write(order[6:], vectors[order[6:]], order[6:] * 2)
    again.publish(MANIFEST, store.folder / "key")
    assert np.array_equal(read_entry(store.find("key")).vectors, vectors)
    assert np.array_equal(read_entry(store.find("key")).labels, np.arange(12) * 2)


def test_torn_rows_are_written_again(tmp_path, rng):
    """A power cut can keep a row's checksum and lose the row, or half of it."""
    draft = Store(tmp_path).draft("key")
    draft.create(6, 4, True)
    draft.write(np.arange(6), rng.standard_normal((6, 4)), np.arange(6))
    torn = np.load(draft.folder / "vectors.npy", mmap_mode="r+")
    torn[2, 2:] = 0
    torn[4] = 0
    torn.flush()
    labels = np.load(draft.folder / "labels.npy", mmap_mode="r+")
    labels[5] = 0
    labels.flush()
    assert list(draft.missing()) == [2, 4, 5]


def test_rows_of_zeros_count(tmp_path):
    draft = Store(tmp_path).draft("key")
    draft.create(3, 4, False)
    draft.write(np.array([1]), np.zeros((1, 4)), None)
    assert list(draft.missing()) == [0, 2]


def test_a_draft_of_another_shape_starts_anew(tmp_path, rng):
    draft = Store(tmp_path).draft("key")
    draft.create(6, 4, False)
    draft.write(np.arange(6), rng.standard_normal((6, 4)), None)
    draft.create(6, 5, False)
    assert np.array_equal(draft.missing(), np.arange(6))
    (draft.folder / "vectors.npy").write_bytes(b"cut")
    draft.create(6, 5, False)
    assert np.array_equal(draft.missing(), np.arange(6))


def test_keys_follow_inputs():
    assert Store.key({"a": 1, "b": 2}) == Store.key({"b": 2, "a": 1}) != Store.key({"a": 1, "b": 3})


def test_damaged_entries(tmp_path, rng):
    store, _ = finished(tmp_path, rng)
    folder = store.find("key")
    manifest = (folder / "manifest.json").read_text()
    other = {**json.loads(manifest), "dtype": "float16"}
    del other["check"], other["blocks"]  # as version 0.1 wrote it
    (folder / "manifest.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match=r"vectors are \(10, 3\) float32, the manifest says .*float16.* remove"):
        read_entry(folder)
    (folder / "manifest.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match="written in format 99, this version reads 1"):
        store.entries()
    (folder / "manifest.json").write_text(manifest[:50])
    with pytest.raises(ValueError, match=r"manifest\.json is damaged"):
        read_entry(folder)
    (folder / "manifest.json").write_text(manifest)
    os.truncate(folder / "vectors.npy", 150)
    with pytest.raises(ValueError, match=r"vectors\.npy: not a \.npy file"):
        read_entry(folder)


@pytest.fixture
def forgetful(monkeypatch):
    """As a new process is."""
    monkeypatch.setattr(checksums, "_seen", {})
    return checksums


@pytest.mark.parametrize("kind", ["bit", "rows", "nan", "labels"])
def test_damage_is_named(tmp_path, rng, monkeypatch, forgetful, kind):
    monkeypatch.setattr(blocks, "_BLOCK", 60)  # 5 rows of 3 numbers
    store, _ = finished(tmp_path, rng)
    folder = store.find("key")
    assert len(json.loads((folder / "manifest.json").read_text())["blocks"]["vectors"]) == 2
    read_entry(folder)
    forgetful._seen.clear()
    file = folder / ("labels.npy" if kind == "labels" else "vectors.npy")
    array = np.load(file, mmap_mode="r+")
    if kind == "bit":
        array.view(np.uint32)[7, 1] ^= 1
    elif kind == "rows":
        array[[6, 8]] = array[[8, 6]]
    elif kind == "nan":
        array[9, 2] = np.nan
    else:
        array[3] += 1
    array.flush()
    wanted = r"labels\.npy: damaged" if kind == "labels" else r"vectors\.npy: damaged, rows 5 to 9 are not as"
    with pytest.raises(ValueError, match=wanted):
        read_entry(folder)
    with pytest.raises(ValueError, match=wanted):
        Files(str(folder)).load()


def test_checked_once_per_process_until_the_file_changes(tmp_path, rng, monkeypatch, forgetful):
    store, _ = finished(tmp_path, rng)
    folder, calls = store.find("key"), []
    once = blocks._checks
    monkeypatch.setattr(blocks, "_checks", lambda *arguments: calls.append(1) or once(*arguments))
    read_entry(folder), read_entry(folder)
    assert len(calls) == 1
    read_entry(folder, whole=True)
    os.utime(folder / "vectors.npy", ns=(1, 1))
    read_entry(folder)
    assert len(calls) == 3


def test_a_changed_manifest_and_an_entry_without_checksums(tmp_path, rng, forgetful):
    store, vectors = finished(tmp_path, rng)
    folder = store.find("key")
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"split": "test"', '"split": "tess"'))
    with pytest.raises(ValueError, match=r"manifest\.json is damaged \(its checksum differs\)"):
        read_entry(folder)
    old = {key: value for key, value in json.loads(text).items() if key not in ("blocks", "check")}
    (folder / "manifest.json").write_text(json.dumps(old))
    assert np.array_equal(read_entry(folder).vectors, vectors), "as asbc 0.1 wrote them"
    array = np.load(folder / "vectors.npy", mmap_mode="r+")
    array[0, 0] += 1
    array.flush()
    with pytest.raises(ValueError, match="damaged, its contents are not those that were written"):
        read_entry(folder)


@pytest.mark.parametrize("key", ["labels", "fingerprint"])
def test_a_manifest_that_does_not_say_all(tmp_path, rng, key):
    store, _ = finished(tmp_path, rng)
    path = store.find("key") / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({name: manifest[name] for name in manifest if name not in (key, "blocks", "check")}))
    with pytest.raises(ValueError, match=rf"manifest\.json is damaged \(it does not say '{key}'\)"):
        read_entry(path.parent)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("ASBC_CACHE", raising=False)
    assert cache_folder().name == "asbc"
    monkeypatch.setenv("ASBC_CACHE", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    assert cache_folder(tmp_path / "b") == tmp_path / "b"


def test_entries_of_an_empty_store(tmp_path):
    assert Store(tmp_path / "nowhere").entries() == []
