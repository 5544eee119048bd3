import ast
import importlib
import json
import re

import jupytext
import nbformat
import pytest

from notebooks.build import SOURCES, WIDGET, execute
from tests.commands import ROOT


def cells(notebook):
    return [(cell.cell_type, cell.source.strip()) for cell in notebook.cells]


def test_the_notebooks_are_there():
    assert {path.stem for path in SOURCES} >= {"spectral_regimes", "own_embeddings", "reading_a_sweep", "encoders"}
    readme = (ROOT / "README.md").read_text()
    assert all(f"notebooks/{path.stem}.ipynb" in readme for path in SOURCES)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebooks_use_public_names_and_open_in_colab(source):
    text = source.read_text()
    assert re.search(rf"colab\.research\.google\.com/github/[\w-]+/asbc/blob/main/notebooks/{source.stem}\.ipynb", text)
    assert text.count('run_line_magic("pip"') == 1
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("asbc"):
            public = importlib.import_module(node.module).__all__
            assert node.module == "asbc" or node.module.count(".") == 1
            assert {alias.name for alias in node.names} <= set(public)
        elif isinstance(node, ast.Import):
            assert all(alias.name == "asbc" for alias in node.names if alias.name.startswith("asbc"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_source_and_notebook_say_the_same(source):
    notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    nbformat.validate(notebook)
    assert cells(notebook) == cells(jupytext.read(source)), "run `make notebooks`"
    assert any(output.get("data", {}).get("image/png") for c in notebook.cells for output in c.get("outputs", []))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebooks_hold_no_paths_of_a_machine(source):
    text = json.dumps(
        [
            [c.source, [{k: v for k, v in o.get("data", {}).items() if k != "image/png"} | {"text": o.get("text")}
                        for o in c.get("outputs", [])]]
            for c in nbformat.read(source.with_suffix(".ipynb"), as_version=4).cells
        ]
    )  # fmt: skip
    assert not re.findall(r"/(?:tmp|home|root|work|usr|Users|private)/", text)
    assert source.with_suffix(".ipynb").stat().st_size < 400_000


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_notebooks_run(source, monkeypatch):
    if source.stem == "encoders":
        pytest.importorskip("lightning")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = execute(source, timeout=120)
    kinds = {key for c in notebook.cells for output in c.get("outputs", []) for key in output.get("data", {})}
    assert "image/png" in kinds
    assert not [o for c in notebook.cells for o in c.get("outputs", []) if o.get("output_type") == "error"]
    if source.stem == "spectral_regimes":
        assert WIDGET in kinds
