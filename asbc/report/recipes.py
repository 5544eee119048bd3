"""The line of Python that builds a method's graph, worked out from the settings that a run was resolved to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from asbc.report.parts import Record
from asbc.report.signatures import parameters


def recipe(record: Record, method: str) -> str | None:
    """Python that builds the graph of a method on vectors `X`; None where the settings do not say how.

    Parameters
    ----------
    record : Record
        A run that has used the method.
    method : str

    Returns
    -------
    str or None
        Two lines: what to import, and the graph `A`.
    """
    node = record.setting(f"methods.{method}")
    if not isinstance(node, Mapping) or not str(node.get("_target_", "")).endswith("evaluate.Method"):
        return None
    search = record.setting("neighbors")
    if not isinstance(search, Mapping) or not str(search.get("_target_", "")).endswith(".search_neighbors"):
        return None  # a search of one's own
    found = {key: value for key, value in search.items() if not key.startswith("_") and key != "k"}
    try:
        weights = node.get("weights")
        if isinstance(weights, str):
            return _by_builder(record, node, weights, found)
        return _by_function(record, weights, found)
    except Exception:  # a class that cannot be imported here: the line cannot be told
        return None


def _by_builder(record: Record, node: Mapping[str, Any], weights: str, search: Mapping[str, Any]) -> str | None:
    bandwidth = node.get("bandwidth")
    graph = record.setting("graph") or {}
    dimension = record.setting("dimension") or {}
    if weights != "uniform" and dimension.get("k", 10) != 10:
        return None  # GraphBuilder has no such parameter
    arguments = {
        "k_cand": record.setting("k_cand"),
        "k_min": graph.get("k_min", 6),
        "symmetrize": graph.get("symmetrize", "max"),
        "dimension": dimension.get("estimator", "mst"),
        "n_rep": dimension.get("n_rep", 5),
        "sharpen": bool(node.get("sharpen")),
        **search,
    }
    if weights == "uniform":
        arguments = {key: arguments[key] for key in ("k_cand", "symmetrize", *search)}
    given = [f"weights={_text(weights)}"]
    imports = {"asbc"}
    if weights != "uniform" and bandwidth is not None:
        given.append(f"bandwidth={_call(bandwidth, imports)}")
    given += _unusual("asbc.GraphBuilder", arguments, imports)
    return _lines(imports, f"asbc.GraphBuilder({', '.join(given)}).fit_transform(X)")


def _by_function(record: Record, weights: Any, search: Mapping[str, Any]) -> str:
    imports = {"asbc"}
    first = [f"k={record.setting('k_cand')}", *(f"{key}={_text(value)}" for key, value in search.items())]
    rows = _call(weights, imports, first="neighbors")
    symmetrize = record.setting("graph.symmetrize")
    last = "" if symmetrize == "max" else f", symmetrize={_text(symmetrize)}"
    search_line = f"neighbors := asbc.search_neighbors(X, {', '.join(first)})"
    return _lines(imports, f"asbc.to_graph({search_line}, {rows}{last})")


def _lines(imports: set[str], built: str) -> str:
    return f"import {', '.join(sorted(imports))}\nA = {built}"


def _call(node: Mapping[str, Any], imports: set[str], first: str | None = None) -> str:
    """A `_target_` with its parameters as Python, those at their defaults left out."""
    target = str(node["_target_"])
    room, _, name = target.rpartition(".")
    imports.add(room)
    options = {key: value for key, value in node.items() if not key.startswith("_")}
    return f"{room}.{name}({', '.join(([first] if first else []) + _unusual(target, options, imports))})"


def _unusual(target: str, options: Mapping[str, Any], imports: set[str]) -> list[str]:
    defaults = parameters(target)
    return [
        f"{key}={_call(value, imports) if isinstance(value, Mapping) else _text(value)}"
        for key, value in options.items()
        if isinstance(value, Mapping) or key not in defaults or defaults[key] != value
    ]


def _text(value: Any) -> str:
    """A value as Python, words in double quotes."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
