"""The command ``asbc-embed``: ``asbc-embed embedding=simclr embedding.source=checkpoint embedding.path=...``.

``asbc-embed --list`` shows what the store holds, ``asbc-embed --verify`` reads all of it and says whether it is as it
was written. The rest is Hydra's, ``-m`` for several encoders included.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from asbc.configs import conf_dir
from asbc.embeddings import published
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.lightly import compare_with_first_use, lightly_weights
from asbc.embeddings.store import Store, read_entry, read_entry_manifest
from asbc.extras import MissingExtraError

log = logging.getLogger(__name__)

FAILED: list[str] = []  # what the failed jobs of a sweep said


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="embed")
def run(config: DictConfig) -> None:
    start = time.perf_counter()
    try:
        embeddings = instantiate(config.embedding).load()
    except (MissingExtraError, ValueError, OSError) as error:
        context = HydraConfig.get()
        if context.mode != RunMode.MULTIRUN:
            sys.exit(f"asbc-embed: {error}")
        if "joblib" in str(context.launcher.get("_target_")):
            raise  # in a process of its own, where this is the only way to be heard
        print(f"asbc-embed {' '.join(context.overrides.task)}: {error}", file=sys.stderr, flush=True)
        FAILED.append(str(error))  # the other jobs go on
        return
    n, d = embeddings.vectors.shape
    log.info(
        "%s of %s: %d x %d, %.1f s, in %s",
        embeddings.encoder,
        embeddings.name,
        n,
        d,
        time.perf_counter() - start,
        getattr(embeddings.vectors, "filename", "memory"),
    )


def show(console: Console | None = None) -> None:
    """Print a table of the store's entries."""
    store = Store()
    damaged: list[str] = []
    table = Table("encoder", "source", "dataset", "split", "shape", "precision", box=None)
    table.add_column("entry", overflow="fold")
    for path in store.folders():
        try:
            entry = read_entry_manifest(path)
            columns = [str(entry[name]) for name in ("encoder", "source", "dataset", "split")]
            columns += [" x ".join(map(str, entry["shape"])), str(entry["precision"])]
        except (ValueError, OSError, KeyError, TypeError) as error:
            missing = f"{path}: manifest.json is damaged (no {error}); remove the folder and embed anew"
            damaged.append(missing if isinstance(error, KeyError) else str(error))
            columns = ["damaged", "", "", "", "", ""]
        table.add_row(*columns, path.name)
    for file in sorted((cache_folder() / "published").glob("*/data/*/embeddings_*_*.npy")):
        _, encoder, split = file.stem.split("_")
        table.add_row(encoder, "published", file.parent.name, split, "", "", file.name)
    console = console or Console()
    console.print(table if table.row_count else "nothing there yet")
    for trouble in damaged:
        console.print(trouble, style="red", soft_wrap=True, markup=False)
    console.print(f"in {cache_folder()}", style="dim", soft_wrap=True)


def verify(console: Console | None = None) -> int:
    """Read everything in the cache, print what is damaged, and tell how many files or entries are."""
    console = console or Console()
    folder = cache_folder()
    checks: list[tuple[str, Callable[[], object]]] = [
        (str(path), functools.partial(read_entry, path, whole=True)) for path in Store().folders()
    ]
    checks += [(str(path), check) for path, check in downloaded_checks(folder)]
    troubles = [_trouble(name, check) for name, check in checks]
    for (name, _), trouble in zip(checks, troubles, strict=True):
        said = trouble or f"as it was written: {name}"
        console.print(said, style="red" if trouble else "", soft_wrap=True, markup=False, highlight=False)
    damaged = sum(trouble is not None for trouble in troubles)
    console.print(f"{len(checks)} read, {damaged} damaged, in {folder}", style="dim", soft_wrap=True)
    return damaged


def _trouble(name: str, check: Callable[[], object]) -> str | None:
    try:
        check()
    except (ValueError, OSError) as error:
        return str(error)
    except (KeyError, TypeError) as error:
        return f"{name}: manifest.json is damaged (no {error}); remove the folder and embed anew"
    return None


def downloaded_checks(folder: Path) -> list[tuple[Path, Callable[[], object]]]:
    """For every downloaded file of the cache whose hash is known, a function that raises if it has another one."""
    found: list[tuple[Path, Callable[[], object]]] = []
    for name in published.facts()["git_blob_sha1"]:
        wanted = published.wanted(name, folder)
        if wanted.target.exists():
            found.append((wanted.target, wanted.compare))
    for record in sorted(folder.glob("lightly/*/*.sha256")):
        wanted = lightly_weights(record.parent.name, folder)
        if wanted.target.exists():
            found.append((wanted.target, functools.partial(compare_with_first_use, wanted)))
    return found


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        show()
    elif sys.argv[1:] == ["--verify"]:
        sys.exit(1 if verify() else 0)
    else:
        run()
        if FAILED:
            sys.exit(1)


if __name__ == "__main__":
    # By its real name: Hydra imports this module again, and the two must share what they know.
    from asbc.embeddings.command import main as start

    start()
