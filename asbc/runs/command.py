"""The command `asbc`, which runs experiments, and what it prints of a run and of a sweep."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asbc.configs import closest, composed_methods, conf_dir, import_own_modules, keys_of
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import CacheError
from asbc.evaluate.scores import METRICS, PER_SAMPLE, Metric, balanced_differs
from asbc.extras import MissingExtraError
from asbc.runs.record import Experiment, find_record, read_record
from asbc.runs.results import CANDIDATES, RESULTS, SETTINGS, ResultsError, last_level, read_rows
from asbc.runs.run import NothingToScore, level_in_words, run
from asbc.storage import DamagedFileError, explain_write_error, read_json, remove_temporary_files, write_json
from asbc.version import __version__

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

UNLABELED = 3  # exit code if all evaluations need labels and the data have none
# Of the graph and its kernels: printed in a table of their own, where scores are printed too.
GRAPH = ("components", "isolated", "degree_median", "rank_median", "dimension_median")


# What it prints


@dataclass(frozen=True)
class Column:
    """One column of the table that `asbc` prints."""

    metric: Metric
    title: str
    values: pd.Series  # means over trials, by method


def headline(table: pd.DataFrame, record: Experiment | None = None) -> list[Column]:
    """Return what to print of a run: each column is one metric at one level, the mean over trials by method.

    Levels are never averaged: values are those of the largest samples, and those of the fewest and the most labels in
    propagation. The record says which metrics come first; None for that of the rows' experiment.

    Examples
    --------
    >>> import pandas as pd
    >>> from asbc.runs.command import headline
    >>> row = {"experiment": "loo", "method": "knn", "metric": "loo", "trial": 0, "seconds": 0.1}
    >>> table = pd.DataFrame([{**row, "samples": s, "level": s, "value": v} for s, v in ((5, 0.4), (20, 0.8))])
    >>> [(column.title, float(column.values["knn"])) for column in headline(table)]
    [('LOO', 0.8)]
    """
    record = find_record(str(table["experiment"].iloc[0])) if record is None else record
    rows = table[~table["method"].str.startswith(CANDIDATES)]
    rows = rows[rows["samples"] == last_level(rows)]
    measured = rows["metric"].drop_duplicates().tolist()
    # Scores and metrics that asbc does not know; of those it knows, the rest would fill pages.
    shown = [name for name in measured if record.metric(name).needs_labels or name not in METRICS]
    names = [name for name in dict.fromkeys((*record.headline, *shown, *GRAPH)) if name in measured]
    found: list[Column] = []
    for name in names:
        if name.endswith("_unreached") or (
            name.endswith("_balanced") and not balanced_differs(rows, name.removesuffix("_balanced"))
        ):
            continue
        metric = record.metric(name)
        for title, own in _slices(rows[rows["metric"] == name], metric):
            found.append(Column(metric, title, own.groupby("method", sort=False)["value"].mean()))
    return found


def _slices(rows: pd.DataFrame, metric: Metric) -> Iterator[tuple[str, pd.DataFrame]]:
    """Titles and rows of the columns of one metric."""
    by = [column for column in ("scale", *metric.by) if column in rows]
    own = rows[rows[by].isna().all(axis=1)] if by else rows
    if own.empty and "target" in by:  # compare the first target with each estimator
        own = rows[rows["target"] == rows["target"].iloc[0]]
        for estimator in own["estimator"].unique():
            yield f"{metric.title}, d by {estimator}", own[own["estimator"] == estimator]
    elif metric.level != PER_SAMPLE:
        for level in dict.fromkeys((own["level"].min(), own["level"].max())):
            unit = metric.level.removesuffix(" per class")
            yield f"{metric.title}, {level:g} {unit.rstrip('s') if level == 1 else unit}", own[own["level"] == level]
    elif len(own):
        yield metric.title, own


def summary(table: pd.DataFrame, record: Experiment | None = None) -> dict[str, float]:
    """Return the printed numbers by ``metric/method``; where a metric has two levels, the last one counts."""
    return {
        f"{column.metric.name}/{method}": float(value)
        for column in headline(table, record)
        for method, value in column.values.items()
    }


def optimized(table: pd.DataFrame, key: str, record: Experiment | None = None) -> float:
    """Return the number that a sweeper optimizes, such as ``loo/nnk_sigma``."""
    known = summary(table, record)
    if key not in known:
        raise ValueError(f"optimized_metric={key} was not measured; there are: {', '.join(known)}")
    return known[key]


def remarks(table: pd.DataFrame) -> str:
    """Return what the printed numbers are means of: trials, nodes, classes with few samples, unlabelled nodes."""
    level = last_level(table)
    rows = table[table["samples"] == level]
    first = rows.iloc[0]
    trials = rows["trial"].nunique()
    if first.get("nodes", 0) == first.get("total_nodes", -1):
        words = [f"all nodes, {_counted(trials, 'seed')}"]
    else:
        words = [f"mean of {_counted(trials, 'trial')} with {level_in_words(level)}"]
    if first.get("nodes", 0) > 0:
        nodes = _counted(first["nodes"], "node")
        classes = first["classes"]
        words.append(f"{nodes} in {_counted(classes, 'class', 'classes')}" if classes else f"{nodes} without labels")
        short = rows[~rows["metric"].str.startswith("lp")]["short_classes"]
        if len(short) and short.max() > 0:
            words.append(f"{_counted(short.max(), 'class has', 'classes have')} fewer samples and gave all")
        if classes and first["unlabelled"] > 0:
            words.append(f"{_counted(first['unlabelled'], 'node')} without a label, not scored")
    return "; ".join(words)


def _counted(number: float, one: str, many: str = "") -> str:
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def show_run(table: pd.DataFrame, path: Path, *, finished_by: str | None = None) -> None:
    """Print the methods of a run and what they reached.

    `finished_by` is the version of asbc that finished the run earlier, if it was skipped now.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    first = table.iloc[0]
    record = read_record(path, str(first["experiment"]))
    columns = headline(table, record)
    methods = [m for m in table["method"].drop_duplicates() if not m.startswith(CANDIDATES)]
    names = {m: f"{m} ({record.titles[m]})" if m in record.titles else m for m in methods}
    title = f"{first['experiment']}: {first['dataset']}, {first['encoder']}"
    graph = [column for column in columns if column.metric.name in GRAPH]
    scores = [column for column in columns if column not in graph]
    times = table[table["samples"] == last_level(table)].groupby("method")["seconds"].median()
    (scores or graph).append(Column(Metric("seconds", digits=2), "seconds", times))
    console = Console()
    for name, group in ((title, scores), ("the graphs", graph)) if scores else ((title, graph),):
        for part in _fit(group, names, console.width):
            # Names and paths are text, not markup.
            view = Table(title=escape(name), caption=remarks(table))
            view.add_column("method", no_wrap=True)
            for column in part:
                view.add_column(escape(_wrap(column.title)), justify="right")
            for method in methods:
                cells = [_cell(column, method) for column in part]
                if any(cells):
                    view.add_row(escape(names[method]), *cells)
            console.print(view)
    done = "rows"
    if finished_by:
        by = f" by asbc {finished_by} (this is {__version__})" if finished_by != __version__ else ""
        done = f"already finished{by}; rerun=true computes it again"
    console.print(f"{done}: {path}", soft_wrap=True, markup=False)
    console.print(f"resolved config: {path / SETTINGS}", soft_wrap=True, markup=False)


def _wrap(title: str) -> str:
    return textwrap.fill(title, 11)


def _cell(column: Column, method: str) -> str:
    value = column.values.get(method, float("nan"))
    digits = 4 if column.metric.needs_labels else column.metric.digits
    return "" if value != value else f"{value:,.{digits}f}"


def _fit(columns: list[Column], names: dict[str, str], width: int) -> Iterator[list[Column]]:
    """Yield the columns in groups that fit the width of the terminal."""
    name = max([6, *map(len, names.values())]) + 4
    part: list[Column] = []
    used = name
    for column in columns:
        texts = [*_wrap(column.title).splitlines(), *(_cell(column, method) for method in names)]
        needed = max(map(len, texts)) + 3
        if part and used + needed > width:
            yield part
            part, used = [], name
        part.append(column)
        used += needed
    if part and (len(columns) == 1 or [column.title for column in part] != ["seconds"]):  # not in a table of its own
        yield part


class SweepSummary(Callback):
    """Print at the end of a sweep how each of its jobs ended. Hydra calls it, see `hydra.callbacks` in the config.

    Attributes
    ----------
    failed : int, default=0
        Number of failed jobs; the exit code of `asbc` depends on it.
    unlabeled : bool, default=False
        Whether nothing was computed, because the data have no labels to score by.

    Examples
    --------
    >>> from asbc.runs import SweepSummary
    >>> SweepSummary().failed
    0
    """

    failed = 0
    unlabeled = False

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        for pattern in ("jobs/*/", "sweeps/*/*/"):
            for job in Path(config.out).glob(pattern):
                remove_temporary_files(job, older_than=24 * 3600)

    on_multirun_start = on_run_start

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        if "num" not in config.hydra.job:  # a single run; the jobs of a sweep may be other processes
            self._count([job_note(Path(config.hydra.runtime.output_dir))])
            self._save_dashboard(config)

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        notes = job_notes(folder)
        self._count(notes)
        show_sweep(notes, folder)
        self._save_dashboard(config)

    @staticmethod
    def _save_dashboard(config: DictConfig) -> None:
        if (config.get("logger") or {}).get("wandb", {}).get("dashboard"):
            from asbc.runs.workspace import save_if_online

            save_if_online(Path(config.out), instantiate(config.logger.wandb))

    @staticmethod
    def _count(notes: list[dict[str, Any]]) -> None:
        SweepSummary.failed = sum(note["state"] == "failed" for note in notes)
        SweepSummary.unlabeled = bool(notes) and all(note["state"] == "left out" for note in notes)


def job_note(folder: Path) -> dict[str, Any]:
    """Return the `job.json` of a job; a job without one has failed."""
    try:
        note = read_json(folder / "job.json")
    except FileNotFoundError:
        note = {"error": f"{folder}: no job.json; the job was killed or could not write"}
    except (OSError, DamagedFileError) as error:
        note = {"error": str(error)}
    return {"overrides": [], "state": "failed", **note}


def job_notes(folder: Path) -> list[dict[str, Any]]:
    """Return the notes of the jobs of a sweep, in order."""
    jobs = [path for path in folder.glob("*/") if not path.name.startswith(".")]
    return [job_note(job) for job in sorted(jobs, key=lambda path: (len(path.name), path.name))]


def best_method(folder: Path) -> str:
    """Return the best method by a run's first metric and its value; empty if no direction is better."""
    try:
        table = read_rows(folder / RESULTS)
    except ResultsError as error:
        return str(error)
    columns = headline(table, read_record(folder, str(table["experiment"].iloc[0])))
    metric, values = (columns[0].metric, columns[0].values) if columns else (Metric(""), table["value"])
    if metric.higher_is_better is None or metric.name in GRAPH or values.isna().all():
        return ""
    best: Any = values.idxmax() if metric.higher_is_better else values.idxmin()
    return f"{best} ({columns[0].title} {values[best]:.4f}, {level_in_words(last_level(table))})"


def show_sweep(notes: list[dict[str, Any]], folder: Path) -> None:
    """Print how each job of a sweep ended, from their `job.json`."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    overrides = [set(note["overrides"]) for note in notes if note["overrides"]]
    common = set.intersection(*overrides) if len(overrides) > 1 else set()
    swept = [" ".join(o for o in note["overrides"] if o not in common) for note in notes]
    done = [note for note in notes if note["state"] in ("finished", "skipped")]
    other = [note for note in done if note["state"] == "skipped" and note.get("version") != __version__]
    best = [best_method(Path(note["path"])) if note in done else "" for note in notes]
    view = Table(title=escape(f"sweep {folder.name}"))
    for column in ("job", "overrides", "state", *(["best method"] if any(best) else [])):
        view.add_column(column)
    for number, note in enumerate(notes):
        state = f"skipped (asbc {note['version']})" if note in other else note["state"]
        cells = [swept[number], state, *([best[number]] if any(best) else [])]
        view.add_row(str(number), *map(escape, cells))
    console = Console()
    console.print(view)
    lines = []
    if done:
        lines.append(f"rows: {', '.join(sorted({str(Path(note['path']).parent) for note in done}))}")
    if other:
        versions = ", ".join(sorted({str(note["version"]) for note in other}))
        already = f"{len(other)} of {len(notes)} were already finished by asbc {versions} (this is {__version__})"
        lines.append(f"{already}; rerun=true computes them again")
    failed = [number for number, note in enumerate(notes) if note["state"] == "failed"]
    if failed:
        lines.append(f"{len(failed)} of {len(notes)} failed:")
        for number in failed:
            first_line = (notes[number].get("error", "").splitlines() or [""])[0]
            lines.append(f"{number} {swept[number]}: {first_line}")
        lines.append("The same command tries these again and skips the rest.")
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


# What it runs


def job(cfg: DictConfig) -> float | None:
    """Run one job, a single run or one point of a sweep, and write how it ended to its `job.json`.

    A failure is written and not raised, so that the other jobs of a sweep continue. Returns the value of
    `optimized_metric` if it is set, NaN if the job failed.
    """
    context = HydraConfig.get()
    sweep = context.mode == RunMode.MULTIRUN
    pooled = "joblib" in str(context.launcher.get("_target_"))
    logging.raiseExceptions = False  # no traceback for each line of a log file that cannot be written
    if pooled:
        cfg = OmegaConf.merge(cfg, {"progress": False})  # type: ignore[assignment]
    note: dict[str, Any] = {"overrides": list(context.overrides.task), "state": "failed"}
    value: float | None = None if cfg.get("optimized_metric") is None else float("nan")
    try:
        note["flags"] = import_own_modules()
        check_overrides(cfg)
        outcome = run(
            cfg,
            group=Path(context.sweep.dir).name if sweep else None,
            overrides=named_overrides(context),
            typed=[word for word in note["overrides"] if word.startswith(("embedding", "out="))] + note["flags"],
            threads=1 if pooled and cfg.threads is None else cfg.threads,
        )
        note |= {"run_id": outcome.run_id, "path": str(outcome.path), "version": outcome.version}
        if value is not None:
            value = optimized(outcome.table, str(cfg.optimized_metric), outcome.record)
        note["state"] = "skipped" if outcome.skipped else "finished"
    except KeyboardInterrupt:
        note["state"] = "interrupted"
        _print(f"\nInterrupted. Finished samples are saved in {Path(cfg.out) / 'runs'}; the same command resumes.")
        raise
    except NothingToScore as error:
        note |= {"state": "left out", "error": str(error)}
        log.warning("%s", error)
    except Exception as error:
        disk = _disk_error(error, cfg.out)
        note["error"] = disk or f"{type(error).__name__}: {error}"
        note["traceback"] = traceback.format_exc()
        expected = disk or isinstance(
            error, ValueError | ResultsError | FileNotFoundError | MissingExtraError | DownloadError | CacheError
        )
        log.error("%s", note["error"], exc_info=not expected)
    finally:
        try:
            write_json(Path(context.runtime.output_dir) / "job.json", note)
        except OSError as error:  # without its job.json the job counts as failed
            log.error("%s", _disk_error(error, cfg.out) or error)
    if not sweep and note["state"] in ("finished", "skipped"):
        show_run(outcome.table, outcome.path, finished_by=outcome.version if outcome.skipped else None)
    return value


def named_overrides(context: Any) -> list[str]:
    """Return what was typed for a job; of a sweep, only what differs between its jobs."""
    typed = list(context.overrides.task)
    if context.mode != RunMode.MULTIRUN:
        return typed
    try:
        shared = OmegaConf.load(Path(context.sweep.dir) / "multirun.yaml").hydra.overrides.task
    except (OSError, AttributeError):  # a sweeper of another library need not write the file
        return typed
    return [override for override in typed if override not in shared]


def check_overrides(cfg: DictConfig) -> None:
    """Raise a ValueError for what was typed and would be ignored."""
    context = HydraConfig.get()
    typed = [override.lstrip("+~").partition("=")[0] for override in context.overrides.task]
    groups = {path.name for path in conf_dir().iterdir() if path.is_dir()}
    known = {*OmegaConf.load(conf_dir() / "config.yaml"), *groups, "methods", *context.runtime.choices}
    for key, override in zip(typed, context.overrides.task, strict=True):
        # Hydra refuses unknown settings, but not those that + adds.
        if override.startswith("+") and key.partition(".")[0].partition("@")[0] not in known:
            raise ValueError(f"there is no setting {key}{closest(key, keys_of(cfg))}")
    for key in ("gamma", "n_grid"):
        if key in typed and key not in cfg.bandwidth:
            name = context.runtime.choices.get("bandwidth")
            raise ValueError(f"bandwidth={name} has no {key}; it is a setting of bandwidth=spectral")
        if key in typed and f"bandwidth.{key}" in typed:
            raise ValueError(f"{key} and bandwidth.{key} are the same setting; give one of them")
    own = context.sweeper.get("params") or {}
    if context.mode == RunMode.MULTIRUN and not set(own) <= set(typed):
        sweep = " ".join(f"{key}={values}" for key, values in own.items())
        raise ValueError(
            f"experiment={cfg.name} has its own sweep, {sweep}, which a sweep over experiments does not include; run "
            f"asbc experiment={cfg.name} separately, or add {sweep} to the command"
        )


def explain(error: HydraException) -> str:
    """Return an error of Hydra in one line if it is about a name, with the closest name that exists."""
    _, appended, key = str(error).partition("Could not append to config. An item is already at '")
    if appended:
        return f"{key.partition(chr(39))[0]} is a setting already; type it without the +"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        return _unknown_option(group, name, error.options)
    group, _, name = str(error).partition("Could not load '")[2].partition("'")[0].rpartition("/")
    if group:
        return _unknown_option(group, name, [path.stem for path in (conf_dir() / group).glob("*.yaml")])
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and OmegaConf.is_dict(cause.parent_node):
        prefix = str(cause.full_key or "").rpartition(".")[0]
        key = str(error).split("'")[1] if str(error).startswith("Could not override '") else str(cause.full_key)
        close = closest(key, keys_of(cause.parent_node, prefix and prefix + "."))
        swept = {"-m", "--multirun"} & {*sys.argv} and f" ++{key}=... sets it in the swept options that have it."
        return f"there is no setting {key}{close}{swept or ''}"
    return "\n".join(str(each) for each in (error, cause) if each is not None)


def _unknown_option(group: str, name: str, options: Iterable[str]) -> str:
    known = sorted({*options, *(composed_methods() if group == "method" else ())})
    return f"there is no {group} {name!r}{closest(name, known)} Available: {', '.join(known)}"


def start(arguments: list[str]) -> int:
    """Give a command line to Hydra, and return the exit code."""
    sys.argv[1:] = arguments
    SweepSummary.failed, SweepSummary.unlabeled = 0, False
    full_error = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # raise errors here instead of printing them
    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()
        return 1 if SweepSummary.failed else UNLABELED if SweepSummary.unlabeled else 0
    except HydraException as error:
        if full_error:
            raise
        _print(f"asbc: {explain(error)}")
    except OSError as error:
        disk = _disk_error(error, "the folder of `out`")
        if full_error or disk is None:
            raise
        _print(f"asbc: {disk}")
    finally:
        os.environ.pop("HYDRA_FULL_ERROR")
        if full_error is not None:
            os.environ["HYDRA_FULL_ERROR"] = full_error
    return 1


def stages(arguments: list[str]) -> list[list[str]]:
    """Return the command lines of a command: one per stage if its experiment is a list of them, as `paper` is."""
    for place, argument in enumerate(arguments):
        group, _, name = argument.partition("=")
        path = conf_dir() / "experiment" / f"{name}.yaml"
        experiment: Any = OmegaConf.load(path) if group == "experiment" and path.is_file() else {}
        if names := experiment.get("stages"):
            return [[*arguments[:place], f"experiment={stage}", *arguments[place + 1 :]] for stage in names]
    return [arguments]


def main() -> None:
    """`asbc`: run one experiment; `asbc -m`: a sweep of them."""
    arguments = sys.argv[1:]
    if "hydra/launcher=slurm" in arguments:
        try:
            import_module("hydra_plugins.hydra_submitit_launcher")
        except ModuleNotFoundError:
            sys.exit('asbc: hydra/launcher=slurm needs hydra-submitit-launcher: pip install "asbc[slurm]"')
        if shutil.which("srun") is None:
            sys.exit("asbc: hydra/launcher=slurm: srun was not found; hydra/launcher=joblib uses all cores")
    commands = stages(arguments)
    codes = []
    try:
        for command in commands:
            if len(commands) > 1:
                _print(f"asbc {shlex.join(command)}")
            codes.append(start(command))
    except KeyboardInterrupt:
        codes.append(130)
    unlabeled = [shlex.join(command) for command, code in zip(commands, codes, strict=False) if code == UNLABELED]
    if unlabeled and len(unlabeled) < len(codes):
        _print("Skipped, because they need labels:\n" + "\n".join(f"  asbc {command}" for command in unlabeled))
        codes = [code for code in codes if code != UNLABELED]
    sys.exit(max(codes))


def _disk_error(error: Exception, out: str) -> str | None:
    """Return which file could not be written and what to do; None for other errors."""
    why = explain_write_error(error) if isinstance(error, OSError) else None
    return f"{getattr(error, 'filename', None) or out}: {why}" if why else None


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # Imported by its real name: Hydra imports this module again, and SweepSummary must be the same class in both.
    from asbc.runs.command import main as real_main

    real_main()
