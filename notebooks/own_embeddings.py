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
# All that is needed is an array of shape (n, d), and labels if there are any. Here the array is made up: eight bent
# sheets of different dimensions in 32-dimensional space, with a little noise.

# %%
# %matplotlib inline
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from IPython.display import Markdown, display
from sklearn.cluster import SpectralClustering
from sklearn.metrics import normalized_mutual_info_score

import asbc
from asbc.report.claims import judge
from asbc.report.command import make_report
from asbc.report.evidence import read_evidence
from asbc.report.figures import draw, draw_figures
from asbc.report.tables import fill_tables

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
# `GraphBuilder` is a scikit-learn estimator. It gives a sparse matrix, and keeps what it found on the way. The metric
# is cosine by default.

# %%
builder = asbc.GraphBuilder(weights="nnk", bandwidth=asbc.SpectralBandwidth(), metric="cosine")
A = builder.fit_transform(X)
print(f"{A.nnz} edges, {A.nnz / len(X):.1f} per node")
for name, values in (("dimension", builder.dimension_), ("sigma", builder.bandwidth_.sigma)):
    print(f"{name}: {np.quantile(values, [0.25, 0.5, 0.75]).round(3)} (quartiles)")

# %% [markdown]
# The matrix goes straight into anything that takes a precomputed affinity.

# %%
clusters = SpectralClustering(8, affinity="precomputed", random_state=0, assign_labels="cluster_qr").fit_predict(A)
print(f"NMI with the labels: {normalized_mutual_info_score(y, clusters):.3f}")

# %% [markdown]
# New points get rows against the fitted ones; no label of theirs is needed.

# %%
rows = builder.transform(X[:3] + 0.01)
print(rows.shape, rows.nnz, "weights")

# %% [markdown]
# ## Is it any better?
#
# The experiments measure that. They read the array from a file; on a command line this is
#
# ```sh
# asbc experiment=loo embedding=files embedding.path=mine.npz
# ```

# %%
folder = Path(tempfile.mkdtemp())
np.savez(folder / "mine.npz", embeddings=X, labels=y)


def asbc_command(*arguments):
    subprocess.run([sys.executable, "-m", "asbc.runs.command", *arguments], cwd=folder, check=True, capture_output=True)


data = ["embedding=files", "embedding.path=mine.npz", "trials=3", "progress=false"]
asbc_command("experiment=loo", "samples_per_class=[10,20,30]", *data)
asbc_command("experiment=lp", *data)
(subject,) = read_evidence([folder / "outputs"]).subjects
(figure,) = draw_figures(subject.studies["loo"])
draw(figure.panels, columns=3)

# %% [markdown]
# Every difference is paired by trial and has a 95% interval.

# %%
(table,) = fill_tables(subject.studies["loo"])
display(Markdown(table.markdown()))

# %% [markdown]
# ## The report
#
# `asbc-report outputs` writes one page with all figures, tables and verdicts, and each figure as SVG (with `--pdf` as
# PNG and PDF too). It starts with the graph to build for each task. Some of its verdicts on the paper's claims,
# on these data:

# %%
page = make_report([folder / "outputs"])
print(page.relative_to(folder), f"{page.stat().st_size / 1000:.0f} kB")
for claim in judge(subject):
    if claim.verdict != "not run":
        print(f"{claim.verdict:>14}: {claim.text}")
