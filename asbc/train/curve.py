"""The curves of a training run as one file, which a resumed run goes on with."""

from __future__ import annotations

import csv
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger, rank_zero_experiment
from lightning.pytorch.utilities import rank_zero_only

from asbc.extras import needed
from asbc.files import write_whole
from asbc.runs.wandb import has_key

HEADER = ["step", "metric", "value"]


class CurveLogger(Logger):
    """``metrics.csv`` with a line for every step and metric that was logged.

    Parameters
    ----------
    folder : Path
        Where the file is.
    from_step : int, default=0
        Lines of this step and later ones, left by a run that was killed after its last checkpoint, are dropped.

    See Also
    --------
    wandb_logger : the same curves in Weights & Biases.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.train import CurveLogger
    >>> logger = CurveLogger(Path(tempfile.mkdtemp()))
    >>> logger.log_metrics({"loss": 0.5}, step=3)
    >>> print(logger.path.read_text(), end="")
    step,metric,value
    3,loss,0.5
    """

    def __init__(self, folder: Path, from_step: int = 0) -> None:
        super().__init__()
        self.path = folder / "metrics.csv"
        self._begin(from_step)

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> int:
        return 0

    @property
    @rank_zero_experiment
    def experiment(self) -> Path:
        return self.path

    @rank_zero_only
    def _begin(self, from_step: int) -> None:
        kept = [row for row in read_curve(self.path) if row[0] < from_step]
        lines = "".join(f"{step},{metric},{value!r}\n" for step, metric, value in kept)
        write_whole(self.path, lambda path: path.write_text(",".join(HEADER) + "\n" + lines))

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        rows = [[step or 0, name, repr(float(value))] for name, value in metrics.items() if name != "epoch"]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
            file.flush()
            os.fsync(file.fileno())

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """args.json has them."""


def wandb_logger(folder: Path, from_step: int = 0, project: str = "asbc-pretrain", entity: str | None = None) -> Logger:
    """The same curves in Weights & Biases: one run per folder, which a resumed run goes on with.

    Parameters
    ----------
    folder : Path
        The folder of the run; its path gives the run's name and id.
    from_step : int, default=0
        Where this attempt begins; W&B itself drops what it has of later steps.
    project : str, default="asbc-pretrain"
        Where the run appears.
    entity : str or None, default=None
        User or team; None for that of the key.

    Returns
    -------
    Logger
        For ``lightning.Trainer(logger=...)``.

    See Also
    --------
    CurveLogger : the same curves as a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from asbc.train import wandb_logger
    >>> folder = Path(tempfile.mkdtemp())
    >>> first, resumed = wandb_logger(folder), wandb_logger(folder, from_step=100)
    >>> first.version == resumed.version
    True
    """
    with needed("logger=wandb", "wandb"):
        import wandb
    from lightning.pytorch.loggers import WandbLogger

    path = folder / "wandb.txt"
    if not path.exists():
        write_whole(path, lambda p: p.write_text(uuid.uuid4().hex[:12] + "\n"))
    offline = os.environ.get("WANDB_MODE") == "offline" or not (os.environ.get("WANDB_MODE") or has_key())
    return WandbLogger(
        name="/".join(folder.parts[-2:]),
        save_dir=str(folder),
        id=path.read_text().strip(),
        resume="allow",
        offline=offline,
        project=project,
        entity=entity,
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
    )


def read_curve(path: Path) -> list[tuple[int, str, float]]:
    """(step, metric, value) of every whole line; a line that a kill cut short is left out."""
    if not path.is_file():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1].splitlines()[1:]
    rows = [line.split(",") for line in whole]
    return [(int(step), metric, float(value)) for step, metric, value in (row for row in rows if len(row) == 3)]
