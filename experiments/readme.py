"""What the README shows, on the bundled sample: its figure, and its table of results, written into it anew."""

from pathlib import Path

from asbc.files import write_whole
from asbc.report import contrasts, figures
from asbc.report.exhibit import run
from asbc.report.style import label
from asbc.report.table import Table, interval

ROOT = Path(__file__).resolve().parent.parent
IMAGE, PAGE = ROOT / "docs" / "overview.png", ROOT / "README.md"
START, END = "<!-- results -->", "<!-- end of results -->"


def results(part):
    """The chain of methods, each against kNN."""
    rows = []
    for method in part.methods:
        cells = [label(method)]
        for task in ("loo", "lp"):
            own = part.of(task)
            cells.append(f"{own[own['method'] == method]['value'].mean():.3f}")
            cells.append(contrasts.between(part, method, "knn", task) if method != "knn" else None)
        rows.append(cells)
    last = {task: contrasts.between(part, "nnk_sigma", "nnk_fixed", task) for task in ("loo", "lp")}
    note = "; ".join(f"{task.upper()} {interval(found)}: {found.verdict}" for task, found in last.items())
    return Table(
        "readme",
        "",
        f"“A bandwidth for each node beats one for all”, NNK-σ − NNK-fixed: {note}.",
        ["method", "LOO", "LOO − kNN", "LP", "LP − kNN"],
        rows,
    )


if __name__ == "__main__":
    ((_, narrow_to_wide),) = run("regimes", ["progress=false"])
    ((_, votes),) = run("loo", ["progress=false"])
    panels = [figures.regimes(narrow_to_wide).panels[0], figures.loo(votes).panels[0]]
    write_whole(IMAGE, lambda path: path.write_bytes(figures.png(panels, dpi=130)))

    # The same as: asbc experiment=ablation evaluate.lp.labels=[1,5,20]
    ((_, part),) = run("ablation", ["evaluate.lp.labels=[1,5,20]", "progress=false"])
    before, _, rest = PAGE.read_text().partition(START)
    table = results(part)
    text = f"{before}{START}\n{table.markdown()}\n\n{table.note}\n{END}{rest.partition(END)[2]}"
    write_whole(PAGE, lambda path: path.write_text(text))
