"""CONTRIBUTING.md is followed to the letter: every recipe in it is run as it stands there."""

import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import asbc
from asbc.runs import collect
from tests import commands

from .conftest import curved_clouds

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = dict(re.findall(r"^### (.+)\n((?:(?!^##).*\n?)+)", TEXT, re.M))
COMMANDS = {
    "asbc": "asbc.runs.command",
    "asbc-build": "asbc.outofcore.command",
    "asbc-embed": "asbc.embeddings.command",
}


def blocks(recipe):
    """(language, code) of the blocks of a recipe, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", RECIPES[recipe], re.M | re.S)


def run(target, words, folder, **variables):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASBC_CACHE": str(folder / "cache"), **variables}
    done = commands.run(target, words, cwd=folder, env=environment)
    assert done.returncode == 0, f"{target} {words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def follow(recipe, folder):
    """Write the files of a recipe into a folder and run the rest; gives what was printed."""
    printed = []
    for language, code in blocks(recipe):
        named = re.match(r"(?:# @package .+\n)?# (\S+\.(?:py|yaml))\n", code)
        if named:
            (folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
            (folder / named[1]).write_text(code)
        elif language == "python":
            (folder / "shown.py").write_text(code)
            printed.append(run(folder / "shown.py", [], folder))
        else:
            for line in code.strip().splitlines():
                name, *arguments = shlex.split(line)
                # As for an installed command, the current folder is not on the import path.
                printed.append(run(COMMANDS[name], arguments, folder, PYTHONSAFEPATH="1"))
    return printed


def report_page(folder):
    """The page of the results, written by a Python that cannot import what the recipe wrote."""
    for path in folder.glob("my_*.py"):
        path.write_text("raise AssertionError('imported')")
    run("asbc.report.command", ["outputs"], folder, PYTHONSAFEPATH="1")
    return (folder / "outputs" / "report" / "report.html").read_text()


def test_every_recipe_is_tested():
    assert set(RECIPES) == {"a bandwidth rule", "a kind of weights", "a task", "an encoder", "a search"}
    own = Path(__file__).read_text()
    assert all(f'follow("{recipe}"' in own for recipe in RECIPES)


def test_a_bandwidth_rule(tmp_path, monkeypatch):
    X = curved_clouds()[0]
    np.save(tmp_path / "vectors.npy", X)
    printed = follow("a bandwidth rule", tmp_path)
    assert re.findall(r"^(ThirdNeighbor|MedianDistance) \d+ ", printed[0], re.M) == ["ThirdNeighbor", "MedianDistance"]
    neighbors = asbc.search_neighbors(X, 30, metric="cosine")
    sigma = asbc.load_nodes(tmp_path / "graph")["sigma"]
    np.testing.assert_allclose(sigma, np.median(np.median(neighbors.distances, axis=1)), rtol=1e-2)
    monkeypatch.syspath_prepend(str(tmp_path))
    from my_rules import ThirdNeighbor

    builder = asbc.GraphBuilder(bandwidth=ThirdNeighbor()).fit(X)
    np.testing.assert_array_equal(builder.bandwidth_.sigma, neighbors.distances[:, 2])


def test_a_kind_of_weights(tmp_path):
    np.save(tmp_path / "vectors.npy", curved_clouds()[0])
    printed = follow("a kind of weights", tmp_path)
    assert "inverse (1/d²)" in printed[0]
    page = report_page(tmp_path)
    assert ">1/d²</th>" in page and "#aa3377" in page
    assert "asbc experiment=lp --config-dir ." in page
    table = collect(tmp_path / "outputs")
    assert set(table["method"]) == {"knn", "inverse"}
    assert set(table.loc[table["method"] == "inverse", "weights"]) == {"InverseDistance"}
    neighbors, weights = asbc.load_rows(tmp_path / "graph")
    np.testing.assert_allclose(weights, asbc.normalize_weights(1 / neighbors.distances))


def test_a_task(tmp_path):
    follow("a task", tmp_path)
    page = report_page(tmp_path)
    assert "<h3>agreement of edges</h3>" in page
    table = collect(tmp_path / "outputs")
    assert set(table["metric"]) == {"agreement"} and set(table["method"]) == {"knn", "nnk_sigma"}
    assert table["value"].between(0.2, 1).all()  # ten classes: a tenth by chance
    assert set(table["agreement.least"]) == {0.01}


def test_an_encoder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    colors = {"blue": (0, 0, 255), "red": (255, 0, 0)}
    for name, color in colors.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            image.new("RGB", (20, 20), color).save(tmp_path / "photos" / name / f"{number}.png")
    follow("an encoder", tmp_path)
    (entry,) = tmp_path.glob("cache/**/vectors.npy")
    vectors = np.load(entry)
    assert vectors.shape == (6, 3 * 3 * 3)
    np.testing.assert_allclose(vectors[0].reshape(3, 9), np.array([[0.0], [0.0], [1.0]]) * np.ones(9), atol=1e-6)


def test_a_search(tmp_path, monkeypatch):
    follow("a search", tmp_path)
    assert set(collect(tmp_path / "outputs")["metric"]) == {"loo", "loo_balanced"}
    monkeypatch.syspath_prepend(str(tmp_path))
    from my_search import ball_tree

    X = curved_clouds()[0]
    exact = asbc.search_neighbors(X, 12, metric="cosine")
    found = ball_tree(X, 12)
    np.testing.assert_array_equal(found.indices, exact.indices)
    np.testing.assert_allclose(found.distances, exact.distances, atol=1e-7)


def test_the_map_names_every_room():
    rooms = {path.name for path in (ROOT / "asbc").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for room in sorted(rooms):
        assert f"`asbc/{room}" in TEXT, f"{room} is not on the map"
    for named in re.findall(r"`(asbc/[\w/]+(?:\.py|/))`", TEXT):
        assert (ROOT / named).exists(), f"{named} is on the map and not there"


def test_the_glossary_has_the_words_that_the_code_uses():
    words = re.findall(r"^\| (\w+) \|", TEXT.partition("## Words")[2].partition("\n## ")[0], re.M)
    assert {"row", "part", "unit", "stage", "block", "job", "level", "trial", "sample", "survey"} <= set(words)
    assert len(words) == len(set(words))
