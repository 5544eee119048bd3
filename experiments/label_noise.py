"""Who finds wrong labels? Average precision, ours against cleanlab and both scores of logistic regression.

Any override of `asbc` may follow, for example `embedding=digits 'samples_per_class=[170]'`. Needs asbc[peers].
"""

from rich.console import Console
from running import run_folders

from asbc.evaluate import compare_methods
from asbc.report.tables import FilledTable
from asbc.runs import collect

OURS = "blend"
NAMES = {
    "nnk_sigma": "NNK-σ",
    "perplexity_gaussian": "Gaussian",
    "datalab": "cleanlab Datalab",
    "regression_margin": "logistic regression, margin",
    "regression_confidence": "logistic regression, self-confidence",
}


def noise(rows):
    """One line per kind and share of noise: mean average precision, and ours minus each other way."""
    body = []
    for (metric, level), part in rows.groupby(["metric", "level"], sort=True):
        means = part.groupby("method")["value"].mean()
        cells = [f"{metric.removeprefix('noise_')}, {level}%", f"{means[OURS]:.3f}"]
        for other in NAMES:
            there = other in means
            cells.append(f"{means[other]:.3f}" if there else None)
            cells.append(compare_methods(part, OURS, other, metric=metric) if there else None)
        body.append(cells)
    header = ["wrong labels", "blend"]
    for name in NAMES.values():
        header += [name, "blend − it"]
    trials = rows["trial"].nunique()
    return FilledTable(
        "noise",
        f"Wrong labels that are found: average precision on {rows['dataset'].iloc[0]}",
        f"Means of {trials} trials, each with its own moved labels; all methods see the same ones. 95% bootstrap "
        "intervals over trials. Where trials share their nodes, they show how moves differ, not how data sets would.",
        header,
        body,
    )


if __name__ == "__main__":
    for folder in run_folders("noise"):
        Console(width=180).print(noise(collect(folder)).rich())
