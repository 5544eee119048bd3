"""Vectors and labels from any file: what is told by names, by shapes, by the user, and what cannot be told."""

import logging
import zipfile

import numpy as np
import pandas as pd
import pytest

from asbc.embeddings.files import OBJECTS, plain_labels, read_vectors

X = np.array([[0.5, 1.25], [2.0, -1.0], [0.0, 3.5], [4.25, 0.75]])
Y = ["ant", "bee", "ant", ""]


def frame(**columns):
    return pd.DataFrame({"f0": X[:, 0], "f1": X[:, 1], **columns})


def npz(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def csv(folder, table, name="a.csv"):
    table.to_csv(folder / name, index=False)
    return folder / name


@pytest.mark.parametrize("vectors", ["embeddings", "X", "features", "whatever"])
@pytest.mark.parametrize("labels", ["labels", "y", "Target", "kind"])
def test_npz_by_any_name(tmp_path, vectors, labels):
    """A usual name tells, and so does being the only one: ids differ from row to row, and a picture is no vector."""
    more = {"ids": np.arange(4), "names": np.array(list("abcd")), "pictures": np.zeros((4, 2, 2))}
    found, own = read_vectors(npz(tmp_path, **{vectors: X, labels: np.array([3, 1, 3, -1])}, **more))
    assert np.array_equal(found, X) and own.tolist() == [3, 1, 3, -1]


def test_other_files_in_an_npz_are_ignored(tmp_path):
    """Also one that has the name of an array: only the array was checked."""
    path = npz(tmp_path, embeddings=X)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "the vectors of four birds")
        archive.writestr("embeddings", b"not an array")
    assert np.array_equal(read_vectors(path)[0], X)


def test_parquet_with_a_missing_list_or_a_column_without_name(tmp_path):
    table = pd.DataFrame({"vector": [None, [0.0, 1.0], [1.0, 0.0]], "kind": ["a", "a", "b"]})
    table.to_parquet(tmp_path / "missing.parquet")
    with pytest.raises(ValueError, match="lists in vector must have one length"):
        read_vectors(tmp_path / "missing.parquet")
    pd.DataFrame({"": [1, 2, 3], "f0": [0.0, 1, 2], "f1": [1.0, 2, 3]}).to_parquet(tmp_path / "unnamed.parquet")
    assert read_vectors(tmp_path / "unnamed.parquet")[0].shape == (3, 2)


def test_npz_by_the_name_that_is_given(tmp_path):
    path = npz(tmp_path, a=X, b=X[:, ::-1], fine=np.array([0, 0, 1, 2]), coarse=np.array([0, 0, 1, 1]))
    with pytest.raises(
        ValueError, match=r"a \(4, 2\) float64, b .*coarse \(4,\) int64\. Name it: vectors=a \(asbc: emb"
    ):
        read_vectors(path)
    found, own = read_vectors(path, vectors="b", label="coarse")
    assert np.array_equal(found, X[:, ::-1]) and own.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match=r"there is no 'c'; it has a "):
        read_vectors(path, vectors="c")
    with pytest.raises(ValueError, match=r"there is no 'z'; it has a "):
        read_vectors(path, vectors="a", label="z")


def test_labels_that_cannot_be_told_are_listed_and_left(tmp_path, caplog):
    path = npz(tmp_path, X=X, fine=np.array([0, 0, 1, 2]), coarse=np.array([0, 0, 1, 1]))
    assert read_vectors(path)[1] is None
    assert "fine, coarse could be the labels. Name it: label=fine" in caplog.text


def test_what_was_guessed_is_said(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "asbc"):
        read_vectors(npz(tmp_path, data=X, kind=np.array([0, 0, 1, 1])))
    assert "vectors: data, (4, 2); labels: kind" in caplog.text


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("columns", "named", "wanted"),
    [
        ({"label": Y}, None, Y),
        ({"kind": Y, "text": list("abcd")}, None, Y),
        ({"id": [1, 2, 3, 4], "class": [1.0, 2.0, np.nan, -1.0]}, None, [1, 2, -1, -1]),
        ({"fine": [1, 1, 2, 3], "coarse": [0, 0, 1, 1]}, "coarse", [0, 0, 1, 1]),
        ({"score": [0.5, 0.25, 0.125, 0.5]}, None, None),
    ],
)
def test_tables_with_a_column_per_number(tmp_path, suffix, columns, named, wanted):
    path = tmp_path / f"a{suffix}"
    frame(**columns).to_csv(path, index=False) if suffix == ".csv" else frame(**columns).to_parquet(path)
    found, own = read_vectors(path, label=named)
    assert np.array_equal(found, X) and (own is None if wanted is None else own.tolist() == wanted)


def test_tables_with_lists_and_with_columns_of_other_names(tmp_path):
    pd.DataFrame({"embedding": list(X), "label": ["a", None, "b", "a"]}).to_parquet(tmp_path / "lists.parquet")
    found, own = read_vectors(tmp_path / "lists.parquet")
    assert np.array_equal(found, X) and own.tolist() == ["a", "", "b", "a"]
    pd.DataFrame({"embedding": [[1.0], [1.0, 2.0]]}).to_parquet(tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match=r"lists in embedding must have one length"):
        read_vectors(tmp_path / "ragged.parquet")
    flowers = pd.DataFrame({"length": X[:, 0], "width": X[:, 1], "species": ["i", "i", "v", "v"]})
    assert read_vectors(csv(tmp_path, flowers))[1].tolist() == ["i", "i", "v", "v"]
    # A whole number among fractions may be a class: that it is one of the vectors must be said.
    mixed = csv(tmp_path, flowers.assign(petals=[5, 5, 6, 6]))
    with pytest.raises(ValueError, match=r"petals int64, .*\. Name it: vectors='\*'"):
        read_vectors(mixed)
    assert read_vectors(mixed, vectors="*")[0].shape == (4, 3)
    assert read_vectors(mixed, vectors="*", label="petals")[0].shape == (4, 2)
    assert read_vectors(mixed, vectors="*th", label="petals")[1].tolist() == [5, 5, 6, 6]


def test_h5ad_as_scanpy_keeps_it(tmp_path):
    anndata = pytest.importorskip("anndata")
    obs = pd.DataFrame({"cell_type": pd.Categorical(["T", "B", None, "T"]), "depth": [0.5, 1.5, 2.5, 3.5]})
    obs.index = obs.index.astype(str)
    data = anndata.AnnData(X=np.ones((4, 3), np.float32), obs=obs, obsm={"X_pca": X, "X_umap": X[:, :1]})
    data.write_h5ad(tmp_path / "cells.h5ad")
    found, own = read_vectors(tmp_path / "cells.h5ad")
    assert np.array_equal(found, X) and own.tolist() == ["T", "B", "", "T"]
    assert read_vectors(tmp_path / "cells.h5ad", vectors="X")[0].shape == (4, 3)
    with pytest.raises(ValueError, match=r"there is no 'X_scvi'; it has X_pca \(4, 2\)"):
        read_vectors(tmp_path / "cells.h5ad", vectors="X_scvi")


def test_labels_of_another_file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array([0, 1, 0, 1]))
    np.savez(tmp_path / "y.npz", names=np.array(["a", "b"]), targets=np.array([0, 1, 0, 1]))
    csv(tmp_path, pd.DataFrame({"anything": ["a", "b", "c", None]}), "one.csv")
    csv(tmp_path, pd.DataFrame({"a": [1, 1, 2, 2], "b": [1, 2, 2, 2]}), "two.csv")
    assert read_vectors(tmp_path / "x.npy", tmp_path / "y.npy")[1].tolist() == [0, 1, 0, 1]
    assert read_vectors(tmp_path / "x.npy", tmp_path / "y.npz")[1].tolist() == [0, 1, 0, 1]
    assert read_vectors(tmp_path / "x.npy", tmp_path / "one.csv")[1].tolist() == ["a", "b", "c", ""]
    assert read_vectors(tmp_path / "x.npy", tmp_path / "two.csv", label="b")[1].tolist() == [1, 2, 2, 2]
    with pytest.raises(ValueError, match=r"two\.csv: cannot tell which part holds the labels of 4 rows; it has a"):
        read_vectors(tmp_path / "x.npy", tmp_path / "two.csv")
    (tmp_path / "bare.csv").write_text("ant\nbee\nant\nbee\n")
    with pytest.raises(ValueError, match=r"bare\.csv: labels must .* got \(3,\) for 4 rows; the first line of a"):
        read_vectors(tmp_path / "x.npy", tmp_path / "bare.csv")
    (tmp_path / "y.txt").write_text("ant\n" * 4)
    with pytest.raises(ValueError, match=r"y\.txt: a file of labels ends in \.npy"):
        read_vectors(tmp_path / "x.npy", tmp_path / "y.txt")
    with pytest.raises(FileNotFoundError, match=r"labels=intent: no such file; label=intent names an array"):
        read_vectors(tmp_path / "x.npy", "intent")
    with pytest.raises(ValueError, match=r"there is no .*y\.npy' in it\. A file of labels is given as labels=.*y\.npy"):
        read_vectors(tmp_path / "x.npy", label=str(tmp_path / "y.npy"))


@pytest.mark.parametrize(
    ("lines", "shape", "named"),
    [
        (["0.5,1.25", "2,-1.5"], (2, 2), False),  # rising by chance, as data do
        (["0.5,-1.25,cat", "2,-1,cat", "1,1,dog"], (3, 2), False),
        (["0.5,-1.5,7", "2.5,-1.5,7"], None, False),  # the last may be labels
        (["-0.5,-1e-3,.25", "2.5,1.0,7.1"], (2, 3), False),
        (["0,1,2", "0.5,1.5,2.5"], (1, 3), True),
        (["f0,f1", "0.5,1.5"], (1, 2), True),
        (["400.5,401.0,401.5,402.0,402.5,403.0", "1.5,1.5,1.5,1.5,1.5,1.5"], (1, 6), True),
    ],
    ids=["rising", "text", "whole", "numbers", "counted", "names", "wavelengths"],
)
def test_a_first_line_of_numbers_is_no_line_of_names(tmp_path, lines, shape, named, caplog):
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    with caplog.at_level(logging.INFO, "asbc"):
        if shape is None:
            with pytest.raises(ValueError, match=r"2 int64, .*\. Name it: vectors='\*'"):
                read_vectors(tmp_path / "a.csv")
            assert read_vectors(tmp_path / "a.csv", label="2")[1].tolist() == [7, 7]
        else:
            assert read_vectors(tmp_path / "a.csv")[0].shape == shape
    assert ("the first line holds numbers" in caplog.text) != named


def test_what_is_odd_among_many_columns_is_listed_first(tmp_path):
    table = pd.DataFrame({f"{'abcdefghijklmnop'[i]}": [0.5, 1.5] for i in range(16)} | {"rank": [1, 1]})
    with pytest.raises(ValueError, match=r"it has rank int64, a float64, .* and 5 more\. Name it"):
        read_vectors(csv(tmp_path, table))


def test_a_file_without_vectors_is_said_to_have_none(tmp_path):
    with pytest.raises(ValueError, match=r"holds the floating-point.*; it has words \(2,\) <U3, n \(2, 2\) int64"):
        read_vectors(npz(tmp_path, words=np.array(["ant", "bee"]), n=np.eye(2, dtype=int)))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.npy", b"0.5,1.5\n", r"a\.npy: not a readable \.npy file"),
        ("a.csv", b"\x93NUMPY\x01\x00", r"a\.csv: not a readable \.csv file"),
        ("a.npy", b"PK\x03\x04rest", r"not a readable \.npy file"),
        ("a.npz", b"\x80\x04K\x01.", r"a\.npz: not a readable \.npz file"),
        ("a.pkl", b"\x80\x04K\x01.", r"a file of vectors ends in \.npy, .* \.h5ad"),
        ("a.h5ad", b"\x89HDF\r\n\x1a\nrest", r"a\.h5ad: not a readable \.h5ad file"),
        ("a.parquet", b"PAR1rest", r"a\.parquet: not a readable \.parquet file"),
        ("a.csv", b"f0,f1\n1,2,3,4\n1\n1,2,3,4,5,6\n", r"a\.csv: not a readable \.csv file"),
    ],
)
def test_a_file_that_is_not_what_its_name_says(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_vectors(tmp_path / name)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (np.array([0.0, np.nan, 2.0]), [0, -1, 2]),
        (np.array(["a", None, np.nan], dtype=object), ["a", "", ""]),
        (np.array([True, None, False], dtype=object), [1, -1, 0]),
        (np.array([3, None, -1], dtype=object), [3, -1, -1]),
        (np.array(["-1", "a"]), ["-1", "a"]),
        (np.array([7, -1, 2**40]), [7, -1, 2**40]),
    ],
)
def test_missing_labels_have_one_mark(labels, wanted):
    assert plain_labels(labels, "here").tolist() == wanted


def test_labels_that_are_none_or_no_labels(caplog):
    assert plain_labels(np.array([-1, -1]), "here") is None
    assert "here: all 2 labels are missing" in caplog.text
    for bad, message in (
        (np.array([0.5, 1.0]), "whole and finite"),
        (np.array(["a", 1], dtype=object), "must be of one kind; got numbers and strings"),
        (np.array([{}], dtype=object), "got dtype object"),
    ):
        with pytest.raises(ValueError, match=f"here: labels .*{message}"):
            plain_labels(bad, "here")


def test_pickled_labels_are_told_how_to_be_saved(tmp_path, caplog):
    X, labels = np.random.default_rng(0).normal(size=(4, 3)), np.array(["a", None, np.nan, "a"], dtype=object)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", labels, allow_pickle=True)
    with pytest.raises(ValueError, match=r"y\.npy: .* Python objects, .* save labels as numbers with -1"):
        read_vectors(tmp_path / "x.npy", tmp_path / "y.npy")
    np.savez(tmp_path / "xy.npz", x=X, y=labels)
    with caplog.at_level("WARNING", "asbc"):
        assert read_vectors(tmp_path / "xy.npz")[1] is None
    assert "xy.npz: y is skipped, an array of Python objects" in caplog.text
    code = OBJECTS[OBJECTS.index("[") :]  # what the message advises
    np.save(tmp_path / "y.npy", eval(code, {"labels": labels}))
    assert read_vectors(tmp_path / "x.npy", tmp_path / "y.npy")[1].tolist() == ["a", "", "", "a"]
