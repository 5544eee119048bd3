"""Send finished runs to W&B after the fact, each once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import OmegaConf

from asbc.loggers import Job, WandbLogger, WandbSession, uploaded, written
from asbc.results import read_rows, runs


@dataclass(frozen=True)
class Sent:
    """How many runs were sent, were there already, or are not finished.

    Attributes
    ----------
    sent, there, unfinished : int
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
    logger : WandbLogger

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
            settings = OmegaConf.to_container(OmegaConf.load(path / "config.yaml"))
            assert isinstance(settings, dict)
            plain = {str(key): value for key, value in settings.items()}
            facts = plain.pop("data")
            table = read_rows(path / "results.parquet")
            # The name is the attempt's own: should a kill come before the note that it was sent, W&B refuses to
            # take it twice.
            job = Job(status["run_id"], status["attempt"], path, plain, facts)
            session = WandbSession(job, logger)
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
