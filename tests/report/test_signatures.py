"""Parameters read off the source are those that Python itself sees."""

import inspect
import subprocess
import sys
from pydoc import locate

import pytest

import asbc
import asbc.evaluate
from asbc.report.signatures import parameters

TARGETS = [f"asbc.{name}" for name in asbc.__all__] + [f"asbc.evaluate.{name}" for name in asbc.evaluate.__all__]


@pytest.mark.parametrize("target", [name for name in TARGETS if callable(locate(name))])
def test_parameters_are_those_of_the_class(target):
    called = locate(target)
    if isinstance(called, type) and issubclass(called, Exception):
        return
    assert dict(parameters(target)) == {key: p.default for key, p in inspect.signature(called).parameters.items()}


def test_parameters_of_a_class_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "own_rules.py").write_text("class Rule:\n    def __init__(self, reach=sum([1, 2])): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert dict(parameters("own_rules.Rule")) == {"reach": 3}


@pytest.mark.parametrize("target", ["asbc.Nothing", "asbc.nowhere.Nothing", "nowhere_at_all.Nothing"])
def test_what_does_not_exist_is_an_import_error(target):
    with pytest.raises(ImportError):
        parameters(target)


def test_reading_imports_nothing_that_builds_graphs():
    code = (
        "import sys; from asbc.report.signatures import parameters; parameters('asbc.GraphBuilder'); "
        "parameters('asbc.SpectralBandwidth'); print(*[m for m in ('sklearn', 'numba', 'scipy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
