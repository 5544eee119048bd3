"""The command ``asbc-embed``: compute embeddings, list the cache (``--list``) or check it (``--verify``)."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from functools import partial

import hydra
from omegaconf import DictConfig

from asbc.configs import build, conf_dir, import_own_modules, job_errors, run_jobs
from asbc.embeddings.source import lightly_file, published_file, registry
from asbc.embeddings.store import cache_folder, entry_folders, read_entry, read_entry_manifest

log = logging.getLogger(__name__)


@hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="embed")
def run(config: DictConfig) -> None:
    start = time.perf_counter()
    with job_errors("asbc-embed"):
        import_own_modules()
        embeddings = build(config.embedding, "embedding").load()
        folder = cache_folder(config.embedding.get("cache"))
        log.info("%r, %.1f s, cache %s", embeddings, time.perf_counter() - start, folder)


def list_cache() -> None:
    """Print a table of the cached embeddings; `verify_cache` prints what is wrong with damaged ones."""
    keys = ("encoder", "source", "dataset", "split", "shape", "precision")
    rows: list[tuple[str, ...]] = [(*keys, "entry")]
    for path in entry_folders():
        try:
            manifest = read_entry_manifest(path)
            manifest["shape"] = " x ".join(map(str, manifest["shape"]))
            rows.append((*(str(manifest.get(key, "")) for key in keys), path.name))
        except (ValueError, OSError, KeyError, TypeError):  # noqa: PERF203
            rows.append(("damaged", *[""] * 5, path.name))
    for file in sorted((cache_folder() / "published").glob("*/data/*/embeddings_*_*.npy")):
        _, encoder, split = file.stem.split("_")
        rows.append((encoder, "published", file.parent.name, split, "", "", file.name))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if len(rows) > 1 else []:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    print(f"{len(rows) - 1} in {cache_folder()}; asbc-embed --verify checks their contents")


def verify_cache() -> int:
    """Read everything in the cache, print what is damaged, and return the number of damaged files and entries."""
    folder, damaged = cache_folder(), 0
    checks: list[tuple[object, Callable[[], object]]] = [(path, partial(read_entry, path)) for path in entry_folders()]
    files = [published_file(name, folder) for name in registry("published")["git_blob_sha1"]]
    files += [lightly_file(record.parent.name, folder) for record in sorted(folder.glob("lightly/*/*.sha256"))]
    checks += [(file.path, file.verify) for file in files if file.path.exists()]
    for name, check in checks:
        try:
            check()
            print(f"intact: {name}")
        except (ValueError, OSError, KeyError, TypeError) as error:  # noqa: PERF203
            damaged += 1
            print(error)
    print(f"{len(checks)} read, {damaged} damaged, in {folder}")
    return damaged


def main() -> None:
    """Run the command."""
    if sys.argv[1:] == ["--list"]:
        list_cache()
    elif sys.argv[1:] == ["--verify"]:
        sys.exit(1 if verify_cache() else 0)
    else:
        run_jobs(run)


if __name__ == "__main__":
    main()
