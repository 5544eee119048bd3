"""The command ``asbc-embed``: ``asbc-embed embedding=simclr embedding.source=checkpoint embedding.path=...``.

``asbc-embed --list`` shows what the store holds. The rest is Hydra's, ``-m`` for several encoders included.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

import asbc
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.store import Store

log = logging.getLogger(__name__)


def config_folder() -> Path:
    """The Hydra configs: beside the package in a clone, inside it once installed."""
    package = Path(asbc.__file__).parent
    return next(folder for folder in (package / "conf", package.parent / "conf") if folder.is_dir())


@hydra.main(version_base="1.3", config_path=str(config_folder()), config_name="embed")
def run(config: DictConfig) -> None:
    start = time.perf_counter()
    try:
        embeddings = instantiate(config.embedding).load()
    except (ValueError, OSError) as error:
        if HydraConfig.get().mode == RunMode.MULTIRUN:
            raise  # the other jobs go on
        sys.exit(f"asbc-embed: {error}")
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
    table = Table("encoder", "source", "dataset", "split", "shape", "precision", box=None)
    table.add_column("entry", overflow="fold")
    for path, entry in store.entries():
        shape = " x ".join(map(str, entry["shape"]))
        columns = (entry[name] for name in ("encoder", "source", "dataset", "split"))
        table.add_row(*columns, shape, entry["precision"], path.name)
    for file in sorted((cache_folder() / "published").glob("*/data/*/embeddings_*_*.npy")):
        _, encoder, split = file.stem.split("_")
        table.add_row(encoder, "published", file.parent.name, split, "", "", file.name)
    console = console or Console()
    console.print(table if table.row_count else "nothing there yet")
    console.print(f"in {cache_folder()}", style="dim", soft_wrap=True)


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        show()
    else:
        run()


if __name__ == "__main__":
    main()
