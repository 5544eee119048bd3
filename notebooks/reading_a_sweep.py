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
# # Reading a sweep from Parquet
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/asbc/blob/main/notebooks/reading_a_sweep.ipynb)
#
# Every run writes one long table: one row per method, level, trial and metric, with a column for every setting. This
# notebook runs a small sweep over gamma and reads it.

# %%
try:
    import asbc
except ImportError:  # in Colab
    get_ipython().run_line_magic("pip", 'install -q "asbc[experiments]"')  # noqa: F821

# %%
# %matplotlib inline
import os
import tempfile

import pandas as pd
from matplotlib.figure import Figure

import asbc
from asbc.evaluate import compare_methods
from asbc.runs import list_runs

os.chdir(tempfile.mkdtemp())
# !asbc experiment=gamma trials=3 'samples_per_class=[10]' progress=false 2>&1 | cat
for path, status in list_runs("outputs"):
    print(path, status["state"], status["rows"], "rows")

# %% [markdown]
# ## The table
#
# `collect` joins all runs under a folder. `per_node=True` adds which nodes were right, so that intervals resample nodes
# as well as trials. pandas alone reads the same files.

# %%
table = asbc.collect("outputs", per_node=True)
one = pd.read_parquet(next(path for path, _ in list_runs("outputs")) / "results.parquet")
print(len(table), "rows in all,", len(one), "in one run")
table[["dataset", "method", "bandwidth.gamma", "samples", "trial", "metric", "value", "seconds"]].head()

# %% [markdown]
# ## Means over trials

# %%
wanted = ["loo", "rank_median", "dimension_median", "sigma_median", "edges"]
means = table[table["metric"].isin(wanted)].pivot_table(
    index=["method", "bandwidth.gamma"], columns="metric", values="value"
)
means[wanted].round(3)

# %% [markdown]
# ## Differences
#
# All settings use the same samples in a trial, so they are compared trial by trial. `compare_methods` pairs the rows of
# two methods by data set, level and trial. To compare values of gamma, each value becomes a method here.

# %%
nnk = table[table["method"] == "nnk_sigma"]
nnk = nnk.assign(method="gamma " + nnk["bandwidth.gamma"].astype(str))
for gamma in (0.5, 0.75, 1.25, 1.5, 2.0):
    found = compare_methods(nnk, f"gamma {gamma}", "gamma 1.0", metric="loo")
    print(f"gamma {gamma} - gamma 1.0: {found}")

# %% [markdown]
# ## A figure

# %%
canvas = Figure(figsize=(5, 3.4), layout="constrained")
axes = canvas.subplots()
for number, (method, rows) in enumerate(table[table["metric"] == "loo"].groupby("method")):
    axes.plot(rows["bandwidth.gamma"], rows["value"], ".", color=f"C{number}", alpha=0.4)
    mean = rows.groupby("bandwidth.gamma")["value"].mean()
    axes.plot(mean.index, mean, "o-", color=f"C{number}", label=method)
axes.set(title="Leave-one-out on CLINC100", xlabel="gamma", ylabel="accuracy")
axes.legend()
canvas
