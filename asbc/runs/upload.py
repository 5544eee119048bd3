"""Send finished runs to W&B after the fact, each once: the command `asbc-upload`."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from asbc.extras import MissingExtraError
from asbc.runs.loggers import RunFacts
from asbc.runs.results import read_rows, read_settings, runs
from asbc.runs.wandb_logger import WandbLogger, WandbSession, has_key, must_answer, uploaded, written


@dataclass(frozen=True)
class Sent:
    """What became of the runs that were to be sent.

    Attributes
    ----------
    sent : int
        Runs sent now; offline, runs whose files were written now.
    there : int
        Runs that W&B has already; offline, runs whose files are there already.
    unfinished : int
        Runs left alone because they are not finished.
    folders : list of Path
        Offline: where the files lie that `wandb sync` will send, those of earlier calls included.
    """

    sent: int
    there: int
    unfinished: int
    folders: list[Path] = field(default_factory=list)


def upload_runs(folder: Path, logger: WandbLogger) -> Sent:
    """Send every finished run under a folder that W&B does not have yet; offline, write its files for later.

    Parameters
    ----------
    folder : Path
        The folder that `asbc` wrote (`outputs`), one run's own folder, or any folder above.
    logger : WandbLogger
        Says where in W&B the runs go, and whether they are sent or only written.

    Returns
    -------
    Sent
    """
    sent = there = unfinished = 0
    folders: list[Path] = []
    for path, status in runs(folder):
        if status["state"] != "finished":
            unfinished += 1
        elif uploaded(path):
            there += 1
        else:
            settings = read_settings(path)
            facts = settings.pop("data")
            table = read_rows(path / "results.parquet")
            # The name is the attempt's own: should a kill come before the note that it was sent, W&B refuses to
            # take it twice.
            told = RunFacts(status["run_id"], status["attempt"], path, settings, facts)
            session = WandbSession(told, logger)
            if session.mode == "offline" and (folder_before := written(path, session.id)):
                there += 1
                folders.append(folder_before)
                continue
            with session:
                session.log(table)
                session.conclude(table)
            sent += 1
            if session.mode == "offline" and (folder_now := written(path, session.id)):
                folders.append(folder_now)
    return Sent(sent, there, unfinished, folders)


def wandb_error() -> type[Exception]:
    """What W&B raises when it cannot be reached, or refuses."""
    import wandb

    return wandb.errors.Error


def main() -> None:
    """`asbc-upload`: send finished runs to W&B, each once."""
    parser = argparse.ArgumentParser(prog="asbc-upload", description="Send finished runs to W&B, each once.")
    parser.add_argument("folder", type=Path, help="outputs, a results folder, or one run")
    parser.add_argument("--project", default="asbc")
    parser.add_argument("--entity", default=None)
    parser.add_argument("--tag", action="append", default=[], help="may be given several times")
    parser.add_argument("--offline", action="store_true", help="write W&B's files without sending them")
    parser.add_argument("--dashboard", action="store_true", help="also save the workspace with the curves and bars")
    options = parser.parse_args()
    if options.dashboard and (options.offline or options.entity is None):
        parser.exit(
            2, "asbc-upload: --dashboard needs a connection and --entity; it cannot be written with --offline\n"
        )
    if not options.offline and not has_key():
        parser.exit(2, "asbc-upload: W&B has no key; run `wandb login` first, or use --offline\n")
    logger = WandbLogger(
        options.project, options.entity, tuple(options.tag), "offline" if options.offline else "online"
    )
    try:
        if not options.offline:
            must_answer()
        sent = upload_runs(options.folder, logger)
        done = "written, not sent" if options.offline else "sent"
        print(f"{sent.sent} run(s) {done}, {sent.there} there already, {sent.unfinished} not finished")
        if sent.folders:
            print("written for `wandb sync`, which sends them:")
            for folder in sent.folders:
                print(f"wandb sync {shlex.quote(str(folder))}")
        if options.dashboard:
            from asbc.runs.dashboard import workspace

            print(workspace(options.folder, options.entity, options.project).save().url)
    except (MissingExtraError, ValueError, RuntimeError) as error:
        parser.exit(1, f"asbc-upload: {error}\n")
    except (wandb_error(), OSError) as error:
        why = " ".join(str(error).split())
        parser.exit(
            1, f"asbc-upload: W&B did not answer ({why}); the same command tries again, --offline writes files\n"
        )
