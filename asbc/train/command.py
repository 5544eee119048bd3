"""The command ``asbc-pretrain``: ``asbc-pretrain encoder=simclr data=cifar10``. The rest is Hydra's."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from asbc.extras import MissingExtraError
from asbc.files import DISK_FULL
from asbc.train.run import pretrain

CONF = Path(__file__).resolve().parent / "conf"
FAILED: list[str] = []  # what the failed jobs of a sweep said


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def run(config: DictConfig) -> None:
    try:
        pretrain(config)
    except (MissingExtraError, ValueError, OSError) as error:
        said = str(error)
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            said = f"{error.strerror} ({config.out}); with more space, the same command goes on where it was"
        context = HydraConfig.get()
        if context.mode != RunMode.MULTIRUN:
            sys.exit(f"asbc-pretrain: {said}")
        print(f"asbc-pretrain {' '.join(context.overrides.task)}: {said}", file=sys.stderr, flush=True)
        FAILED.append(said)  # the other jobs go on
    except KeyboardInterrupt:
        print(f"\nStopped; the same command goes on from the last checkpoint in {config.out}.", file=sys.stderr)
        sys.exit(130)


def main() -> None:
    run()
    if FAILED:
        sys.exit(1)


if __name__ == "__main__":
    # By its real name: Hydra imports this module again, and the two must share what they know.
    from asbc.train.command import main as start

    start()
