"""Which way of propagating labels is best? Prints accuracy on the development sets, with 1 and 5 labels per class.

    python experiments/propagations.py results.csv [trials]

Sets as in clusterings.py: a trial takes 80% of each class (60% of MNIST) and draws its own labels. `skewed` sets keep a
share of each class that falls from 1 to 0.1. Other libraries get the better of several settings on each set. Needs
asbc[all,peers]. Finished rows of results.csv are kept, so an interrupted comparison resumes.
"""

import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from clusterings import interval, load_sets
from sklearn.semi_supervised import LabelSpreading

import asbc
from asbc.embeddings import stratified_sample

SCHEMES = ("1", "5", "random")  # labels per class; random: 5 on average
OURS = "asbc"


def with_asbc(X, y, shown):
    partial = np.where(shown, y, -1)
    first = asbc.GraphClassifier().fit(X, partial)
    yield OURS, first.transduction_
    for prior in ("uniform", "labels", None):
        found = asbc.GraphClassifier(graph=first.builder_.graph_, class_prior=prior).fit(None, partial)
        yield f"asbc, class_prior={prior}", found.transduction_


def with_label_spreading(X, y, shown):
    for k, alpha in product((10, 30), (0.2, 0.85, 0.95)):
        model = LabelSpreading(kernel="knn", n_neighbors=k, alpha=alpha, max_iter=200)
        yield f"LabelSpreading, k={k}, alpha={alpha}", model.fit(X, np.where(shown, y, -1)).transduction_


def with_graphlearning(X, y, shown):
    import graphlearning as gl

    nodes, found = np.flatnonzero(shown), asbc.search_neighbors(X, k=30)
    classes, codes = np.unique(y[nodes], return_inverse=True)
    indices = np.column_stack([np.arange(len(X)), found.indices])  # it counts the node itself
    distances = np.column_stack([np.zeros(len(X)), found.distances])
    for k in (10, 30):
        weights = gl.weightmatrix.knn(None, k, knn_data=(indices, distances))
        for name, model in (("Laplace", gl.ssl.laplace(weights)), ("Poisson", gl.ssl.poisson(weights))):
            yield f"{name}, k={k}", classes[model.fit_predict(nodes, codes)]


def choose_nodes(labels, share, skewed, seed):
    """Return the nodes of a trial: a share of each class, or class sizes that fall evenly from all to a tenth."""
    if not skewed:
        return stratified_sample(labels, int(share * np.bincount(labels).min()), seed)
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(labels))
    parts = [rng.permutation(np.flatnonzero(labels == c)) for c in classes]
    shares = np.linspace(1, 0.1, len(classes))
    return np.sort(np.concatenate([part[: max(10, int(s * len(part)))] for part, s in zip(parts, shares, strict=True)]))


def show_labels(y, scheme, seed):
    """Return which nodes are labelled: some of each class, or five times as many nodes as classes at random."""
    order = pd.Series(np.random.default_rng(seed).permutation(len(y)))
    if scheme == "random":
        return (order < 5 * len(set(y.tolist()))).to_numpy()
    return (order.groupby(y).rank() <= int(scheme)).to_numpy()


def measure(path, trials):
    rows = pd.read_csv(path, dtype={"labels": str}).to_dict("records") if path.exists() else []
    done = {(row["set"], row["trial"], row["family"]) for row in rows}
    families = (with_asbc, with_graphlearning, with_label_spreading)
    for trial, family, (name, (vectors, labels, share)), skewed in product(
        range(trials), families, load_sets().items(), (False, True)
    ):
        title = f"{name} skewed" if skewed else name
        if (title, trial, family.__name__) in done:
            continue
        nodes = choose_nodes(labels, share, skewed, trial)
        X, y = asbc.normalize(vectors[nodes]), labels[nodes]
        for scheme in SCHEMES:
            shown = show_labels(y, scheme, trial)
            for method, found in family(X, y, shown):
                accuracy = float((found == y)[~shown].mean())
                rows.append(
                    {"set": title, "trial": trial, "family": family.__name__, "method": method}
                    | {"labels": scheme, "accuracy": accuracy}
                )
        pd.DataFrame(rows).to_csv(path, index=False)
    return pd.DataFrame(rows)


def print_tables(rows):
    """Print accuracy by method and set, and the paired difference of ours from each other method."""
    other = rows["family"] != "with_asbc"
    named = rows.assign(method=rows["method"].where(~other, rows["method"].str.partition(",")[0]))
    # The better setting of another library on each set, by its mean over trials.
    means = rows.groupby(["set", "labels", "method"])["accuracy"].transform("mean")
    best = means.groupby([rows["set"], rows["labels"], named["method"]]).transform("max") == means
    found = named[best | ~other].drop_duplicates(["set", "trial", "labels", "method"])
    for (scheme, skewed), part in found.groupby(["labels", found["set"].str.endswith("skewed")]):
        table = part.pivot_table(index="method", columns="set", values="accuracy")
        table["mean"] = table.mean(axis=1)
        paired = part.pivot_table(index=["trial", "set"], columns="method", values="accuracy")
        for method in table.index:
            gain = (paired[OURS] - paired[method]).unstack().dropna().mean(axis=1)
            table.loc[method, "ours - it"] = "" if method == OURS else interval(gain)
        print(f"labels per class: {scheme}{', skewed class sizes' if skewed else ''}")
        print(table.round(3).to_string(), "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_tables(measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5))
