"""The command `asbc`, which runs experiments, and what it prints of a run and of a sweep."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import shutil
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asbc.configs import closest, composed_methods, conf_dir, import_own_modules, keys_of
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import CacheError
from asbc.extras import MissingExtraError
from asbc.runs.record import Experiment
from asbc.runs.results import CANDIDATES, GRAPH, SETTINGS, ResultsError, headline, last_level, summary
from asbc.runs.run import NothingToScore, level_in_words, run
from asbc.storage import DamagedFileError, explain_write_error, read_json, write_json

log = logging.getLogger("asbc")
UNLABELED = 3  # code of a command of which nothing was computed, because the data have no labels


# What it prints


def show_run(table: pd.DataFrame, record: Experiment, path: Path, *, finished_by: str | None = None) -> None:
    """Print the methods of a run and what they reached.

    `finished_by` is the version of asbc that finished the run earlier, if it was skipped now.
    """
    rows = table[table["samples"] == last_level(table)]
    first, trials = rows.iloc[0], rows["trial"].nunique()
    alike = first["nodes"] == first["total_nodes"]  # trials differ only in their seed
    means = f"all nodes, {trials} seeds" if alike else f"{level_in_words(last_level(table))}, mean of {trials} trials"
    title = f"{first['experiment']}: {first['dataset']}, {first['encoder']}"
    classes = f", {first['classes']} classes" if first["classes"] else ""
    print(f"{title} ({means}; {first['nodes']:,} nodes{classes})")
    columns = {
        column.title: column.values.map(f"{{:,.{4 if column.metric.needs_labels else column.metric.digits}f}}".format)
        for column in headline(table, record)
    }
    columns["seconds"] = rows.groupby("method")["seconds"].median().map("{:,.2f}".format)
    methods = [name for name in rows["method"].unique() if not name.startswith(CANDIDATES)]
    shown = pd.DataFrame(columns).reindex(methods).fillna("")
    shown.index = [f"{name} ({record.titles[name]})" if name in record.titles else name for name in methods]
    print(shown.to_string(line_width=shutil.get_terminal_size((200, 24)).columns))
    done = "rows" if finished_by is None else f"already finished by asbc {finished_by}; rerun=true computes it again"
    print(f"{done}: {path}\nresolved config: {path / SETTINGS}")


def show_sweep(notes: list[dict[str, Any]], folder: Path) -> None:
    """Print how each job of a sweep ended, from their `job.json`."""
    typed = [set(note["overrides"]) for note in notes if note["overrides"]]  # a killed job has left none
    common = set.intersection(*typed) if len(typed) > 1 else set()
    swept = [" ".join(word for word in note["overrides"] if word not in common) for note in notes]
    width = max(map(len, swept), default=0)
    print(f"sweep {folder.name}")
    for number, (note, words) in enumerate(zip(notes, swept, strict=True)):
        state = f"skipped (finished by asbc {note['version']})" if note["state"] == "skipped" else note["state"]
        result = note.get("best") or note.get("error", "").partition("\n")[0]
        print(f"{number:>4}  {words:<{width}}  {state}  {result}".rstrip())
    places = sorted({str(Path(note["path"]).parent) for note in notes if "path" in note})
    if places:
        print(f"rows: {', '.join(places)}")
    if any(note["state"] == "skipped" for note in notes):
        print("rerun=true computes skipped runs again.")
    if failed := sum(note["state"] == "failed" for note in notes):
        print(f"{failed} of {len(notes)} failed. The same command tries these again and skips the rest.")


def best_method(table: pd.DataFrame, record: Experiment) -> str:
    """Return the best method by a run's first metric and its value; empty if no direction is better."""
    columns = headline(table, record)
    better = columns[0].metric.higher_is_better if columns and columns[0].metric.name not in GRAPH else None
    if better is None or (values := columns[0].values.dropna()).empty:
        return ""
    best: Any = values.idxmax() if better else values.idxmin()
    return f"{best} ({columns[0].title} {values[best]:.4f}, {level_in_words(last_level(table))})"


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

    def on_job_end(self, config: DictConfig, job_return: Any, **kwargs: Any) -> None:
        if "num" not in config.hydra.job:  # a single run; the jobs of a sweep may be other processes
            self._finish(config, [job_note(Path(config.hydra.runtime.output_dir))])

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        notes = job_notes(folder)
        self._finish(config, notes)
        show_sweep(notes, folder)

    @staticmethod
    def _finish(config: DictConfig, notes: list[dict[str, Any]]) -> None:
        SweepSummary.failed = sum(note["state"] == "failed" for note in notes)
        SweepSummary.unlabeled = bool(notes) and all(note["state"] == "left out" for note in notes)
        if (config.get("logger") or {}).get("wandb", {}).get("dashboard"):
            from asbc.runs.wandb import save_if_online

            save_if_online(Path(config.out), instantiate(config.logger.wandb))


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
    jobs = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [job_note(job) for job in sorted(jobs, key=lambda path: (len(path.name), path.name))]


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
        note["best"] = best_method(outcome.table, outcome.record)
        if value is not None:
            known = summary(outcome.table, outcome.record)
            if (key := str(cfg.optimized_metric)) not in known:
                raise ValueError(f"optimized_metric={key} was not measured; there are: {', '.join(known)}")
            value = known[key]
        note["state"] = "skipped" if outcome.skipped else "finished"
    except KeyboardInterrupt:
        note["state"] = "interrupted"
        _print(f"\nInterrupted. Finished samples are saved in {Path(cfg.out) / 'runs'}; the same command resumes.")
        raise
    except NothingToScore as error:
        note |= {"state": "left out", "error": str(error)}
        log.warning("left out: %s", error)
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
        finished_by = outcome.version if outcome.skipped else None
        show_run(outcome.table, outcome.record, outcome.path, finished_by=finished_by)
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
    missing = getattr(error, "missing_cfg_file", None) or str(error).partition("Could not load '")[2].partition("'")[0]
    group, _, name = missing.rpartition("/")
    if group:
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        parser.add_argument("--config-dir", "-cd", default=conf_dir())
        folders = {conf_dir(), Path(parser.parse_known_args()[0].config_dir)}
        own = [path.stem for folder in folders for path in (folder / group).glob("*.yaml")]
        options = getattr(error, "options", None) or ()  # for one option, not for a list: those of all folders
        known = sorted({*own, *options, *(composed_methods() if group == "method" else ())})
        return f"there is no {group} {name!r}{closest(name, known) or '.'} Available: {', '.join(known)}"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and OmegaConf.is_dict(cause.parent_node):
        prefix = str(cause.full_key or "").rpartition(".")[0]
        key = str(error).split("'")[1] if str(error).startswith("Could not override '") else str(cause.full_key)
        close = closest(key, keys_of(cause.parent_node, prefix and prefix + "."))
        swept = {"-m", "--multirun"} & {*sys.argv} and f" ++{key}=... sets it in the swept options that have it."
        return f"there is no setting {key}{close}{swept or ''}"
    return "\n".join(str(each) for each in (error, cause) if each is not None)


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
    commands, codes = stages(arguments), []
    try:
        for command in commands:
            if len(commands) > 1:
                _print(f"asbc {shlex.join(command)}")
            codes.append(start(command))
    except KeyboardInterrupt:
        codes.append(130)
    # Of several stages, those that need labels may be left out.
    sys.exit(max([code for code in codes if code != UNLABELED] or [1]))


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
