"""Public names of all that is not the core say what every parameter is, and their examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import asbc.embeddings
import asbc.evaluate
import asbc.explore
import asbc.results
import asbc.runs
import asbc.train
from asbc.report.claims import judge
from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.exhibit import run, show
from asbc.report.findings import find
from asbc.report.page import render
from asbc.runs import SweepSummary

PACKAGES = (asbc.embeddings, asbc.evaluate, asbc.runs, asbc.results, asbc.train, asbc.explore)
PUBLIC = {f"{p.__name__}.{name}": getattr(p, name) for p in PACKAGES for name in p.__all__}
PUBLIC |= {f"{f.__module__}.{f.__name__}": f for f in (judge, make_report, read_evidence, run, show, find, render)}
MODULES = [
    module.name
    for package in ("embeddings", "evaluate", "runs", "report", "train", "explore")
    for module in pkgutil.iter_modules(importlib.import_module(f"asbc.{package}").__path__, f"asbc.{package}.")
]


def parameters(value):
    if inspect.isclass(value) and (issubclass(value, Exception) or inspect.isabstract(value)):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = inspect.signature(value).parameters.values() if value.__init__ is not object.__init__ else []
    return [p for p in found if p.name != "self" and p.kind not in kinds]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_parameter_is_described_with_its_default(name):
    text = inspect.getdoc(PUBLIC[name])
    assert text and re.match(r"[A-Z`]", text)
    for parameter in parameters(PUBLIC[name]):
        line = re.search(rf"^(?:\w+, )*{parameter.name}(?:, \w+)* : (.+)$", text, re.M)
        assert line, f"{parameter.name} is not described"
        if parameter.default is not parameter.empty:
            assert "default=" in line[1], f"{parameter.name} has no default="


@pytest.mark.parametrize("name", sorted(n for n in PUBLIC if not n.startswith("asbc.report.")))
def test_every_public_name_has_an_example(name):
    value = PUBLIC[name]
    if inspect.isclass(value) and issubclass(value, Exception):
        return  # what raises it says more
    assert ">>>" in inspect.getdoc(value)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, monkeypatch):
    monkeypatch.setattr(SweepSummary, "failed", 0)  # as in a process that has run no other test
    found = doctest.testmod(importlib.import_module(name))
    assert found.failed == 0


def test_most_modules_of_the_evaluation_have_examples():
    finder = doctest.DocTestFinder()
    shown = {name for name in MODULES if any(t.examples for t in finder.find(importlib.import_module(name)))}
    assert len([name for name in shown if name.startswith("asbc.evaluate.")]) >= 9
