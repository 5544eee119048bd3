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

# Metrics that a summary shows, in this order, where a run has measured them.
HEADLINES = ("loo", "lp", "nmi", "ari", "regret", "spearman", "rank_median")


class SweepSummary(Callback):
    """Prints, at the end of a sweep, what became of each of its jobs.

    Hydra makes it, as `hydra.callbacks.summary` of `conf/config.yaml` says, and calls it when a job or a sweep ends.

    Attributes
    ----------
    failed : int, default=0
        How many jobs failed; the exit code of `asbc` depends on it.

    See Also
    --------
    show_sweep : what is printed.

    Examples
    --------
    >>> from asbc.runs import SweepSummary
    >>> SweepSummary.failed
    0
    """

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
    """Print a run's methods and what they reached: the mean of each metric over trials and levels.

    Parameters
    ----------
    table : DataFrame
        All rows of the run.
    path : Path
        Its folder.
    finished_by : str, default=None
        Where the run was skipped because it was finished before: the version of asbc that finished it.
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
    """Why a finished run was not done again, with the version that finished it where it is not this one.

    Examples
    --------
    >>> import asbc
    >>> from asbc.runs.summary import skipped_because
    >>> print(skipped_because("0.1.0").replace(asbc.__version__, "..."))
    finished before by asbc 0.1.0 (this is ...); rerun=true does it again
    """
    by = f" by asbc {version} (this is {__version__})" if other_version(version) else ""
    return f"finished before{by}; rerun=true does it again"


def other_version(version: str | None) -> bool:
    """Whether a run was finished by another version of asbc than this one."""
    return version is not None and version != __version__


def headline(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method, one column per metric: means over trials and levels; and the median seconds per subsample."""
    rows = table[~table["method"].str.startswith("tuned_")]
    present = [m for m in HEADLINES if (rows["metric"] == m).any()]
    order = rows["method"].drop_duplicates().tolist()
    means = rows[rows["metric"].isin(present)].pivot_table(index="method", columns="metric", values="value")
    means = means.reindex(index=order, columns=present)
    means["seconds"] = rows.groupby("method")["seconds"].median()
    return means


def show_sweep(notes: list[dict[str, Any]], folder: Path) -> int:
    """Print what became of each job of a sweep.

    Parameters
    ----------
    notes : list of dict
        What each job left in its `job.json`.
    folder : Path
        Of the sweep.

    Returns
    -------
    int
        How many jobs failed.
    """
    from rich.console import Console
    from rich.table import Table

    # Overrides that all jobs have in common do not tell one from another.
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
        by_other = note["state"] == "skipped" and other_version(note.get("version"))
        state = f"skipped (asbc {note['version']})" if by_other else note["state"]
        view.add_row(str(number), swept[number], state, best)
    console = Console()
    console.print(view)
    others = [note["version"] for note in notes if note["state"] == "skipped" and other_version(note.get("version"))]
    if others:
        by = ", ".join(sorted(set(others)))
        console.print(
            f"{len(others)} of {len(notes)} were finished before by asbc {by} (this is {__version__}); "
            "rerun=true does them again",
            soft_wrap=True,
            highlight=False,
        )
    failed = [(number, note) for number, note in enumerate(notes) if note["state"] == "failed"]
    if failed:
        console.print(f"{len(failed)} of {len(notes)} failed:", style="bold red")
        for number, note in failed:
            # The first line says what went wrong; all of it was said when the job ended, and is in its job.json.
            first = (note.get("error", "").splitlines() or [""])[0]
            console.print(f"{number} {swept[number]}: {first}", soft_wrap=True, markup=False, highlight=False)
        console.print("The same command tries these again and skips the rest.")
    return len(failed)
