"""What the repository promises about itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_conda_users_get_the_same_environment(project):
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, _, pip = environment["dependencies"]
    assert python == f"python{project['requires-python']}"
    assert pip["pip"] == [*project["dependencies"], "-e ."]
    assert "solo-learn" in (ROOT / "environment.yml").read_text()


def test_every_dependency_has_a_lower_bound(project):
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    for line in project["dependencies"] + extras:
        assert re.fullmatch(r"[\w-]+>=[\d.]+|asbc\[[\w,]+\]|tomli>=[\d.]+; python_version < '3.11'", line), line


def test_versions_agree(project):
    import asbc

    assert asbc.__version__ == project["version"]


@pytest.mark.slow
def test_importing_the_library_stays_light():
    def loaded(imports):
        heavy = ["torch", "lightning", "timm", "pandas", "matplotlib", "wandb", "hydra", "umap", "faiss", "dask"]
        code = f"import sys, {imports}; print(*[name for name in {heavy} if name in sys.modules])"
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        return set(run.stdout.split())

    # What scikit-learn itself brings in is not ours to save.
    assert loaded("asbc") <= loaded("numba, scipy.optimize, sklearn.base, sklearn.utils.validation")


@pytest.mark.parametrize(
    "module",
    [
        "neighbors",
        "dimension",
        "bandwidth",
        "weights",
        "graph",
        "kernels",
        "evaluate",
        "embeddings",
        "results",
        "report",
    ],
)
def test_data_flow_one_way(module):
    """A module imports only from those before it in the chain, and kernels import nothing of asbc."""
    chain = ["embeddings", "neighbors", "dimension", "bandwidth", "weights", "graph", "evaluate", "results", "report"]
    place = ROOT / "asbc" / module
    sources = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    assert sources
    later = (
        chain[chain.index(module) + 1 :] + ["experiment", "cli"] if module in chain else [*chain, "experiment", "cli"]
    )
    for source in sources:
        for line in source.read_text().splitlines():
            found = re.match(r"\s*(?:from|import) asbc\.(\w+)", line)
            assert not (found and found.group(1) in later), f"{source.relative_to(ROOT)}: {line.strip()}"
