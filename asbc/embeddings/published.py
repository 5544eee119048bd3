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
from asbc.embeddings.download import Hash, Wanted
from asbc.embeddings.missing import fetch_all

HOST = "https://raw.githubusercontent.com"
INSTEAD = (
    "embedding.source=lightly downloads weights of the same methods and embeds the images here, "
    "embedding.source=checkpoint reads a checkpoint of yours (embedding.path=...), embedding.source=timm a model of "
    "timm, and embedding=clinc100 needs no file at all."
)


@cache
def facts() -> dict[str, Any]:
    """Repository, commit, licence and file hashes."""
    return json.loads(resources.files("asbc.embeddings").joinpath("published.json").read_text())


def published_embeddings(
    encoder: str, dataset: str, split: str, cache: str | os.PathLike | None = None, download: bool = True
) -> Embeddings:
    """Embeddings and labels as published, downloaded on first use.

    Parameters
    ----------
    encoder : str
        Such as ``"simclr"``; an unknown one is answered with the list of those there are.
    dataset : {"cifar10", "cifar100"}
        The images.
    split : {"train", "test"}
        Which of them.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    download : bool, default=True
        Whether files may be downloaded.
    """
    name = f"data/{dataset}/embeddings_{encoder}_{split}.npy"
    if name not in facts()["git_blob_sha1"]:
        raise ValueError(
            f"no published embeddings of encoder={encoder!r}, dataset={dataset!r}, split={split!r}; "
            f"there are {_available()}. Other encoders come from source=lightly, source=checkpoint or source=timm."
        )
    files = [wanted(each, cache_folder(cache)) for each in (name, f"data/{dataset}/labels_{split}.npy")]
    fetch_all(f"{encoder} on {dataset}", files, INSTEAD, download=download)
    for file in files:
        file.compare()
    vectors, labels = read_array(files[0].target), np.asarray(read_array(files[1].target))
    check_arrays(vectors, labels, name)
    return Embeddings(vectors, labels, dataset, encoder)


def wanted(name: str, cache: Path) -> Wanted:
    """Address and place of a published file."""
    url = f"{HOST}/{facts()['repository']}/{facts()['commit']}/{name}"
    target = cache / "published" / facts()["commit"][:12] / name
    rows = 50_000 if name.endswith("_train.npy") else 10_000
    size = rows * (8 if "labels" in name else 512 * 4)  # int64, and 512 numbers of float32
    return Wanted(url, target, Hash("git blob", facts()["git_blob_sha1"][name]), size)


def _available() -> str:
    parts = [Path(name).parts[1:] for name in facts()["git_blob_sha1"]]
    encoders = sorted({file.split("_")[1] for _, file in parts if file.startswith("embeddings_")})
    return f"{', '.join(encoders)} on {' and '.join(sorted({data for data, _ in parts}))}, train and test"
