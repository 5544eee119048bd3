"""Public names describe every parameter with its default. pytest runs their examples (``--doctest-modules``)."""

import ast
import importlib
import inspect
import re

import pytest

PACKAGES = (
    "asbc",
    "asbc.bandwidth",
    "asbc.embeddings",
    "asbc.evaluate",
    "asbc.explore",
    "asbc.learn",
    "asbc.neighbors",
    "asbc.outofcore",
    "asbc.runs",
    "asbc.train",
)


def public_names():
    """Public functions and classes by name, and the documented methods of the classes of asbc itself."""
    found = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            value = getattr(package, name)
            if (inspect.isfunction(value) or inspect.isclass(value)) and value not in found.values():
                found[f"{package.__name__}.{name}"] = value
                found |= {
                    f"asbc.{name}.{method}": function
                    for method, function in (
                        vars(value).items() if package.__name__ == "asbc" and inspect.isclass(value) else ()
                    )
                    if inspect.isfunction(function) and not method.startswith("_") and function.__doc__
                }
    return found


def parameters_of(value):
    if inspect.isclass(value) and (issubclass(value, Exception) or value.__init__ is object.__init__):
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    listed = inspect.signature(value).parameters.values()
    return [parameter for parameter in listed if parameter.name != "self" and parameter.kind not in variable]


def faults(value):
    """What is missing or wrong in the docstring of `value`."""
    text = inspect.getdoc(value) if value.__doc__ else ""
    if not re.match(r"[A-Z`]", text):
        return ["no docstring that begins with a capital letter"]
    if "Parameters\n---" not in text and not inspect.isclass(value):
        return []  # one line says it all
    wrong = []
    for parameter in parameters_of(value):
        line = re.search(rf"^(?:\w+, )*{parameter.name}(?:, \w+)* : (.+)$", text, re.M)
        if line is None:
            wrong.append(f"{parameter.name} is not described")
            continue
        written = re.search(r"default=(.+)$", line[1])
        has_default = parameter.default is not parameter.empty
        if has_default != (written is not None or line[1].endswith("optional")):
            wrong.append(f"{parameter.name}: default= or optional is missing, or there is no default")
        elif written is not None and isinstance(parameter.default, (bool, int, float, str, type(None))):
            try:
                same = ast.literal_eval(written[1]) == parameter.default
            except (SyntaxError, ValueError):
                continue  # described in words
            if not same:
                wrong.append(f"{parameter.name} has the default {parameter.default!r}, not {written[1]}")
    return wrong


PUBLIC = public_names()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_are_documented(name):
    assert not faults(PUBLIC[name])


@pytest.mark.parametrize(
    "name", sorted(name for name in PUBLIC if not inspect.isclass(PUBLIC.get(name.rpartition(".")[0])))
)
def test_public_names_have_an_example(name):
    assert ">>> " in (PUBLIC[name].__doc__ or "")


def test_faults_are_found():
    def careless(x, y=1, *, z: int = 2):
        """Add.

        Parameters
        ----------
        x : int, default=3
            One number.
        y : int, default=3
            The other.
        """

    assert faults(careless) == [
        "x: default= or optional is missing, or there is no default",
        "y has the default 1, not 3",
        "z is not described",
    ]
    assert faults(lambda x: x)
