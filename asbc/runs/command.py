"""The command `asbc`, which runs experiments."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, MissingConfigException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from asbc.configs import closest, composed_methods, conf_dir, import_own_modules, keys_of
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import CacheError
from asbc.extras import MissingExtraError
from asbc.runs.results import ResultsError
from asbc.runs.run import run
from asbc.runs.samples import NothingToScore
from asbc.runs.terminal import SweepSummary, optimized, show_run
from asbc.storage import explain_write_error, write_json

log = logging.getLogger("asbc")

UNLABELED = 3  # exit code if all evaluations need labels and the data have none


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
            overrides=note["overrides"],
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


def check_overrides(cfg: DictConfig) -> None:
    """Raise a ValueError for what was typed and would be ignored."""
    context = HydraConfig.get()
    typed = [override.lstrip("+~").partition("=")[0] for override in context.overrides.task]
    groups = {path.name for path in conf_dir().iterdir() if path.is_dir()}
    known = {*OmegaConf.load(conf_dir() / "config.yaml"), *groups, "methods", *context.runtime.choices}
    for key in typed:
        if key.partition(".")[0].partition("@")[0] not in known:
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
