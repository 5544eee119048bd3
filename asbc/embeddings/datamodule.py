"""The images to embed, in batches that know which rows they are."""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
import torchvision
from filelock import FileLock
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asbc.embeddings.arrays import fingerprint
from asbc.embeddings.cache import cache_folder, writing_to
from asbc.embeddings.cifar import CIFAR, cifar_archive, open_cifar, unpack_cifar
from asbc.embeddings.describe import describe
from asbc.embeddings.download import Wanted
from asbc.embeddings.missing import fetch_all


class Batch(NamedTuple):
    """Rows of the data set with their images and labels."""

    rows: Tensor  # (b,) int64
    images: Tensor  # (b, 3, h, w)
    labels: Tensor  # (b,) int64, or (0,) where the data set has none


class EmbeddingDataModule(lightning.LightningDataModule):
    """Images of one data set, for `Trainer.predict`.

    Parameters
    ----------
    dataset : str or torch Dataset, default="cifar100"
        ``"cifar10"`` or ``"cifar100"`` (through torchvision), ``"imagefolder"``, or any map-style data set
        that gives images or (image, label) pairs. PIL images and uint8 arrays of shape (h, w, 3) go through
        ``transform``; float tensors of shape (3, h, w) are taken as ready.
    split : {"train", "test"}, default="test"
        Of CIFAR. For an image folder, the sub-folder of ``root`` with that name, where there is one.
    root : path, optional
        Where the images are; CIFAR's default is the cache folder.
    transform : callable, optional
        A PIL image to a tensor.
    image_size : tuple of int, optional
        The (h, w) that tensors must have.
    batch_size : int, default=256
        Images in one pass through the encoder.
    num_workers : int, default=0
        Processes that read images, as in a DataLoader.
    download : bool, default=True
        Whether CIFAR may be downloaded.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    """

    def __init__(
        self,
        dataset: str | Dataset = "cifar100",
        split: str = "test",
        root: str | os.PathLike | None = None,
        transform: Callable[[Any], Tensor] | None = None,
        image_size: tuple[int, int] | None = None,
        batch_size: int = 256,
        num_workers: int = 0,
        download: bool = True,
        cache: str | os.PathLike | None = None,
    ) -> None:
        super().__init__()
        if isinstance(dataset, str) and dataset not in (*CIFAR, "imagefolder"):
            raise ValueError(
                f"dataset={dataset!r}: wanted is cifar10, cifar100, imagefolder or a Dataset by its _target_"
            )
        if dataset == "imagefolder" and not root:
            raise ValueError("root: the folder of images is wanted for dataset=imagefolder")
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size}: 1 or more is wanted")
        self.source, self.split, self.download = dataset, split, download
        self.cifar = dataset if isinstance(dataset, str) and dataset in CIFAR else None
        if self.cifar and split not in ("train", "test"):
            raise ValueError(f"split={split!r}: wanted is train or test")
        self.root = Path(root).expanduser() if root else cache_folder(cache) / "images"
        self.transform, self.image_size = transform, image_size
        self.batch_size, self.num_workers = batch_size, num_workers
        self.dataset: Any = None
        self.rows: NDArray | None = None

    def wanted(self) -> list[Wanted]:
        """What has to be downloaded before the images are there."""
        if self.cifar is None or self.dataset is not None:
            return []
        self.dataset = open_cifar(self.cifar, self.root, self.split == "train")
        return [] if self.dataset is not None else [cifar_archive(self.cifar, self.root)]

    def prepare_data(self) -> None:
        files = self.wanted()
        if not files or self.cifar is None:
            return
        with writing_to(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / f".{self.cifar}.lock"):
                if not self.wanted():
                    return
                instead = "root=<folder> names a place where the images are, and other images would do as well."
                fetch_all(self.cifar, files, instead, download=self.download)
                unpack_cifar(self.cifar, self.root)

    def setup(self, stage: str | None = None) -> None:
        if self.dataset is not None:
            return
        if self.cifar is not None:
            self.dataset = open_cifar(self.cifar, self.root, self.split == "train")
        elif self.source == "imagefolder":
            folder = self.root / self.split if (self.root / self.split).is_dir() else self.root
            if not folder.is_dir():
                raise FileNotFoundError(f"root: no folder {folder}")
            self.dataset = torchvision.datasets.ImageFolder(folder)
        else:
            self.dataset = self.source
        if len(self.dataset) == 0:
            raise ValueError("dataset: there are no images in it")

    def predict_dataloader(self) -> DataLoader:
        """Batches of `rows` (all of them unless set); each process of a distributed job takes its share."""
        rows = np.arange(len(self.dataset)) if self.rows is None else self.rows
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        batches = [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]
        # No sampler shares them out: a sampler would pad, and refuses fewer batches than processes.
        return DataLoader(
            _Batches(self.dataset, self.transform, self.image_size, batches[rank::world]),
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
            persistent_workers=False,
        )

    def batch(self, rows: NDArray) -> Batch:
        """The images and labels of ``rows``."""
        return _Batches(self.dataset, self.transform, self.image_size, [rows])[0]

    def content_hash(self) -> str:
        """Tells this data set from any other: of its ``fingerprint`` if it has one, else of its contents."""
        data = self.dataset
        given = getattr(data, "fingerprint", None)
        if given is not None:
            return hashlib.sha256(str(given).encode()).hexdigest()
        digest = hashlib.sha256()
        # Short cuts only for classes that are known: others may do anything to what they hold.
        own = [getattr(data, name, None) for name in ("transform", "target_transform")]
        if any(transform is not None for transform in own):
            digest.update(describe(own).encode())
        if type(data) in (torchvision.datasets.CIFAR10, torchvision.datasets.CIFAR100):
            digest.update(fingerprint(data.data, np.asarray(data.targets)).encode())
            return digest.hexdigest()
        if type(data) is torchvision.datasets.ImageFolder:
            digest.update(describe(data.loader).encode())
            for file, label in data.samples:  # by size and time: reading every image would cost an epoch
                stat = os.stat(file)
                name = os.path.relpath(file, data.root)
                digest.update(f"{name} {label} {stat.st_size} {stat.st_mtime_ns};".encode())
            return digest.hexdigest()
        digest = hashlib.sha256()  # what it gives says all, its transforms included
        for row in range(len(data)):
            image, label = read_image(data, row)
            digest.update(f"{label} ".encode() + fingerprint(np.asarray(image)).encode())
        return digest.hexdigest()


class _Batches(Dataset):
    """A data set whose items are whole batches, so that a batch is one run of rows."""

    def __init__(
        self,
        dataset: Any,
        transform: Callable[[Any], Tensor] | None,
        image_size: tuple[int, int] | None,
        batches: list[NDArray],
    ) -> None:
        self.dataset, self.transform, self.image_size, self.batches = dataset, transform, image_size, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        rows = self.batches[index]
        images, labels = zip(*(self._item(int(row)) for row in rows), strict=True)
        known = [label for label in labels if label is not None]
        return Batch(torch.as_tensor(rows), torch.stack(images), torch.as_tensor(known, dtype=torch.int64))

    def _item(self, row: int) -> tuple[Tensor, int | None]:
        image, label = read_image(self.dataset, row)
        if isinstance(image, np.ndarray) and image.dtype == np.uint8:
            image = Image.fromarray(image)
        if not isinstance(image, Tensor):
            if self.transform is None:
                raise ValueError("transform: one is wanted, for the data set gives images that are not tensors")
            image = self.transform(image)
        wanted = (3, *(self.image_size or image.shape[-2:]))
        if not image.is_floating_point() or tuple(image.shape) != wanted:
            raise ValueError(
                f"image {row} of the data set: a float tensor of shape {wanted} is what the encoder wants, "
                f"got {image.dtype} {tuple(image.shape)}"
            )
        return image, None if label is None else int(label)


def read_image(dataset: Any, row: int) -> tuple[Any, Any]:
    """Image, in colours, and label of one row; one that cannot be read is named with its file."""
    try:
        image, label = _pair(dataset[row])
        return (image.convert("RGB") if isinstance(image, Image.Image) else image), label
    except (OSError, SyntaxError, ValueError, zlib.error, struct.error, Image.DecompressionBombError) as error:
        samples = getattr(dataset, "samples", None)
        file = f" ({samples[row][0]})" if isinstance(samples, list) and row < len(samples) else ""
        raise ValueError(f"image {row} of the data set{file} cannot be read: {error}") from error


def _pair(item: Any) -> tuple[Any, Any]:
    """Image and label of what a data set gives, the label None where it gives an image alone."""
    if isinstance(item, (tuple, list)):
        return item[0], item[1] if len(item) > 1 else None
    return item, None
