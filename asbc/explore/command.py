"""The command ``asbc-explore``: what it takes from the command line, and what it prints."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from asbc.explore.findings import default_builder, explore
from asbc.explore.material import Material, read_material, relative_names
from asbc.explore.page import target_files, write_page
from asbc.explore.thumbnails import make_thumbnails
from asbc.extras import needed
from asbc.outofcore import BuildError
from asbc.outofcore.driver import build_graph
from asbc.outofcore.folder import read_graph_manifest
from asbc.progress import Progress

BLOCKS = 20  # blocks that a build is cut into, so that its bars move
LEAST_BLOCK = 2048  # nodes per block at least


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asbc-explore",
        description="One HTML page on your vectors, with or without labels: a map of their neighbourhood graph to "
        "look at, what is in there (dimension, hubs, outliers, near-duplicates), and which labels are doubtful. The "
        "page needs no network; its numbers are a Parquet file beside it.",
        epilog="Examples: asbc-explore clinc100 | asbc-explore vectors.npy --labels y.npy --texts sentences.txt | "
        "asbc-explore vectors.npy --images photos --out photos.html",
    )
    add = parser.add_argument
    add(
        "source",
        help="vectors in .npy, .npz, .csv, .parquet or .h5ad; a folder that asbc-embed or asbc-build wrote; or "
        "clinc100, the sample that comes with asbc",
    )
    add("--labels", metavar="FILE", help="a label per vector; -1, NaN, None or an empty one is unlabelled")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--texts", metavar="FILE", help="a line of text per vector, shown on hover")
    shown.add_argument("--images", metavar="FOLDER", help="a picture per vector, in the order of their sorted names")
    add("--out", type=Path, default=Path("explore.html"), metavar="FILE", help="the page (default: explore.html)")
    add("--metric", choices=("cosine", "euclidean"), default="cosine", help="of the graph (default: cosine)")
    add("--graph", metavar="FOLDER", help="take the graph that asbc-build made of these vectors, and build none")
    add("--vectors", metavar="NAME", help="name of the vectors, where a file has several arrays or columns")
    add("--label", metavar="NAME", help="name of the labels, where a file has several arrays or columns")
    add("--name", help="what the page calls the vectors (default: the file's name)")
    add("--seed", type=int, default=0, help="of all that is random (default: 0)")
    add("--quiet", action="store_true", help="no progress")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    logging.basicConfig(format="asbc-explore: %(message)s", level=logging.WARNING)
    if not args.quiet:
        logging.getLogger("asbc").setLevel(logging.INFO)  # what was taken for the vectors and the labels of a file
    try:
        with needed("this command", "explore"):  # umap takes seconds to import: first it is only looked for
            if find_spec("umap") is None:
                raise ModuleNotFoundError("No module named 'umap'", name="umap")
        target_files(args.out)
        material = read_material(
            args.source,
            labels=args.labels,
            texts=args.texts,
            images=args.images,
            graph=args.graph,
            vectors=args.vectors,
            label=args.label,
        )
        page = make_page(
            material,
            args.out,
            images=args.images,
            metric=args.metric,
            name=args.name,
            seed=args.seed,
            progress=not args.quiet,
        )
    except KeyboardInterrupt:
        print("asbc-explore: stopped; nothing was written.", file=sys.stderr)
        return 130
    except (BuildError, ImportError, OSError, TypeError, ValueError) as error:
        print(f"asbc-explore: {error}", file=sys.stderr)
        return 1
    print(page)
    return 0


def make_page(
    material: Material,
    out: Path,
    *,
    images: str | None = None,
    metric: str = "cosine",
    name: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Path:
    """Build the graph if there is none, look at it, and write the page.

    Parameters
    ----------
    material : Material
        What is explored.
    out : Path
        The page.
    images : str or None, default=None
        The folder of the pictures, which their names are relative to.
    metric : {"cosine", "euclidean"}, default="cosine"
        Of a graph that is built.
    name : str or None, default=None
        What the page calls the vectors; None takes the material's name.
    seed : int, default=0
        Of all that is random.
    progress : bool, default=False
        Whether to show bars on the standard error.

    Returns
    -------
    Path
        The page.
    """
    with tempfile.TemporaryDirectory(prefix="asbc-explore-") as scratch:
        graph = material.graph or _build(material, Path(scratch), metric, seed, progress)
        names = None if material.images is None else relative_names(material.images, str(images))
        found = explore(
            graph,
            material.labels,
            vectors=material.vectors,
            texts=material.texts,
            images=names,
            seed=seed,
            progress=progress,
        )
        thumbnails = None
        if material.images is not None:
            thumbnails = make_thumbnails(material.images, found.shown, progress=progress)
        with Progress(progress).step("page"):
            return write_page(
                found, out, name=name or material.name, thumbnails=thumbnails, method=_method(graph, seed)
            )


def _build(material: Material, scratch: Path, metric: str, seed: int, progress: bool) -> Path:
    """Build the graph in a folder that goes away; bars show how far it is."""
    assert material.vectors is not None
    file = material.file
    if file is None:
        file = scratch / "vectors.npy"
        np.save(file, material.vectors)
    n = len(material.vectors)
    block = max(LEAST_BLOCK, -(-n // BLOCKS))
    build_graph(file, scratch / "graph", default_builder(n, metric, seed), block=block, progress=progress)
    return scratch / "graph"


def _method(graph: Path, seed: int) -> list[str]:
    """How the graph and the map were made, in words."""
    manifest = read_graph_manifest(graph)
    builder, used = manifest["builder"], manifest["search_used"]["search"]
    recall = manifest.get("recall")
    kinds = {
        "Blend": "half NNK, half Gaussian weights",
        "NNK": "NNK weights",
        "Gaussian": "Gaussian weights",
        "Uniform": "equal weights",
    }
    search = "Neighbours were searched exactly" if used == "exact" else f"Neighbours were searched by {used}"
    if recall is not None:
        search += f" (recall {recall['value']:.3f})"
    rule = manifest["weights"]["rule"]
    weights = kinds.get(rule, f"weights by {rule}")
    return [
        f"{search}, {manifest['k']} per node, with the {builder['metric']} metric; the graph has {weights} and "
        f"{manifest['edges']:,} edges, both directions counted.",
        f"The map is UMAP's layout of this graph, from a spectral start with seed {seed}: near nodes stay near, and "
        "distances between groups mean little.",
        "Outliers, near-duplicates and density are measured at each node's own scale, the distance to its last "
        "neighbour. Density is the median of all scales, divided by the node's own.",
    ]


if __name__ == "__main__":
    sys.exit(main())
