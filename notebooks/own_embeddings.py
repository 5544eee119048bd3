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
# # Your own embeddings, from array to report
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/asbc/blob/main/notebooks/own_embeddings.ipynb)
#
# All you need is an array of shape (n, d), and labels if there are any. Here the array is synthetic: eight curved
# sheets of different dimensions in a space of 32 dimensions, with a little noise.

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
from sklearn.metrics import adjusted_rand_score

import asbc
from asbc.evaluate import compare_methods

os.chdir(tempfile.mkdtemp())

rng = np.random.default_rng(0)
sheets = []
for label in range(8):
    latent = rng.uniform(-1, 1, (60, 2 + label % 4))
    bent = np.concatenate([latent, np.sin(2 * latent), latent**2], axis=1)
    sheets.append(bent @ rng.normal(size=(bent.shape[1], 32)) + 0.8 * rng.normal(size=32))
X = np.concatenate(sheets) + 0.2 * rng.normal(size=(480, 32))
y = np.repeat(np.arange(8), 60)
X.shape

# %% [markdown]
# ## The graph
#
# `GraphBuilder` is a scikit-learn estimator. It returns a sparse matrix and keeps what it computed on the way. The
# metric is cosine by default.

# %%
builder = asbc.GraphBuilder(weights="nnk", bandwidth="spectral", metric="cosine")
A = builder.fit_transform(X)
print(f"{A.nnz} edges, {A.nnz / len(X):.1f} per node")
for name, values in (("dimension", builder.dimension_), ("sigma", builder.bandwidth_.sigma)):
    print(f"{name}: {np.quantile(values, [0.25, 0.5, 0.75]).round(3)} (quartiles)")

# %% [markdown]
# Clusters of the graph, with a given number:

# %%
clusters = asbc.GraphClusters(n_clusters=8, random_state=0).fit_predict(X)
print(f"ARI with the labels: {adjusted_rand_score(y, clusters):.3f}")

# %% [markdown]
# New points get rows against the fitted ones. They need no labels.

# %%
rows = builder.transform(X[:3] + 0.01)
print(rows.shape, rows.nnz, "weights")

# %% [markdown]
# ## Is it better than a plain kNN graph?
#
# The experiments measure that. They read the array from a file.

# %%
np.savez("mine.npz", embeddings=X, labels=y)
# !asbc experiment=loo embedding=files embedding.path=mine.npz 'samples_per_class=[10,20,30]' trials=3 progress=false 2>&1 | cat
# !asbc experiment=lp embedding=files embedding.path=mine.npz trials=3 progress=false 2>&1 | cat

# %% [markdown]
# Differences are paired by trial and have a 95% interval.

# %%
table = asbc.collect("outputs", per_node=True)
loo = table[table["metric"] == "loo"]
for method in ("knn_sigma", "nnk_fixed", "nnk_sigma"):
    print(f"{method} - knn: {compare_methods(loo, method, 'knn', metric='loo')}")

# %% [markdown]
# ## A figure

# %%
from matplotlib.figure import Figure  # noqa: E402

canvas = Figure(figsize=(5, 3.4), layout="constrained")
axes = canvas.subplots()
for method, found in loo[loo["samples"] > 0].groupby("method"):
    mean = found.groupby("samples")["value"].mean()
    axes.plot(mean.index, mean, "o-", label=method)
axes.set(xlabel="samples per class", ylabel="leave-one-out accuracy")
axes.legend()
canvas

# %% [markdown]
# ## The report
#
# `asbc-report` writes one page with all figures, tables and verdicts. It starts with the graph to build for each task.
# Open it in any browser.

# %%
# !asbc-report outputs 2>&1 | cat
