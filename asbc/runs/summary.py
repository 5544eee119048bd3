"""What the terminal says of a run, and of a sweep when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from asbc.files import sweep
from asbc.runs.headline import HEALTH, ROUND, headline, last_level, remarks
from asbc.runs.levels import level_in_words
from asbc.runs.sealed import ResultsError, read_note, read_rows
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd


class SweepSummary(Callback):
    """Prints, at the end of a sweep, what became of each of its jobs.

    Hydra makes it, as `hydra.callbacks.summary` of `conf/config.yaml` says, and calls it when a job or a sweep ends.

    Attributes
    ----------
    failed : int, default=0
        How many jobs failed; the exit code of `asbc` depends on it.
    left_out : bool, default=False
        Whether nothing was done, since the data have no labels to score by.

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
    left_out = False

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        # Killed jobs may have left a half-written job.json. A day is longer than any writer takes.
        for pattern in ("jobs/*/", "sweeps/*/*/"):
            for job in Path(config.out).glob(pattern):
                sweep(job, older_than=24 * 3600)

    on_multirun_start = on_run_start

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        if config.hydra.mode == RunMode.RUN:
            note = getattr(job_return, "_return_value", None)
            SweepSummary.failed = int(not isinstance(note, dict) or note["state"] == "failed")
            SweepSummary.left_out = isinstance(note, dict) and note["state"] == "left out"

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        notes = job_notes(folder)
        # Counted before anything is printed, which may go wrong: the exit code depends on it.
        SweepSummary.failed = sum(note["state"] == "failed" for note in notes)
        SweepSummary.left_out = bool(notes) and all(note["state"] == "left out" for note in notes)
        show_sweep(notes, folder)


def job_notes(folder: Path) -> list[dict[str, Any]]:
    """What each job of a sweep left in its `job.json`, in order; a job without one has failed."""
    notes = []
    jobs = [path for path in folder.glob("*/") if not path.name.startswith(".")]
    for job in sorted(jobs, key=lambda path: (len(path.name), path.name)):
        try:
            note = read_note(job / "job.json")
        except FileNotFoundError:
            note = {"error": f"{job}: the job left no job.json, it was killed or could not write"}
        except (OSError, ResultsError) as error:
            note = {"error": str(error)}
        notes.append({"overrides": [], "state": "failed", **note})
    return notes


def show_run(table: pd.DataFrame, path: Path, *, finished_by: str | None = None) -> None:
    """Print a run's methods and what they reached, with the level that it was reached at.

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
    from rich.markup import escape
    from rich.table import Table

    shown = headline(table)
    # Names and paths are text, not markup: brackets in them are shown as they are.
    title = f"{table['experiment'].iloc[0]}: {table['dataset'].iloc[0]}, {table['encoder'].iloc[0]}"
    graph = [column for column in shown.columns if column in HEALTH.values()]
    scores = [column for column in shown.columns if column not in graph]
    console = Console()
    for name, whole in ((title, scores), ("the graphs", graph)) if len(scores) > 1 else ((title, list(shown.columns)),):
        for columns in _fitting(shown, whole, console.width):
            view = Table(title=escape(name), caption=remarks(table))
            view.add_column("method", no_wrap=True)
            for column in columns:
                view.add_column(escape(str(column)), justify="right")
            for method, row in shown[columns].dropna(how="all").iterrows():
                view.add_row(escape(str(method)), *(_cell(c, v) for c, v in row.items()))
            console.print(view)
    where = f"{skipped_because(finished_by)}: {path}" if finished_by else f"rows: {path}"
    console.print(where, soft_wrap=True, markup=False)


def _cell(column: Any, value: float) -> str:
    return "" if value != value else f"{value:.4g}" if column in ROUND else f"{value:.4f}"


def _fitting(shown: pd.DataFrame, columns: list[str], width: int) -> Iterator[list[str]]:
    """The columns, a table's worth at a time: as many as are readable beside the names of methods."""
    name = max([6, *(len(str(method)) for method in shown.index)]) + 4
    part: list[str] = []
    used = name
    for column in columns:
        words = [*str(column).splitlines(), *(_cell(column, value) for value in shown[column])]
        wide = max(map(len, words)) + 3
        if part and used + wide > width:
            yield part
            part, used = [], name
        part.append(column)
        used += wide
    if part and (part != ["seconds"] or len(columns) == 1):  # of all columns, the one that needs no table of its own
        yield part


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


def best_method(folder: Path) -> str:
    """The method that did best by a run's first headline, and how well; empty where no headline says."""
    try:
        table = read_rows(folder / "results.parquet")
    except ResultsError as error:
        return str(error)
    shown = headline(table)
    first = shown.columns[0]
    if not first.startswith(("loo", "lp", "nmi", "ari")) or shown[first].isna().all():
        return ""
    what = " ".join(first.split())
    return f"{shown[first].idxmax()} ({what} {shown[first].max():.4f}, {level_in_words(last_level(table))})"


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
    from rich.markup import escape
    from rich.table import Table

    # Overrides that all jobs have in common do not tell one from another.
    told = [set(note["overrides"]) for note in notes if note["overrides"]]
    common = set.intersection(*told) if len(told) > 1 else set()
    swept = [" ".join(o for o in note["overrides"] if o not in common) for note in notes]
    view = Table(title=escape(f"sweep {folder.name}"))
    done = [note["state"] in ("finished", "skipped") for note in notes]
    best = [best_method(Path(note["path"])) if ok else "" for note, ok in zip(notes, done, strict=True)]
    for column in ("job", "overrides", "state", *(["best method"] if any(best) else [])):
        view.add_column(column)
    for number, note in enumerate(notes):
        by_other = note["state"] == "skipped" and other_version(note.get("version"))
        state = f"skipped (asbc {note['version']})" if by_other else note["state"]
        view.add_row(str(number), *map(escape, (swept[number], state, *([best[number]] if any(best) else []))))
    console = Console()
    console.print(view)
    if any(done):
        rows = sorted({str(Path(note["path"]).parent) for note, ok in zip(notes, done, strict=True) if ok})
        console.print(f"rows: {', '.join(rows)}", soft_wrap=True, markup=False)
    others = [note["version"] for note in notes if note["state"] == "skipped" and other_version(note.get("version"))]
    if others:
        by = ", ".join(sorted(set(others)))
        console.print(
            f"{len(others)} of {len(notes)} were finished before by asbc {by} (this is {__version__}); "
            "rerun=true does them again",
            soft_wrap=True,
            highlight=False,
            markup=False,
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
