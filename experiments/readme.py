"""Write the figures and the table of results of the README, from the runs of experiments/paper.py."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from paper import chain_table, run_paper

import asbc
from asbc.embeddings import Clinc100
from asbc.report.figures import BLUE, INK, RED, draw, draw_figures, style
from asbc.report.page import glossary_markdown
from asbc.storage import atomic_path, write_atomic

ROOT = Path(__file__).resolve().parent.parent
IMAGE, PAGE = ROOT / "docs" / "overview.png", ROOT / "README.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
START, END = "<!-- results -->", "<!-- end of results -->"
WORDS, WORDS_END = "<!-- glossary -->", "<!-- end of glossary -->"
STRIP = ROOT / "docs" / "kernels.png"


def between(text, start, end, block):
    """Return the text with the part between two marks replaced."""
    before, _, rest = text.partition(start)
    return f"{before}{start}\n{block}\n{end}{rest.partition(end)[2]}"


def kernels(path, node=0):
    """The kernel on one node's neighbours and its spectrum, from a narrow bandwidth to a wide one."""
    X = asbc.normalize(Clinc100().load().vectors)
    near = asbc.search_neighbors(X, k=30)
    d = asbc.dim_mst(X, near)
    chosen = asbc.SpectralBandwidth(refine=True).select(X, near, d).sigma[node]
    reach = near.distances[node, 9]
    points = X[near.indices[node]].astype(float)
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    with style():
        canvas = Figure(figsize=(12.5, 4.6), layout="constrained")
        axes = canvas.subplots(2, 5, sharey="row")
        for (top, bottom), scale in zip(axes.T, [0.1, 0.3, chosen / reach, 1.5, 4.0], strict=True):
            kernel = np.exp(-squared / (2 * (scale * reach) ** 2))
            top.imshow(kernel, vmin=0, vmax=1, cmap="Blues")
            own = " (chosen)" if scale == chosen / reach else ""
            top.set(title=f"σ = {scale:.2f} × reach{own}", xticks=[], yticks=[])
            bottom.bar(np.arange(30), np.linalg.eigvalsh(kernel)[::-1].clip(0) / 30, color=BLUE, width=0.9)
            bottom.axvline(d[node], color=INK, ls="--", lw=1)
            said = f"r = {asbc.effective_rank(kernel):.1f}"
            bottom.text(0.95, 0.92, said, color=RED, weight="bold", ha="right", transform=bottom.transAxes)
            bottom.set(xlabel="direction", ylim=(0, 1))
        axes[1, 0].set_ylabel("share of the spectrum")
        canvas.savefig(path, dpi=80, format="png")


if __name__ == "__main__":
    with atomic_path(STRIP) as path:
        kernels(path)
    subjects = run_paper()
    with style(), atomic_path(IMAGE) as path:
        panels = [draw_figures(subjects[0].studies[name])[0].panels[0] for name in ("regimes", "loo")]
        draw(panels, 2).savefig(path, dpi=130, format="png")
    table = chain_table(subjects)
    text = between(PAGE.read_text(), START, END, f"{table.markdown()}\n\n{table.note}")
    write_atomic(PAGE, text)
    write_atomic(GLOSSARY, between(GLOSSARY.read_text(), WORDS, WORDS_END, glossary_markdown()))
