"""What a transform does, in words that are the same in every process and differ where the work differs."""

from __future__ import annotations

import enum
import functools
import hashlib
import re
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from asbc.embeddings.arrays import fingerprint

# Classes of these are told by their names and attributes; of any other, the code of its methods counts too.
_LIBRARIES = ("builtins", "torch", "torchvision", "timm", "numpy", "PIL", "abc", "collections", "functools", "typing")


def without_addresses(text: str) -> str:
    """Text without places in memory, which change from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)


def describe(value: Any) -> str:
    """A description of a transform, or of anything that it holds.

    Functions count by name, code, defaults, closure and the plain globals that they read; other objects by class and
    attributes. So two lambdas that differ are told apart, and one that is defined again is recognised.
    """
    return _describe(value, ())


def _describe(value: Any, above: tuple[int, ...]) -> str:
    if id(value) in above:
        return "itself"

    def inner(part: Any) -> str:
        return _describe(part, (*above, id(value)))

    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, complex, str, bytes)):
        return without_addresses(f"{type(value).__name__} {value!r}")
    if isinstance(value, torch.Tensor):
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        return f"tensor {value.dtype} {tuple(value.shape)} {fingerprint(raw)}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {fingerprint(value)}"
    if isinstance(value, Mapping):
        # In the order of what they say: that of sets, and of dicts made from them, is not fixed.
        return "{" + ", ".join(sorted(f"{inner(key)}: {inner(part)}" for key, part in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ", ".join(sorted(map(inner, value))) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(inner, value)) + "]"
    if isinstance(value, type):
        return _name(value)
    if isinstance(value, types.CodeType):
        parts = [value.co_code.hex(), *map(inner, value.co_consts), *value.co_names, *value.co_varnames]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    if isinstance(value, types.FunctionType):
        cells = [_cell(cell) for cell in value.__closure__ or ()]
        read = {name: value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__}
        plain = {name: part for name, part in read.items() if _counts(part, value.__module__)}
        return f"{_name(value)} {inner([value.__code__, value.__defaults__, value.__kwdefaults__, cells, plain])}"
    if isinstance(value, types.MethodType):
        return f"method {inner(value.__func__)} of {inner(value.__self__)}"
    if isinstance(value, functools.partial):
        return f"partial {inner([value.func, value.args, value.keywords])}"
    if isinstance(value, enum.Enum):
        return f"{_name(type(value))} {value.name}"
    if isinstance(value, (types.BuiltinFunctionType, types.ModuleType)):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    if not hasattr(value, "__dict__"):
        return f"{_name(type(value))} {without_addresses(repr(value))}"
    own = [
        {name: part for name, part in vars(kind).items() if isinstance(part, types.FunctionType)}
        for kind in type(value).__mro__
        if kind.__module__.partition(".")[0] not in _LIBRARIES
    ]
    return f"{_name(type(value))} {inner([vars(value), own])}"


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _names(code: types.CodeType) -> list[str]:
    """Names that a function and those inside it look up."""
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    return sorted({*code.co_names, *(name for part in inside for name in _names(part))})


def _counts(value: Any, module: str) -> bool:
    """Whether a global is a constant, or a function from beside the one that reads it."""
    if isinstance(value, types.FunctionType):
        return value.__module__ == module
    return isinstance(value, (bool, int, float, str, bytes, tuple, list, np.ndarray, torch.Tensor))
