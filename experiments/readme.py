"""Write the figures and the table of results of the README, on the bundled sample."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from running import run

import asbc
from asbc.embeddings import Clinc100
from asbc.report.figures import draw, draw_figures
from asbc.report.page import glossary_markdown
from asbc.report.style import BLUE, INK, RED, label, style
from asbc.report.tables import FilledTable, interval
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


def results(study):
    """The chain of methods, each against kNN."""
    rows = []
    for method in study.methods:
        cells = [label(method)]
        for task in ("loo", "lp"):
            own = study.of(task)
            cells.append(f"{own[own['method'] == method]['value'].mean():.3f}")
            cells.append(study.compare(method, "knn", task) if method != "knn" else None)
        rows.append(cells)
    last = {task: study.compare("nnk_sigma", "nnk_fixed", task) for task in ("loo", "lp")}
    note = "; ".join(f"{task.upper()} {interval(found)}: {found.verdict}" for task, found in last.items())
    return FilledTable(
        "readme",
        "",
        f"“A bandwidth for each node beats one for all”, NNK-σ − NNK-fixed: {note}.",
        ["method", "LOO", "LOO − kNN", "LP", "LP − kNN"],
        rows,
    )


if __name__ == "__main__":
    with atomic_path(STRIP) as path:
        kernels(path)
    ((_, narrow_to_wide),) = run("regimes", ["progress=false"])
    ((_, votes),) = run("loo", ["progress=false"])
    panels = [draw_figures(study)[0].panels[0] for study in (narrow_to_wide, votes)]
    with style(), atomic_path(IMAGE) as path:
        draw(panels, 2).savefig(path, dpi=130, format="png")

    # The same as: asbc experiment=ablation evaluate.lp.labels=[1,5,20]
    ((_, study),) = run("ablation", ["evaluate.lp.labels=[1,5,20]", "progress=false"])
    table = results(study)
    text = between(PAGE.read_text(), START, END, f"{table.markdown()}\n\n{table.note}")
    write_atomic(PAGE, text)
    write_atomic(GLOSSARY, between(GLOSSARY.read_text(), WORDS, WORDS_END, glossary_markdown()))
