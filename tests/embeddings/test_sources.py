import re
from pathlib import Path

import numpy as np
import pytest

from asbc import normalize
from asbc.embeddings import Clinc100, Digits, Files, files
from asbc.embeddings.store import Entry

ROOT = Path(__file__).parents[2]


def test_npy_is_memory_mapped_and_named_after_its_file(tmp_path, rng):
    vectors = rng.standard_normal((6, 3)).astype(np.float32)
    np.save(tmp_path / "birds.npy", vectors)
    np.save(tmp_path / "y.npy", np.arange(6) % 2)
    loaded = Files(path=str(tmp_path / "birds.npy"), labels=str(tmp_path / "y.npy")).load()
    assert not loaded.vectors.flags.writeable, "memory-mapped"
    assert np.array_equal(loaded.vectors, vectors)
    assert np.array_equal(loaded.labels, np.arange(6) % 2)
    assert (loaded.name, loaded.encoder, len(loaded)) == ("birds", "files", 6)


def test_npz_with_and_without_names(tmp_path, rng):
    vectors = rng.standard_normal((4, 2))
    np.savez(tmp_path / "a.npz", embeddings=vectors, labels=np.array(["x", "y", "x", "y"]), other=np.eye(3))
    np.savez(tmp_path / "b.npz", vectors, np.arange(4))
    named = Files(str(tmp_path / "a.npz"), name="letters", encoder="mine").load()
    assert (named.name, named.encoder, list(named.labels)) == ("letters", "mine", ["x", "y", "x", "y"])
    only = Files(str(tmp_path / "b.npz")).load()
    assert np.array_equal(only.vectors, vectors)
    assert only.labels is None


def test_fingerprint_is_of_the_contents(tmp_path, rng):
    vectors = rng.standard_normal((5, 3))
    np.save(tmp_path / "c.npy", vectors)
    np.save(tmp_path / "f.npy", np.asfortranarray(vectors))
    np.savez(tmp_path / "z.npz", embeddings=vectors)
    np.savez(tmp_path / "l.npz", embeddings=vectors, labels=np.zeros(5, int))
    vectors[4, 2] += 1e-12
    np.save(tmp_path / "d.npy", vectors)
    c, f, z, labeled, changed = (
        Files(str(tmp_path / name)).load().fingerprint for name in ("c.npy", "f.npy", "z.npz", "l.npz", "d.npy")
    )
    assert c == f == z
    assert len({c, labeled, changed}) == 3


def test_whole_float_labels_become_integers(tmp_path):
    np.savez(tmp_path / "a.npz", embeddings=np.eye(3), labels=np.array([0.0, 2.0, 1.0]))
    assert Files(str(tmp_path / "a.npz")).load().labels.dtype == np.int64


def test_digits_need_nothing():
    digits = Digits().load()
    assert digits.vectors.shape == (1797, 64)
    assert digits.vectors.dtype == np.float32
    assert set(digits.labels) == set(range(10))
    assert digits.fingerprint == Digits().load().fingerprint


def test_the_sample_in_the_box():
    sample = Clinc100().load()
    assert (sample.vectors.shape, sample.vectors.dtype) == ((3000, 384), np.float32)
    assert np.array_equal(np.bincount(sample.labels), np.full(100, 30)), "the paper's shape"
    file = ROOT / "asbc" / "data" / "clinc100.npz"
    assert file.stat().st_size < 2_500_000
    with np.load(file) as archive:
        assert archive["embeddings"].dtype == np.float16
        assert len(set(archive["label_names"])) == 100
    said = file.with_suffix(".txt").read_text()
    assert "Creative Commons Attribution 3.0" in said and "github.com/clinc/oos-eval" in said
    unit = normalize(sample.vectors)
    near = np.argsort(-(unit @ unit.T), axis=1)[:, 1]
    assert np.mean(sample.labels[near] == sample.labels) > 0.85, "real embeddings: most have a neighbour of their class"


def test_sizes_are_checked_before_memory_is_taken(tmp_path, monkeypatch):
    """A small file that unpacks to far more: packed zeros."""
    np.savez_compressed(tmp_path / "bomb.npz", embeddings=np.zeros((4000, 1000)))
    assert (tmp_path / "bomb.npz").stat().st_size < 100_000
    monkeypatch.setattr(files, "_free_memory", lambda: 1_000_000)
    with pytest.raises(ValueError, match=r"bomb\.npz: needs 0\.0 GB of memory, .*save the vectors as \.npy"):
        Files(str(tmp_path / "bomb.npz")).load()
    np.savez_compressed(tmp_path / "beside.npz", embeddings=np.ones((4, 2)), pictures=np.zeros((4000, 1000)))
    assert len(Files(str(tmp_path / "beside.npz")).load()) == 4, "what is not asked for is not unpacked"


def test_a_shape_that_the_file_cannot_hold(tmp_path):
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**3)})
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("embeddings.npy", header.getvalue() + b"12345678")
    with pytest.raises(ValueError, match=r"lie\.npz: not a readable \.npz .*declares shape \(1000000000, 1000\)"):
        Files(str(tmp_path / "lie.npz")).load()


NAN = np.array([[0.0, 1.0], [np.nan, 1.0], [2.0, 2.0]])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"embeddings": np.ones((3, 2)), "labels": np.arange(4)}, r"labels must .* got \(4,\) for 3"),
        ({"embeddings": NAN}, "must be finite, row 1"),
        ({"embeddings": np.ones(3)}, r"shape \(n, d\), got \(3,\)"),
        ({"embeddings": np.ones((0, 3))}, r"shape \(n, d\), got \(0, 3\)"),
        ({"embeddings": np.ones((3, 2), int)}, "floating point, got dtype int"),
        ({"embeddings": np.array([[object()]])}, "embeddings is an array of Python objects"),
        ({"a": np.ones((3, 2)), "b": np.ones((3, 2))}, r"it has a \(3, 2\) float64, b .* Name it: vectors=a"),
        ({"embeddings": np.ones((2, 2)), "labels": np.array([0.5, 1])}, "whole and finite"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        Files(str(tmp_path / "a.npz")).load()


def test_bad_npy(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([[{}, []]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"objects\.npy: an array of Python objects"):
        Files(str(tmp_path / "objects.npy")).load()
    np.save(tmp_path / "cut.npy", np.ones((50, 4)))
    content = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"cut\.npy"):
        Files(str(tmp_path / "cut.npy")).load()
    with pytest.raises(FileNotFoundError, match=r"none\.npy: no such file"):
        Files(str(tmp_path / "none.npy")).load()
    with pytest.raises(ValueError, match="path: no file of vectors given"):
        Files().load()


def test_labels_and_names_given_for_an_entry_of_the_store_count(tmp_path, rng):
    vectors, labels = rng.standard_normal((4, 3)).astype(np.float32), np.array([0, 0, 1, 1])
    draft = Entry("entry", tmp_path)
    draft.write(np.arange(4), vectors, labels)
    draft.publish(4, {"encoder": "moco", "dataset": "birds"})
    entry = draft.folder
    np.save(tmp_path / "labels.npy", labels[::-1])
    as_stored = Files(str(entry)).load()
    assert (as_stored.name, as_stored.encoder) == ("birds", "moco")
    renamed = Files(str(entry), name="owls", encoder="byol").load()
    assert (renamed.name, renamed.encoder, renamed.fingerprint) == ("owls", "byol", as_stored.fingerprint)
    other = Files(str(entry), str(tmp_path / "labels.npy")).load()
    assert list(other.labels) == [1, 1, 0, 0] and (other.name, other.encoder) == ("birds", "moco")
    assert other.fingerprint != as_stored.fingerprint
    np.save(tmp_path / "labels.npy", labels[:3])
    with pytest.raises(ValueError, match="labels"):
        Files(str(entry), str(tmp_path / "labels.npy")).load()


def test_imports_go_one_way():
    order = ["store", "download", "files", "encoders", "datamodule", "source", "hub", "command"]
    found = [path for path in sorted((ROOT / "asbc" / "embeddings").glob("*.py")) if path.stem != "__init__"]
    assert {path.stem for path in found} == set(order)
    for path in found:
        used = re.findall(r"^\s*from asbc\.embeddings\.(\w+) import", path.read_text(), re.MULTILINE)
        assert all(order.index(name) < order.index(path.stem) for name in used), path.name
