"""Public names are imported on first use."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("asbc", "asbc.evaluate", "asbc.runs")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there(package):
    module = importlib.import_module(package)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    names = {}
    exec(f"from {package} import *", names)
    assert set(module.__all__) <= set(names)


def test_modules_need_no_import_of_their_own():
    code = "import asbc; print(asbc.export.to_igraph.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["to_igraph"]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_name_that_is_not_there_is_an_attribute_error(package):
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"{package} attribute nothing"):
        _ = module.nothing
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec(f"from {package} import nothing")
    assert not hasattr(module, "__wrapped__")


@pytest.mark.parametrize(
    ("imported", "spared"),
    [
        ("asbc", ["numpy", "scipy", "sklearn", "numba"]),
        ("asbc.report.command", ["hydra", "torch"]),
    ],
)
def test_what_is_not_needed_is_not_imported(imported, spared):
    code = f"import sys, {imported}; print(*[name for name in {spared} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
