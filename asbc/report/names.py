"""How methods, levels and lists are written on pages, in tables and in figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asbc.runs.record import METHOD_TITLES, Experiment
from asbc.validation import is_color

NAMES = METHOD_TITLES | {"mst": "dimMST", "levina_bickel": "Levina–Bickel", "two_nn": "TwoNN"}
WEIGHTS = {"gaussian": "Gaussian", "nnk": "NNK", "uniform": "uniform", "blend": "NNK + Gaussian"}
SPECTRAL = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}  # the spectral rule with each kind of weights
# The user's own methods in the results that were read last: titles and colours from the records, and all their names.
OWN_TITLES: dict[str, str] = {}
OWN_COLORS: dict[str, str] = {}
OWN_METHODS: list[str] = []


def set_own_methods(records: Iterable[Experiment], methods: Iterable[str]) -> None:
    """Use the titles and colours in some records, the later ones first, for all methods of a report."""
    OWN_TITLES.clear()
    OWN_COLORS.clear()
    for record in records:
        OWN_TITLES.update(record.titles)
        OWN_COLORS.update((name, color) for name, color in record.colors.items() if is_color(color))
    OWN_METHODS[:] = [name for name in dict.fromkeys(methods) if name not in NAMES and not _weights_of(name)]


def _weights_of(method: str) -> str | None:
    """Return the kind of weights at the end of a method's name."""
    return next((kind for kind in SPECTRAL if method.endswith(f"_{kind}")), None)


def label(method: str) -> str:
    """Return the name that a reader sees for a method of the results."""
    if title := OWN_TITLES.get(method) or NAMES.get(method):
        return title
    return method.removesuffix(f"_{_weights_of(method)}").replace("_", " ").strip() or method


def full_label(method: str) -> str:
    """Return a method's name with its kind of weights, for lists of several kinds: "self tuning (NNK)"."""
    kind = "gaussian" if method == "knn_fixed" else _weights_of(method)
    return label(method) if kind is None or method in OWN_TITLES else f"{label(method)} ({WEIGHTS[kind]})"


def level_name(level: float) -> str:
    """Return a level as text; 0 represents all samples."""
    return f"{level:g}" if level else "all"


def level_order(level: float) -> tuple[bool, float]:
    """Sort key of levels: by size, and all samples last."""
    return not level, level


def level_text(levels: Sequence[float], unit: str) -> str:
    """Return levels with their unit: "2 and 5 labels per class", "1 label per class"."""
    unit = unit.replace("s per", " per") if list(levels) == [1] else unit
    return f"{listed([level_name(level) for level in levels])} {unit}"


def listed(words: Sequence[str], most: int | None = None) -> str:
    """Return words as a phrase: "a, b and c"; with `most`, a long list ends in "and 4 more"."""
    if most is not None and len(words) > most + 1:
        words = [*words[:most], f"{len(words) - most} more"]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
