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


def shortened(words: list[str], most: int) -> str:
    """The same, with a number in place of those beyond `most`; one more is named, since to count it takes as long."""
    return listed(words) if len(words) <= most + 1 else f"{', '.join(words[:most])} and {len(words) - most} more"


def named(dataset: str, encoder: str) -> str:
    """Embeddings by their data set and encoder; an encoder that has the data set's name tells nothing more."""
    return dataset if dataset == encoder else f"{dataset} · {encoder}"
