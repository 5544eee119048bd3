"""Names of a package that are imported when they are first asked for.

`import asbc` names half of the library, and a command needs a part of it: the report needs no graph and no compiled
search. What a package offers stands in its `__init__.pyi`, for type checkers and for us.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def public_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package whose `__init__.pyi` says where its names come from.

    Parameters
    ----------
    package : str
        Its `__name__`.
    file : str
        Its `__file__`; the stub stands beside it.

    Returns
    -------
    getattr, dir : callables
    names : list of str
        What the stub has in its `__all__`.

    Notes
    -----
    Modules of the package are attributes too, without an import of their own: `asbc.export.to_igraph`.
    """
    homes: dict[str, str] = {}
    names: list[str] = []
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != package:  # its modules are found by themselves
            homes |= {alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = list(ast.literal_eval(node.value))

    def get(name: str) -> Any:
        if name in homes:
            module, _, original = homes[name].partition(":")
            value = getattr(import_module(module), original)
            setattr(sys.modules[package], name, value)  # the next time it is simply there
            return value
        if not name.startswith("_") and find_spec(f"{package}.{name}") is not None:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(sys.modules[package]), *homes}), names
