"""The command ``asbc-pretrain``: ``asbc-pretrain encoder=simclr data=cifar10``."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from asbc.configs import import_own_modules
from asbc.extras import MissingExtraError
from asbc.storage import explain_write_error
from asbc.train.run import pretrain

CONF = Path(__file__).resolve().parent / "conf"
FAILED: list[str] = []  # errors of the failed jobs of a sweep


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def run(config: DictConfig) -> None:
    try:
        import_own_modules()
        pretrain(config)
    except (MissingExtraError, ValueError, OSError) as error:
        explained = explain_write_error(error) if isinstance(error, OSError) else None
        message = f"{config.out}: {explained}; the same command resumes" if explained else str(error)
        context = HydraConfig.get()
        if context.mode != RunMode.MULTIRUN:
            sys.exit(f"asbc-pretrain: {message}")
        print(f"asbc-pretrain {' '.join(context.overrides.task)}: {message}", file=sys.stderr, flush=True)
        FAILED.append(message)
    except KeyboardInterrupt:
        print(f"\nStopped; the same command resumes from the last checkpoint in {config.out}.", file=sys.stderr)
        sys.exit(130)


def main() -> None:
    """Run the command."""
    FAILED.clear()
    run()
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    from asbc.train.command import main as start  # Hydra imports this module by its name, and both share FAILED

    start()
