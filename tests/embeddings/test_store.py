import os

import numpy as np
import pytest

from asbc.embeddings import Files
from asbc.embeddings.store import Store, cache_folder, fingerprint, read_entry
from asbc.storage import DamagedFileError, read_json, write_json

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
    assert not entry.vectors.flags.writeable, "memory-mapped"
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


@pytest.mark.parametrize("kind", ["bit", "rows", "nan", "labels", "cut", "gone"])
def test_damage_is_named(tmp_path, rng, kind):
    store, _ = finished(tmp_path, rng)
    folder = store.find("key")
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
        ({"fingerprint": None}, "lacks 'fingerprint'"),
        ({"shape": None}, "lacks 'shape'"),
        ({"dtype": "float16"}, "has dtype float32, expected float16"),
        ({"shape": [10, 4]}, r"has shape \(10, 3\), expected \(10, 4\)"),
    ],
)
def test_a_manifest_that_does_not_fit(tmp_path, rng, change, message):
    store, _ = finished(tmp_path, rng)
    path = store.find("key") / "manifest.json"
    write_json(path, {key: value for key, value in {**read_json(path), **change}.items() if value is not None})
    with pytest.raises(DamagedFileError, match=message):
        read_entry(path.parent)


def test_a_changed_manifest(tmp_path, rng):
    store, _ = finished(tmp_path, rng)
    path = store.find("key") / "manifest.json"
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
    assert Store(tmp_path / "nowhere").folders() == []
