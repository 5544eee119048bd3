"""Which kinds of search there are, and what can be said about each."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from asbc.validation import one_of, whole_number

# Every option with its default. None is worked out: from the number of rows, or from the recall asked for.
OPTIONS: dict[str, dict[str, int | None]] = {
    "exact": {},
    "ivf": {"n_lists": None, "n_probe": None},
    "hnsw": {"links": 32, "ef_construction": 100, "ef_search": None},
    "nn_descent": {"n_trees": None},
}
SEARCHES = ("auto", *OPTIONS)
LEAST_VALUES = {"links": 2}  # with a single link per node, faiss reads beyond its arrays
SPARE = 8  # candidates per row beyond those wanted: in single precision the last few may be the wrong ones
RECALL = 0.98  # share of the neighbours that approximate search is to find, unless another is asked for


def check_recall(recall: Any) -> float:
    """`recall` as a float within (0, 1]."""
    if not isinstance(recall, Real) or isinstance(recall, bool) or not 0 < float(recall) <= 1:
        raise ValueError(f"recall must be a number above 0 and at most 1; got {recall!r}.")
    return float(recall)


def check_search(search: str, n: int, options: Mapping[str, Any]) -> dict[str, int]:
    """The options of a kind of search for n rows, defaults filled in; those that recall decides are left out.

    The options of ``"auto"`` are those of ``"ivf"``.
    """
    one_of(search, "search", SEARCHES)
    if not isinstance(options, Mapping):
        raise TypeError(f"search_options must be a mapping such as {{'n_probe': 16}}; got {options!r}.")
    kind = "ivf" if search == "auto" else search
    known = OPTIONS[kind]
    for name, value in options.items():
        if name not in known:
            valid = ", ".join(known) or "none"
            raise ValueError(f"search={search!r} has no option {name!r}; its options are: {valid}.")
        if value is not None:
            whole_number(value, name, LEAST_VALUES.get(name, 1))
    filled = {**known, **{name: value for name, value in options.items() if value is not None}}
    if kind == "ivf":
        if filled["n_lists"] is None:
            # Scanning lists and choosing them cost about the same at 2 sqrt(n) lists.
            filled["n_lists"] = max(1, min(n // 32, 2 ** round(np.log2(2 * np.sqrt(n)))))
        if filled["n_lists"] > n:
            raise ValueError(f"n_lists must be at most the number of rows, {n}; got {filled['n_lists']}.")
        if filled["n_probe"] is not None:
            filled["n_probe"] = min(int(filled["n_probe"]), int(filled["n_lists"]))
    if kind == "nn_descent" and filled["n_trees"] is None:
        filled["n_trees"] = min(32, 5 + round(n**0.25))
    return {name: int(value) for name, value in filled.items() if value is not None}
