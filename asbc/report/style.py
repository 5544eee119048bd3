"""Names, colours and markers of methods, and the matplotlib settings of all figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from asbc.runs.record import METHOD_COLORS, METHOD_TITLES
from asbc.validation import is_color

if TYPE_CHECKING:
    from asbc.runs.record import Experiment

BLUE, GREEN, ORANGE, RED = "#0072b2", "#009e73", "#e69f00", "#d55e00"
BROWN, INDIGO = "#8c510a", "#4b3f9e"
INK, MUTED, FAINT, GRID = "#1f2933", "#5b6770", "#9aa5b1", "#e4e8ec"

NAMES = METHOD_TITLES | {"mst": "dimMST", "levina_bickel": "Levina–Bickel", "two_nn": "TwoNN"}
WEIGHTS = {"gaussian": "Gaussian", "nnk": "NNK", "uniform": "uniform", "blend": "NNK + Gaussian"}
SPECTRAL = {"gaussian": "knn_sigma", "nnk": "nnk_sigma"}  # the spectral rule with each kind of weights


class Look(NamedTuple):
    """Colour, marker and dash of a method's line."""

    color: str
    marker: str
    dash: str


# Any two of the paper's methods differ in at least two of colour, marker and dash.
LOOKS = {
    name: Look(color, marker, dash)
    for (name, color), marker, dash in zip(
        METHOD_COLORS.items(), "osDv^P", (":", "--", "-.", "--", "-", "-."), strict=True
    )
}
# Looks of other methods, in the order in which they appear in a figure.
OTHER_LOOKS = [
    Look(color, marker, dash)
    for dash, markers in (("-", "Xd<h"), ("--", "p>*8"), (":", "<hXd"))
    for color, marker in zip((GREEN, BROWN, INDIGO, INK), markers, strict=True)
]
OWN_TITLES: ContextVar[Mapping[str, str]] = ContextVar("OWN_TITLES", default=MappingProxyType({}))
OWN_LOOKS: ContextVar[Mapping[str, Look]] = ContextVar("OWN_LOOKS", default=MappingProxyType({}))


@contextmanager
def own_methods(records: Iterable[Experiment], methods: Iterable[str]) -> Iterator[None]:
    """Use the titles and colors in some records, and give each other method of the user one look in all figures.

    Parameters
    ----------
    records : iterable of Experiment
        Later ones take precedence.
    methods : iterable of str
        All methods of the page.
    """
    titles: dict[str, str] = {}
    colors: dict[str, str] = {}
    for record in records:
        titles |= record.titles
        colors |= {name: color for name, color in record.colors.items() if is_color(color)}
    own = [name for name in dict.fromkeys(methods) if name not in NAMES and not name.endswith(("_gaussian", "_nnk"))]
    found = {name: OTHER_LOOKS[i % len(OTHER_LOOKS)] for i, name in enumerate(own)}
    for name, color in colors.items():
        found[name] = (found.get(name) or LOOKS.get(name) or OTHER_LOOKS[0])._replace(color=color)
    tokens = OWN_TITLES.set(titles), OWN_LOOKS.set(found)
    try:
        yield
    finally:
        OWN_TITLES.reset(tokens[0])
        OWN_LOOKS.reset(tokens[1])


def label(method: str) -> str:
    """Return the name that a reader sees for a method of the results."""
    if title := OWN_TITLES.get().get(method):
        return title
    if method in NAMES:
        return NAMES[method]
    for kind in SPECTRAL:
        if method.endswith(f"_{kind}"):
            return method[: -len(kind) - 1].replace("_", " ")
    return method.replace("_", " ").strip() or method


def full_label(method: str) -> str:
    """Return a method's name with its kind of weights, for lists of several kinds: "self tuning (NNK)"."""
    known = {*NAMES, *OWN_TITLES.get()}
    kind = next((kind for kind in SPECTRAL if method.endswith(f"_{kind}") and method not in known), None)
    if method == "knn_fixed":
        kind = "gaussian"
    return f"{label(method)} ({WEIGHTS[kind]})" if kind else label(method)


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """Return a look for each method: its own one, or the next of the other looks that is free."""
    methods = list(methods)
    known = {**LOOKS, **OWN_LOOKS.get()}
    chosen = {method: known[method] for method in methods if method in known}
    free = [look for look in OTHER_LOOKS if look not in chosen.values()] or OTHER_LOOKS
    others = [method for method in methods if method not in known]
    chosen |= {method: free[i % len(free)] for i, method in enumerate(others)}
    return {method: chosen[method] for method in methods}


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


@contextmanager
def style(font_size: float = 10) -> Iterator[None]:
    """Apply the matplotlib settings of all figures, and none of the user's.

    Parameters
    ----------
    font_size : float, default=10
        Points of ordinary text.
    """
    import matplotlib as mpl

    settings: Any = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": font_size,
        "axes.titlesize": 1.05 * font_size,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": font_size,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "text.color": INK,
        "text.parse_math": False,  # names of methods may contain dollar signs
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 0.9 * font_size,
        "ytick.labelsize": 0.9 * font_size,
        "lines.linewidth": 0.17 * font_size,
        "lines.markersize": 0.53 * font_size,
        "legend.frameon": False,
        "legend.fontsize": 0.9 * font_size,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "pdf.fonttype": 42,
        "svg.fonttype": "none",
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield
