"""The command ``asbc-embed``: ``asbc-embed embedding=simclr embedding.source=checkpoint embedding.path=...``.

``asbc-embed --list`` shows what the store holds. The rest is Hydra's, ``-m`` for several encoders included.
"""

from __future__ import annotations

import logging
import sys
import time

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from asbc.configs import conf_dir
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.store import Store, read_entry_manifest

log = logging.getLogger(__name__)

FAILED: list[str] = []  # what the failed jobs of a sweep said


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="embed")
def run(config: DictConfig) -> None:
    start = time.perf_counter()
    try:
        embeddings = instantiate(config.embedding).load()
    except (ValueError, OSError) as error:
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


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        show()
    else:
        run()
        if FAILED:
            sys.exit(1)


if __name__ == "__main__":
    # By its real name: Hydra imports this module again, and the two must share what they know.
    from asbc.embeddings.command import main as start

    start()
