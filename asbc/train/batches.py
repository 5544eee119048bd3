"""Batches of augmented images whose order and whose chance follow from seed, epoch and number alone.

A run that was killed in mid-epoch therefore goes on with the very batches that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lightning
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from asbc.embeddings.datamodule import read_image

Views = Callable[[Any], Sequence[Tensor]]


class TrainingBatches:
    """What a trainer goes through in an epoch: lists of views, each of shape (b, 3, h, w), on this process's share.

    Parameters
    ----------
    images : Dataset
        Map-style; gives PIL images or uint8 arrays (h, w, 3), alone or with a label, which is not looked at.
    views : callable
        An image to its views, such as one of lightly's transforms.
    batch_size : int
        Images per step on this process. A last batch that is not full is left out, so that no loss sees a small one.
    seed : int
        Order and augmentation follow from it.
    together : int, default=1
        So many images of a batch share one draw of the augmentation. More than 1 is several times as fast on a CPU,
        for images of one size and augmentations that work on tensors (lightly's blur does not).
    num_workers : int, default=0
        Processes that read and augment. The batches do not depend on it.
    rank, world : int
        The share of this process, and of how many.
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
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        """Lightning says here which epoch begins."""
        if epoch != self.epoch:
            self.epoch, self.done = epoch, 0

    def state_dict(self) -> dict[str, int]:
        """Which batch comes next, for a checkpoint in mid-epoch."""
        return {"epoch": self.epoch, "done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.done = state["epoch"], state["done"]

    def __len__(self) -> int:
        return len(self.images) // (self.batch_size * self.world)

    def rows(self, epoch: int) -> NDArray[np.int64]:
        """Rows of this process's batches, (batches, batch_size)."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.images))
        return order[: len(self) * self.batch_size * self.world].reshape(len(self), self.world, -1)[:, self.rank]

    def __iter__(self) -> Iterator[list[Tensor]]:
        # A generator: nothing of this runs before the first batch is asked for, when the epoch is known.
        if self.done >= len(self):
            self.done = 0
        first, epoch = self.done, self.epoch
        batches = _Augmented(self, epoch, first)
        loader = DataLoader(
            batches,
            batch_size=None,
            num_workers=self.num_workers,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator(),  # else it would draw from the one that all share
        )
        for views in loader:
            self.done += 1
            yield views


class TrainingData(lightning.LightningDataModule):
    """Batches for each process of a trainer.

    Parameters
    ----------
    images, views, batch_size, seed, together, num_workers
        See `TrainingBatches`.
    """

    def __init__(
        self, images: Any, views: Views, batch_size: int, seed: int, together: int = 1, num_workers: int = 0
    ) -> None:
        super().__init__()
        self.arguments = (images, views, batch_size, seed, together, num_workers)
        self.batches: TrainingBatches | None = None
        self.state: dict[str, int] = {}

    def train_dataloader(self) -> TrainingBatches:
        # Asked for in the processes that train, which know their numbers by then.
        assert self.trainer is not None
        rank, world = self.trainer.global_rank, self.trainer.world_size
        self.batches = TrainingBatches(*self.arguments, rank=rank, world=world)
        if self.state:
            self.batches.load_state_dict(self.state)
        return self.batches

    # The place in the epoch is kept here as well as by the loader: Lightning asks a loader for it, but hands it back
    # only to one that was made after the checkpoint was read, and a schedule by steps has the loader made before.

    def state_dict(self) -> dict[str, int]:
        return {} if self.batches is None else self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        self.state = state_dict
        if self.batches is not None:
            self.batches.load_state_dict(state_dict)


class _Augmented(Dataset):
    """Whole batches as items: number i of an epoch, from `first` on."""

    def __init__(self, plan: TrainingBatches, epoch: int, first: int) -> None:
        self.plan, self.epoch, self.first = plan, epoch, first
        self.rows = plan.rows(epoch)

    def __len__(self) -> int:
        return len(self.rows) - self.first

    def __getitem__(self, number: int) -> list[Tensor]:
        plan, at = self.plan, self.first + number
        if number >= len(self):
            raise IndexError(number)
        chance = np.random.SeedSequence([plan.seed, self.epoch, at, plan.rank]).generate_state(2)
        before = np.random.get_state()  # noqa: NPY002
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(chance[0]))
            np.random.seed(chance[1])  # noqa: NPY002 - which lightly's blur draws from
            try:
                parts = [plan.views(item) for item in self._items(self.rows[at])]
            finally:
                np.random.set_state(before)  # noqa: NPY002
        join = torch.cat if plan.together > 1 else torch.stack
        return [join(list(part)) for part in zip(*parts, strict=True)]

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
                f"together={plan.together}: images that are augmented together must have one size; "
                f"got {', '.join(map(str, sorted(sizes)[:3]))}. together=1 takes any"
            )
        tensor = torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).contiguous()
        yield from tensor.split(plan.together)
