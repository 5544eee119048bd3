"""The command ``asbc-explore``."""

from __future__ import annotations

import argparse
import logging
import sys
from importlib.util import find_spec
from pathlib import Path

from asbc.explore.findings import default_builder, explore, graph_facts
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
        page = make_page(
            material,
            args.out,
            images=args.images,
            metric=args.metric,
            title=args.title,
            seed=args.seed,
            progress=not args.quiet,
        )
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


def make_page(
    material: Material,
    out: Path,
    *,
    images: str | None = None,
    metric: str = "cosine",
    title: str | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Path:
    """Build the graph in memory unless a folder has one, and write the page.

    Parameters
    ----------
    material : Material
    out : Path
        The page.
    images : str or None, default=None
        Folder of the images; their names on the page are relative to it.
    metric : {"cosine", "euclidean"}, default="cosine"
        Metric of a graph that is built.
    title : str or None, default=None
        Title of the page; None for the material's own.
    seed : int, default=0
        Random seed.
    progress : bool, default=False
        Whether to show progress on the standard error.

    Returns
    -------
    Path
        The page.
    """
    source = material.graph
    if source is None:
        with Progress(progress).step("graph"):
            source = default_builder(len(material.vectors), metric, seed).fit(material.vectors)  # type: ignore[arg-type]
    names = None
    if material.images is not None:
        names = [path.relative_to(Path(str(images)).expanduser()).as_posix() for path in material.images]
    found = explore(
        source,
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
        method = _method(graph_facts(source), seed)
        return write_page(found, out, title=title or material.title, thumbnails=thumbnails, method=method)


def _method(facts: dict, seed: int) -> list[str]:
    """Return how the graph and the map were made, in sentences."""
    kinds = {
        "Blend": "weights that are half NNK, half Gaussian",
        "NNK": "NNK weights",
        "Gaussian": "Gaussian weights",
        "Uniform": "equal weights",
    }
    search = {None: "", "exact": " (exact search)"}.get(facts["search"], f" ({facts['search']} search)")
    recall = "" if facts["recall"] is None else f" with recall {facts['recall']:.3f}"
    return [
        f"Each node has {facts['k']} neighbours by {facts['metric']} distance{search}{recall}. The graph has "
        f"{kinds.get(facts['weights'], facts['weights'])} and {facts['edges']:,} edges, counted in both directions.",
        f"The map is UMAP's layout of this graph from a spectral start, with seed {seed}. Near nodes stay near; "
        "distances between groups mean little.",
        "Outliers, near-duplicates and density are relative to a node's own scale, the distance to its last neighbour. "
        "Density is the median of all scales, divided by the node's own.",
    ]


if __name__ == "__main__":
    sys.exit(main())
