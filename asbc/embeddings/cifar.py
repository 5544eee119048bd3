"""CIFAR's images: whether they are there, and what to get where if not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from asbc.embeddings.cache import writing_to
from asbc.embeddings.download import Hash, Wanted


class Archive(NamedTuple):
    """What torchvision knows of a data set and would take seconds to tell, and the archive's size."""

    kind: str
    url: str
    md5: str
    size: int
    folder: str


ARCHIVES = {
    "cifar10": Archive(
        "CIFAR10",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "c58f30108f718f92721af3b95e74349a",
        170_498_071,
        "cifar-10-batches-py",
    ),
    "cifar100": Archive(
        "CIFAR100",
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "eb9058c3a382ffc7106e4002c42a8d85",
        169_001_437,
        "cifar-100-python",
    ),
}
CIFAR = tuple(ARCHIVES)


def open_cifar(name: str, root: Path, train: bool) -> Any:
    """The data set as torchvision reads it, or None if its files are missing or damaged."""
    try:
        return cifar_class(name)(root, train=train)
    except RuntimeError:  # torchvision's word for files that are missing or do not have their md5 sum
        return None


def cifar_class(name: str) -> Any:
    """torchvision's class."""
    import torchvision

    return getattr(torchvision.datasets, ARCHIVES[name].kind)


def cifar_archive(name: str, root: Path) -> Wanted:
    """The archive to download, and where it is looked for."""
    archive = ARCHIVES[name]
    return Wanted(archive.url, root / archive.url.rsplit("/", 1)[1], Hash("MD5", archive.md5), archive.size)


def cifar_folder(name: str, root: Path) -> Path:
    """Where the archive is unpacked."""
    return root / ARCHIVES[name].folder


def unpack_cifar(name: str, root: Path) -> None:
    """Unpack the archive, which must be there."""
    cifar_archive(name, root).compare()
    with writing_to(root):
        cifar_class(name)(root, download=True)  # finds the archive, and so asks the network for nothing
