"""Where the configs are that the commands compose."""

from __future__ import annotations

from pathlib import Path


def conf_dir() -> Path:
    """The folder of configs: inside an installed package, or at the top of a checkout."""
    here = Path(__file__).resolve().parent
    for place in (here / "conf", here.parent / "conf"):
        if (place / "config.yaml").exists():
            return place
    raise FileNotFoundError(f"no conf/config.yaml in {here} or beside it; is the installation whole?")
