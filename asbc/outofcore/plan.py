"""What a build will do, written down before it begins: a build that goes on later must have the same plan."""

from __future__ import annotations

import importlib
import shutil
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import asbc.bandwidth
import asbc.weights
from asbc.bandwidth import Bandwidth
from asbc.builder import GraphBuilder
from asbc.neighbors.search import check_search
from asbc.outofcore.arrays import open_array, read_json, write_array
from asbc.outofcore.errors import BuildError
from asbc.outofcore.storage import FORMAT
from asbc.validation import check_k, seed_number, whole_number
from asbc.version import __version__
from asbc.weights import EmptyRowWarning, Weights

COMPARED_ROWS = 4096  # rows, spread over the file, that tell whether the vectors are those of the last start
USUAL_PROBES = 64  # lists per node that a build takes room for while recall has not yet told how many it needs
TRIAL_K = 64  # the trial before a build takes memory that grows with the cube of k, so a large k is tried as this one


def make_plan(builder: GraphBuilder, block: int) -> dict[str, Any]:
    """The plan, as far as the vectors do not enter it."""
    builder.check_parameters()
    block = whole_number(block, "block", 1)
    seed = seed_number(builder.random_state, "random_state")  # drawn anew for each block, they would not agree
    # A trial on a few points refuses what cannot work now, rather than after hours of search.
    settings = builder.get_params(deep=False)
    small = parameters_of_trial(builder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyRowWarning)  # which says nothing about the vectors
        GraphBuilder(**settings | small | {"search": "exact", "search_options": None}).fit(
            np.random.default_rng(0).normal(size=(small["k_cand"] + 2, 8))
        )
    del settings["bandwidth"], settings["weights"]
    how = {name: settings.pop(name) for name in ("search", "recall", "search_options")}
    weights = builder.weight_rule()
    return {
        "format": FORMAT,
        "version": __version__,
        "builder": {**settings, "random_state": seed},
        "weights": rule_to_json(weights),
        "bandwidth": rule_to_json(builder.bandwidth_rule()) if weights.uses_bandwidth else None,
        "search": how["search"],
        "recall": how["recall"],
        "search_options": dict(how["search_options"] or {}),
        "block": block,
    }


def parameters_of_trial(builder: GraphBuilder) -> dict[str, int]:
    """k_cand and k_min for the trial, in which a k above TRIAL_K is replaced by a smaller one."""
    # A rule that looks at a certain neighbour, such as the k_mle-th, needs at least that many.
    parameters = [*builder.bandwidth_rule().get_params().items(), *builder.weight_rule().get_params().items()]
    ranks = [value for name, value in parameters if name.startswith("k") and isinstance(value, int | np.integer)]
    k = int(min(builder.k_cand, max([TRIAL_K, *ranks])))
    k_min = builder.k_min
    allowed = isinstance(k_min, int | np.integer) and k_min <= builder.k_cand
    return {"k_cand": k, "k_min": min(k_min, k) if allowed else k_min}


def rule_to_json(rule: Bandwidth | Weights, folder: Path | None = None) -> dict[str, Any]:
    """A rule as JSON: its name, and its parameters, which may be rules themselves.

    Parameters
    ----------
    rule : Bandwidth or Weights
        A rule of asbc, or of a class of one's own that can be imported.
    folder : Path or None, default=None
        Where parameters that are arrays are written; without it they are refused.

    Returns
    -------
    dict
        ``{"rule": name, "parameters": {...}}``.
    """
    kind = type(rule)
    own = any(getattr(module, kind.__name__, None) is kind for module in (asbc.bandwidth, asbc.weights))
    content: dict[str, Any] = {}
    for name, value in rule.get_params(deep=False).items():
        if isinstance(value, Bandwidth):
            content[name] = rule_to_json(value, None if folder is None else folder / name)
        elif isinstance(value, np.ndarray) and folder is not None:
            write_array(folder / f"{name}.npy", value)
            content[name] = {"array": f"{name}.npy"}
        elif value is None or isinstance(value, bool | int | float | str | np.bool_ | np.integer | np.floating):
            content[name] = value.item() if isinstance(value, np.generic) else value
        else:
            raise ValueError(
                f"{kind.__name__} has {name}={value!r}, which cannot be written into the plan of a build; "
                "numbers, strings and other rules can."
            )
    return {"rule": kind.__name__ if own else f"{kind.__module__}:{kind.__qualname__}", "parameters": content}


def rule_from_json(content: Mapping[str, Any], folder: Path | None = None) -> Any:
    """The rule that :func:`rule_to_json` has written; `folder` is where it wrote arrays."""
    parameters = dict(content["parameters"])
    module, _, name = content["rule"].rpartition(":")
    found: Any = importlib.import_module(module) if module else asbc.bandwidth
    found = found if module or hasattr(found, name) else asbc.weights
    for part in name.split("."):
        found = getattr(found, part)
    for key, value in parameters.items():
        if isinstance(value, dict) and "rule" in value:
            parameters[key] = rule_from_json(value, None if folder is None else folder / key)
        elif isinstance(value, dict) and folder is not None:
            parameters[key] = open_array(folder / value["array"])
    return found(**parameters)


def converted(plan: Mapping[str, Any]) -> bool:
    """Whether the vectors must be written again, converted, before kernels can read them from a memory map."""
    return plan["builder"]["metric"] == "cosine" or plan["fortran"] or plan["dtype"] not in ("float32", "float64")


def vectors_in_plan(vectors: NDArray, path: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """What the plan says of the vectors: shape, dtype, and a checksum that shows whether they have changed."""
    if vectors.ndim != 2:
        raise ValueError(f"{path}: must have shape (n_samples, n_features); got {vectors.shape}.")
    if vectors.dtype.kind != "f" or vectors.dtype.itemsize > 8:
        raise TypeError(f"{path}: must be float16, float32 or float64; got {vectors.dtype}.")
    n, d = vectors.shape
    if d == 0:
        raise ValueError(f"{path}: must have at least one column; got shape {vectors.shape}.")
    k = check_k(plan["builder"]["k_cand"], n, "k_cand")
    check_search(plan["search"], n, plan["search_options"])
    checksum = 0
    for row in np.unique(np.linspace(0, n - 1, COMPARED_ROWS).astype(int)):
        checksum = zlib.crc32(np.ascontiguousarray(vectors[row]).tobytes(), checksum)
    return {
        "n": n,
        "d": d,
        "k": k,
        "dtype": str(vectors.dtype),
        "fortran": not vectors.flags.c_contiguous,
        "vectors_crc32": checksum,
    }


def forget_plan_of_nothing(folder: Path, plan: Mapping[str, Any]) -> None:
    """Remove another plan of which nothing was built yet, such as that of vectors that were refused and then mended."""
    path, scratch = folder / "plan.json", folder / "scratch"
    results = any((folder / name).exists() for name in ("manifest.json", "graph", "nodes", "rows"))
    work = scratch.is_dir() and any(made.name not in ("source.json", "check") for made in scratch.iterdir())
    if path.is_file() and not results and not work and read_json(path) != plan:
        shutil.rmtree(scratch, ignore_errors=True)
        path.unlink()


def check_same_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to go on with a build whose plan is another one; the error names what differs."""
    stored = read_json(folder / "plan.json")
    for key in sorted(stored.keys() | plan.keys()):
        before, after = stored.get(key), plan.get(key)
        if before != after:
            if isinstance(before, dict) and isinstance(after, dict):  # name the first setting in it that differs
                key = next(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
                before, after = before.get(key), after.get(key)
            what = "the vectors have changed" if key == "vectors_crc32" else f"{key} was {before!r}"
            now = "" if key == "vectors_crc32" else f" and is now {after!r}"
            raise BuildError(
                f"{folder}: holds a build with other settings: {what}{now}. Give this one another folder, or remove it."
            )


def check_space(folder: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to begin where the disk is too small for the scratch files and the result."""
    n, d, k = plan["n"], plan["d"], plan["k"]
    copies = (plan["search"] in ("auto", "ivf")) + converted(plan)
    options = check_search(plan["search"], n, plan["search_options"])
    index = {
        "ivf": 2 * 4 * options.get("n_probe", USUAL_PROBES),
        "auto": 2 * 4 * options.get("n_probe", USUAL_PROBES),
        "hnsw": 4 * d + 8 * options.get("links", 0),
        "nn_descent": 4 * k,
    }
    needed = n * (4 * d * copies + index.get(plan["search"], 0) + 2 * 20 * k)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise BuildError(
            f"{folder}: the build needs at least {needed / 1e9:.1f} GB of disk, and {free / 1e9:.1f} GB are free."
        )
