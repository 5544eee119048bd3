"""The folder of a training run: ``args.json`` and one ``.ckpt`` file, laid out as solo-learn lays them out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from asbc.checksums import json_crc32
from asbc.files import whole_path, write_whole

ARGS = "args.json"


class Checkpoints(Callback):
    """Write the state of the run every few steps and after each epoch: a new file first, then the old one goes.

    Parameters
    ----------
    folder : Path
        The folder of the run.
    name : str
        What the file's name begins with; the number of finished epochs follows.
    every_n_steps : int, default=200
        Steps between two checkpoints: what a kill costs at most.
    """

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
        with whole_path(target) as temporary:
            trainer.save_checkpoint(temporary, weights_only=False)
        for other in self.folder.glob("*.ckpt"):
            if other != target:
                other.unlink()


def latest(folder: Path) -> Path | None:
    """The checkpoint of a run, None if there is none yet."""
    # Two are there if a kill fell between writing one and removing the other.
    files = sorted(folder.glob("*.ckpt"), key=lambda file: file.stat().st_mtime_ns)
    return files[-1] if files else None


def write_args(folder: Path, args: Mapping[str, Any]) -> None:
    """Write ``args.json``, or compare with the one that is there.

    Raises
    ------
    ValueError
        If the folder holds a run with other settings: two runs must not mix. If its file is not as it was written.
    """
    path = folder / ARGS
    wanted = json.loads(json.dumps(args))
    if path.exists():
        try:
            there = json.loads(path.read_text())
            said = there.pop("check", None)
        except (ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path}: not readable ({error}); remove the folder to train anew") from error
        if said is not None and said != json_crc32(there):
            raise ValueError(f"{path}: damaged (its checksum differs); remove the folder to train anew")
        differ = [
            f"{key}={there_value} there, {key}={value} now"
            for key, value, there_value in _differences(wanted, there, "")
        ]
        if differ:
            raise ValueError(
                f"{folder} holds a run with other settings ({'; '.join(differ)}): out=<folder> names another place, "
                "or remove that one"
            )
        return
    stray = latest(folder) if folder.is_dir() else None
    if stray is not None:
        raise ValueError(f"{folder} holds {stray.name} and no {ARGS}: out=<folder> names another place for this run")
    checked = {**wanted, "check": json_crc32(wanted)}
    write_whole(path, lambda p: p.write_text(json.dumps(checked, indent=2) + "\n"))


def _differences(wanted: Any, there: Any, name: str) -> list[tuple[str, Any, Any]]:
    if isinstance(wanted, dict) and isinstance(there, dict):
        keys = sorted({*wanted, *there})
        return [
            found
            for key in keys
            for found in _differences(wanted.get(key), there.get(key), f"{name}.{key}" if name else key)
        ]
    return [] if wanted == there else [(name, wanted, there)]
