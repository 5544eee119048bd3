"""The paper's experiments on the bundled samples of CIFAR-100; writes docs/paper.md and its figures.

Finished experiments are not run again. `make demo` and experiments/readme.py use the same tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from running import run_folders

from asbc.embeddings.source import CIFAR100_CARD, DATA
from asbc.evaluate import compare_methods
from asbc.evaluate.comparison import Comparison
from asbc.report.evidence import Subject, compare_number, default_target, read_evidence
from asbc.report.figures import RENDERERS, Drawing, Panel, draw, side_by_side, style
from asbc.report.names import label, listed
from asbc.report.tables import FilledTable, fill_tables
from asbc.report.verdicts import FAILS, HOLDS, NOT_RUN, UNKNOWN, Verdict, judge
from asbc.runs.experiments import EXPERIMENTS
from asbc.storage import atomic_path, read_json, write_atomic

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TITLES = {
    "simclr": "SimCLR",
    "mocov2": "MoCo v2",
    "byol": "BYOL",
    "barlow": "Barlow Twins",
    "vicreg": "VICReg",
    "dino": "DINO",
}
TOGETHER = "regimes,alignment,loo,lp,ablation,selectors"
SWEEPS = ("gamma", "n_grid")  # each has its own sweep, so each is its own command
TASKS = ("loo", "lp")
MARKS = {HOLDS: "yes", FAILS: "**no**", UNKNOWN: "open", NOT_RUN: "–"}
PLAIN_MARKS = {verdict: mark.strip("*") for verdict, mark in MARKS.items()}


# Runs


def bundled() -> list[str]:
    """Return the encoders of which the package has a sample, in the order of the paper."""
    card = read_json(DATA / CIFAR100_CARD)["encoders"]
    return [name for name in TITLES if name in card]


def run_samples(experiments: str, overrides: Sequence[str] = ()) -> list[str]:
    """Run experiments on all bundled samples, or what is left of them, and return the folders of the runs."""
    every = [f"embedding={','.join(bundled())}", "embedding.source=sample", "hydra.mode=MULTIRUN"]
    return run_folders(experiments, [*every, "hydra/launcher=joblib", "progress=false", *overrides])


def run_paper(overrides: Sequence[str] = ()) -> list[Subject]:
    """Run the experiments of the paper on all samples and return the results, one subject per encoder."""
    folders = [folder for names in (TOGETHER, *SWEEPS) for folder in run_samples(names, overrides)]
    return read_subjects(folders)


def read_subjects(folders: Sequence[str]) -> list[Subject]:
    """Return the results in some folders, one subject per encoder, in the order of the paper."""
    order = list(TITLES)
    return sorted(read_evidence(folders).subjects, key=lambda subject: order.index(subject.encoder))


def title(subject: Subject) -> str:
    return TITLES.get(subject.encoder, subject.name)


# Tables


def short(c: Comparison) -> str:
    """Return a difference with its interval, three digits each."""
    return f"{c.difference:+.3f} [{c.low:+.3f}, {c.high:+.3f}]"


def chain_table(subjects: Sequence[Subject]) -> FilledTable:
    """Compare the paper's methods with kNN, over all encoders together and encoder by encoder."""
    studies = {task: [s.studies[task].largest_sample(task) for s in subjects] for task in TASKS}
    tables = {
        task: pd.concat(
            [study.rows.assign(encoder=s.encoder) for s, study in zip(subjects, studies[task], strict=True)]
        )
        for task in TASKS
    }
    rows = []
    for method in studies["loo"][0].methods:
        cells = [label(method)]
        for task in TASKS:
            found = tables[task][(tables[task]["metric"] == task) & (tables[task]["method"] == method)]
            cells.append(f"{found['value'].mean():.3f}")
            if method == "knn":
                cells += ["", ""]
            else:
                each = [study.compare(method, "knn", task) for study in studies[task]]
                cells.append(short(compare_methods(tables[task], method, "knn", metric=task)))
                cells.append(f"{sum(c is not None and c.verdict == HOLDS for c in each)} of {len(each)}")
        rows.append(cells)
    header = ["method", *(text for task in ("LOO", "LP") for text in (task, f"{task} − kNN", "holds for"))]
    names = listed([title(subject) for subject in subjects])
    note = (
        f"Means over the bundled CIFAR-100 samples of {names}, over 5 to 30 samples per class (LOO) and 1 to 20 labels "
        "per class (LP). Differences are paired by encoder, level and trial, with 95% intervals over trials and nodes. "
        "“Holds for”: encoders on which the interval of the difference lies above zero."
    )
    return FilledTable("chain", "The paper's methods, all encoders together", note, header, rows)


def claims_table(subjects: Sequence[Subject], marks: dict[str, str] = MARKS) -> FilledTable:
    """Return the verdict on every claim that was tested, encoder by encoder."""
    found = [{one.text: one for one in judge(subject)} for subject in subjects]
    tested = [one for one in found[0].values() if any(own[one.text].verdict != NOT_RUN for own in found)]
    rows = []
    for beyond in (False, True):
        for one in tested:
            if one.of_paper != beyond:
                text = one.text if one.of_paper else f"beyond the paper: {one.text}"
                rows.append([text, *(marks[own[one.text].verdict] for own in found)])
    note = (
        "yes: the 95% interval supports the claim; no: it contradicts it; open: it contains both. Verdicts are about "
        "these small encoders."
    )
    return FilledTable("claims", "Claims by encoder", note, ["claim", *map(title, subjects)], rows)


def correlation_table(subjects: Sequence[Subject]) -> FilledTable:
    """Return Spearman's correlation of the rank with two estimates of the dimension, next to the paper's."""
    paper = EXPERIMENTS["alignment"].paper["spearman"]
    estimators = ("mst", "levina_bickel")
    rows = []
    for subject in subjects:
        study, cells = subject.studies["alignment"], [title(subject)]
        for estimator in estimators:
            own = study.of("spearman")
            own = own[(own["target"] == "mst") & (own["estimator"] == estimator)]
            found = compare_number(own, 0.0)
            cells.append("" if found is None else f"{found.mean_a:.2f} [{found.low:.2f}, {found.high:.2f}]")
        medians = study.rows[(study.rows["target"] == "mst") & (study.rows["estimator"] == "mst")]
        medians = medians.groupby("metric")["value"].mean()
        cells += [f"{medians['rank_median']:.1f}", f"{medians['dimension_median']:.1f}"]
        rows.append(cells)
    rows.append(["the paper", *("{} to {}".format(*paper[estimator]) for estimator in estimators), "", ""])
    header = ["encoder", *(f"Spearman(r, {label(name)})" for name in estimators), "median r", "median dimMST"]
    note = "r was matched to dimMST. Intervals over trials."
    return FilledTable("correlations", "Rank and dimension", note, header, rows)


def encoder_table(subjects: Sequence[Subject]) -> FilledTable:
    """Return how good the encoders are, from their model card."""
    card = read_json(DATA / CIFAR100_CARD)
    rows = []
    for name, own in [*((title(s), card["encoders"][s.encoder]) for s in subjects), ("random network", card["random"])]:
        cells = [f"{own[key]:.3f}" for key in ("knn20", "linear")]
        rows.append([name, *cells, *(str(own.get(key, "")) for key in ("epochs", "cpu_minutes"))])
    header = ["encoder", "20-NN", "linear probe", "epochs", "CPU minutes"]
    note = "Accuracy on the 10,000 test images, and how long the encoders were trained."
    return FilledTable("encoders", "The encoders", note, header, rows)


# Figures


def one_each(subjects: Sequence[Subject], experiment: str, number: int, caption: str = "") -> Drawing:
    """Return a figure with the same panel of every encoder."""
    spec = EXPERIMENTS[experiment].figures[0]
    panels: list[Panel] = []
    for subject in subjects:
        own = RENDERERS[spec.kind](subject.studies[experiment], spec)
        panels += [replace(panel, title=f"{title(subject)}: {panel.title}") for panel in own[number : number + 1]]
    return Drawing(spec.name, spec.title, caption or spec.caption, panels)


def curves(subjects: Sequence[Subject], experiment: str) -> Drawing:
    """Return Figure 3 or 4: accuracy of every method, a panel for each encoder."""
    spec = EXPERIMENTS[experiment].figures[0]
    studies = [(title(subject), subject.studies[experiment]) for subject in subjects]
    found = side_by_side(studies, spec, experiment)
    return replace(found, name=spec.name) if found is not None else one_each(subjects, experiment, 0)


def save(drawing: Drawing) -> str:
    """Write a figure to docs/ and return the Markdown that shows it."""
    stem = f"paper_{drawing.file_stem}.png"
    columns = min(3, len(drawing.panels))
    with style(), atomic_path(DOCS / stem) as path:
        draw(drawing.panels, columns, (4.0, 3.0)).savefig(path, dpi=110, format="png")
    alt = f"{drawing.title}: {listed([panel.title for panel in drawing.panels])}"
    return f"![{alt}]({stem})\n\n*{drawing.title}. {drawing.caption}*"


# The page


def folded(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def shown(table: FilledTable) -> str:
    return f"{table.markdown()}\n\n{table.note}"


def tables_of(subjects: Sequence[Subject], experiment: str) -> str:
    """Return the tables of an experiment for every encoder, folded."""
    parts = []
    for subject in subjects:
        filled = fill_tables(subject.studies[experiment])
        text = "\n\n".join(f"**{table.title}**\n\n{shown(table)}" for table in filled)
        parts.append(folded(f"{title(subject)}: {EXPERIMENTS[experiment].heading.lower()}", text))
    return "\n\n".join(parts)


def evidence_of(subjects: Sequence[Subject]) -> str:
    """Return the numbers behind every verdict, folded by encoder."""

    def line(one: Verdict) -> str:
        return f"- **{one.verdict}**: {one.text}. {one.evidence}"

    tested = {title(s): [line(one) for one in judge(s) if one.verdict != NOT_RUN] for s in subjects}
    return "\n\n".join(folded(name, "\n".join(lines)) for name, lines in tested.items())


def tally(subjects: Sequence[Subject]) -> str:
    """Return how many tests of the paper's claims hold, in one sentence."""
    verdicts = [one.verdict for s in subjects for one in judge(s) if one.of_paper and one.verdict != NOT_RUN]
    counts = {verdict: verdicts.count(verdict) for verdict in (HOLDS, FAILS, UNKNOWN)}
    return (
        f"Of {len(verdicts)} tests of the paper's claims ({len(verdicts) // len(subjects)} claims, {len(subjects)} "
        f"encoder{'s' * (len(subjects) > 1)}), {counts[HOLDS]} hold, {counts[FAILS]} do not, and {counts[UNKNOWN]} "
        "cannot be decided."
    )


def span(values: Sequence[float], digits: int = 3) -> str:
    """Return the smallest and the largest of some numbers."""
    low, high = (f"{pick(values):.{digits}f}" for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def limits(subjects: Sequence[Subject]) -> str:
    """Return what weak encoders can and cannot show, with the numbers that matter."""
    loo = [s.studies["loo"].compare("nnk_sigma", "nnk_fixed", "loo") for s in subjects]
    visible = [(c.high - c.low) / 2 for c in loo if c is not None]
    paper = EXPERIMENTS["gamma"].paper

    def means(experiment: str, metric: str, setting: float) -> list[float]:
        tables = [default_target(s.studies[experiment].of(metric)) for s in subjects]
        own = [rows[(rows["method"] == "nnk_sigma") & (rows["setting"] == setting)] for rows in tables]
        return [float(rows["value"].mean()) for rows in own]

    most = max(subjects[0].studies["n_grid"].settings)
    minutes = [read_json(DATA / CIFAR100_CARD)["encoders"][s.encoder]["cpu_minutes"] for s in subjects]
    return f"""\
These encoders are narrow ResNets with 128 features, trained for {span(minutes, 0)} minutes each on one CPU core.

- Accuracies cannot be compared with the paper's. With 20 samples per class and γ = 1, the LOO accuracy of NNK-σ is
  {span(means("gamma", "loo", 1.0))} here, and {paper["loo"][paper["value"].index(1.0)]} in the paper (MoCo v2).
- Methods can be compared with each other: all see the same nodes, and every difference is paired.
- The smallest difference that can be seen between NNK-σ and NNK-fixed is about {span(visible)}, half the width of the
  95% interval. Smaller differences stay open, whatever the truth is.
- Every sample has 30 images per class. At 30 samples per class all trials use the same nodes and differ only by the
  seed of dimMST.
- Figures 1 and 2 depend on the vectors and not on labels. The grid of bandwidths limits the correlations: at 20
  samples per class, Spearman(r, dimMST) is {span(means("n_grid", "spearman", 12), 2)} with the paper's 12 bandwidths,
  and {span(means("n_grid", "spearman", most), 2)} with {most}."""


def page(subjects: Sequence[Subject]) -> str:
    """Return docs/paper.md, and write its figures."""
    gamma = next((s for s in subjects if s.encoder == "mocov2"), subjects[0])
    (table3,) = fill_tables(gamma.studies["gamma"])
    spec3 = EXPERIMENTS["gamma"].figures[0]
    figure3 = Drawing(spec3.name, spec3.title, spec3.caption, RENDERERS["sweep"](gamma.studies["gamma"], spec3))
    names = listed([title(subject) for subject in subjects])
    clouds = "Nodes by rank and dimension (darker: more), with the least-squares fit. r was matched to dimMST."
    ranks = "Effective rank of the local kernels against the bandwidth: median and quartiles over nodes; green: chosen."
    return f"""\
# The paper on small encoders

{save(curves(subjects, "loo"))}

The experiments of “Geometry-Aware Graph Construction via Adaptive Spectral Bandwidth Control” on {names}: 3,000 test
images of CIFAR-100, embedded by small encoders that come with asbc. {tally(subjects)}

`python experiments/paper.py` runs what is missing and writes this page.

{shown(chain_table(subjects))}

## Claims

{shown(claims_table(subjects))}

The numbers behind each verdict:

{evidence_of(subjects)}

## Figure 3: leave-one-out accuracy

The paper reports the order kNN < kNN-σ-α < NNK-fixed < NNK-σ. The figure above shows all methods; the tables have the
paired differences.

{tables_of(subjects, "loo")}

## Figure 4: label propagation

{save(curves(subjects, "lp"))}

The paper reports the same order as for leave-one-out.

{tables_of(subjects, "lp")}

## Figure 2: rank and dimension

{save(one_each(subjects, "alignment", 0, clouds))}

{shown(correlation_table(subjects))}

## Figure 1: regimes of the bandwidth

{save(one_each(subjects, "regimes", 0, ranks))}

## Table 3: γ

{title(gamma)}, 20 samples per class, next to the numbers of the paper ({EXPERIMENTS["gamma"].paper["data"]}).

{save(figure3)}

{shown(table3)}

Other encoders:

{tables_of([s for s in subjects if s is not gamma], "gamma")}

## Ablation and bandwidth rules

{tables_of(subjects, "ablation")}

{tables_of(subjects, "selectors")}

## What weak encoders can and cannot say

{shown(encoder_table(subjects))}

{limits(subjects)}
"""


if __name__ == "__main__":
    write_atomic(DOCS / "paper.md", page(run_paper()))
