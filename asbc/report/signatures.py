"""What the parameters of our own classes and functions are unless they are given, read off the source.

The report writes a line of Python per task and leaves out what is at its default. To import the classes would bring
in all that builds graphs, which takes longer than the rest of the report.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from pydoc import locate
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).parents[1]


def parameters(target: str) -> Mapping[str, Any]:
    """The parameters of a class or function, by name, with their defaults.

    Parameters
    ----------
    target : str
        Its public name, such as `asbc.SpectralBandwidth` or `my_rules.MyRule`.

    Returns
    -------
    mapping of str to value
        `inspect.Parameter.empty` for a parameter that must be given.

    Raises
    ------
    ImportError
        If there is nothing of that name.

    Examples
    --------
    >>> from asbc.report.signatures import parameters
    >>> parameters("asbc.Perplexity")
    mappingproxy({'beta': 2.0})
    """
    room, _, name = target.rpartition(".")
    found = _read(room, name) if room.partition(".")[0] == "asbc" else None
    if found is None:
        called: Any = locate(target)
        if called is None:
            raise ImportError(target)
        found = {key: p.default for key, p in inspect.signature(called).parameters.items()}
    return MappingProxyType(found)


def _read(module: str, name: str) -> dict[str, Any] | None:
    """The parameters as the source has them; None where that cannot be told without running it."""
    module, node = _definition(module, name)
    if isinstance(node, ast.ClassDef):
        made = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
        node = made[0] if made else None
    if not isinstance(node, ast.FunctionDef) or node.args.vararg or node.args.kwarg:
        return None
    plain = [*node.args.posonlyargs, *node.args.args]
    values: list[ast.expr | None] = [None] * (len(plain) - len(node.args.defaults)) + list(node.args.defaults)
    named = zip([*plain, *node.args.kwonlyargs], [*values, *node.args.kw_defaults], strict=True)
    try:
        return {a.arg: _value(module, value) for a, value in named if a.arg != "self"}
    except ValueError:
        return None


def _value(module: str, node: ast.expr | None) -> Any:
    if node is None:
        return inspect.Parameter.empty
    if isinstance(node, ast.Name):
        _, found = _definition(module, node.id)
        node = found.value if isinstance(found, ast.Assign) else node
    return ast.literal_eval(node)


def _definition(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """The module and the statement that define a name, through as many modules as pass it on."""
    while isinstance(found := _statements(module).get(name), ast.ImportFrom):
        name = next(alias.name for alias in found.names if (alias.asname or alias.name) == name)
        module = found.module or ""
    return module, found


@cache
def _statements(module: str) -> dict[str, ast.stmt]:
    """What defines or imports each name of a module of asbc."""
    base = ROOT.joinpath(*module.split(".")[1:])
    paths = (base / "__init__.pyi", base / "__init__.py", base.parent / f"{base.name}.py")
    path = next((path for path in paths if path.is_file()), None)
    out: dict[str, ast.stmt] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("asbc."):
            out |= {alias.asname or alias.name: node for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            out[node.name] = node
        elif isinstance(node, ast.Assign):
            out |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    return out
