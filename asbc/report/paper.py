"""The paper's own printed numbers."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """What the paper prints: its Table 3, the ranges of its correlations, and the order it claims."""
    return json.loads((files("asbc.report") / "paper.json").read_text())


def at_gamma(gamma: float, what: str) -> float | None:
    """An entry of the paper's Table 3 (`loo` or `rank_median`); `None` where it has none."""
    table = paper()["gamma"]
    return dict(zip(table["value"], table[what], strict=True)).get(float(gamma))
