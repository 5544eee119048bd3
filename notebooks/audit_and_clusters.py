# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Wrong labels and clusters
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/asbc/blob/main/notebooks/audit_and_clusters.ipynb)
#
# Which labels are wrong, how many, and how do you get corrected ones back? Which groups are in the data, and what are
# they called? Both answers come from vectors, without training anything. The data are scikit-learn's digits, with 60
# labels moved to a wrong class.

# %%
try:
    import asbc
except ImportError:  # in Colab
    get_ipython().run_line_magic("pip", 'install -q "asbc[experiments,cluster]"')  # noqa: F821

# %%
# %matplotlib inline
import os
import tempfile

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.metrics import adjusted_rand_score

import asbc
from asbc.embeddings import Digits

os.chdir(tempfile.mkdtemp())
data = Digits().load()
X, truth = data.vectors, data.labels
rng = np.random.default_rng(0)
wrong = rng.choice(len(truth), 60, replace=False)
labels = truth.copy()
labels[wrong] = (truth[wrong] + rng.integers(1, 10, 60)) % 10

# %% [markdown]
# ## The audit
#
# Labels are ranked by `suspicion`, from 0 to 1. `estimate` is the number of wrong labels with its 95% interval.

# %%
issues = asbc.find_label_issues(X, labels)
print(issues)
print(f"{np.isin(issues.order[:60], wrong).mean():.0%} of the first 60 were moved")


# %%
def show(nodes, titles):
    """Draw some digits."""
    canvas = Figure(figsize=(1.3 * len(nodes), 1.7), layout="constrained")
    for axis, node, title in zip(canvas.subplots(1, len(nodes)), nodes, titles, strict=True):
        axis.imshow(X[node].reshape(8, 8), cmap="gray_r")
        axis.set_title(title, fontsize=9)
        axis.set_axis_off()
    return canvas


first = issues.order[:8]
show(first, [f"{issues.given[i]}, better {issues.suggested[i]}?" for i in first])

# %% [markdown]
# ## How much of a review pays?
#
# `simulate` moves labels of your data on purpose, to similar classes ("near") and to any ("uniform"), and repeats the audit.

# %%
review = issues.simulate(trials=3)
canvas = Figure(figsize=(5, 3), layout="constrained")
axes = canvas.subplots()
for kind, rows in review.groupby("kind"):
    axes.plot(rows["reviewed"], rows["found"], "o-", label=kind)
    axes.fill_between(rows["reviewed"], rows["low"], rows["high"], alpha=0.2, lw=0)
axes.set(xlabel="labels reviewed, the most suspicious first", ylabel="share of mistakes found", ylim=(0, 1.02))
axes.legend()
canvas

# %% [markdown]
# ## Corrected labels
#
# The page of `asbc-explore` exports decisions as a CSV file with the columns `node` and `label`. Here, all suggestions of
# the review are accepted.

# %%
nodes = issues.review
pd.DataFrame({"node": nodes, "label": issues.suggested[nodes]}).to_csv("corrections.csv", index=False)
corrected = issues.apply("corrections.csv")
print(f"{np.sum(labels != truth)} wrong labels before, {np.sum(corrected != truth)} after")

# %% [markdown]
# ## Clusters
#
# Without a number, `GraphClusters` returns levels from coarse to fine and recommends one. `stability_` and `confidence_`
# show which clusters and nodes to trust.

# %%
clusters = asbc.GraphClusters(random_state=0).fit(X)
print("levels:", [len(np.unique(level)) for level in clusters.levels_])
names = asbc.name_clusters(clusters.labels_, labels=truth)
sizes = np.bincount(clusters.labels_)
table = pd.DataFrame({"name": names, "size": sizes, "stability": clusters.stability_.round(2)})
table.sort_values("size", ascending=False).head(12)

# %% [markdown]
# With the number given:

# %%
ten = asbc.GraphClusters(n_clusters=10, random_state=0).fit(X)
print(f"ARI with the true classes: {adjusted_rand_score(truth, ten.labels_):.3f}")
least = np.argsort(ten.confidence_)[:8]
show(least, [f"cluster {ten.labels_[i]}" for i in least])

# %% [markdown]
# These digits change their cluster most often when the graph is perturbed.
#
# `asbc-explore vectors.npy --labels labels.npy` puts all of this on one page, with a map.
