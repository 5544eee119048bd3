"""What a release ships: distributions that pass the checks of PyPI and work away from the clone."""

import os
import re
import site
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
import yaml

import asbc
from tests.commands import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def python(distributions, tmp_path_factory):
    """The Python of a new environment in which the wheel is installed, next to the libraries of this one."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    executable = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([executable, "-c", where], check=True, capture_output=True, text=True).stdout.strip()
    # Paths in a .pth file are appended to sys.path, so the wheel comes before a clone that is installed here.
    (Path(own) / "libraries.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    wheel = next(path for path in distributions if path.suffix == ".whl")
    pip = [sys.executable, "-m", "pip", "--python", str(executable), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    return executable


def test_the_distributions_pass_the_checks_of_pypi(distributions):
    pytest.importorskip("twine")
    assert [path.name for path in distributions] == [
        f"asbc-{asbc.__version__}-py3-none-any.whl",
        f"asbc-{asbc.__version__}.tar.gz",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert all(path.stat().st_size < 20e6 for path in distributions)


def test_the_wheel_works_in_an_empty_folder(python, tmp_path):
    """Commands, configs and sample data, without the clone."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"ASBC_CACHE": str(tmp_path / "cache")}

    def run(name, *words):
        command = [python.parent / name, *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{name} {words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    place = run("python", "-c", "import asbc; print(asbc.__file__, asbc.__version__)")
    assert str(ROOT) not in place and place.split()[-1] == asbc.__version__
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).normal(size=(200, 8)))
    run("asbc-build", "vectors.npy", "graph", "--quiet")
    assert asbc.load_graph(tmp_path / "graph").shape == (200, 200)
    few = ["samples_per_class=[10]", "trials=1", "method=[knn,nnk_sigma]", "progress=false"]
    shown = run("asbc", "embedding=simclr", "embedding.source=sample", *few)
    assert "NNK-σ" in shown or "nnk_sigma" in shown
    run("asbc-report", "outputs")
    assert (tmp_path / "outputs" / "report" / "report.html").is_file()


@pytest.mark.parametrize("name", ["test", "docs", "release"])
def test_workflows_are_valid(name):
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    for job in workflow["jobs"].values():
        assert job["runs-on"] and all("run" in step or "uses" in step for step in job["steps"])
    if name == "release":
        publish = workflow["jobs"]["publish"]
        assert publish["permissions"] == {"id-token": "write"} and publish["environment"] == "pypi"
    if name == "test":  # the oldest and the newest versions that pyproject.toml allows
        assert {each["resolution"] for each in workflow["jobs"]["systems"]["strategy"]["matrix"]["include"]} == {
            "lowest-direct",
            "highest",
        }


def test_the_conda_recipe_has_the_dependencies_of_the_core():
    text = (ROOT / "docs" / "conda" / "meta.yaml").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    core = re.search(r"^dependencies = \[(.*?)^\]", project, re.M | re.S)[1]
    run = text.partition("  run:")[2].partition("\ntest:")[0]
    recipe = {line.strip("- ").replace(" ", "") for line in run.splitlines() if line.strip() and "python" not in line}
    assert recipe == set(re.findall(r'"(.+)"', core))
    scripts = re.search(r"^\[project\.scripts\]\n(.*?)\n\n", project, re.M | re.S)[1].replace('"', "").splitlines()
    assert {line.strip("- ") for line in re.findall(r"^    - asbc.* = .*$", text, re.M)} == set(scripts)


def test_every_file_names_the_same_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == asbc.__version__
    assert f'version = "{asbc.__version__}"' in (ROOT / "docs" / "conda" / "meta.yaml").read_text()
    newest = re.search(r"^## \[(.+)\] - (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest.groups() == (asbc.__version__, str(citation["date-released"]))
