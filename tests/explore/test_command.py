"""The command: what it reads, what it refuses, and what it leaves alone."""

import os

import numpy as np
import pytest

from asbc.embeddings.store import Entry
from asbc.explore import command, findings
from asbc.explore.command import find_images, read_source, read_texts
from asbc.explore.page import make_thumbnails, render
from tests.explore.conftest import EVIL


@pytest.fixture
def still(monkeypatch):
    monkeypatch.setattr(findings, "place_nodes", lambda graph, *_, **__: np.zeros((graph.shape[0], 2), np.float32))


def run(*words):
    return command.main([str(word) for word in words])


def test_the_same_page_from_a_graph_that_was_built_before(made, still, tmp_path, capsys):
    import asbc

    asbc.build_graph(made / "vectors.npy", tmp_path / "graph", asbc.GraphBuilder(weights="blend", metric="euclidean"))
    assert run(tmp_path / "graph", "--out", tmp_path / "bare.html", "--quiet") == 0
    assert run(made / "vectors.npy", "--graph", tmp_path / "graph", "--out", tmp_path / "both.html", "--quiet") == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "bare.html"), str(tmp_path / "both.html")]
    import pandas as pd

    first, bare, both = (
        pd.read_parquet(p) for p in (made / "explore.parquet", tmp_path / "bare.parquet", tmp_path / "both.parquet")
    )
    for name in ("dimension", "sigma", "outlier_score", "component"):
        assert (first[name] == bare[name]).all() and (first[name] == both[name]).all()
    assert "RankMe" in (tmp_path / "both.html").read_text() and "RankMe" not in (tmp_path / "bare.html").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "bare.html", "bare.parquet", "both.html", "both.parquet", "graph",
    ]  # fmt: skip


def test_pictures(made, still, tmp_path):
    words = [made / "vectors.npy", "--images", made / "pictures", "--out", tmp_path / "a.html", "--quiet"]
    assert run(*words) == 0
    text = (tmp_path / "a.html").read_text()
    assert r"003\u003cb\u003e.png" in text and "003<b>.png" not in text
    paths = find_images(made / "pictures", 120)
    assert [path.name for path in paths] == [f"{i:03d}<b>.png" for i in range(120)]
    (tmp_path / "bad.png").write_bytes(b"no picture")
    made_of = make_thumbnails([*paths[:3], tmp_path / "bad.png"], np.array([0, 2, 3]))
    assert made_of[0] and made_of[3] == "" and set(made_of) == {0, 2, 3}


def test_pictures_that_are_too_many_bytes(made, still, monkeypatch):
    paths = find_images(made / "pictures")
    monkeypatch.setattr("asbc.explore.page.MAX_THUMBNAIL_BYTES", 3000)
    few = make_thumbnails(paths, np.arange(120))
    assert 0 < len(few) < 120 and sum(map(len, few.values())) < 4000
    found = findings.explore(np.load(made / "vectors.npy"), images=[path.name for path in paths])
    assert f"{120 - len(few)} of 120 nodes have no image here" in render(found, "few", few)


def test_pictures_are_in_the_order_of_an_image_folder(tmp_path):
    for name in ("b/2.png", "b/10.png", "a b/1.png", "a/z.png", "a/deep/0.png", "top.jpg", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)]
    assert names == ["top.jpg", "a/z.png", "a/deep/0.png", "a b/1.png", "b/10.png", "b/2.png"]


def test_texts_are_lines_and_nothing_else(tmp_path):
    (tmp_path / "t.txt").write_bytes("one\r\ntwo\x0bstill two\nthree\u2028still three".encode())
    assert read_texts(tmp_path / "t.txt", 3) == ["one", "two\x0bstill two", "three\u2028still three"]


def test_a_folder_of_asbc_embed_is_called_by_what_it_holds(made, tmp_path):
    vectors, entry = np.load(made / "vectors.npy"), Entry("hash", tmp_path)
    entry.write(np.arange(120), vectors, np.arange(120) % 3)
    entry.publish(120, {"encoder": "simclr", "dataset": "photos"})
    title, stored, labels, graph = read_source(entry.folder)
    assert title == "simclr of photos" and graph is None
    assert (stored == vectors).all() and (labels == np.arange(120) % 3).all()


def test_the_bundled_sample_has_the_names_of_its_intents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, vectors, labels, _ = read_source("clinc100")
    assert vectors.shape == (3000, 384) and "translate" in set(labels)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nowhere.npy"], "nowhere.npy: no such file"),
        (["clinc10"], "clinc10: no such file; did you mean clinc100?"),
        (["vectors.npy", "--labels", "short.npy"], "got (3,) for 120"),
        (["vectors.npy", "--texts", "short.txt"], "texts: short.txt has 2 lines for 120 vectors"),
        (["vectors.npy", "--texts", "nowhere.txt"], "texts: nowhere.txt: no such file"),
        (["vectors.npy", "--images", "nowhere"], "images: nowhere holds 0 images for 120 vectors"),
        (["vectors.npy", "--images", "."], "images: . holds 0 images for 120 vectors"),
        (["vectors.npy", "--out", "page.txt"], "out must be a file that ends in .html; got 'page.txt'."),
        (["vectors.npy", "--out", "mine.html"], "mine.html: not written by asbc-explore"),
        (["vectors.npy", "--out", "table.html"], "table.parquet: not written by asbc-explore"),
        (["vectors.npy", "--graph", "."], "no manifest.json here"),
        (["."], ".: a folder that asbc-embed did not write"),
        (["few.npy"], "a page needs at least 9 vectors; got 4."),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_in_one_line(words, says, made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    os.link(made / "vectors.npy", "vectors.npy")
    np.save("short.npy", np.arange(3))
    np.save("few.npy", np.eye(4))
    (tmp_path / "short.txt").write_text("one\ntwo\n")
    (tmp_path / "mine.html").write_text("mine")
    (tmp_path / "table.parquet").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert run(*words, "--quiet") == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("asbc-explore: ") and says in said.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_a_file_was_taken_for_is_said(made, still, tmp_path, caplog):
    np.savez(tmp_path / "a.npz", stuff=np.load(made / "vectors.npy"), kind=np.arange(120) % 3)
    assert run(tmp_path / "a.npz", "--out", tmp_path / "a.html") == 0
    assert "vectors: stuff, (120, 12); labels: kind" in caplog.text


def test_the_title_is_the_one_given_not_the_name_of_the_file(made, still, tmp_path):
    words = [made / "vectors.npy", "--out", tmp_path / "a.html", "--quiet"]
    assert run(*words) == 0 and "<title>120 vectors</title>" in (tmp_path / "a.html").read_text()
    assert run(*words, "--title", "Clouds & co") == 0
    text = (tmp_path / "a.html").read_text()
    assert "<title>Clouds &amp; co</title>" in text and "<h1>Clouds &amp; co</h1>" in text


def test_a_page_of_ours_is_written_anew(made, still):
    words = [made / "vectors.npy", "--out", made / "again.html", "--quiet"]
    assert run(*words, "--title", "first") == 0 and run(*words, "--title", EVIL) == 0
    text = (made / "again.html").read_text()
    assert "<title>first</title>" not in text and EVIL not in text
