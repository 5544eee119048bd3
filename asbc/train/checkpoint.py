"""The folder of a training run: ``args.json`` and one ``.ckpt`` file in solo-learn's layout, and ``metrics.csv``."""

from __future__ import annotations

import csv
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities import rank_zero_only

from asbc.extras import needed
from asbc.runs.wandb import has_key
from asbc.storage import atomic_path, read_json, write_atomic, write_json

ARGS = "args.json"
HEADER = ["step", "metric", "value"]


class Checkpoints(Callback):
    """Write the state of the run every few steps and after each epoch, then remove the previous file."""

    def __init__(self, folder: Path, name: str, every_n_steps: int = 200) -> None:
        self.folder, self.name, self.every_n_steps = folder, name, every_n_steps

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        if trainer.global_step % self.every_n_steps == 0 and not trainer.is_last_batch:
            self.save(trainer, trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.save(trainer, trainer.current_epoch + 1)

    def save(self, trainer: Trainer, epochs: int) -> None:
        """Write the file; every process must call this."""
        target = self.folder / f"{self.name}-ep={epochs}.ckpt"
        if not trainer.is_global_zero:
            trainer.save_checkpoint(target, weights_only=False)  # takes part, writes nothing
            return
        with atomic_path(target) as temporary:
            trainer.save_checkpoint(temporary, weights_only=False)
        for other in self.folder.glob("*.ckpt"):
            if other != target:
                other.unlink()


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest checkpoint of a run, or None; there are two if the run was killed while it replaced one."""
    files = sorted(folder.glob("*.ckpt"), key=lambda file: file.stat().st_mtime_ns)
    return files[-1] if files else None


def write_args(folder: Path, args: Mapping[str, Any]) -> None:
    """Write ``args.json``, or raise a ValueError if the folder holds a run with other settings."""
    path, args = folder / ARGS, json.loads(json.dumps(args))
    if path.exists():
        changed = [f"{key}={old} there, {key}={new} now" for key, new, old in _differences(args, read_json(path), "")]
        if changed:
            raise ValueError(f"{folder} holds a run with other settings ({'; '.join(changed)}): choose another out=")
        return
    stray = latest_checkpoint(folder) if folder.is_dir() else None
    if stray is not None:
        raise ValueError(f"{folder} holds {stray.name} and no {ARGS}: choose another folder with out=<folder>")
    write_json(path, args)


def _differences(new: Any, old: Any, name: str) -> list[tuple[str, Any, Any]]:
    if isinstance(new, dict) and isinstance(old, dict):
        keys = sorted({*new, *old})
        return [d for key in keys for d in _differences(new.get(key), old.get(key), f"{name}.{key}" if name else key)]
    return [] if new == old else [(name, new, old)]


class CurveLogger(Logger):
    """Write ``metrics.csv``, with a line for every step and metric.

    Parameters
    ----------
    folder : Path
        Where the file is.
    from_step : int, default=0
        Lines of this step and later ones are dropped; a run that was killed after its last checkpoint left them.

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
        self._start(from_step)

    @property
    def name(self) -> str:
        return "csv"

    @property
    def version(self) -> int:
        return 0

    @rank_zero_only
    def _start(self, from_step: int) -> None:
        kept = [row for row in read_curve(self.path) if row[0] < from_step]
        lines = "".join(f"{step},{metric},{value!r}\n" for step, metric, value in kept)
        write_atomic(self.path, ",".join(HEADER) + "\n" + lines)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        rows = [[step or 0, name, repr(float(value))] for name, value in metrics.items() if name != "epoch"]
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
            file.flush()
            os.fsync(file.fileno())

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: ``args.json`` has them."""


def read_curve(path: Path) -> list[tuple[int, str, float]]:
    """Return (step, metric, value) of every complete line of ``metrics.csv``."""
    if not path.is_file():
        return []
    text = path.read_text()
    rows = [line.split(",") for line in text[: text.rfind("\n") + 1].splitlines()[1:]]
    return [(int(step), metric, float(value)) for step, metric, value in (row for row in rows if len(row) == 3)]


def wandb_logger(folder: Path, from_step: int = 0, project: str = "asbc-pretrain", entity: str | None = None) -> Logger:
    """Return a logger that writes the curves to Weights & Biases, one run per folder, which a resumed run continues.

    Parameters
    ----------
    folder : Path
        The folder of the run; its path gives the run's name and id.
    from_step : int, default=0
        Not used: W&B drops later steps itself.
    project : str, default="asbc-pretrain"
    entity : str or None, default=None
        User or team; None takes that of the key.

    Examples
    --------
    >>> from pathlib import Path
    >>> from asbc.train import wandb_logger
    >>> wandb_logger(Path("trained_models/simclr"), project="encoders")  # doctest: +SKIP
    """
    with needed("logger=wandb", "wandb"):
        import wandb
    from lightning.pytorch.loggers import WandbLogger

    path = folder / "wandb.txt"
    if not path.exists():
        write_atomic(path, uuid.uuid4().hex[:12] + "\n")
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
