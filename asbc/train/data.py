"""Training images: arrays from files, and augmented batches.

Order and augmentation of a batch depend only on seed, epoch and batch number, so a run that was killed in mid-epoch
resumes with the batches that it would have had.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import lightning
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asbc.embeddings.datamodule import read_image
from asbc.embeddings.files import npz_contents

Views = Callable[[Any], Sequence[Tensor]]


class ImageArrays(Dataset):
    """Images of an ``.npz`` file: `images`, uint8 of shape (n, h, w, 3), and optionally `labels`, n integers.

    Parameters
    ----------
    path : str or Path

    See Also
    --------
    held_out_arrays : the same, or None.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from asbc.train import ImageArrays
    >>> file = tempfile.mkdtemp() + "/images.npz"
    >>> np.savez(file, images=np.zeros((4, 32, 32, 3), np.uint8), labels=[0, 1, 0, 1])
    >>> len(ImageArrays(file))
    4
    """

    def __init__(self, path: str | Path) -> None:
        file = Path(path).expanduser()
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file")
        arrays = npz_contents(file)
        images, labels = arrays.read("images"), arrays.read("labels") if "labels" in arrays.names else None
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
            raise ValueError(f"{file}: images must be uint8 (n, h, w, 3), got {images.dtype} {images.shape}")
        if labels is not None and (labels.shape != images.shape[:1] or labels.dtype.kind not in "iu"):
            raise ValueError(f"{file}: labels must be {len(images)} integers, got {labels.dtype} {labels.shape}")
        self.images: NDArray[np.uint8] = images
        self.labels: NDArray[np.int64] | None = None if labels is None else labels.astype(np.int64)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> Any:
        return self.images[row] if self.labels is None else (self.images[row], int(self.labels[row]))


def held_out_arrays(path: str | None = None) -> ImageArrays | None:
    """Return the images of an ``.npz`` file for probes, or None without a path.

    Examples
    --------
    >>> from asbc.train import held_out_arrays
    >>> held_out_arrays(None) is None
    True
    """
    return None if path is None else ImageArrays(path)


class TrainingData(lightning.LightningDataModule):
    """Augmented batches for each process of a trainer: lists of views, each of shape (b, 3, h, w).

    Parameters
    ----------
    images : Dataset
        Map-style; returns PIL images or uint8 arrays (h, w, 3), with or without a label.
    views : callable
        Maps an image to its views, such as one of lightly's transforms.
    batch_size : int
        Images per step on this process. An incomplete last batch is dropped.
    seed : int
        Determines order and augmentation.
    together : int, default=1
        Number of images that share one draw of the augmentation. More than 1 is several times as fast on a CPU, for
        images of one size and augmentations of tensors (lightly's blur is not one).
    num_workers : int, default=0
        Processes that read and augment. The batches do not depend on it.
    """

    def __init__(
        self, images: Any, views: Views, batch_size: int, seed: int, together: int = 1, num_workers: int = 0
    ) -> None:
        super().__init__()
        self.images, self.views, self.batch_size, self.seed = images, views, batch_size, seed
        self.together, self.num_workers = together, num_workers

    def train_dataloader(self) -> _Epoch:
        return _Epoch(self)

    def batches(self, epoch: int, first: int = 0, rank: int = 0, world: int = 1) -> DataLoader:
        """Return the batches of process `rank` of `world` in an epoch, from number `first` on."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.images))
        count = len(order) // (self.batch_size * world)
        rows = order[: count * self.batch_size * world].reshape(count, world, self.batch_size)[:, rank]
        seeds = [np.random.SeedSequence([self.seed, epoch, at, rank]).generate_state(2) for at in range(count)]
        return DataLoader(
            _AugmentedBatches(self, rows[first:], seeds[first:]),
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # keeps the global generator untouched
        )


class _Epoch:
    """The batches that the epoch of a trainer still needs, by the number of finished steps, which a checkpoint has."""

    def __init__(self, data: TrainingData) -> None:
        self.data, self.trainer = data, cast("lightning.Trainer", data.trainer)

    def __len__(self) -> int:
        return len(self.data.images) // (self.data.batch_size * self.trainer.world_size)

    def __iter__(self) -> Iterator[list[Tensor]]:
        # A generator: nothing runs before the first batch is requested, when the number of steps is known.
        per_step = self.trainer.accumulate_grad_batches
        epoch, steps = divmod(self.trainer.global_step, math.ceil(self.trainer.num_training_batches / per_step))
        place = self.trainer.global_rank, self.trainer.world_size
        yield from self.data.batches(epoch, steps * per_step, *place)


class _AugmentedBatches(Dataset):
    """Batches as items, each with its own seeds for torch and NumPy."""

    def __init__(self, data: TrainingData, rows: NDArray[np.int64], seeds: Sequence[NDArray]) -> None:
        self.data, self.rows, self.seeds = data, rows, seeds

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> list[Tensor]:
        before = np.random.get_state()  # noqa: NPY002
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self.seeds[number][0]))
            np.random.seed(self.seeds[number][1])  # noqa: NPY002 - lightly's blur uses the global generator
            try:
                augmented = [self.data.views(item) for item in self._items(self.rows[number])]
            finally:
                np.random.set_state(before)  # noqa: NPY002
        join = torch.cat if self.data.together > 1 else torch.stack
        return [join(list(view)) for view in zip(*augmented, strict=True)]

    def _items(self, rows: NDArray[np.int64]) -> Iterable[Any]:
        images = [read_image(self.data.images, int(row))[0] for row in rows]
        if self.data.together == 1:
            return [Image.fromarray(image) if isinstance(image, np.ndarray) else image for image in images]
        arrays = [np.asarray(image) for image in images]
        sizes = {array.shape for array in arrays}
        if len(sizes) > 1:
            found = ", ".join(map(str, sorted(sizes)[:3]))
            raise ValueError(f"together={self.data.together}: images must have one size, got {found}; set together=1")
        return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous().split(self.data.together)


def drop_idle_steps(views: Any) -> Any:
    """Remove the steps of lightly's transforms that have probability 0, which take as much time as the others.

    A ``MultiViewTransform`` is changed in place; other callables are returned unchanged.
    """
    for view in getattr(views, "transforms", []):
        steps: Any = getattr(view, "transform", None)
        if hasattr(steps, "transforms"):
            steps.transforms = [s for s in steps.transforms if 0 not in (getattr(s, "p", 1), getattr(s, "prob", 1))]
    return views
