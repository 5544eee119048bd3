"""What the short words mean, for a reader who meets them for the first time."""

from __future__ import annotations

from html import escape

WORDS = {
    "kNN": "The plain graph: every node is joined to its k nearest others, all with equal weight.",
    "NNK": "Non-negative kernel regression: weights that rebuild a node from its neighbours by their kernel, so that a "
    "neighbour hidden behind another gets none.",
    "σ (sigma)": "The bandwidth: the width of the Gaussian kernel around a node. In a method's name: chosen per node "
    "by the spectral rule.",
    "fixed": "One bandwidth for all nodes: the mean distance to the 10th neighbour.",
    "α (alpha)": "In a method's name: rows are sharpened, raised to a power that falls with the node's bandwidth.",
    "r, effective rank": "How many directions a local kernel tells apart: from 1, all neighbours look alike, to their "
    "number, each stands alone.",
    "dimMST": "The intrinsic dimension around a node, from the lengths of minimum spanning trees of its neighbours.",
    "Levina–Bickel, TwoNN": "Other estimates of the dimension, from the ratios of distances to the nearest neighbours.",
    "γ (gamma)": "The rank that the bandwidth is chosen for is γ × dimension.",
    "k_cand": "Candidate neighbours per node, from which the weights choose.",
    "LOO": "Leave-one-out: the share of nodes whose label is what their neighbours vote for, their own label unseen.",
    "LP": "Label propagation: a few labels per class travel over the graph; the share of the other nodes they reach "
    "rightly.",
    "balanced": "Accuracy as the mean over classes, so that a small class counts as much as a large one.",
    "NMI, ARI": "Agreement of spectral clusters with the classes: 1 where they are the classes, ARI about 0 by chance.",
    "trial": "One repetition with its own seed. Methods are compared within a trial, on the same nodes.",
    "interval": "Where the true value lies with 95% certainty, found by drawing trials and nodes anew.",
}


def glossary_html() -> str:
    """The words as a list of the page."""
    lines = "".join(f"<dt>{escape(word)}</dt><dd>{escape(meaning)}</dd>" for word, meaning in WORDS.items())
    return f'<h2 id="words">Words</h2><dl class="words">{lines}</dl>'


def glossary_markdown() -> str:
    """The words as a table of the README.

    Examples
    --------
    >>> from asbc.report.glossary import glossary_markdown
    >>> print(glossary_markdown().splitlines()[0])
    | word | meaning |
    """
    lines = [f"| {word} | {meaning} |" for word, meaning in WORDS.items()]
    return "\n".join(["| word | meaning |", "| --- | --- |", *lines])
