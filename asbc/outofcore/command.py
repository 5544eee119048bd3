"""The command ``asbc-build``."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from asbc.bandwidth import Bandwidth, Fixed
from asbc.bandwidth.rule import find_rule, named_rules
from asbc.builder import GraphBuilder
from asbc.dimension import ESTIMATORS
from asbc.export import write_npz, write_parquet
from asbc.extras import needed
from asbc.neighbors.search import OPTIONS, RECALL, SEARCHES
from asbc.outofcore.driver import BLOCK_NODES, build_graph
from asbc.outofcore.folder import load_graph
from asbc.outofcore.plan import BuildError
from asbc.storage import read_json
from asbc.validation import METRICS
from asbc.weights import Weights


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="asbc-build",
        description="Build a neighbourhood graph from a file of embeddings, block by block: memory is bounded by the "
        "block. If it is stopped or killed, the same command resumes after the last finished block.",
        epilog="Open the result with asbc.load_graph(folder), asbc.load_nodes(folder) and asbc.load_rows(folder).",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("source", help=".npy file (n, d) of float16, float32 or float64; a folder of the embedding store; or a URL")
    add("folder", type=Path, help="where the graph goes: a new folder, or one with a stopped build")
    graph = parser.add_argument_group("graph")
    add = graph.add_argument
    add("--k-cand", "--k", type=int, default=30, metavar="N", help="candidate neighbours per node")
    names = {kind: ", ".join(named_rules(kind)) for kind in (Weights, Bandwidth)}
    add("--weights", default="nnk", metavar="RULE", help=f"{names[Weights]}, or your module:Class")
    add("--bandwidth", default="spectral", metavar="RULE", help=f"{names[Bandwidth]}, a number, or module:Class")
    add("--gamma", type=float, default=1.0, help="spectral rule: target rank, as a multiple of the dimension")
    add("--n-grid", type=int, default=12, metavar="N", help="spectral rule: bandwidths tried per node")
    add("--refine", action="store_true", help="spectral rule: refine between grid points")
    add("--beta", type=float, default=2.0, help="perplexity rule: effective neighbours, as a multiple of the dimension")
    add("--k-min", type=int, default=6, metavar="N", help="NNK weights: fill rows with the nearest up to N neighbours")
    add("--sharpen", action="store_true", help="raise rows to a power that falls with their bandwidth")
    add("--symmetrize", choices=("mean", "max", "none"), default="mean", help="how to combine directions of an edge")
    add("--metric", choices=METRICS, default="cosine", help="cosine scales every vector to unit length first")
    add("--dimension", choices=ESTIMATORS, default="mst", help="estimator of the intrinsic dimension")
    add("--seed", type=int, default=0, help="random seed of dimension, lists and the recall sample")
    search = parser.add_argument_group("search", "options of another kind of search are refused")
    add = search.add_argument
    add(
        "--search",
        choices=SEARCHES,
        default="auto",
        help="auto is exact up to 20,000 nodes, and by inverted lists above where they cost less; hnsw and nn_descent "
        "hold all vectors in memory",
    )
    add("--recall", type=float, default=RECALL, help="share of the true neighbours that approximate search must find")
    helps = {
        "n_lists": "ivf: inverted lists (default: about 2 sqrt(n))",
        "n_probe": "ivf: lists probed per node (default: chosen for the recall)",
        "links": "hnsw: links per node (default: 32)",
        "ef_construction": "hnsw: candidates kept while building (default: 100)",
        "ef_search": "hnsw: candidates kept while searching (default: chosen for the recall)",
        "n_trees": "nn_descent: trees of the initial guess",
    }
    for name, text in helps.items():
        add(f"--{name.replace('_', '-')}", type=int, metavar="N", default=argparse.SUPPRESS, help=text)
    work = parser.add_argument_group("execution")
    add = work.add_argument
    add("--block", type=int, default=BLOCK_NODES, metavar="N", help="nodes per block")
    add("--engine", choices=("local", "dask"), default="local", help="this process, or the workers of a Dask cluster")
    add("--scheduler", metavar="ADDRESS", help="dask: address of a running scheduler; default: start a cluster here")
    add("--workers", type=int, default=2, metavar="N", help="dask: processes of a cluster started here")
    add("--npz", type=Path, metavar="FILE", help="also write the graph for scipy.sparse.load_npz")
    add("--parquet", type=Path, metavar="FILE", help="also write its edges as a Parquet table")
    add("--quiet", action="store_true", help="no progress bars, no summary")
    return parser


def _rule(text: str, base: type, **settings) -> Any:
    """Return the rule of a name or of ``module:Class``; a number is a bandwidth."""
    module, colon, name = text.partition(":")
    if colon:
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        found = getattr(import_module(module), name, None)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise ValueError(f"{text}: must be a subclass of asbc.{base.__name__}; got {found!r}.")
        return found()
    with suppress(ValueError):
        if base is Bandwidth:
            return Fixed(float(text))
    return find_rule(text, base, f"--{base.__name__.lower()}", **settings)


def main(arguments: list[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    options = {name: getattr(args, name) for kind in OPTIONS.values() for name in kind if hasattr(args, name)}
    try:
        if args.parquet:  # fail now rather than after hours of work
            with needed("--parquet", "experiments"):
                import_module("pyarrow")
        own = {
            "spectral": {"gamma": args.gamma, "n_grid": args.n_grid, "refine": args.refine},
            "perplexity": {"beta": args.beta},
        }
        builder = GraphBuilder(
            weights=_rule(args.weights, Weights, k_min=args.k_min),
            bandwidth=_rule(args.bandwidth, Bandwidth, k=args.k_cand, **own.get(args.bandwidth, {})),
            sharpen=args.sharpen,
            k_cand=args.k_cand,
            k_min=args.k_min,
            symmetrize=None if args.symmetrize == "none" else args.symmetrize,
            metric=args.metric,
            dimension=args.dimension,
            random_state=args.seed,
            search=args.search,
            recall=args.recall,
            search_options=options,
        )
        manifest = build_graph(
            args.source,
            args.folder,
            builder,
            block=args.block,
            engine=args.engine,
            scheduler=args.scheduler,
            workers=args.workers,
            progress=not args.quiet,
        )
        if args.npz or args.parquet:
            graph = load_graph(args.folder)
            if args.npz:
                write_npz(graph, args.npz)
            if args.parquet:
                write_parquet(graph, args.parquet)
    except KeyboardInterrupt:
        print(f"asbc-build: stopped; the same command resumes the build in {args.folder}.", file=sys.stderr)
        return 130
    except (BuildError, ImportError, OSError, TypeError, ValueError) as error:
        print(f"asbc-build: {error}", file=sys.stderr)
        return 1
    if not args.quiet:
        _summary(args.folder, manifest)
    return 0


def _summary(folder: Path, manifest: dict) -> None:
    timing, used, recall = read_json(folder / "timing.json"), manifest["search_used"], manifest["recall"]
    lines = {
        "nodes": f"{manifest['n']:,} x {manifest['d']} {manifest['dtype']}",
        "edges": f"{manifest['edges']:,}, {manifest['edges'] / manifest['n']:.1f} per node",
        "metric": manifest["builder"]["metric"],
        "search": " ".join([used["search"], *(f"{name}={value}" for name, value in used["options"].items())]),
    }
    if recall is not None:
        low, high = recall["interval"]
        asked = "" if recall["target"] is None else f", target {recall['target']:g}"
        found = f"{recall['value']:.4f} [{low:.4f}, {high:.4f}] on {recall['sample']} nodes{asked}"
        lines[f"recall@{manifest['k']}"] = found
    lines |= {f"  {stage}": f"{seconds:.1f} s" for stage, seconds in timing["seconds"].items()}
    lines["seconds"] = f"{timing['total_seconds']:.1f} ({timing['engine']} engine)"
    if timing["peak_bytes"] is not None:
        lines["peak memory"] = f"{timing['peak_bytes'] / 2**30:.2f} GiB"
    print(folder)
    for name, value in lines.items():
        print(f"  {name:<14} {value}")


if __name__ == "__main__":
    sys.exit(main())
