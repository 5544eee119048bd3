"""The commands: `asbc` runs experiments, `asbc-upload` sends finished ones to W&B."""

from __future__ import annotations

import argparse
import json
import logging
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from asbc.files import conf_dir, write_whole

if TYPE_CHECKING:
    import pandas as pd

log = logging.getLogger("asbc")

# What a summary shows first of what a run has measured, and whether more is better.
HEADLINES = ("loo", "lp", "nmi", "ari", "regret", "spearman", "rank_median")


def job(cfg: DictConfig) -> dict[str, Any]:
    """One job: run the experiment, and leave a note of what became of it. A failure is noted, not raised."""
    from asbc.experiment import run
    from asbc.results import ResultsError

    context = HydraConfig.get()
    sweep = context.mode == RunMode.MULTIRUN
    pooled = "joblib" in str(context.launcher.get("_target_"))
    if pooled:
        cfg = OmegaConf.merge(cfg, {"progress": False})  # type: ignore[assignment]
    note: dict[str, Any] = {"overrides": list(context.overrides.task), "state": "failed"}
    try:
        outcome = run(
            cfg,
            group=Path(context.sweep.dir).name if sweep else None,
            threads=1 if pooled and cfg.threads is None else cfg.threads,
        )
        note |= {"run_id": outcome.run_id, "path": str(outcome.path)}
        note["state"] = "skipped" if outcome.skipped else "finished"
    except KeyboardInterrupt:
        note["state"] = "interrupted"
        _say(f"\nStopped. What was finished is safe in {Path(cfg.out) / 'runs'}; the same command goes on from there.")
        raise
    except Exception as error:
        note["error"] = f"{type(error).__name__}: {error}"
        note["traceback"] = traceback.format_exc()
        expected = isinstance(error, ValueError | ResultsError | FileNotFoundError)
        log.error("%s", note["error"], exc_info=not expected)
    finally:
        text = json.dumps(note, indent=2)
        write_whole(Path(context.runtime.output_dir) / "job.json", lambda p: p.write_text(text))
    if not sweep and note["state"] != "failed":
        show_run(outcome.table, outcome.path, skipped=outcome.skipped)
    return note


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


def show_run(table: pd.DataFrame, path: Path, *, skipped: bool = False) -> None:
    """Print a run's methods and what they reached, the mean over trials and levels of each metric."""
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
    console.print(("finished before; rerun=true does it again: " if skipped else "rows: ") + str(path), soft_wrap=True)


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

    from asbc.results import read_rows

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
        wrong = Table(title=f"{len(failed)} of {len(notes)} failed", title_style="bold red")
        for column in ("job", "overrides", "error"):
            wrong.add_column(column, overflow="fold")
        for number, note in failed:
            wrong.add_row(str(number), swept[number], note.get("error", ""))
        console.print(wrong)
        console.print("The same command tries these again and skips the rest.")
    return len(failed)


def stages(arguments: list[str]) -> list[list[str]]:
    """The command lines that one command line stands for: one an experiment of `experiment=a,b` or of `paper`.

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
    """What is wrong with lists such as `method=[knn,foo]`, with the names there are; None if nothing is.

    Hydra tells the choices for `method=foo`, but not for a list.
    """
    if any(re.match(r"(--config-path|-cp|\+*hydra\.searchpath)\b", a) for a in arguments):
        return None  # leaves may lie anywhere
    folders = [conf_dir()]
    for at, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in ("--config-dir", "-cd"):
            folders += [Path(value)] if equals else [Path(a) for a in arguments[at + 1 : at + 2]]
    for argument in arguments:
        found = re.fullmatch(r"\+*([\w/]+)(?:@[\w.]*)?=(\[.*\])", argument)
        if not found or not any((folder / found[1]).is_dir() for folder in folders):
            continue
        there = {path.stem for folder in folders for path in (folder / found[1]).glob("*.yaml")}
        for item in re.findall(r"[^\[\],\s'\"]+", found[2]):
            name = item.partition("@")[0].removesuffix(".yaml")
            if not any((folder / found[1] / f"{name}.yaml").is_file() for folder in folders):
                return f"{argument}: there is no {found[1]} {name!r}; there are {', '.join(sorted(there))}"
    return None


def main() -> None:
    """`asbc`: run one experiment; `asbc -m`: a sweep of them."""
    wrong = unknown_leaves(sys.argv[1:])
    if wrong:
        _say(f"asbc: {wrong}")
        sys.exit(1)
    commands = stages(sys.argv[1:])
    codes = []
    try:
        if len(commands) > 1:
            for command in commands:
                _say(f"asbc {' '.join(command)}")
                codes.append(subprocess.run([sys.executable, "-m", "asbc.cli", *command]).returncode)
                if codes[-1] == 130:
                    break
        else:
            hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(job)()
            codes.append(1 if SweepSummary.failed else 0)
    except KeyboardInterrupt:
        codes.append(130)
    sys.exit(max(codes))


def upload() -> None:
    """`asbc-upload`: send finished runs to W&B, each once."""
    from asbc.loggers import WandbLogger, has_key
    from asbc.upload import upload_runs

    parser = argparse.ArgumentParser(prog="asbc-upload", description="Send finished runs to W&B, each once.")
    parser.add_argument("folder", type=Path, help="outputs, a results folder, or one run")
    parser.add_argument("--project", default="asbc")
    parser.add_argument("--entity", default=None)
    parser.add_argument("--tag", action="append", default=[], help="may be given several times")
    parser.add_argument("--offline", action="store_true", help="write W&B's files without sending them")
    parser.add_argument("--dashboard", action="store_true", help="also save the workspace with the curves and bars")
    options = parser.parse_args()
    if not options.offline and not has_key():
        parser.exit(2, "asbc-upload: W&B has no key; run `wandb login` first, or use --offline\n")
    logger = WandbLogger(
        options.project, options.entity, tuple(options.tag), "offline" if options.offline else "online"
    )
    try:
        sent = upload_runs(options.folder, logger)
        done = "written, not sent" if options.offline else "sent"
        print(f"{sent.sent} run(s) {done}, {sent.there} there already, {sent.unfinished} not finished")
        if sent.folders:
            print("written for `wandb sync`, which sends them:")
            for folder in sent.folders:
                print(f"wandb sync {shlex.quote(str(folder))}")
        if options.dashboard:
            from asbc.dashboard import workspace

            if options.entity is None:
                parser.exit(2, "asbc-upload: --dashboard needs --entity\n")
            print(workspace(options.folder, options.entity, options.project).save().url)
    except (ValueError, RuntimeError) as error:
        parser.exit(1, f"asbc-upload: {error}\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    # By its real name: Hydra imports this module again, and the two must share what they know.
    from asbc.cli import main as start

    start()
