"""The command `asbc`, which runs experiments."""

from __future__ import annotations

import difflib
import logging
import os
import re
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from asbc.configs import composed_methods, conf_dir
from asbc.embeddings.download import DownloadError
from asbc.embeddings.store import CacheError
from asbc.extras import MissingExtraError
from asbc.files import why_not_written
from asbc.runs.experiment import run
from asbc.runs.levels import SHARED_NODES, NothingToScore, shared_samples
from asbc.runs.sealed import ResultsError, write_note
from asbc.runs.summary import SweepSummary, show_run
from asbc.runs.workers import end_with_parent

log = logging.getLogger("asbc")

UNLABELED = 3  # exit code of an experiment whose every evaluation needs labels, on data that have none


def job(cfg: DictConfig) -> dict[str, Any]:
    """One job, a single run or one point of a sweep: run the experiment and note what became of it in `job.json`.

    A failure is noted and not raised, so that the other jobs of a sweep go on.
    """
    context = HydraConfig.get()
    sweep = context.mode == RunMode.MULTIRUN
    pooled = "joblib" in str(context.launcher.get("_target_"))
    logging.raiseExceptions = False  # a log file that cannot be written, on a full disk, is no traceback each time
    if pooled:
        end_with_parent()
        cfg = OmegaConf.merge(cfg, {"progress": False})  # type: ignore[assignment]
    note: dict[str, Any] = {"overrides": list(context.overrides.task), "state": "failed"}
    try:
        outcome = run(
            cfg,
            group=Path(context.sweep.dir).name if sweep else None,
            threads=1 if pooled and cfg.threads is None else cfg.threads,
        )
        note |= {"run_id": outcome.run_id, "path": str(outcome.path), "version": outcome.version}
        note["state"] = "skipped" if outcome.skipped else "finished"
    except KeyboardInterrupt:
        note["state"] = "interrupted"
        _say(f"\nStopped. What was finished is safe in {Path(cfg.out) / 'runs'}; the same command goes on from there.")
        raise
    except NothingToScore as error:
        note |= {"state": "left out", "error": str(error)}
        log.warning("%s", error)
    except Exception as error:
        trouble = _disk_trouble(error, cfg.out)
        note["error"] = trouble or f"{type(error).__name__}: {error}"
        note["traceback"] = traceback.format_exc()
        expected = trouble or isinstance(
            error, ValueError | ResultsError | FileNotFoundError | MissingExtraError | DownloadError | CacheError
        )
        log.error("%s", note["error"], exc_info=not expected)
    finally:
        try:
            write_note(Path(context.runtime.output_dir) / "job.json", note)
        except OSError as error:  # the rows matter, not the note; but without it the job counts as failed
            log.error("%s", _disk_trouble(error, cfg.out) or error)
            note |= {"state": "failed", "error": str(error)}
    if not sweep and note["state"] in ("finished", "skipped"):
        show_run(outcome.table, outcome.path, finished_by=outcome.version if outcome.skipped else None)
    return note


def stages(arguments: list[str]) -> list[list[str]]:
    """The command lines that one command line stands for: one per experiment of `experiment=a,b` or of `paper`.

    Each experiment is a command of its own, since some of them are sweeps themselves.
    """
    chosen = [a for a in arguments if a.startswith("experiment=")]
    if len(chosen) != 1:
        return [arguments]
    names: list[str] = []
    for name in chosen[0].partition("=")[2].split(","):
        path = conf_dir() / "experiment" / f"{name}.yaml"
        listed = OmegaConf.select(OmegaConf.load(path), "stages") if path.exists() else None
        names += list(listed) if listed else [name]
    return [[f"experiment={name}" if a == chosen[0] else a for a in arguments] for name in names]


def unknown_leaves(arguments: list[str]) -> str | None:
    """What is wrong with `method=foo` or `method=[knn,foo]`, with the names there are; None if nothing is.

    Hydra would tell the choices in twenty lines, and for a list not at all.
    """
    if any(re.match(r"(--config-path|-cp|\+*hydra\.searchpath)\b", a) for a in arguments):
        return None  # leaves may lie anywhere
    folders = [conf_dir()]
    for at, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in ("--config-dir", "-cd"):
            folders += [Path(value)] if equals else [Path(a) for a in arguments[at + 1 : at + 2]]
    for argument in arguments:
        found = re.fullmatch(r"\+*([\w/]+)(?:@[\w.]*)?=(\[.*\]|[\w/,-]+)", argument)
        if not found or not any((folder / found[1]).is_dir() for folder in folders):
            continue
        if found[1].startswith("hydra/") or found[2] == "null":
            continue  # launchers come from plugins too
        there = {path.stem for folder in folders for path in (folder / found[1]).glob("*.yaml")}
        there |= set(composed_methods()) if found[1] == "method" else set()
        for item in re.findall(r"[^\[\],\s'\"]+", found[2]):
            name = item.partition("@")[0].removesuffix(".yaml")
            if name not in there and not any((folder / found[1] / f"{name}.yaml").is_file() for folder in folders):
                close = difflib.get_close_matches(name, sorted(there), 1)
                hint = f"did you mean {close[0]}? There" if close else "there"
                return f"{argument}: there is no {found[1]} {name!r}; {hint} are {', '.join(sorted(there))}"
    return None


def missing_launcher(arguments: list[str]) -> str | None:
    """What `hydra/launcher=slurm` lacks, its extra or Slurm; None if nothing. Hydra itself would not say."""
    wanted = [a for a in arguments if re.fullmatch(r"\+*hydra/launcher=(slurm|submitit_\w+)", a)]
    try:
        if wanted:
            import_module("hydra_plugins.hydra_submitit_launcher")
    except ModuleNotFoundError:
        return f'{wanted[0]} needs hydra-submitit-launcher: pip install "asbc[slurm]"'
    if wanted and not wanted[0].endswith("_local") and shutil.which("srun") is None:
        return f"{wanted[0]}: no srun here, so this is no Slurm cluster; hydra/launcher=joblib uses all cores"
    return None


def closest_setting(key: str, arguments: list[str]) -> str | None:
    """What to say of a setting that there is not: the setting with the closest name; None where none is close."""
    groups = [a for a in arguments if (conf_dir() / a.partition("=")[0]).is_dir()]
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            cfg = OmegaConf.to_container(compose("config", overrides=groups))
    except HydraException:
        return None  # the groups themselves are wrong, which Hydra says
    there = list(_keys(cfg))
    close = difflib.get_close_matches(key, there, 1)
    return f"there is no setting {key}; did you mean {close[0]}?" if close else None


def settings_of_swept_groups(arguments: list[str]) -> list[str]:
    """The command line of a sweep, such that ``embedding=simclr,byol embedding.source=lightly`` is understood.

    Before a sweep Hydra applies settings to the group's default, here another embedding that has no `source`. So such
    a setting is looked up in every leaf that is swept over, and handed on as one that may be new (``++``).
    """
    if not {"-m", "--multirun"} & set(arguments):
        return arguments
    parser, swept = OverridesParser.create(), {}
    for argument in arguments:
        if re.match(r"[\w/]+=", argument) and (conf_dir() / argument.partition("=")[0]).is_dir():
            override = parser.parse_override(argument)
            if override.is_sweep_override():  # over names, or over a pattern such as glob(*)
                names = override.sweep_string_iterator() if override.is_choice_sweep() else ()
                swept[override.key_or_group] = list(names)
    found = []
    for argument in arguments:
        key = argument.partition("=")[0]
        group = key.partition(".")[0]
        if "." in key and group in swept:
            for leaf in swept[group]:
                _check_setting(key, f"{group}={leaf}")
            argument = f"++{argument}"
        found.append(argument)
    return found


def _check_setting(key: str, leaf: str) -> None:
    """Raise if there is no such setting with a leaf, given as ``group=name``."""
    try:
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            there = list(_keys(OmegaConf.to_container(compose("config", overrides=[leaf]))))
    except HydraException:
        return  # a leaf of the user's own folder, or none at all, which Hydra says
    if key not in there:
        close = difflib.get_close_matches(key, there, 1)
        raise ValueError(f"{leaf} has no setting {key}" + (f"; did you mean {close[0]}?" if close else ""))


def _keys(tree: Any, prefix: str = "") -> Iterator[str]:
    for key, value in tree.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{key}.")


def start() -> int:
    """Hand the command line to Hydra; the exit code. A disk that Hydra cannot write to is told in one line."""
    whole = os.environ.get("HYDRA_FULL_ERROR")
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here as they are, and not as printed by Hydra
    try:
        hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()
        return 1 if SweepSummary.failed else UNLABELED if SweepSummary.left_out else 0
    except HydraException as error:
        if whole:
            raise
        unknown = re.match(r"Could not override '([\w.]+)'", str(error))
        hint = unknown and closest_setting(unknown[1], sys.argv[1:])
        _say(f"asbc: {hint}" if hint else "\n".join(str(e) for e in (error, error.__cause__) if e is not None))
    except OSError as error:
        trouble = _disk_trouble(error, "the folder of `out`")
        if whole or trouble is None:
            raise
        _say(f"asbc: {trouble}")
    finally:
        os.environ.pop("HYDRA_FULL_ERROR")
        if whole is not None:
            os.environ["HYDRA_FULL_ERROR"] = whole
    return 1


def start_one_of_several(command: list[str]) -> int:
    """Run one command line of several in this process, which has imported all that they share; the exit code.

    Whatever goes wrong in it, the others get their turn.
    """
    sys.argv[1:] = command
    shared_samples.most = SHARED_NODES
    SweepSummary.failed, SweepSummary.left_out = 0, False
    try:
        return start()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except Exception:
        traceback.print_exc()
        return 1


def main() -> None:
    """`asbc`: run one experiment; `asbc -m`: a sweep of them."""
    wrong = unknown_leaves(sys.argv[1:]) or missing_launcher(sys.argv[1:])
    try:
        sys.argv[1:] = settings_of_swept_groups(sys.argv[1:])
    except ValueError as error:
        wrong = str(error)
    if wrong:
        _say(f"asbc: {wrong}")
        sys.exit(1)
    commands = stages(sys.argv[1:])
    codes = []
    try:
        if len(commands) > 1:
            for command in commands:
                _say(f"asbc {shlex.join(command)}")
                codes.append(start_one_of_several(command))
            gone = [shlex.join(command) for command, code in zip(commands, codes, strict=False) if code == UNLABELED]
            if gone and len(gone) < len(codes):
                _say("Left out, since they need labels:\n" + "\n".join(f"  asbc {command}" for command in gone))
                codes = [code for code in codes if code != UNLABELED]
        else:
            codes.append(start())
    except KeyboardInterrupt:
        codes.append(130)
    sys.exit(max(codes))


def run_as(arguments: list[str]) -> int:
    """Run the command in this process, with a command line of its own; the exit code."""
    own, sys.argv = sys.argv, ["asbc", *arguments]
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]  # Hydra has everybody's messages shown, from information upwards
    try:
        main()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.argv = own
        root.setLevel(level)
        root.handlers[:] = handlers
    return 0


def _disk_trouble(error: Exception, out: str) -> str | None:
    """Which file could not be written, and what to do; None if it is another kind of error."""
    why = why_not_written(error) if isinstance(error, OSError) else None
    return f"{getattr(error, 'filename', None) or out}: {why}" if why else None


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # Imported by its real name, not run as __main__: Hydra imports this module once more, and SweepSummary.failed,
    # which the exit code depends on, must be the same object in both.
    from asbc.runs.command import main as real_main

    real_main()
