"""Files that are there whole or not at all, and the folder of configs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary name in the same folder, then give the file its real name.

    Parameters
    ----------
    path : Path
    write : callable of a Path
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def conf_dir() -> Path:
    """The configs: inside an installed package, or at the top of a checkout."""
    here = Path(__file__).resolve().parent
    for place in (here / "conf", here.parent / "conf"):
        if (place / "config.yaml").exists():
            return place
    raise FileNotFoundError(f"no conf/config.yaml in {here} or beside it; is the installation whole?")
