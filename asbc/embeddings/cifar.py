"""CIFAR's images: whether they are there, and what to get where if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torchvision

from asbc.embeddings.cache import writing_to
from asbc.embeddings.download import Hash, Wanted

_CLASSES = {"cifar10": "CIFAR10", "cifar100": "CIFAR100"}
_SIZES = {"cifar10": 170_498_071, "cifar100": 169_001_437}  # of the archives, in bytes

CIFAR = tuple(_CLASSES)


def open_cifar(name: str, root: Path, train: bool) -> Any:
    """The data set as torchvision reads it, or None if its files are missing or damaged."""
    try:
        return cifar_class(name)(root, train=train)
    except RuntimeError:  # torchvision's word for files that are missing or do not have their md5 sum
        return None


def cifar_class(name: str) -> Any:
    """torchvision's class."""
    return getattr(torchvision.datasets, _CLASSES[name])


def cifar_archive(name: str, root: Path) -> Wanted:
    """The archive to download, and where it is looked for."""
    kind = cifar_class(name)
    return Wanted(kind.url, root / kind.filename, Hash("MD5", kind.tgz_md5), _SIZES[name])


def unpack_cifar(name: str, root: Path) -> None:
    """Unpack the archive, which must be there."""
    archive = cifar_archive(name, root)
    assert archive.hash is not None
    found = archive.hash.of(archive.target)
    if found != archive.hash.value:
        raise ValueError(
            f"{archive.target}: not the published archive (its MD5 hash is {found}, wanted is {archive.hash.value}). "
            f"Remove it to download it again from {archive.url}."
        )
    with writing_to(root):
        cifar_class(name)(root, download=True)  # finds the archive, and so asks the network for nothing
