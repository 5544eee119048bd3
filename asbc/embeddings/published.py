"""Published vectors of solo-learn's CIFAR encoders, and published weights of lightly's ImageNet benchmark.

``published.json`` has repository, commit and git blob hash of every file of vectors. ``lightly.json`` has addresses and
architectures of the weights; no hash of them is published, so their SHA-256 is recorded at first use.
"""

from __future__ import annotations

import json
import logging
import os
from functools import cache as cached
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from asbc.embeddings.bundled import instead_of
from asbc.embeddings.download import fetch_all
from asbc.embeddings.files import read_array
from asbc.embeddings.store import Embeddings, RemoteFile, cache_folder, check_arrays, file_hash
from asbc.storage import write_atomic

if TYPE_CHECKING:
    from asbc.embeddings.checkpoints import Encoder

log = logging.getLogger(__name__)

HOST = "https://raw.githubusercontent.com"


@cached
def registry(name: str) -> dict[str, Any]:
    """Return the contents of ``published.json`` or ``lightly.json``."""
    return json.loads(resources.files("asbc.embeddings").joinpath(f"{name}.json").read_text())


def published_embeddings(
    encoder: str, dataset: str, split: str, cache: str | os.PathLike | None = None, download: bool = True
) -> Embeddings:
    """Return published vectors and labels, downloaded on first use; the error for an unknown name lists all."""
    name = f"data/{dataset}/embeddings_{encoder}_{split}.npy"
    known = registry("published")["git_blob_sha1"]
    if name not in known:
        stems = [Path(each).stem.split("_") for each in known]
        encoders = sorted({stem[1] for stem in stems if stem[0] == "embeddings"})
        raise ValueError(
            f"no published embeddings of encoder={encoder!r}, dataset={dataset!r}, split={split!r}; there are "
            f"{', '.join(encoders)} on cifar10 and cifar100, train and test. Other encoders: source=lightly, "
            "source=checkpoint or source=timm."
        )
    files = [published_file(each, cache_folder(cache)) for each in (name, f"data/{dataset}/labels_{split}.npy")]
    fetch_all(f"{encoder} on {dataset}", files, instead_of("published"), download=download)
    for file in files:
        file.verify()
    vectors, labels = read_array(files[0].path), np.asarray(read_array(files[1].path))
    check_arrays(vectors, labels, name)
    return Embeddings(vectors, labels, dataset, encoder)


def published_file(name: str, cache: Path) -> RemoteFile:
    """Return address and place of a published file of vectors or labels."""
    facts = registry("published")
    rows = 50_000 if name.endswith("_train.npy") else 10_000
    size = rows * (8 if "labels" in name else 512 * 4)  # int64, or 512 float32
    path = cache / "published" / facts["commit"][:12] / name
    url = f"{HOST}/{facts['repository']}/{facts['commit']}/{name}"
    return RemoteFile(url, path, f"git:{facts['git_blob_sha1'][name]}", size)


def lightly_file(encoder: str, cache: str | os.PathLike | None = None) -> RemoteFile:
    """Return address and place of lightly's weights of one encoder; the error for an unknown one lists all."""
    encoders = registry("lightly")["encoders"]
    if encoder not in encoders:
        raise ValueError(f"lightly publishes no weights of encoder={encoder!r}; there are {', '.join(encoders)}")
    url = encoders[encoder]["url"]
    return RemoteFile(url, cache_folder(cache) / "lightly" / encoder / unquote(url.rsplit("/", 1)[1]))


def lightly_encoder(encoder: str, cache: str | os.PathLike | None = None, download: bool = True) -> Encoder:
    """Return one of lightly's encoders, with weights downloaded on first use.

    A ResNet-50 returns 2048 features; the ViT-S/16 returns the 384 of its class token after the final norm. DINO's
    weights are the teacher's. Images are resized to 256 pixels, cropped to the central 224, and normalised with
    ImageNet's mean and standard deviation.
    """
    from asbc.embeddings.checkpoints import read_checkpoint

    file = lightly_file(encoder, cache)
    fetch_all(f"{encoder} of lightly", [file], instead_of("lightly"), download=download)
    verify_first_use(file)
    found = read_checkpoint(file.path, prefix="backbone.")
    expected = registry("lightly")["encoders"][encoder]["backbone"].partition("_patch")[0]
    if not found.architecture.startswith(f"{expected},"):
        raise ValueError(f"{file.path}: lightly's {encoder} is a {expected}, this is a {found.architecture}")
    return found


def verify_first_use(file: RemoteFile) -> None:
    """Record the SHA-256 of a file next to it at first use, and refuse the file if it changes later."""
    record = file.path.with_name(file.path.name + ".sha256")
    found = file_hash(file.path)
    try:
        expected = record.read_text().split()[0]
    except (FileNotFoundError, IndexError):
        try:
            write_atomic(record, f"{found}  {file.path.name}\n")
        except OSError as error:  # a shared folder that is read-only
            log.warning("%s: its SHA-256 %s could not be recorded (%s)", file.path, found, error.strerror)
        return
    if found != expected:
        raise ValueError(
            f"{file.path}: changed or damaged since its first use (its SHA-256 was {expected}, it is {found}). "
            f"Remove it to download it again; if it is meant to be another file, remove {record} too."
        )
