"""One look for all figures: names, colours that colour-blind readers can tell apart, marks, and axes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Okabe and Ito's palette, darkened a little where lines on white need it.
BLUE, SKY, GREEN, ORANGE, RED, PURPLE = "#0072b2", "#3ba3dc", "#009e73", "#e69f00", "#d55e00", "#b8578f"
INK, MUTED, FAINT, GRID = "#1f2933", "#5b6770", "#9aa5b1", "#e4e8ec"
# Of text in SVG files; on the page it is the page's own.
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"

NAMES = {
    "knn": "kNN",
    "knn_sigma": "kNN-σ",
    "knn_sigma_alpha": "kNN-σ-α",
    "nnk_fixed": "NNK-fixed",
    "nnk_sigma": "NNK-σ",
    "nnk_sigma_alpha": "NNK-σ-α",
    "knn_fixed": "fixed",
    "umap": "UMAP",
    "solo_learn": "solo-learn exp(cos/T)",
    "graph_learning": "GraphLearning",
    "mst": "dimMST",
    "levina_bickel": "Levina–Bickel",
    "two_nn": "TwoNN",
}

# Line colour, marker and dash of each method: any two differ in at least two of them.
LOOKS: dict[str, tuple[str, str, str]] = {
    "knn": (MUTED, "o", ":"),
    "knn_sigma": (SKY, "s", "--"),
    "knn_sigma_alpha": (BLUE, "D", "-."),
    "nnk_fixed": (ORANGE, "v", "--"),
    "nnk_sigma": (RED, "^", "-"),
    "nnk_sigma_alpha": (PURPLE, "P", "-."),
}


def label(method: str) -> str:
    """What a reader is shown for a method's name in the results."""
    if method in NAMES:
        return NAMES[method]
    for kind in ("gaussian", "nnk"):
        if method.endswith(f"_{kind}"):
            return method[: -len(kind) - 1].replace("_", " ")
    return method.replace("_", " ").strip() or method


def full_label(method: str) -> str:
    """A method's name where methods of all kinds of weights stand together: "self tuning (NNK)"."""
    kind = next((kind for kind in ("gaussian", "nnk") if method.endswith(f"_{kind}") and method not in NAMES), None)
    if method == "knn_fixed":
        kind = "gaussian"
    return f"{label(method)} ({'NNK' if kind == 'nnk' else 'Gaussian'})" if kind else label(method)


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's settings for the figures, and none of a user's own."""
    import matplotlib as mpl

    settings: Any = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 10,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.titley": 1.0,  # where it stands anyway; else all labels are laid out twice to see whether it must move
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
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "lines.linewidth": 1.8,
        "lines.markersize": 5.5,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.facecolor": "white",
        "savefig.facecolor": "white",
        "figure.dpi": 100,
        "savefig.dpi": 200,
        "pdf.fonttype": 42,
        "svg.hashsalt": "asbc",
    }
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield
