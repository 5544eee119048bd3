"""The plan of a build: its settings and its vectors. A build resumes only with the same plan."""

from __future__ import annotations

import importlib
import os
import shutil
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
from asbc.extras import needed
from asbc.neighbors.search import check_search
from asbc.outofcore.folder import FORMAT
from asbc.storage import (
    DISK_FULL,
    DamagedFileError,
    atomic_file,
    check_file,
    file_inside,
    open_array,
    read_json,
    write_json,
)
from asbc.validation import check_k, seed_number, whole_number
from asbc.version import __version__
from asbc.weights import Weights


class BuildError(RuntimeError):
    """A build cannot continue. What it has written stays, and the same command resumes it.

    Examples
    --------
    A folder holds one graph:

    >>> import asbc, numpy as np, tempfile
    >>> from asbc.outofcore import BuildError
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/vectors.npy", X)
    ...     for k in (10, 20):
    ...         try:
    ...             manifest = asbc.build_graph(f"{folder}/vectors.npy", f"{folder}/g", asbc.GraphBuilder(k_cand=k))
    ...         except BuildError as error:
    ...             print(str(error).partition(": ")[2])
    holds a build with other settings: k_cand was 10 and is now 20. Use another folder or remove it.
    """


class EngineError(BuildError):
    """The Dask cluster cannot do the work: the scheduler or workers are missing, or cannot access the files.

    Examples
    --------
    It is a :class:`BuildError`, so one `except` covers both:

    >>> from asbc.outofcore import BuildError, EngineError
    >>> issubclass(EngineError, BuildError)
    True
    """


# Settings


def settings_in_plan(builder: GraphBuilder, block: int) -> dict[str, Any]:
    """Return the part of the plan that does not depend on the vectors."""
    builder.check_parameters()
    block = whole_number(block, "block", 1)
    seed = seed_number(builder.random_state, "random_state")  # one number, so that all blocks draw the same way
    rules = ("bandwidth", "weights")
    settings = {name: _plain(value) for name, value in builder.get_params(deep=False).items() if name not in rules}
    weights = builder.weight_rule()
    search, recall, options = (settings.pop(name) for name in ("search", "recall", "search_options"))
    return {
        "format": FORMAT,
        "version": __version__,
        "builder": {**settings, "random_state": seed},
        "weights": rule_to_json(weights),
        "bandwidth": rule_to_json(builder.bandwidth_rule()) if weights.uses_bandwidth else None,
        "search": search,
        "recall": recall,
        "search_options": {name: _plain(value) for name, value in (options or {}).items()},
        "block": block,
    }


def rule_to_json(rule: Bandwidth | Weights) -> dict[str, Any]:
    """Return a rule as ``{"rule": name, "parameters": {...}}``; parameters may be rules themselves."""
    kind = type(rule)
    known = any(getattr(module, kind.__name__, None) is kind for module in (asbc.bandwidth, asbc.weights))
    content: dict[str, Any] = {}
    for name, value in rule.get_params(deep=False).items():
        if isinstance(value, Bandwidth):
            content[name] = rule_to_json(value)
        elif isinstance(_plain(value), bool | int | float | str | None):
            content[name] = _plain(value)
        else:
            raise ValueError(
                f"{kind.__name__} has {name}={value!r}, which cannot be written into the plan of a build; "
                "numbers, strings and other rules can."
            )
    return {"rule": kind.__name__ if known else f"{kind.__module__}:{kind.__qualname__}", "parameters": content}


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python number, which JSON can store."""
    return value.item() if isinstance(value, np.generic) else value


def rule_from_json(content: Mapping[str, Any]) -> Any:
    """Return the rule that :func:`rule_to_json` wrote. It imports what `content` names, so compare the plan first."""
    module, _, name = content["rule"].rpartition(":")
    found: Any = importlib.import_module(module) if module else asbc.bandwidth
    found = found if module or hasattr(found, name) else asbc.weights
    for part in name.split("."):
        found = getattr(found, part)
    parameters = content["parameters"].items()
    return found(**{key: rule_from_json(value) if isinstance(value, dict) else value for key, value in parameters})


def check_same_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to resume a build if an entry of `plan` differs from its plan; the error names what differs."""
    stored = read_json(folder / "plan.json")
    for key, after in sorted(plan.items()):
        before = stored.get(key)
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):  # name the first setting in it that differs
            key = next(name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name))
            before, after = before.get(key), after.get(key)
        difference = f"{key} was {before!r} and is now {after!r}"
        if key == "vectors_crc32":
            difference = "the vectors have changed"
        raise BuildError(f"{folder}: holds a build with other settings: {difference}. Use another folder or remove it.")


# Vectors


def is_url(source: str | os.PathLike) -> bool:
    return "://" in os.fspath(source)


def local_copy(source: str, folder: Path) -> Path:
    """Copy a URL into the build's folder once, and return the path of the copy."""
    with needed("reading from a URL", "scale"):
        import fsspec
    copy, origin = folder / "source" / "vectors.npy", folder / "source" / "origin.json"
    if copy.is_file():
        url = read_json(origin)["url"]
        if url != source:
            raise BuildError(f"{folder}: holds a copy of {url!r}, not of {source!r}. Use another folder or remove it.")
        return copy
    arrived = folder / "source" / "arrived.npy"  # renamed once it is known to be complete
    try:
        with fsspec.open(source, "rb") as remote, atomic_file(arrived) as file:
            shutil.copyfileobj(remote, file, 2**24)
        open_array(arrived)
    except DamagedFileError as error:
        arrived.unlink(missing_ok=True)
        reason = str(error).removeprefix(f"{arrived}: ")
        raise BuildError(f"{source}: {reason} The copy was removed; the same command downloads it again.") from error
    except Exception as error:  # every file system of fsspec has errors of its own
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise
        raise BuildError(f"{source}: cannot be read ({type(error).__name__}: {error}).") from error
    write_json(origin, {"url": source})
    os.replace(arrived, copy)
    return copy


def find_vectors(source: Path) -> tuple[Path, dict[str, Any]]:
    """Return the ``.npy`` file of `source`, and the dtype and shape that the embedding store lists for it, if any.

    The file of the store is compared with its checksum.
    """
    if source.suffix == ".npz":
        raise ValueError(f"{source}: is an .npz archive; save the vectors with numpy.save as an .npy file (n, d).")
    if not source.is_dir():
        return source, {}
    manifest = source / "manifest.json"
    if not manifest.is_file():
        raise FileNotFoundError(f"{source}: a folder without manifest.json is not an entry of the embedding store.")
    content, path = read_json(manifest), file_inside(source, "vectors.npy")
    try:
        expected = {"dtype": np.dtype(str(content["dtype"])), "shape": tuple(content["shape"])}
        checksum = content["checksums"][path.name]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{manifest}: has no dtype, shape and checksum ({error}).") from error
    check_file(path, checksum)
    return path, expected


def vectors_in_plan(vectors: NDArray, path: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of the plan that describes the vectors, without their checksum."""
    if vectors.ndim != 2:
        raise ValueError(f"{path}: must have shape (n_samples, n_features); got {vectors.shape}.")
    if vectors.dtype.kind != "f" or vectors.dtype.itemsize > 8:
        raise TypeError(f"{path}: must be float16, float32 or float64; got {vectors.dtype}.")
    n, d = vectors.shape
    if d == 0:
        raise ValueError(f"{path}: must have at least one column; got shape {vectors.shape}.")
    k = check_k(plan["builder"]["k_cand"], n, "k_cand")
    check_search(plan["search"], n, plan["search_options"])
    return {"n": n, "d": d, "k": k, "dtype": str(vectors.dtype), "fortran": not vectors.flags.c_contiguous}


def scan_vectors(path: Path, plan: Mapping[str, Any]) -> int:
    """Refuse NaN, infinity and, if the metric is cosine, rows of zeros; return the checksum of the vectors.

    Pages of a memory map count as memory of the process while it is open, so each block opens its own.
    """
    checksum = 0
    for start in range(0, plan["n"], plan["block"]):
        vectors = open_vectors(path, plan)[start : start + plan["block"]]
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            raise ValueError(f"the vectors must be finite; row {start + int(np.argmin(finite))} holds NaN or infinity.")
        zero = ~vectors.any(axis=1)
        if plan["builder"]["metric"] == "cosine" and zero.any():
            raise ValueError(f"metric='cosine' needs directions; row {start + int(np.argmax(zero))} is all zeros.")
        checksum = zlib.crc32(np.ascontiguousarray(vectors).data, checksum)
    return checksum


def open_vectors(path: Path, plan: Mapping[str, Any]) -> NDArray:
    """Open the vectors as given (n, d), as a memory map."""
    return open_array(path, plan["dtype"], (plan["n"], plan["d"]))


def needs_conversion(plan: Mapping[str, Any]) -> bool:
    """Return whether the vectors must be converted before kernels can read them from a memory map."""
    return plan["builder"]["metric"] == "cosine" or plan["fortran"] or plan["dtype"] not in ("float32", "float64")


def check_space(folder: Path, plan: Mapping[str, Any]) -> None:
    """Refuse to start if the disk is too small for the scratch files and the result."""
    n, d, k = plan["n"], plan["d"], plan["k"]
    copies = needs_conversion(plan) + (plan["search"] in ("auto", "ivf", "hnsw"))  # of the vectors
    required = n * (4 * d * copies + 40 * k)
    free = shutil.disk_usage(folder).free
    if free < required:
        raise BuildError(
            f"{folder}: the build needs at least {required / 1e9:.1f} GB of disk, but only {free / 1e9:.1f} GB is free."
        )
