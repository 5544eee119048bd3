"""Lightning: images for an encoder, the encoder over the images, and stored vectors for a model on top of one."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import lightning
import numpy as np
import torch
import torchvision
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from asbc.embeddings.download import fetch_all
from asbc.embeddings.encoders import Encoder
from asbc.embeddings.files import read_vectors
from asbc.embeddings.store import Embeddings, Entry, RemoteFile, cache_errors, cache_folder, fingerprint
from asbc.learn.labels import encode_partial
from asbc.storage import LockedError, folder_lock
from asbc.version import __version__

log = logging.getLogger(__name__)

CIFAR = {"cifar10": torchvision.datasets.CIFAR10, "cifar100": torchvision.datasets.CIFAR100}
_CIFAR_BYTES = {"cifar10": 170_498_071, "cifar100": 169_001_437}
IRRELEVANT_WARNINGS = (
    "Total length of `DataLoader` across ranks is zero|does not have many workers|treespec, LeafSpec|sync_dist=True|"
    "weight_norm.*deprecated|your dataloader is not resumable"
)
_LIBRARIES = ("torch", "torchvision", "lightning", "timm", "numpy")


class Batch(NamedTuple):
    """Rows of a data set with their images and labels, from `EmbeddingDataModule.predict_dataloader`."""

    rows: Tensor  # (b,) int64
    images: Tensor  # (b, 3, h, w)
    labels: Tensor  # (b,) int64, or (0,) if the data set has none


@dataclass(eq=False, repr=False)
class EmbeddingDataModule(lightning.LightningDataModule):
    """Images of one data set: all of them for `Trainer.predict`, or split for training, validation and testing.

    Parameters
    ----------
    dataset : str or torch Dataset, default="cifar100"
        ``"cifar10"`` or ``"cifar100"`` (through torchvision), ``"imagefolder"``, or any map-style data set of images or
        (image, label) pairs. PIL images and uint8 arrays of shape (h, w, 3) go through `transform`; float tensors of
        shape (3, h, w) are used as they are.
    split : {"train", "test"}, default="test"
        What `predict_dataloader` returns. For an image folder, the sub-folder of `root` with that name, if it exists.
    root : path, default=None
        Folder of the images; CIFAR's default is the cache folder.
    transform : callable, default=None
        Maps a PIL image to a tensor.
    image_size : tuple of int, default=None
        The (h, w) that tensors must have.
    batch_size : int, default=256
    num_workers : int, default=0
        Processes that read images, as in a DataLoader.
    download : bool, default=True
        Whether CIFAR may be downloaded.
    cache : path, default=None
        See `asbc.embeddings.store.cache_folder`.
    train_transform : callable, default=None
        Replaces `transform` in `train_dataloader`, for augmentation.
    test_dataset : torch Dataset, default=None
        Test images, if `dataset` is a torch Dataset.
    val_fraction : float, default=0.1
        Share of the training images that `val_dataloader` returns instead of `train_dataloader`.
    seed : int, default=0
        Selects the validation images.

    See Also
    --------
    VectorDataModule : serves stored vectors.

    Examples
    --------
    >>> import torch
    >>> from asbc.embeddings import EmbeddingDataModule
    >>> images = torch.utils.data.TensorDataset(torch.zeros(20, 3, 8, 8), torch.arange(20) % 2)
    >>> data = EmbeddingDataModule(images, batch_size=6)
    >>> data.setup()
    >>> [len(batch.rows) for batch in data.predict_dataloader()]
    [6, 6, 6, 2]
    >>> x, y = next(iter(data.train_dataloader()))
    >>> x.shape, y.shape
    (torch.Size([6, 3, 8, 8]), torch.Size([6]))
    """

    dataset: Any = "cifar100"  # the images of `split` once `setup` has opened them
    split: str = "test"
    root: str | os.PathLike | None = None
    transform: Callable[[Any], Tensor] | None = None
    image_size: tuple[int, int] | None = None
    batch_size: int = 256
    num_workers: int = 0
    download: bool = True
    cache: str | os.PathLike | None = None
    _: KW_ONLY
    train_transform: Callable[[Any], Tensor] | None = None
    test_dataset: Dataset | None = None
    val_fraction: float = 0.1
    seed: int = 0
    rows = None  # those that predict_dataloader returns; None for all

    def __post_init__(self) -> None:
        super().__init__()
        self.source = self.dataset
        if isinstance(self.source, str) and self.source not in (*CIFAR, "imagefolder"):
            raise ValueError(f"dataset={self.source!r}: expected cifar10, cifar100, imagefolder or a Dataset")
        if self.source == "imagefolder" and not self.root:
            raise ValueError("root: no folder of images given for dataset=imagefolder")
        if self.batch_size < 1:
            raise ValueError(f"batch_size={self.batch_size}: must be at least 1")
        if self.source in CIFAR and self.split not in ("train", "test"):
            raise ValueError(f"split={self.split!r}: expected train or test")
        if not 0 < self.val_fraction < 1:
            raise ValueError(f"val_fraction={self.val_fraction}: must be between 0 and 1")
        self.folder = Path(self.root).expanduser() if self.root else cache_folder(self.cache) / "images"

    def missing_files(self) -> list[RemoteFile]:
        """Return the archive of CIFAR if its images are not in `root`."""
        if not isinstance(self.dataset, str) or self.dataset not in CIFAR:
            return []
        try:
            self.dataset = self._open(self.split)
            return []
        except RuntimeError:  # torchvision's error for files that are missing or damaged
            kind, size = CIFAR[self.source], _CIFAR_BYTES[self.source]
            return [RemoteFile(kind.url, self.folder / kind.filename, f"md5:{kind.tgz_md5}", size)]

    def prepare_data(self) -> None:
        """Download and unpack CIFAR if it is missing."""
        for file in self.missing_files():
            if not file.path.exists():
                instead = "root=<folder> names a folder that has the images, or choose other images."
                fetch_all(self.source, [file], instead, self.download)
            file.verify()
            with cache_errors(self.folder), folder_lock(self.folder, f".{self.source}.lock", timeout=-1):
                CIFAR[self.source](self.folder, self.split == "train", download=True)  # unpacks it

    def setup(self, stage: str | None = None) -> None:
        """Open the images of `split`."""
        if isinstance(self.dataset, str):
            self.dataset = self._open(self.split)
        if len(self.dataset) == 0:
            raise ValueError("dataset: it has no images")

    def _open(self, split: str) -> Any:
        if not isinstance(self.source, str):
            return self.source
        if self.source in CIFAR:
            return CIFAR[self.source](self.folder, train=split == "train")
        folder = self.folder / split if (self.folder / split).is_dir() else self.folder
        if not folder.is_dir():
            raise FileNotFoundError(f"root: no folder {folder}")
        return torchvision.datasets.ImageFolder(folder)

    def predict_dataloader(self) -> DataLoader:
        """Return a `Batch` for every `batch_size` rows; each process of a distributed job gets its share."""
        rows = np.arange(len(self.dataset)) if self.rows is None else self.rows
        rank, world = (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
        runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)  # the rows of a batch are consecutive
        batches = [run[at : at + self.batch_size] for run in runs for at in range(0, len(run), self.batch_size)]
        # No sampler distributes them: it would pad, and it refuses fewer batches than processes.
        return DataLoader(
            _Batches(PreparedImages(self.dataset, self.transform, self.image_size), batches[rank::world]),
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
        )

    def train_dataloader(self) -> DataLoader:
        """Return shuffled (images, labels) batches of the training images."""
        return self._loader(self._split()[0], self.train_transform or self.transform, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        """Return (images, labels) batches of the held-out share of the training images."""
        return self._loader(self._split()[1], self.transform)

    def test_dataloader(self) -> DataLoader:
        """Return (images, labels) batches of the test images."""
        images = self._open("test") if isinstance(self.source, str) else self.test_dataset
        if images is None or (self.source == "imagefolder" and not (self.folder / "test").is_dir()):
            raise ValueError("no test images: give test_dataset, or a folder `test` next to `train` in root")
        return self._loader(images, self.transform)

    def _split(self) -> list[Subset]:
        images = self._open("train")
        order = np.random.default_rng(self.seed).permutation(len(images))
        held_out = max(1, round(self.val_fraction * len(images)))
        return [Subset(images, rows.tolist()) for rows in (np.sort(order[held_out:]), np.sort(order[:held_out]))]

    def _loader(self, images: Any, transform: Any, shuffle: bool = False) -> DataLoader:
        pairs = PreparedImages(images, transform, self.image_size, labeled=True)
        pin = torch.cuda.is_available()
        return DataLoader(pairs, self.batch_size, shuffle, num_workers=self.num_workers, pin_memory=pin)

    def content_hash(self) -> str:
        """Return a hash of the data set's attribute ``fingerprint`` if it has one, else of its contents."""
        data, digest = self.dataset, hashlib.sha256()
        if getattr(data, "fingerprint", None) is not None:
            digest.update(str(data.fingerprint).encode())
        elif self.source == "imagefolder":
            for file, label in data.samples:  # by size and time: reading every image would take as long as embedding
                stat, name = os.stat(file), os.path.relpath(file, data.root)
                digest.update(f"{name} {label} {stat.st_size} {stat.st_mtime_ns};".encode())
        else:
            for row in range(len(data)):
                image, label = read_image(data, row)
                digest.update(f"{label} ".encode() + fingerprint(np.asarray(image)).encode())
        return digest.hexdigest()

    def prepared_hash(self, images: int = 8) -> str:
        """Return a hash of a few images after `transform`, which shows differences that its description does not."""
        prepared = PreparedImages(self.dataset, self.transform, self.image_size)
        rows = np.unique(np.linspace(0, len(self.dataset) - 1, images).astype(np.int64))
        return fingerprint(np.stack([prepared[row][0].numpy() for row in rows.tolist()]))


class VectorDataModule(lightning.LightningDataModule):
    """Stored vectors and labels, split for training, validation and testing.

    Parameters
    ----------
    vectors : Embeddings, path or array of shape (n, d)
        What a source's ``load()`` returns, a file or an entry of the store (see `asbc.embeddings.files.read_vectors`),
        or an array.
    labels : array-like of shape (n,), default=None
        Replaces the labels that belong to `vectors`. Unlabelled rows are only in `predict_dataloader`.
    batch_size : int, default=256
    val_fraction, test_fraction : float, default=0.1 and 0.2
        Shares of the labelled rows.
    seed : int, default=0
        Selects the rows of each split.

    Attributes
    ----------
    classes : ndarray
        The label of each class code.
    num_features : int

    See Also
    --------
    EmbeddingDataModule : serves images.

    Examples
    --------
    >>> from asbc.embeddings import Digits, VectorDataModule
    >>> data = VectorDataModule(Digits().load(), batch_size=500)
    >>> data.num_features, len(data.classes), [len(y) for x, y in data.train_dataloader()]
    (64, 10, [500, 500, 258])
    """

    def __init__(
        self,
        vectors: Embeddings | str | os.PathLike | NDArray,
        labels: ArrayLike | None = None,
        batch_size: int = 256,
        val_fraction: float = 0.1,
        test_fraction: float = 0.2,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if min(val_fraction, test_fraction) < 0 or val_fraction + test_fraction >= 1:
            raise ValueError("val_fraction and test_fraction must be at least 0, and their sum below 1")
        if isinstance(vectors, Embeddings):
            array, found = vectors.vectors, vectors.labels
        elif isinstance(vectors, (str, os.PathLike)):
            array, found = read_vectors(vectors)
        else:
            array, found = np.asarray(vectors), None
        codes, self.classes = encode_partial(found if labels is None else labels, len(array))  # type: ignore[arg-type]
        self.vectors, self.targets = torch.from_numpy(np.array(array, np.float32)), torch.from_numpy(codes)
        self.num_features, self.batch_size = self.vectors.shape[1], batch_size
        order = np.random.default_rng(seed).permutation(np.flatnonzero(codes >= 0))
        val, test = round(val_fraction * len(order)), round(test_fraction * len(order))
        self.rows = {"val": order[:val], "test": order[val : val + test], "train": order[val + test :]}

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self._loader("val")

    def test_dataloader(self) -> DataLoader:
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader:
        return DataLoader(TensorDataset(self.vectors, self.targets), self.batch_size)

    def _loader(self, name: str, shuffle: bool = False) -> DataLoader:
        rows = torch.from_numpy(np.sort(self.rows[name]))
        return DataLoader(TensorDataset(self.vectors[rows], self.targets[rows]), self.batch_size, shuffle)


class PreparedImages(Dataset):
    """Checked (image, label) pairs, the image as a float tensor."""

    def __init__(
        self, dataset: Any, transform: Any, image_size: tuple[int, int] | None = None, labeled: bool = False
    ) -> None:
        self.dataset, self.transform, self.image_size, self.labeled = dataset, transform, image_size, labeled

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> tuple[Tensor, Any]:
        image, label = read_image(self.dataset, row)
        if isinstance(image, np.ndarray) and image.dtype == np.uint8:
            image = Image.fromarray(image)
        if not isinstance(image, Tensor):
            if self.transform is None:
                raise ValueError("transform: needed, since the data set returns images that are not tensors")
            image = self.transform(image)
        expected = (3, *(self.image_size or image.shape[-2:]))
        if not image.is_floating_point() or tuple(image.shape) != expected:
            found = f"{image.dtype} {tuple(image.shape)}"
            raise ValueError(f"image {row} of the data set: expected a float tensor of shape {expected}, got {found}")
        if label is None and self.labeled:
            raise ValueError(f"image {row} of the data set has no label, which training needs")
        return image, None if label is None else int(label)


class _Batches(Dataset):
    """A data set whose items are batches of given rows."""

    def __init__(self, images: PreparedImages, batches: list[NDArray]) -> None:
        self.images, self.batches = images, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Batch:
        rows = self.batches[index]
        images, labels = zip(*(self.images[int(row)] for row in rows), strict=True)
        known = [label for label in labels if label is not None]
        return Batch(torch.as_tensor(rows), torch.stack(images), torch.as_tensor(known, dtype=torch.int64))


def read_image(dataset: Any, row: int) -> tuple[Any, Any]:
    """Return image (as RGB) and label of one row; an error names the image's file."""
    try:
        item = dataset[row]
        image, label = (item[0], item[1] if len(item) > 1 else None) if isinstance(item, tuple | list) else (item, None)
        return (image.convert("RGB") if isinstance(image, Image.Image) else image), label
    except Exception as error:  # a damaged image makes Pillow raise almost anything
        samples = getattr(dataset, "samples", None)
        file = f" ({samples[row][0]})" if isinstance(samples, list) and row < len(samples) else ""
        raise ValueError(f"image {row} of the data set{file} cannot be read: {error}") from error


# The encoder over the images


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Suppress Lightning's device list and tips, and warnings of libraries that do not apply."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "pytorch_lightning")]  # its two names
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", f".*({IRRELEVANT_WARNINGS})")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@quiet_lightning()
def embed(
    encoder: Encoder,
    images: EmbeddingDataModule,
    cache: str | os.PathLike | None,
    names: Mapping[str, str],
    trainer: Mapping[str, Any] | None = None,
) -> Path:
    """Return the folder of the embeddings of `images` in a cache; the encoder runs only for rows that are missing.

    `names` (``encoder``, ``source``, ``dataset``, ``split``) go into the manifest, `trainer` to `lightning.Trainer`.
    """
    options = {"accelerator": "auto", "devices": 1, "precision": "32-true", **(trainer or {})}
    images.prepare_data()
    images.setup()
    inputs = {
        "weights_sha256": encoder.weights_hash(),
        "architecture": encoder.architecture,
        "model": _text(encoder.model),
        "normalisation": _text(encoder.transform),
        "images_sha256": images.content_hash(),
        "prepared_sha256": images.prepared_hash(),
        "precision": str(options["precision"]),
    }
    entry = Entry(Entry.key(inputs), cache)
    if entry.finished:
        return entry.folder
    versions = {"asbc": __version__, **{name: version(name) for name in _LIBRARIES}}
    manifest = {**names, **inputs, "origin": encoder.origin, "versions": versions}
    off = ("logger", "enable_checkpointing", "enable_model_summary", "use_distributed_sampler")
    options = {"enable_progress_bar": sys.stderr.isatty(), **options, **dict.fromkeys(off, False)}
    with ExitStack() as lock:
        module = Embedder(encoder.model, entry, manifest, lock)
        try:
            lightning.Trainer(**options).predict(module, datamodule=images, return_predictions=False)
        except ValueError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise ValueError(str(error).strip().rpartition("ValueError: ")[2]) from error  # without torch's traceback
        return module.entry.folder


def _text(value: Any) -> str:
    """Return a description without memory addresses, which differ between processes."""
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", str(value)).split())


class Embedder(lightning.LightningModule):
    """Write the features of every batch, as float32, to the draft of an entry.

    Rank 0 decides which rows are missing, holds the `lock`, and publishes the entry. A batch has the numbers of its
    rows, so the order of the data set holds for any number of processes.
    """

    def __init__(self, model: nn.Module, entry: Entry, manifest: Mapping[str, Any], lock: ExitStack) -> None:
        super().__init__()
        self.model, self.entry, self.manifest, self.lock = model, entry, manifest, lock

    def setup(self, stage: str) -> None:
        images: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        missing, self.done, self.n = np.arange(0), False, len(images.dataset)
        self.entry = self.trainer.strategy.broadcast(self.entry)
        if self.trainer.is_global_zero:
            place = self.entry.folder.parent, f".{self.entry.folder.name}.lock"
            with cache_errors(place[0]):
                try:
                    self.lock.enter_context(folder_lock(*place))
                except LockedError:
                    log.info("another job computes the same embeddings: waiting for it")
                    self.lock.enter_context(folder_lock(*place, timeout=-1))
            self.done = self.entry.finished  # another job may have finished it meanwhile
            missing = missing if self.done else self.entry.missing(self.n)
            if 0 < len(missing) < self.n:
                log.info("resuming: %d of %d rows are done", self.n - len(missing), self.n)
        images.rows = self.trainer.strategy.broadcast(missing)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        n, *shape = batch.images.shape
        try:
            features = self.model(batch.images).float()
        except (RuntimeError, AssertionError, AttributeError) as error:
            raise ValueError(f"the model refuses images of shape {tuple(shape)}: {error}") from error
        if features.ndim != 2 or len(features) != n:
            raise ValueError(f"the model must return features of shape ({n}, d), got {tuple(features.shape)}")
        bad = np.flatnonzero(~features.isfinite().all(dim=1).cpu().numpy())
        if bad.size:
            raise ValueError(
                f"the encoder returned NaN or infinite features for {bad.size} of {n} images, "
                f"the first is image {int(batch.rows[bad[0]])}; nothing was stored"
            )
        self.entry.write(batch.rows.cpu().numpy(), features.cpu().numpy(), batch.labels.cpu().numpy())
        return features

    def teardown(self, stage: str) -> None:
        self.trainer.strategy.barrier("all rows written")
        if self.trainer.is_global_zero and not self.done:
            self.entry.publish(self.n, self.manifest)
        self.trainer.strategy.barrier("entry published")
