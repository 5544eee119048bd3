"""Send finished runs to W&B after the fact, each once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from omegaconf import OmegaConf

from asbc.loggers import Job, WandbLogger, WandbSession, uploaded
from asbc.results import read_rows, runs


@dataclass(frozen=True)
class Sent:
    """How many runs were sent, were there already, or are not finished."""

    sent: int
    there: int
    unfinished: int


def upload_runs(folder: Path, logger: WandbLogger) -> Sent:
    """Send every finished run under a folder that W&B does not have yet.

    Parameters
    ----------
    folder : Path
    logger : WandbLogger

    Returns
    -------
    Sent
    """
    sent = there = unfinished = 0
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
            with WandbSession(job, logger) as session:
                session.log(table)
                session.conclude(table)
            sent += 1
    return Sent(sent, there, unfinished)
