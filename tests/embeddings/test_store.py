import json
import os

import numpy as np
import pytest

from asbc.embeddings.arrays import fingerprint
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.sources import Files
from asbc.embeddings.store import Store, read_entry

MANIFEST = {"encoder": "e", "source": "timm", "dataset": "d", "split": "test", "precision": "32-true"}


def finished(tmp_path, rng, n=10, d=3, labelled=True):
    store, vectors = Store(tmp_path), rng.standard_normal((n, d)).astype(np.float32)
    draft = store.draft("key")
    draft.create(n, d, labelled)
    draft.write(np.arange(n), vectors, np.arange(n) if labelled else None)
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
    (folder / "manifest.json").write_text(manifest.replace("float32", "float16"))
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


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("ASBC_CACHE", raising=False)
    assert cache_folder().name == "asbc"
    monkeypatch.setenv("ASBC_CACHE", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    assert cache_folder(tmp_path / "b") == tmp_path / "b"


def test_entries_of_an_empty_store(tmp_path):
    assert Store(tmp_path / "nowhere").entries() == []
