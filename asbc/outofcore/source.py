"""Where a build's vectors come from: a file, an entry of the embedding store, or a URL that is copied first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from asbc.extras import needed
from asbc.files import DISK_FULL, whole_file
from asbc.outofcore.arrays import GraphFileError, open_array, read_json, write_json
from asbc.outofcore.errors import BuildError


def find_vectors(source: Path) -> tuple[Path, dict[str, Any]]:
    """The ``.npy`` file of `source`, and the dtype and shape that the store's manifest gives it, if it has one."""
    if source.suffix == ".npz":
        raise ValueError(f"{source}: an .npz archive; an .npy file (n, d) is wanted, as numpy.save writes it.")
    if not source.is_dir():
        return source, {}
    manifest_path = source / "manifest.json"
    if not manifest_path.is_file():
        raise FileNotFoundError(f"{source}: a folder without manifest.json is not an entry of the embedding store.")
    manifest = read_json(manifest_path)
    try:
        dtype = np.dtype(str(manifest["dtype"]))
        return source / "vectors.npy", {"dtype": dtype, "shape": tuple(manifest["shape"])}
    except (KeyError, TypeError) as error:
        raise GraphFileError(f"{manifest_path}: has no dtype and shape ({error}).") from error


def is_url(source: str | os.PathLike) -> bool:
    """Whether `source` is a URL, not a path of this file system."""
    return "://" in os.fspath(source)


def local_copy(source: str, folder: Path) -> Path:
    """`source` as a path of this file system; a URL is copied into the build's folder once."""
    if not is_url(source):
        return Path(source)
    with needed("reading from a URL", "scale"):
        import fsspec
    copy, origin = folder / "source" / "vectors.npy", folder / "source" / "origin.json"
    if copy.is_file() and origin.is_file():
        url = read_json(origin).get("url")
        if url != source:
            raise BuildError(
                f"{folder}: holds a copy of {url!r}, and now {source!r} is given. Give this one another folder, or "
                "remove it."
            )
        return copy
    for leftover in copy.parent.glob(".*"):
        leftover.unlink()
    arrived = folder / "source" / "arrived.npy"  # the copy gets its real name once it is known to be whole
    try:
        with fsspec.open(source, "rb") as remote, whole_file(arrived) as file:
            shutil.copyfileobj(remote, file, 2**24)
        open_array(arrived)
    except GraphFileError as error:
        arrived.unlink(missing_ok=True)
        reason = str(error).removeprefix(f"{arrived}: ")
        raise BuildError(f"{source}: {reason} Nothing of it is kept; the same command reads it again.") from error
    except Exception as error:  # every file system of fsspec has errors of its own
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise
        raise BuildError(f"{source}: cannot be read ({type(error).__name__}: {error}).") from error
    copy.unlink(missing_ok=True)
    write_json(origin, {"url": source})
    os.replace(arrived, copy)
    return copy
