"""Training images: arrays from files, and augmented batches.

Order and augmentation of a batch depend only on seed, epoch and batch number, so a run that was killed in mid-epoch
resumes with the batches that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asbc.embeddings.datamodule import read_image
from asbc.embeddings.formats import npz_contents
from asbc.embeddings.store import fingerprint

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
        arrays = npz_contents(file, str(file))
        images, labels = arrays.get("images"), arrays.get("labels") if "labels" in arrays.names else None
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
            raise ValueError(f"{file}: images must be uint8 (n, h, w, 3), got {images.dtype} {images.shape}")
        if labels is not None and (labels.shape != images.shape[:1] or labels.dtype.kind not in "iu"):
            raise ValueError(
                f"{file}: labels must be {len(images)} integers, got {labels.dtype} of shape {labels.shape}"
            )
        self.images: NDArray[np.uint8] = images
        self.labels: NDArray[np.int64] | None = None if labels is None else labels.astype(np.int64)

    @property
    def fingerprint(self) -> str:
        """Hash of the contents, for the store of embeddings."""
        return fingerprint(self.images, *([] if self.labels is None else [self.labels]))

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


class TrainingBatches:
    """The batches of an epoch: lists of views, each of shape (b, 3, h, w), for one process.

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
    rank, world : int
        Number of this process, and of how many.
    """

    def __init__(
        self,
        images: Any,
        views: Views,
        batch_size: int,
        seed: int,
        together: int = 1,
        num_workers: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.images, self.views, self.batch_size, self.seed = images, views, batch_size, seed
        self.together, self.num_workers, self.rank, self.world = together, num_workers, rank, world
        self.epoch, self.done = 0, 0
        self.sampler = self  # Lightning calls its set_epoch

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.done = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Return the position in the epoch, for a checkpoint."""
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.done = state["epoch"], state["done"]

    def __len__(self) -> int:
        return len(self.images) // (self.batch_size * self.world)

    def rows(self, epoch: int) -> NDArray[np.int64]:
        """Return the rows of this process's batches, (batches, batch_size)."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.images))
        return order[: len(self) * self.batch_size * self.world].reshape(len(self), self.world, -1)[:, self.rank]

    def __iter__(self) -> Iterator[list[Tensor]]:
        # A generator: nothing runs before the first batch is requested, when the epoch is known.
        if self.done >= len(self):
            self.done = 0
        loader = DataLoader(
            _AugmentedBatches(self, self.epoch, self.done),
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # keeps the global generator untouched
        )
        for views in loader:
            self.done += 1
            yield views


class TrainingData(lightning.LightningDataModule):
    """Training batches for each process of a trainer; the parameters are those of `TrainingBatches`."""

    def __init__(
        self, images: Any, views: Views, batch_size: int, seed: int, together: int = 1, num_workers: int = 0
    ) -> None:
        super().__init__()
        self.arguments = (images, views, batch_size, seed, together, num_workers)
        self.batches: TrainingBatches | None = None
        self.state: dict[str, int] = {}

    def train_dataloader(self) -> TrainingBatches:
        assert self.trainer is not None
        rank, world = self.trainer.global_rank, self.trainer.world_size
        self.batches = TrainingBatches(*self.arguments, rank=rank, world=world)
        if self.state:
            self.batches.load_state_dict(self.state)
        return self.batches

    # Lightning restores a loader's state only if the loader is created after the checkpoint is read, which a schedule
    # by steps prevents. So the data module keeps the position, too.

    def state_dict(self) -> dict[str, int]:
        return {} if self.batches is None else self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.state = state_dict
        if self.batches is not None:
            self.batches.load_state_dict(state_dict)


class _AugmentedBatches(Dataset):
    """The batches of an epoch as items, from number `first` on."""

    def __init__(self, plan: TrainingBatches, epoch: int, first: int) -> None:
        self.plan, self.epoch, self.first = plan, epoch, first
        self.rows = plan.rows(epoch)

    def __len__(self) -> int:
        return len(self.rows) - self.first

    def __getitem__(self, number: int) -> list[Tensor]:
        plan, at = self.plan, self.first + number
        if number >= len(self):
            raise IndexError(number)
        seeds = np.random.SeedSequence([plan.seed, self.epoch, at, plan.rank]).generate_state(2)
        before = np.random.get_state()  # noqa: NPY002
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seeds[0]))
            np.random.seed(seeds[1])  # noqa: NPY002 - lightly's blur uses the global generator
            try:
                augmented = [plan.views(item) for item in self._items(self.rows[at])]
            finally:
                np.random.set_state(before)  # noqa: NPY002
        join = torch.cat if plan.together > 1 else torch.stack
        return [join(list(view)) for view in zip(*augmented, strict=True)]

    def _items(self, rows: NDArray[np.int64]) -> Iterator[Any]:
        plan = self.plan
        images = (read_image(plan.images, int(row))[0] for row in rows)
        if plan.together == 1:
            for image in images:
                yield Image.fromarray(image) if isinstance(image, np.ndarray) else image
            return
        arrays = [np.asarray(image) for image in images]
        sizes = {array.shape for array in arrays}
        if len(sizes) > 1:
            raise ValueError(
                f"together={plan.together}: images that are augmented together must have one size, "
                f"got {', '.join(map(str, sorted(sizes)[:3]))}; together=1 takes any"
            )
        tensor = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()
        yield from tensor.split(plan.together)


def drop_idle_steps(views: Any) -> Any:
    """Remove the steps of lightly's transforms that have probability 0, which take as much time as the others.

    A ``MultiViewTransform`` is changed in place; other callables are returned unchanged.
    """
    for view in getattr(views, "transforms", []):
        steps: Any = getattr(view, "transform", None)
        if hasattr(steps, "transforms"):
            steps.transforms = [s for s in steps.transforms if 0 not in (getattr(s, "p", 1), getattr(s, "prob", 1))]
    return views
