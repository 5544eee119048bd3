import importlib.util
import re
import runpy
import sys
from pathlib import Path

import pytest

from asbc.report.evidence import read_evidence
from asbc.report.figures import FIGURES
from asbc.report.glossary import WORDS, glossary_markdown
from asbc.report.parts import EXPERIMENTS
from asbc.report.tables import TABLES
from tests.commands import run

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()


def test_experiments_and_scripts_that_the_readme_names_are_there():
    for name in re.findall(r"experiment=(\w+)", TEXT):
        assert (ROOT / "conf" / "experiment" / f"{name}.yaml").exists(), name
    scripts = set(re.findall(r"experiments/(\w+\.py)", TEXT))
    assert len(scripts) >= 11 and all((ROOT / "experiments" / name).exists() for name in scripts)
    assert set(EXPERIMENTS) <= set(re.findall(r"experiment=(\w+)", TEXT))


def test_make_targets_that_the_readme_names_are_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M))
    assert set(re.findall(r"(?:^|`)make (\w+)", TEXT, re.M)) <= targets


def test_the_figures_are_small():
    images = re.findall(r"\]\((docs/\w+\.png)\)", TEXT)
    assert "docs/kernels.png" in images and all((ROOT / image).stat().st_size < 300_000 for image in images)


def test_the_glossary_is_what_its_script_writes():
    shown = TEXT.partition("<!-- glossary -->")[2].partition("<!-- end of glossary -->")[0].strip()
    assert shown == glossary_markdown()
    assert {"NNK", "LOO", "LP", "dimMST", "γ (gamma)", "α (alpha)", "σ (sigma)"} <= set(WORDS)


def test_the_table_is_what_its_script_writes(outputs):
    spec = importlib.util.spec_from_file_location("readme_script", ROOT / "experiments" / "readme.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (subject,) = read_evidence([outputs]).subjects
    made = script.results(subject.parts["ablation"])
    block = TEXT.partition(script.START)[2].partition(script.END)[0].strip().splitlines()
    lines = made.markdown().splitlines()
    assert block[:2] == lines[:2]
    assert [line.split("|")[1] for line in block[2:8]] == [line.split("|")[1] for line in lines[2:]]
    for line in block[3:8]:
        assert len(re.findall(r"[+-]\d\.\d{4} \[[+-]\d\.\d{4}, [+-]\d\.\d{4}\]", line)) == 2


def test_no_script_hides_a_module_of_pythons():
    for path in (ROOT / "experiments").glob("*.py"):
        assert path.stem not in sys.stdlib_module_names, path


SCRIPTS = {
    "fig1_regimes": "regimes",
    "fig2_alignment": "alignment",
    "fig3_loo": "loo",
    "fig4_lp": "lp",
    "table3_gamma": "gamma",
    "ablation": "ablation",
    "table1_selectors": "selectors",
    "regret": "regret",
    "k_cand": "k_cand",
    "n_grid": "n_grid",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_shows_its_experiment(name, subject, tmp_path, monkeypatch, capsys):
    asked = []

    def find(experiment):
        asked.append(experiment)
        return [(subject, subject.parts[experiment])]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("asbc.report.exhibit.run", find)
    runpy.run_path(str(ROOT / "experiments" / f"{name}.py"), run_name="__main__")
    assert asked == [SCRIPTS[name]]
    shown = capsys.readouterr().out
    files = sorted(path.name for path in tmp_path.rglob("*.*"))
    if SCRIPTS[name] in FIGURES:
        assert files == sorted([f"{name}.pdf", f"{name}.png"]) and f"{name}.pdf" in shown.replace("\n", "")
    if SCRIPTS[name] in TABLES:
        assert "NNK" in shown


def test_a_script_runs_its_experiment_once(tmp_path):
    small = ["embedding=digits", "trials=2", "samples_per_class=[10]", "progress=false", "k_cand=15", "logger=none"]

    def call(*more):
        return run(ROOT / "experiments" / "fig1_regimes.py", [*small, *more], cwd=tmp_path)

    first, again, bad = call(), call(), call("trials=0")
    assert first.returncode == again.returncode == 0, first.stderr
    assert "INFO" not in first.stdout + first.stderr, "what other libraries log is not shown"
    assert (tmp_path / "figures" / "digits-pixels" / "fig1_regimes.pdf").exists()
    assert "finished before" in again.stdout and "finished before" not in first.stdout
    assert bad.returncode == 1 and "trials must be a whole number of at least 1" in bad.stdout + bad.stderr
