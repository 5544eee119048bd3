import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from asbc.report.command import main
from asbc.report.page import GLOSSARY, glossary_markdown
from asbc.report.verdicts import judge
from asbc.runs.experiments import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()


def test_experiments_and_scripts_that_the_readme_names_are_there():
    for name in re.findall(r"experiment=(\w+)", TEXT):
        assert (ROOT / "conf" / "experiment" / f"{name}.yaml").exists(), name
    scripts = set(re.findall(r"experiments/(\w+\.py)", TEXT))
    assert scripts and all((ROOT / "experiments" / name).exists() for name in scripts)
    page = (ROOT / "docs" / "experiments.md").read_text()
    assert {name for name, r in EXPERIMENTS.items() if r.suggested} <= set(re.findall(r"experiment=(\w+)", page))


def test_make_targets_that_the_readme_names_are_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^|`)make (\w+)", TEXT, re.M)) <= targets


def test_the_figures_are_small():
    images = re.findall(r"\]\((docs/\w+\.png)\)", TEXT)
    assert images and all((ROOT / image).stat().st_size < 300_000 for image in images)


def test_the_readme_is_short():
    assert len(TEXT.splitlines()) <= 160


def test_the_glossary_is_what_its_script_writes():
    page = (ROOT / "docs" / "glossary.md").read_text()
    shown = page.partition("<!-- glossary -->")[2].partition("<!-- end of glossary -->")[0].strip()
    assert shown == glossary_markdown()
    assert {"NNK", "LOO", "LP", "dimMST", "γ (gamma)", "α (alpha)", "σ (sigma)"} <= set(GLOSSARY)


@pytest.fixture
def paper(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    return importlib.import_module("paper")


def test_the_table_is_what_its_script_writes(subject, paper):
    lines = paper.chain_table([subject]).markdown().splitlines()
    block = TEXT.partition("<!-- results -->")[2].partition("<!-- end of results -->")[0].strip().splitlines()
    assert block[:2] == lines[:2]
    assert [line.split("|")[1] for line in block[2:8]] == [line.split("|")[1] for line in lines[2:]]
    for line in block[3:8]:
        assert len(re.findall(r"[+-]\d\.\d{3} \[[+-]\d\.\d{3}, [+-]\d\.\d{3}\]", line)) == 2


def test_the_page_of_the_paper_has_every_claim_figure_and_encoder(subject, paper, tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "DOCS", tmp_path)
    encoders = [replace(subject, encoder=name) for name in ("simclr", "mocov2")]
    (first,) = paper.bundled()[:1]
    card = paper.read_json(paper.DATA / paper.CIFAR100_CARD)
    known = card | {"encoders": dict.fromkeys(("simclr", "mocov2"), card["encoders"][first])}
    monkeypatch.setattr(paper, "read_json", lambda path: known)
    text = paper.page(encoders)
    assert {path.name for path in tmp_path.iterdir()} == set(re.findall(r"\]\((paper_\w+\.png)\)", text))
    assert len(list(tmp_path.iterdir())) == 5 and text.count("<details>") == text.count("</details>")
    for claim in judge(subject):
        assert text.count(f"| {claim.text} |") + text.count(f"| beyond the paper: {claim.text} |") == 1
    assert "SimCLR" in text and "0.88 to 0.91" in text and "0.43 to 0.63" in text and "0.607" in text
    assert "nan" not in text


def test_no_script_hides_a_module_of_pythons():
    for path in (ROOT / "experiments").glob("*.py"):
        assert path.stem not in sys.stdlib_module_names, path


def test_one_experiment_is_printed_and_drawn(outputs, tmp_path, capsys):
    main([str(outputs), "--only", "loo", "--out", str(tmp_path), "--width", "single"])
    shown = capsys.readouterr().out
    names = {path.name for path in (tmp_path / "figures" / "clouds-files").iterdir()}
    assert names == {"fig3_loo.svg", "fig3_loo.png", "fig3_loo.pdf"} and "NNK-σ" in shown
    assert "fig3_loo.pdf" in shown.replace("\n", "") and not (tmp_path / "report.html").exists()
    with pytest.raises(SystemExit):
        main([str(outputs), "--only", "nothing", "--out", str(tmp_path)])
    assert "no results of 'nothing'; there are: regimes, alignment" in capsys.readouterr().err


def test_scripts_run_an_experiment_once(tmp_path):
    small = ["embedding=digits", "trials=2", "samples_per_class=[10]", "progress=false", "k_cand=15", "logger=none"]
    script = "from running import run; ((subject, study),) = run('regimes'); print(subject.slug, len(study.runs))"
    command = [sys.executable, "-c", script, *small]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "experiments")])}

    def call(*more):
        return subprocess.run([*command, *more], cwd=tmp_path, env=env, capture_output=True, text=True)

    first, again, bad = call(), call(), call("trials=0")
    assert first.returncode == again.returncode == 0, first.stderr
    assert first.stdout.strip().endswith("digits-pixels 1") and "it again: outputs" in again.stdout
    assert bad.returncode == 1 and "trials must be a whole number of at least 1" in bad.stdout + bad.stderr
