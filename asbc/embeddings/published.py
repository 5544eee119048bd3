"""Embeddings of solo-learn's own CIFAR checkpoints, which a public repository still holds.

``published.json`` has the repository, the commit and the git blob hash of every file: a download is verified
against it, and so is a file that was put in the cache by hand.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from asbc.embeddings.arrays import Embeddings, check_arrays, read_array
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.download import DownloadError, blob_sha1, fetch

HOST = "https://raw.githubusercontent.com"


@cache
def facts() -> dict[str, Any]:
    """Repository, commit, licence and file hashes."""
    return json.loads(resources.files("asbc.embeddings").joinpath("published.json").read_text())


def published_embeddings(encoder: str, dataset: str, split: str, cache: str | os.PathLike | None = None) -> Embeddings:
    """Embeddings and labels as published, downloaded on first use.

    Parameters
    ----------
    encoder : str
        Such as ``"simclr"``; an unknown one is answered with the list of those there are.
    dataset : {"cifar10", "cifar100"}
    split : {"train", "test"}
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    """
    wanted = f"data/{dataset}/embeddings_{encoder}_{split}.npy"
    if wanted not in facts()["git_blob_sha1"]:
        raise ValueError(
            f"no published embeddings of encoder={encoder!r}, dataset={dataset!r}, split={split!r}; "
            f"there are {_available()}. Other encoders come from source=checkpoint or source=timm."
        )
    folder = cache_folder(cache)
    vectors = read_array(_file(wanted, folder))
    labels = np.asarray(read_array(_file(f"data/{dataset}/labels_{split}.npy", folder)))
    check_arrays(vectors, labels, wanted)
    return Embeddings(vectors, labels, dataset, encoder)


def _file(name: str, cache: Path) -> Path:
    """Path of a published file in the cache, its content verified."""
    url = f"{HOST}/{facts()['repository']}/{facts()['commit']}/{name}"
    sha1 = facts()["git_blob_sha1"][name]
    target = cache / "published" / facts()["commit"][:12] / name
    if not target.exists():
        try:
            fetch(url, target, sha1)
        except DownloadError as error:
            raise DownloadError(
                f"{error}\nTo go on without this download, get {url} on another machine and put it at\n"
                f"  {target}\n(`git hash-object` of the right file prints {sha1})."
            ) from error
    found = blob_sha1(target)
    if found != sha1:
        raise ValueError(
            f"{target}: not the published file (its git blob hash is {found}, wanted is {sha1}). "
            f"Remove it to download it again from {url}."
        )
    return target


def _available() -> str:
    parts = [Path(name).parts[1:] for name in facts()["git_blob_sha1"]]
    encoders = sorted({file.split("_")[1] for _, file in parts if file.startswith("embeddings_")})
    return f"{', '.join(encoders)} on {' and '.join(sorted({data for data, _ in parts}))}, train and test"
