"""Every public name of the core says what it does, parameter by parameter, and its examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import asbc
import asbc.bandwidth
import asbc.build
import asbc.export
import asbc.learn.labels
import asbc.learn.propagation
import asbc.learn.vote
import asbc.neighbors

ROOMS = (
    "bandwidth",
    "builder",
    "dimension",
    "export",
    "extras",
    "files",
    "graph",
    "learn",
    "neighbors",
    "outofcore",
    "rows",
    "validation",
    "weights",
)
# Rooms whose examples are run by test_docstrings_of_experiments.py.
ELSEWHERE = ("embeddings", "evaluate", "explore", "report", "runs", "train")
# Examples that need a library beyond the core; without it they are skipped.
NEEDS = {
    "to_anndata": "anndata",
    "to_igraph": "igraph",
    "umap_layout": "umap",
    "to_pyg": "torch_geometric",
    "to_networkx": "networkx",
    "write_parquet": "pyarrow",
}


def modules():
    for room in ROOMS:
        module = importlib.import_module(f"asbc.{room}")
        yield module
        for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{module.__name__}."):
            yield importlib.import_module(found.name)


def public_names():
    """Functions, classes and the methods that the classes define themselves, by name."""
    named = {f"asbc.{name}": getattr(asbc, name) for name in asbc.__all__ if name != "__version__"}
    for module in (asbc.bandwidth, asbc.neighbors, asbc.build):
        named |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
    for module in (asbc.export, asbc.learn.labels, asbc.learn.propagation, asbc.learn.vote):
        for name, value in vars(module).items():
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__:
                named[f"{module.__name__}.{name}"] = value
    unique = {id(value): name for name, value in reversed(named.items())}
    named = {name: named[name] for name in unique.values()}
    for owner in (asbc.GraphBuilder, asbc.Neighbors, asbc.Bandwidth, asbc.Dimension):
        for name, value in vars(owner).items():
            if inspect.isfunction(value) and not name.startswith("_"):
                named[f"asbc.{owner.__name__}.{name}"] = value
    return named


def sections(documentation):
    """The numpydoc sections by title; the text before the first is called "Summary"."""
    lines = documentation.splitlines()
    found, title = {"Summary": []}, "Summary"
    for number, line in enumerate(lines):
        underlined = number + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[number + 1])
        if underlined:
            title = line.strip()
            found[title] = []
        elif not re.fullmatch(r"-{3,}", line):
            found[title].append(line)
    return {title: "\n".join(content).strip() for title, content in found.items()}


def described(section):
    """What a section says of each parameter: {name: (its heading, the text below it)}."""
    found, names = {}, []
    for line in section.splitlines():
        heading = re.match(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?$", line)
        if heading:
            names = heading[1].split(", ")
            found |= dict.fromkeys(names, (heading[2] or "", ""))
        else:
            for name in names:
                found[name] = (found[name][0], f"{found[name][1]} {line.strip()}".strip())
    return found


def parameters_of(value):
    if inspect.isclass(value) and (issubclass(value, Exception) or value.__init__ is object.__init__):
        return []
    listed = inspect.signature(value).parameters.values()
    return [parameter for parameter in listed if parameter.name != "self"]


def faults(value):
    """Everything that the docstring of `value` leaves out."""
    documentation = inspect.getdoc(value) if value.__doc__ else None
    if not documentation:
        return ["no docstring"]
    parts = sections(documentation)
    missing = [f"no section {title}" for title in ("See Also", "Examples") if not parts.get(title)]
    if ">>> " not in parts.get("Examples", ""):
        missing.append("no example that runs")
    summary = parts["Summary"].split("\n\n")[0]
    if not re.match(r"[A-Z`]", summary) or not summary.endswith(".") or "\n" in summary:
        missing.append("the summary is not one sentence on one line")
    # A dataclass may describe its fields once, as attributes.
    told = described(parts.get("Attributes", "")) | described(parts.get("Parameters", ""))
    for parameter in parameters_of(value):
        stars = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(parameter.kind, "")
        name = stars + parameter.name
        if name not in told:
            missing.append(f"{name} is not described")
            continue
        heading, text = told[name]
        if not heading and not stars:
            missing.append(f"{name} has no type")
        if not text:
            missing.append(f"nothing says what {name} does")
        written = re.search(r"default=(.+)$", heading)
        if parameter.default is not parameter.empty:
            if written is None:
                missing.append(f"{name} has no default=")
            elif ast.literal_eval(written[1]) != parameter.default:
                missing.append(f"{name} is said to have the default {written[1]}; it is {parameter.default!r}")
        elif written is not None:
            missing.append(f"{name} is said to have a default, and has none")
    known = {parameter.name for parameter in parameters_of(value)}
    strangers = [name for name in described(parts.get("Parameters", "")) if name.lstrip("*") not in known]
    missing += [f"{name} is described, and is no parameter" for name in strangers]
    returns = inspect.isfunction(value) and inspect.signature(value).return_annotation not in ("None", None)
    if returns and not parts.get("Returns"):
        missing.append("no section Returns")
    return missing


PUBLIC = public_names()


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_names_are_documented(name):
    assert not faults(PUBLIC[name])


def test_public_names_are_found():
    wanted = {
        "asbc.search_neighbors",
        "asbc.load_rows",
        "asbc.GraphBuilder.fit",
        "asbc.Neighbors.head",
        "asbc.build_graph",
        "asbc.export.write_npz",
        "asbc.learn.propagation.propagate",
        "asbc.learn.vote.loo_accuracy",
    }
    assert wanted <= PUBLIC.keys()


EXAMPLES = {
    test.name: test
    for module in modules()
    for test in doctest.DocTestFinder().find(module, extraglobs={"__name__": "__main__"})
    if test.examples
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_examples_run(name, capsys):
    for word, library in NEEDS.items():
        if name.endswith(word):
            pytest.importorskip(library)
    outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(EXAMPLES[name], clear_globs=False)
    assert outcome.attempted and not outcome.failed, capsys.readouterr().out


def test_every_example_is_among_those_that_are_run():
    home = Path(asbc.__file__).parent
    shown = [path.relative_to(home) for path in home.rglob("*.py") if ">>> " in path.read_text()]
    assert {path.with_suffix("").parts[0] for path in shown} <= {*ROOMS, *ELSEWHERE}
    assert {"asbc.builder.GraphBuilder", "asbc.builder.GraphBuilder.fit"} <= EXAMPLES.keys()


def test_what_is_left_out_is_noticed():
    def bare(x, y=1):
        pass

    def careless(x, y=1, *, z: int = 2, **options) -> int:
        """Adds.

        Parameters
        ----------
        x : int
            One number.
        y : int, default=3
            The other.
        z : int
        w : int
            Gone.

        Examples
        --------
        Left to the reader.
        """

    assert faults(bare) == ["no docstring"]
    assert set(faults(careless)) == {
        "no section See Also",
        "no example that runs",
        "y is said to have the default 3; it is 1",
        "nothing says what z does",
        "z has no default=",
        "**options is not described",
        "w is described, and is no parameter",
        "no section Returns",
    }


def test_a_wrong_example_is_noticed(capsys):
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(test).failed == 1
