"""The command ``asbc-pretrain``: ``asbc-pretrain encoder=simclr data=cifar10``."""

from __future__ import annotations

import sys
from pathlib import Path

import hydra
from omegaconf import DictConfig

from asbc.configs import import_own_modules, job_errors, run_jobs
from asbc.train.run import pretrain

CONF = Path(__file__).resolve().parent / "conf"


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def run(config: DictConfig) -> None:
    try:
        with job_errors("asbc-pretrain", config.out):
            import_own_modules()
            pretrain(config)
    except KeyboardInterrupt:
        print(f"\nStopped; the same command resumes from the last checkpoint in {config.out}.", file=sys.stderr)
        sys.exit(130)


def main() -> None:
    """Run the command."""
    run_jobs(run)


if __name__ == "__main__":
    main()
