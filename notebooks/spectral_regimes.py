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
# # Spectral regimes
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/asbc/blob/main/notebooks/spectral_regimes.ipynb)
#
# How many directions does a Gaussian kernel distinguish in a neighbourhood? With a narrow bandwidth, no two neighbours
# are alike, and it distinguishes as many directions as there are neighbours. With a wide one, all are alike, and it
# distinguishes one. In between, the number equals the local dimension of the data. asbc chooses that bandwidth at every
# node.
#
# The data are bundled with asbc: 3,000 sentences, embedded by a MiniLM encoder.

# %%
try:
    import asbc
except ImportError:  # in Colab
    get_ipython().run_line_magic("pip", 'install -q "asbc[experiments]"')  # noqa: F821

# %%
# %matplotlib inline
import numpy as np
from matplotlib.figure import Figure

import asbc
from asbc.embeddings import Clinc100

BLUE, GREEN, INK, MUTED, ORANGE, RED = "#0072b2", "#009e73", "#222222", "#888888", "#e69f00", "#d55e00"

X = asbc.normalize(Clinc100().load().vectors)
neighbors = asbc.search_neighbors(X, k=30)
dimension = asbc.dim_mst(X, neighbors)
choice = asbc.SpectralBandwidth().select(X, neighbors, dimension)
refined = asbc.SpectralBandwidth(refine=True).select(X, neighbors, dimension)
reach = neighbors.distances[:, 9]  # to the 10th neighbour: the unit for bandwidths below
print(
    f"{len(X)} nodes, median dimension {np.median(dimension):.1f}, median rank {np.median(choice.effective_rank):.1f}"
)

# %% [markdown]
# ## One neighbourhood
#
# The kernel between the 30 neighbours of a node, and its spectrum. The effective rank r is the exponential of the
# spectrum's entropy: the number of directions that carry it.


# %%
def local_kernels(node, sigmas):
    """A (30, 30) Gaussian kernel on a node's neighbours for each bandwidth."""
    points = X[neighbors.indices[node]].astype(float)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    return [np.exp(-squared / (2 * sigma**2)) for sigma in sigmas]


def look(scales, node=0):
    """Kernel and spectrum of one neighbourhood at some bandwidths."""
    canvas = Figure(figsize=(2.5 * len(scales), 4.6), layout="constrained")
    axes = canvas.subplots(2, len(scales), sharey="row", squeeze=False)
    kernels = local_kernels(node, np.array(scales) * reach[node])
    for (top, bottom), scale, kernel in zip(axes.T, scales, kernels, strict=True):
        spectrum = np.linalg.eigvalsh(kernel)[::-1].clip(0) / len(kernel)
        top.imshow(kernel, vmin=0, vmax=1, cmap="Blues")
        top.set(title=f"σ = {scale:.2f} × reach", xticks=[], yticks=[])
        bottom.bar(np.arange(len(spectrum)), spectrum, color=BLUE, width=0.9)
        bottom.axvline(dimension[node], color=INK, ls="--", lw=1)
        rank = asbc.effective_rank(kernel)
        bottom.text(0.95, 0.92, f"r = {rank:.1f}", color=RED, weight="bold", ha="right", transform=bottom.transAxes)
        bottom.set(xlabel="direction", ylim=(0, 1))
    axes[1, 0].set_ylabel("share of the spectrum")
    return canvas


look([0.1, 0.3, float(refined.sigma[0] / reach[0]), 1.5, 4.0])

# %% [markdown]
# The dashed line is the node's dimension. The panel in the middle has the chosen bandwidth: its rank equals the
# dimension.
#
# With a running kernel, the slider below moves the bandwidth.

# %%
try:
    from ipywidgets import FloatLogSlider, IntSlider, interact
except ImportError:
    print("pip install ipywidgets for the slider")
else:
    interact(
        lambda scale, node: look([scale], node),
        scale=FloatLogSlider(value=1.0, base=10, min=-1.3, max=0.7, step=0.05, description="σ / reach"),
        node=IntSlider(value=0, min=0, max=len(X) - 1, description="node"),
    )

# %% [markdown]
# ## All neighbourhoods
#
# The same for every tenth node: medians, with quartiles as a shade. r never rises with the bandwidth, so the search can
# skip most eigenproblems and still be exact.

# %%
scales = np.geomspace(0.05, 5, 21)
nodes = np.arange(0, len(X), 10)
ranks = np.array([[asbc.effective_rank(kernel) for kernel in local_kernels(i, scales * reach[i])] for i in nodes])
assert (np.diff(ranks, axis=1) <= 1e-9).all()

canvas = Figure(figsize=(10, 3.8), layout="constrained")
left, right = canvas.subplots(1, 2)
low, middle, high = np.quantile(ranks, [0.25, 0.5, 0.75], axis=0)
left.fill_between(scales, low, high, color=BLUE, alpha=0.22, lw=0)
left.plot(scales, middle, color=BLUE)
left.axhline(np.median(dimension), color=INK, ls="--", lw=1)
left.axvline(np.median(choice.sigma / reach), color=GREEN)
left.set(xscale="log", title="Regimes", xlabel="σ / reach", ylabel="effective rank r")
left.text(0.055, np.median(dimension) + 0.6, "median dimension", fontsize=9)
left.text(np.median(choice.sigma / reach) * 1.1, 28, "chosen", color=GREEN, weight="bold", fontsize=9)
right.plot(dimension, choice.effective_rank, ".", color=ORANGE, ms=3, alpha=0.5)
right.plot([1, 30], [1, 30], color=MUTED, lw=1)
right.set(title="Choice", xlabel="dimension (dimMST)", ylabel="effective rank r", xlim=(0, 30), ylim=(0, 30))
canvas

# %% [markdown]
# On the right, the ranks lie off the line: with 12 grid points, as in the paper, the choice is coarse.
# `SpectralBandwidth(refine=True)` continues between the grid points; it chose the bandwidth in the middle panel above.

# %%
for name, found in (("12 grid points", choice), ("refined", refined)):
    gap = np.median(np.abs(found.effective_rank - dimension) / dimension)
    print(f"{name:15s} median |r - d| / d = {gap:.3f}")
