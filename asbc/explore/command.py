"""The command ``asbc-explore``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from glob import iglob
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from asbc.configs import closest
from asbc.embeddings.files import read_labels, read_vectors
from asbc.embeddings.source import DATA, Clinc100
from asbc.embeddings.store import read_entry_manifest
from asbc.explore.findings import explore
from asbc.explore.page import check_targets, make_thumbnails, write_page
from asbc.extras import needed
from asbc.outofcore import BuildError
from asbc.outofcore.folder import read_graph_manifest
from asbc.progress import Progress

SAMPLE = "clinc100"  # name of the bundled sample
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asbc-explore",
        description="Write one HTML page about your vectors, with or without labels: a map of their neighbourhood "
        "graph with named clusters, dimension, hubs, outliers, near-duplicates and doubtful labels. The page needs no "
        "network. Its numbers are in a Parquet file next to it.",
        epilog="Examples: asbc-explore clinc100 | asbc-explore vectors.npy --labels y.npy --texts sentences.txt | "
        "asbc-explore vectors.npy --images photos --out photos.html",
    )
    add = parser.add_argument
    add(
        "source",
        metavar="VECTORS",
        help="vectors in .npy, .npz, .csv, .parquet or .h5ad; a folder that asbc-embed or asbc-build wrote; or "
        "clinc100, the bundled sample",
    )
    add("--labels", metavar="FILE", help="one label per vector; -1, NaN, None or an empty one means unlabelled")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--texts", metavar="FILE", help="one line of text per vector, shown on hover")
    shown.add_argument("--images", metavar="FOLDER", help="one image per vector, in the order of their sorted names")
    add("--corrections", metavar="FILE", help="corrections.csv that an earlier page exported: labels start from it")
    add("--out", type=Path, default=Path("explore.html"), metavar="FILE", help="the page (default: explore.html)")
    add("--metric", choices=("cosine", "euclidean"), default="cosine", help="metric of the graph (default: cosine)")
    add("--graph", metavar="FOLDER", help="use the graph that asbc-build made from these vectors")
    add("--vectors", metavar="NAME", help="name of the vectors, if a file has several arrays or columns")
    add("--label", metavar="NAME", help="name of the labels, if a file has several arrays or columns")
    add("--title", help="title of the page (default: the number of vectors)")
    add("--seed", type=int, default=0, help="random seed (default: 0)")
    add("--quiet", action="store_true", help="show no progress")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run ``asbc-explore`` and return its exit code."""
    args = _parser().parse_args(arguments)
    logging.basicConfig(format="asbc-explore: %(message)s", level=logging.WARNING)
    if not args.quiet:
        logging.getLogger("asbc").setLevel(logging.INFO)  # reports which arrays of a file are the vectors and labels
    try:
        with needed("this command", "explore"):  # importing umap takes seconds
            if find_spec("umap") is None:
                raise ModuleNotFoundError("No module named 'umap'", name="umap")
        page = make_page(args)
    except KeyboardInterrupt:
        print("asbc-explore: stopped; nothing was written.", file=sys.stderr)
        return 130
    except MemoryError:
        print(
            f"asbc-explore: the vectors do not fit in memory; build the graph first: asbc-build {args.source} graph, "
            f"then asbc-explore {args.source} --graph graph",
            file=sys.stderr,
        )
        return 1
    except (BuildError, ImportError, OSError, TypeError, ValueError) as error:
        print(f"asbc-explore: {error}", file=sys.stderr)
        return 1
    print(page)
    return 0


def make_page(args: argparse.Namespace) -> Path:
    """Read what is given, compute the findings, and write the page."""
    check_targets(args.out)
    progress, images = not args.quiet, None
    title, vectors, labels, graph = read_source(args.source, args.labels, args.graph, args.vectors, args.label)
    n = int(read_graph_manifest(graph)["n"]) if vectors is None else len(vectors)
    paths = None if args.images is None else find_images(args.images, n)
    found = explore(
        vectors if graph is None else graph,
        labels,
        vectors=None if graph is None else vectors,
        texts=None if args.texts is None else read_texts(args.texts, n),
        images=None if paths is None else [path.relative_to(args.images).as_posix() for path in paths],
        corrections=args.corrections,
        metric=args.metric if graph is None else None,
        seed=args.seed,
        progress=progress,
    )
    if paths is not None:
        images = make_thumbnails(paths, found.shown, progress=progress)
    with Progress(progress).step("page"):
        return write_page(found, args.out, title=args.title or title, thumbnails=images)


def read_source(
    source: str | Path,
    labels: str | None = None,
    graph: str | None = None,
    vectors: str | None = None,
    label: str | None = None,
) -> tuple[str, Any, Any, Any]:
    """Return a title, the vectors or None, the labels or None, and the folder of the graph or None.

    `source` is a file of vectors, a folder that `asbc-build` or `asbc-embed` wrote, or "clinc100"; `vectors` and
    `label` are names of arrays or columns in files.
    """
    path, folder = Path(source).expanduser(), None if graph is None else Path(graph).expanduser()
    if str(source) == SAMPLE and not path.exists():
        sample, title = Clinc100().load(), "CLINC100: 3,000 sentences, 100 intents"
        found, own = sample.vectors, np.load(DATA / "clinc100.npz")["label_names"][sample.labels]
        own = own if labels is None else read_labels(labels, len(own), label=label)
    elif path.is_dir() and not (path / "vectors.npy").is_file():
        if folder is not None:
            raise ValueError(f"--graph: {path} is a graph already; with --graph, give the vectors first.")
        n = int(read_graph_manifest(path)["n"])
        return f"{n:,} nodes", None, None if labels is None else read_labels(labels, n, label=label), path
    elif not path.exists() and (hint := closest(str(source), [SAMPLE])):
        raise FileNotFoundError(f"{path}: no such file{hint}")
    else:
        found, own = read_vectors(path, labels, vectors=vectors, label=label)
        facts = read_entry_manifest(path) if path.is_dir() else None
        title = f"{facts['encoder']} of {facts['dataset']}" if facts else f"{len(found):,} vectors"
    built = len(found) if folder is None else int(read_graph_manifest(folder)["n"])
    if built != len(found):
        raise ValueError(f"--graph: {folder} has {built:,} nodes, and {path} has {len(found):,} vectors.")
    return title, found, own, folder


def read_texts(path: str | Path, n: int) -> list[str]:
    """Return the lines of a UTF-8 file, which must be `n`."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"texts: {path}: no such file")
    # Only line feeds end a line: a text may contain other characters that Python treats as line ends.
    lines = file.read_bytes().decode("utf-8-sig", errors="replace").removesuffix("\n").split("\n")
    if len(lines) != n:
        raise ValueError(f"texts: {path} has {len(lines):,} lines for {n:,} vectors; give one line per vector.")
    return [line.rstrip("\r") for line in lines]


def find_images(folder: str | os.PathLike, n: int | None = None) -> list[Path]:
    """Return the images in a folder in the order of torchvision's ``ImageFolder``: by subfolder, then by name.

    Parameters
    ----------
    folder : str or path
        With or without subfolders for classes.
    n : int or None, default=None
        How many there must be.
    """
    found = [name for name in iglob("**/*", root_dir=folder, recursive=True) if name.lower().endswith(IMAGE_SUFFIXES)]
    # The whole of one subfolder comes before the next, whatever its name.
    found.sort(key=lambda name: (Path(name).parts[:-1][:1], os.path.split(name)))
    if n is not None and len(found) != n:
        raise ValueError(
            f"images: {folder} holds {len(found):,} images for {n:,} vectors; it must be a folder that holds one per "
            "vector, in the order of their sorted names."
        )
    return [Path(folder, name) for name in found]


if __name__ == "__main__":
    sys.exit(main())
