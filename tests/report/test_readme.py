import importlib.util
import re
from pathlib import Path

import pytest

from asbc.report.evidence import EXPERIMENTS, read_evidence

ROOT = Path(__file__).resolve().parent.parent
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


def test_the_figure_is_small():
    (image,) = re.findall(r"\]\((docs/\w+\.png)\)", TEXT)
    assert (ROOT / image).stat().st_size < 300_000


def test_the_python_example_works(tmp_path, monkeypatch, clouds):
    import numpy as np

    monkeypatch.chdir(tmp_path)
    np.save("embeddings.npy", clouds[0].astype(np.float32))
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    names = {}
    exec(code, names)
    assert names["A"].shape == (240, 240) and names["A"].nnz and names["sigma"].shape == names["dimension"].shape


def test_the_table_is_what_its_script_writes(outputs):
    spec = importlib.util.spec_from_file_location("readme_script", ROOT / "experiments" / "readme.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (subject,) = read_evidence([outputs]).subjects
    made = script.results(subject.parts["ablation"])
    block = TEXT.partition(script.START)[2].partition(script.END)[0].strip().splitlines()
    assert block[:2] == made.markdown().splitlines()[:2]
    assert [line.split("|")[1] for line in block[2:8]] == [
        line.split("|")[1] for line in made.markdown().splitlines()[2:]
    ]
    for line in block[3:8]:
        assert len(re.findall(r"[+-]\d\.\d{4} \[[+-]\d\.\d{4}, [+-]\d\.\d{4}\]", line)) == 2


def test_no_script_hides_a_module_of_pythons():
    import sys

    for path in (ROOT / "experiments").glob("*.py"):
        assert path.stem not in sys.stdlib_module_names, path


@pytest.mark.parametrize("name", ["fig1_regimes", "fig3_loo", "table3_gamma"])
def test_scripts_run_an_experiment_and_show_it(name, tmp_path):
    import os
    import subprocess
    import sys

    small = ["trials=2", "samples_per_class=[10]", "progress=false", "neighbors.k=15", "logger=none"]
    command = [sys.executable, str(ROOT / "experiments" / f"{name}.py"), *small]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first, again = (
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        for _ in range(2)
    )
    assert first.returncode == again.returncode == 0, first.stderr
    assert (tmp_path / "figures" / "digits-pixels" / f"{name}.pdf").exists()
    assert "finished before" in again.stdout or "skipped" in again.stdout
    if name != "fig1_regimes":
        assert "difference" in first.stdout or "from γ" in first.stdout
    bad = subprocess.run([*command, "trials=0"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert bad.returncode == 1
