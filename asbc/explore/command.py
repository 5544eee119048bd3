"""The command ``asbc-explore``."""

from __future__ import annotations

import argparse
import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from asbc.explore.findings import explore
from asbc.explore.material import Material, make_thumbnails, read_material
from asbc.explore.page import check_targets, write_page
from asbc.extras import needed
from asbc.outofcore import BuildError
from asbc.progress import Progress


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
        check_targets(args.out)
        names = ("labels", "texts", "images", "graph", "vectors", "label")
        material = read_material(args.source, **{name: getattr(args, name) for name in names})
        page = _make_page(args, material)
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


def _make_page(args: argparse.Namespace, material: Material) -> Path:
    """Compute the findings, building the graph in memory unless there is a folder, and write the page."""
    progress, names = not args.quiet, None
    if material.images is not None:
        names = [path.relative_to(Path(args.images).expanduser()).as_posix() for path in material.images]
    found = explore(
        material.vectors if material.graph is None else material.graph,
        material.labels,
        vectors=material.vectors,
        texts=material.texts,
        images=names,
        corrections=args.corrections,
        metric=args.metric,
        seed=args.seed,
        progress=progress,
    )
    thumbnails = None
    if material.images is not None:
        thumbnails = make_thumbnails(material.images, found.shown, progress=progress)
    with Progress(progress).step("page"):
        return write_page(found, args.out, title=args.title or material.title, thumbnails=thumbnails)


if __name__ == "__main__":
    sys.exit(main())
