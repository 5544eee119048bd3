"""Encoders that lightly's ImageNet benchmark publishes: six methods with a ResNet-50, and DINO with a ViT-S/16.

``lightly.json`` has their addresses, layouts and accuracies. Sizes and hashes are not published: the SHA-256 of a
file is remembered at its first use, in a file beside it, and compared ever after.
"""

from __future__ import annotations

import json
import logging
import os
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from asbc.embeddings.cache import cache_folder
from asbc.embeddings.download import Wanted, file_hash
from asbc.embeddings.missing import fetch_all
from asbc.files import write_whole

if TYPE_CHECKING:  # torch takes seconds to import, and an address does without it
    from asbc.embeddings.types import Encoder

log = logging.getLogger(__name__)

INSTEAD = (
    "embedding.source=published has ready vectors of CIFAR from solo-learn's ResNet-18, embedding.source=checkpoint "
    "reads a checkpoint of yours (embedding.path=...), embedding.source=timm a model of timm, and embedding=clinc100 "
    "needs no file at all."
)


@cache
def facts() -> dict[str, Any]:
    """Origin, layout, and for every encoder its address, backbone and accuracies."""
    return json.loads(resources.files("asbc.embeddings").joinpath("lightly.json").read_text())


def lightly_weights(encoder: str, cache: str | os.PathLike | None = None) -> Wanted:
    """The file of weights of one encoder: its address, and its place in the cache.

    Parameters
    ----------
    encoder : str
        Such as ``"simclr"``; an unknown one is answered with the list of those there are.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    """
    encoders = facts()["encoders"]
    if encoder not in encoders:
        raise ValueError(f"lightly publishes no weights of encoder={encoder!r}; there are {', '.join(encoders)}")
    url = encoders[encoder]["url"]
    target = cache_folder(cache) / "lightly" / encoder / unquote(url.rsplit("/", 1)[1])
    return Wanted(url, target, looks_wrong=_no_checkpoint)


def lightly_encoder(encoder: str, cache: str | os.PathLike | None = None, download: bool = True) -> Encoder:
    """One of lightly's encoders, its weights downloaded on first use.

    Images are resized to 256, cropped to the 224 in the middle, and normalised by ImageNet's mean and deviation.
    A ResNet-50 gives 2048 features, the ViT-S/16 the 384 of its class token after the final norm. DINO's weights are
    the teacher's.

    Parameters
    ----------
    encoder : str
        Such as ``"simclr"``.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    download : bool, default=True
        Whether the weights may be downloaded.
    """
    from asbc.embeddings.checkpoints import read_checkpoint

    file = lightly_weights(encoder, cache)
    fetch_all(f"{encoder} of lightly", [file], INSTEAD, download=download)
    compare_with_first_use(file)
    made = read_checkpoint(file.target, prefix="backbone.")
    wanted = facts()["encoders"][encoder]["backbone"].partition("_patch")[0]
    if not made.architecture.startswith(f"{wanted},"):
        raise ValueError(f"{file.target}: lightly's {encoder} is a {wanted}, this is a {made.architecture}")
    return made


def compare_with_first_use(file: Wanted) -> None:
    """Remember a file's SHA-256 the first time, and refuse the file when it has another one later."""
    record = file.target.with_name(file.target.name + ".sha256")
    found = file_hash(file.target)
    try:
        known = record.read_text().split()[0]
    except (FileNotFoundError, IndexError):
        try:
            write_whole(record, lambda path: path.write_text(f"{found}  {file.target.name}\n"))
        except OSError as error:  # a shared folder that may only be read
            log.warning("%s: its SHA-256 %s could not be remembered (%s)", file.target, found, error.strerror)
        return
    if found != known:
        raise ValueError(
            f"{file.target}: changed or damaged since its first use (its SHA-256 was {known}, it is {found}). "
            f"Remove it to download it again from {file.url}; if it is meant to be another file, remove {record} too."
        )


def _no_checkpoint(path: Path) -> str | None:
    return None if zipfile.is_zipfile(path) else "what was sent is not a checkpoint (no archive of PyTorch's)"
