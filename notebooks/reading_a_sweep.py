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
# Every run leaves one long table: one row per method, level, trial and metric, with every setting in a column of its
# own (the number of candidate neighbours is `k_cand`). This notebook makes a small sweep over gamma and reads it back.
# On a command line the sweep is
#
# ```sh
# asbc experiment=gamma trials=3 'samples_per_class=[10]'
# ```

# %%
# %matplotlib inline
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from asbc.evaluate import compare_methods
from asbc.report.style import LOOKS, label, style
from asbc.runs import collect, list_runs

folder = Path(tempfile.mkdtemp())
settings = ["experiment=gamma", "trials=3", "samples_per_class=[10]", "progress=false"]
command = [sys.executable, "-m", "asbc.runs.command", *settings]
subprocess.run(command, cwd=folder, check=True, capture_output=True)
for path, status in list_runs(folder / "outputs"):
    print(path.relative_to(folder), status["state"], status["rows"], "rows")

# %% [markdown]
# ## The table
#
# `collect` joins all runs under a folder. `per_node=True` adds which nodes were right, so that intervals
# resample nodes as well as trials. The same files can be read with pandas alone.

# %%
table = collect(folder / "outputs", per_node=True)
one = pd.read_parquet(next((folder / "outputs").glob("runs/*/results.parquet")))
print(len(table), "rows in all,", len(one), "in one run")
table[["dataset", "method", "bandwidth.gamma", "samples", "trial", "metric", "value", "seconds"]].head()

# %% [markdown]
# ## Means
#
# The mean over trials of some of the metrics, per method and gamma.

# %%
wanted = ["loo", "rank_median", "dimension_median", "sigma_median", "edges"]
means = table[table["metric"].isin(wanted)].pivot_table(
    index=["method", "bandwidth.gamma"], columns="metric", values="value"
)
means[wanted].round(3)

# %% [markdown]
# ## Differences
#
# All settings see the same subsample in a trial, so they are compared trial by trial. `compare_methods` pairs the rows
# of two methods by data set, level and trial. To compare values of gamma instead, each value is made a method here.

# %%
nnk = table[table["method"] == "nnk_sigma"]
nnk = nnk.assign(method="gamma " + nnk["bandwidth.gamma"].astype(str))
for gamma in (0.5, 0.75, 1.25, 1.5, 2.0):
    found = compare_methods(nnk, f"gamma {gamma}", "gamma 1.0", metric="loo")
    print(f"gamma {gamma} - gamma 1.0: {found}")

# %% [markdown]
# ## A figure

# %%
with style():
    canvas = Figure(figsize=(5, 3.4), layout="constrained")
    axes = canvas.subplots()
    for method, rows in table[table["metric"] == "loo"].groupby("method"):
        color, marker, dash = LOOKS[method]
        axes.plot(rows["bandwidth.gamma"], rows["value"], ".", color=color, alpha=0.4)
        mean = rows.groupby("bandwidth.gamma")["value"].mean()
        axes.plot(mean.index, mean, color=color, marker=marker, ls=dash, label=label(method))
    axes.set(title="Leave-one-out on CLINC100", xlabel="gamma", ylabel="accuracy")
    axes.legend()
canvas
