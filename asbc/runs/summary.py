"""What the terminal says of a run, and of a sweep when it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from asbc.runs.results import read_rows
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

# What a summary shows first of what a run has measured, and whether more is better.
HEADLINES = ("loo", "lp", "nmi", "ari", "regret", "spearman", "rank_median")


class SweepSummary(Callback):
    """Prints, at the end of a sweep, what became of each job."""

    failed = 0

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        if config.hydra.mode == RunMode.RUN:
            note = getattr(job_return, "_return_value", None)
            SweepSummary.failed = int(not isinstance(note, dict) or note["state"] == "failed")

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        notes = sorted(folder.glob("*/job.json"), key=lambda p: (len(p.parent.name), p.parent.name))
        SweepSummary.failed = show_sweep([json.loads(path.read_text()) for path in notes], folder)


def show_run(table: pd.DataFrame, path: Path, *, finished_by: str | None = None) -> None:
    """Print a run's methods and what they reached, the mean over trials and levels of each metric.

    `finished_by` is the version of asbc that finished the run before, where it was skipped now.
    """
    from rich.console import Console
    from rich.table import Table

    shown = headline(table)
    view = Table(title=f"{table['experiment'].iloc[0]}: {table['dataset'].iloc[0]}, {table['encoder'].iloc[0]}")
    view.add_column("method")
    for column in shown.columns:
        view.add_column(str(column), justify="right")
    for method, row in shown.iterrows():
        view.add_row(
            str(method), *("" if v != v else f"{v:.4g}" if c == "seconds" else f"{v:.4f}" for c, v in row.items())
        )
    console = Console()
    console.print(view)
    console.print(f"{skipped_because(finished_by)}: {path}" if finished_by else f"rows: {path}", soft_wrap=True)


def skipped_because(version: str) -> str:
    """Why a finished run was not done again, with the version that did it where it is not this one."""
    by = "" if version == __version__ else f" by asbc {version} (this is {__version__})"
    return f"finished before{by}; rerun=true does it again"


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """Methods against metrics: means over trials and levels, and the median seconds a subsample."""
    rows = table[~table["method"].str.startswith("tuned_")]
    present = [m for m in HEADLINES if (rows["metric"] == m).any()]
    order = rows["method"].drop_duplicates().tolist()
    means = rows[rows["metric"].isin(present)].pivot_table(index="method", columns="metric", values="value")
    means = means.reindex(index=order, columns=present)
    means["seconds"] = rows.groupby("method")["seconds"].median()
    return means


def show_sweep(notes: list[dict[str, Any]], folder: Path) -> int:
    """Print a sweep's jobs; tell how many failed."""
    from rich.console import Console
    from rich.table import Table

    # What all jobs have in common says nothing about any of them.
    common = set.intersection(*(set(note["overrides"]) for note in notes)) if len(notes) > 1 else set()
    swept = [" ".join(o for o in note["overrides"] if o not in common) for note in notes]
    view = Table(title=f"sweep {folder.name}")
    for column in ("job", "overrides", "state", "best method"):
        view.add_column(column)
    for number, note in enumerate(notes):
        best = ""
        if note["state"] in ("finished", "skipped"):
            shown = headline(read_rows(Path(note["path"]) / "results.parquet"))
            metric = shown.columns[0]
            if metric in ("loo", "lp", "nmi", "ari"):
                best = f"{shown[metric].idxmax()} ({metric} {shown[metric].max():.4f})"
        view.add_row(str(number), swept[number], note["state"], best)
    console = Console()
    console.print(view)
    failed = [(number, note) for number, note in enumerate(notes) if note["state"] == "failed"]
    if failed:
        console.print(f"{len(failed)} of {len(notes)} failed:", style="bold red")
        for number, note in failed:
            # The first line says what went wrong; all of it was said when the job ended, and is in its job.json.
            first = (note.get("error", "").splitlines() or [""])[0]
            console.print(f"{number} {swept[number]}: {first}", soft_wrap=True, markup=False, highlight=False)
        console.print("The same command tries these again and skips the rest.")
    return len(failed)
