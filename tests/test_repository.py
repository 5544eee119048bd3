"""Packaging, the wheel, and the one direction of imports."""

import ast
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import asbc

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]

# A module imports only from its own room and from those before it.
ORDER = [
    "version",
    "extras",
    "validation",
    "storage",
    "progress",
    "configs",
    "kernels",
    "neighbors",
    "dimension",
    "bandwidth",
    "weights",
    "rows",
    "graph",
    "builder",
    "export",
    "outofcore",
    "learn",
    "embeddings",
    "evaluate",
    "runs",
    "report",
    "train",
    "explore",
]
# Entry points: they may import from everywhere, and nobody from them.
ALIASES = ("__init__", "commands")
MODULES = sorted((ROOT / "asbc").rglob("*.py"))
# Packages whose import name is not the name of the distribution.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "faiss": "faiss-cpu",
    "graspologic_native": "graspologic-native",
    "hydra": "hydra-core",
    "hydra_plugins": "hydra-joblib-launcher",
    "sklearn": "scikit-learn",
    "torch_geometric": "torch-geometric",
    "umap": "umap-learn",
    "wandb_workspaces": "wandb-workspaces",
    "yaml": "pyyaml",
}


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def names(lines):
    return {re.match(r"[\w-]+", line)[0] for line in lines if not line.startswith("asbc[")}


def installed(project, extras):
    """Names of the extras that some extras bring, themselves included."""
    found = set()
    for extra in extras:
        inner = [line for line in project["optional-dependencies"][extra] if line.startswith("asbc[")]
        found |= {extra} | installed(project, [name for line in inner for name in line[5:-1].split(",")])
    return found


# ------------------------------------------------------------------------------------------------ installing


def test_conda_users_get_everything(project):
    text = (ROOT / "environment.yml").read_text()
    python, _, pip = yaml.safe_load(text)["dependencies"]
    assert python == f"python{project['requires-python']}"
    (line,) = pip["pip"]
    assert installed(project, re.fullmatch(r"-e \.\[([\w,]+)\]", line)[1].split(",")) == set(
        project["optional-dependencies"]
    )
    assert "solo-learn" in text


def test_every_dependency_has_a_lower_bound(project):
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    for line in project["dependencies"] + extras:
        assert re.fullmatch(r"[\w-]+>=[\d.]+(,<[\d.]+)?|asbc\[[\w,]+\]|tomli>=[\d.]+; python_version < '3.11'", line), (
            line
        )


def test_compilers_have_an_upper_bound(project):
    """The cache of compiled code uses internals of numba, so only versions that were tested are allowed."""
    bounds = [line for line in project["dependencies"] if line.startswith(("numba", "llvmlite"))]
    assert len(bounds) == 2 and all("<" in line for line in bounds), bounds


def test_all_is_what_a_user_can_use(project):
    assert installed(project, ["all"]) == set(project["optional-dependencies"]) - {"dev", "docs", "peers", "solo"}
    assert installed(project, ["dev"]) >= {"all", "docs", "peers"}


def test_the_core_is_light(project):
    assert names(project["dependencies"]) == {
        "filelock",
        "lazy_loader",
        "llvmlite",
        "numba",
        "numpy",
        "scikit-learn",
        "scipy",
        "threadpoolctl",
    }


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_imported_is_declared(path, project):
    """At the top of a core module, only what the core brings; anywhere else, what some extra brings."""
    core, extras = names(project["dependencies"]), project["optional-dependencies"]
    everything = core | {name for extra in extras if extra != "dev" for name in names(extras[extra])}
    tree = ast.parse(path.read_text())
    outside = {name.partition(".")[0] for name, _ in imported(tree)} - set(sys.stdlib_module_names) - {"asbc", ""}
    assert {DISTRIBUTIONS.get(name, name) for name in outside} <= everything
    if room_of(path) in ORDER[: ORDER.index("learn") + 1]:
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        heads = {name.partition(".")[0] for name, _ in imported(top)} - set(sys.stdlib_module_names) - {"asbc"}
        assert {DISTRIBUTIONS.get(name, name) for name in heads} <= core


@pytest.mark.slow
def test_importing_the_library_stays_light():
    heavy = ["torch", "lightning", "timm", "pandas", "pyarrow", "matplotlib", "wandb", "hydra"]
    heavy += ["umap", "faiss", "dask"]
    code = f"""
import sys, numba, scipy.optimize, sklearn.base, sklearn.utils.validation
theirs = set(sys.modules)  # what scikit-learn itself brings in is not ours to save
import asbc
[getattr(asbc, name) for name in asbc.__all__]
print(*[name for name in {heavy} if name in set(sys.modules) - theirs])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert run.stdout.split() == []


# ------------------------------------------------------------------------------------- the version and the wheel


def test_the_version_is_written_once(project, wheel):
    assert project["dynamic"] == ["version"]
    (metadata,) = wheel.glob("*.dist-info/METADATA")
    assert f"\nVersion: {asbc.__version__}\n" in metadata.read_text()
    assert re.findall(r"^## \[([^]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)[0] == asbc.__version__
    for path in [*MODULES, ROOT / "pyproject.toml", ROOT / "CITATION.cff"]:
        if path.name != "version.py":
            assert f'"{asbc.__version__}"' not in path.read_text(), f"{path.relative_to(ROOT)} says the version too"


def test_the_wheel_is_whole(wheel):
    for name in (
        "py.typed",
        "conf/config.yaml",
        "train/conf/config.yaml",
        "report/page.css",
        "report/report.html",
        "explore/page.html",
        "embeddings/published.json",
    ):
        assert (wheel / "asbc" / name).is_file(), f"{name} is not in the wheel"
    ours = {path.relative_to(ROOT / "asbc") for path in MODULES}
    assert {path.relative_to(wheel / "asbc") for path in (wheel / "asbc").rglob("*.py")} == ours
    configs = {path.relative_to(ROOT / "conf") for path in (ROOT / "conf").rglob("*.yaml")}
    assert {path.relative_to(wheel / "asbc/conf") for path in (wheel / "asbc/conf").rglob("*.yaml")} == configs
    run = subprocess.run(
        [sys.executable, "-c", "from asbc.configs import conf_dir; print(conf_dir())"],
        env={**os.environ, "PYTHONPATH": str(wheel)},
        cwd=wheel,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(run.stdout.strip()) == wheel / "asbc" / "conf"


def test_every_command_exists(project):
    import asbc.commands

    for name, target in project["scripts"].items():
        module, _, function = target.partition(":")
        assert module == "asbc.commands" and callable(getattr(asbc.commands, function)), name


# ------------------------------------------------------------------------------------------------ the house


def room_of(path):
    parts = path.relative_to(ROOT / "asbc").with_suffix("").parts
    return parts[0]


def modules_of_asbc():
    dotted = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES}
    return {name.removesuffix(".__init__") for name in dotted}


def imported(tree, package="asbc"):
    """(dotted name, bound name) of every import in a tree, wherever it stands; names of `from` imports included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, alias.asname or alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([base] if base else [])])
            for alias in node.names:
                yield f"{base}.{alias.name}", alias.asname or alias.name
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant):
                yield str(first.value), ""


def package_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1])


def rooms_imported(source, package="asbc"):
    """Rooms of asbc that a source imports from; `__init__` where it imports asbc itself, or a name out of it."""
    there = modules_of_asbc()
    for name, _ in imported(ast.parse(source), package):
        if name.partition(".")[0] == "asbc":
            second = name.split(".")[1] if "." in name else ""
            yield second if f"asbc.{second}" in there else "__init__"


def wrong_imports(room, source, package="asbc"):
    if room in ALIASES:
        return []
    before = ORDER[: ORDER.index(room)] if room != "kernels" else []
    return [other for other in rooms_imported(source, package) if other not in (*before, room)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_data_flow_one_way(path):
    """A module imports only from those before it in the order, and kernels import nothing of asbc."""
    assert room_of(path) in (*ORDER, *ALIASES), "a new room: give it its place in ORDER"
    assert not wrong_imports(room_of(path), path.read_text(), package_of(path))


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("graph", "import asbc", ["__init__"]),
        ("graph", "from asbc import GraphBuilder", ["__init__"]),
        ("graph", "from asbc import evaluate", ["evaluate"]),
        ("graph", "import asbc.runs.results as r", ["runs"]),
        ("graph", "def f():\n    from asbc.report.page import render", ["report"]),
        ("graph", "from .outofcore import plan", ["outofcore"]),
        ("graph", "from importlib import import_module\nimport_module('asbc.report')", ["report"]),
        ("kernels", "from asbc.validation import Floats", ["validation"]),
        ("graph", "import asbc.bandwidth\nfrom asbc.rows import Rows\nimport numpy", []),
        ("kernels", "from asbc.kernels.lanes import LANES", []),
    ],
)
def test_imports_against_the_flow_are_seen(room, source, wrong):
    assert wrong_imports(room, source) == wrong


def private_uses(source, package="asbc"):
    """Private names of other modules that a source imports, or reaches through a module that it imports."""
    tree, there = ast.parse(source), modules_of_asbc()
    bound = set()
    for name, alias in imported(tree, package):
        if name.partition(".")[0] == "asbc":
            last = name.rpartition(".")[2]
            if last.startswith("_") and not last.endswith("__"):
                yield name
            if name in there:
                bound.add(alias)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            owner = ast.unparse(node.value)
            if owner in bound:
                yield f"{owner}.{node.attr}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_private_is_used_across_modules(path):
    assert list(private_uses(path.read_text(), package_of(path))) == []


def test_private_uses_are_seen():
    assert list(private_uses("from asbc.graph import _x")) == ["asbc.graph._x"]
    assert list(private_uses("from asbc import graph\ngraph._x(1)")) == ["graph._x"]
    assert list(private_uses("import asbc.graph\nasbc.graph._x")) == ["asbc.graph._x"]
    assert list(private_uses("import asbc.graph as g\ng._x")) == ["g._x"]
    assert (
        list(private_uses("from asbc.builder import GraphBuilder\nself._x\nfrom asbc.version import __version__")) == []
    )


def test_hooks_and_workflow_run_what_make_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    makefile = (ROOT / "Makefile").read_text()
    for hook in hooks[0]["hooks"]:
        assert hook["language"] == "system" and hook["entry"].split()[0] in ("ruff", "mypy")
        assert f"$(BIN)/{' '.join(hook['entry'].split()[:2])}" in makefile
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert "make test" in steps and any("asbc-build" in step for step in steps)
