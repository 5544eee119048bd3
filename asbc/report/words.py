"""Words that pages, tables and figures share."""

from __future__ import annotations

from asbc.runs.sealed import ALL


def level_name(level: float) -> str:
    """A level as a reader knows it: a number, or "all"."""
    return f"{level:g}" if level != ALL else "all"


def by_size(level: float) -> tuple[bool, float]:
    """Sorts levels by size; all samples come last."""
    return level == ALL, level


def listed(words: list[str]) -> str:
    """Words as a sentence has them: "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
