"""The Lightning module and callback that write an encoder's features to the store, on one device or many."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import lightning
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor, nn

from asbc.embeddings.datamodule import Batch
from asbc.embeddings.store import Store, cache_errors
from asbc.storage import LockedError, folder_lock

log = logging.getLogger(__name__)


class Embedder(lightning.LightningModule):
    """Return the features of a batch of images, as float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).float()

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self(batch.images)


class EmbeddingWriter(BasePredictionWriter):
    """Write every batch to its rows of a draft; rank 0 decides which rows are missing and publishes the entry.

    A batch has the numbers of its rows, so the order of the data set holds for any number of processes.
    """

    def __init__(self, store: Store, key: str, shape: tuple[int, int], labeled: bool, manifest: Mapping[str, Any]):
        super().__init__(write_interval="batch")
        self.store, self.key, self.shape, self.labeled, self.manifest = store, key, shape, labeled, manifest
        self.draft = store.draft(key)
        self._lock: Any = nullcontext()
        self._done = False

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        missing = None
        if trainer.is_global_zero:
            with cache_errors(self.store.folder):
                self._lock = self._acquire()
            missing = np.arange(0)
            self._done = self.store.find(self.key) is not None  # another job may have finished it meanwhile
            if not self._done:
                self.draft.create(*self.shape, self.labeled)
                missing = self.draft.missing()
                if len(missing) < self.shape[0]:
                    log.info("resuming: %d of %d rows are done", self.shape[0] - len(missing), self.shape[0])
        trainer.datamodule.rows = trainer.strategy.broadcast(missing)  # type: ignore[attr-defined]

    def _acquire(self) -> Any:
        for timeout in (0.0, -1.0):
            lock = folder_lock(self.store.folder, f".{self.key}.lock", timeout=timeout)
            try:
                lock.__enter__()
                return lock
            except LockedError:
                log.info("another job computes the same embeddings: waiting for it")
        raise AssertionError("unreachable")

    def write_on_batch_end(
        self, trainer, pl_module, prediction, batch_indices, batch, batch_idx, dataloader_idx
    ) -> None:
        rows, vectors = batch.rows.cpu().numpy(), prediction.cpu().numpy()
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if bad.size:
            raise ValueError(
                f"the encoder returned NaN or infinite features for {bad.size} of {len(rows)} images, "
                f"the first is image {rows[bad[0]]}; nothing was stored"
            )
        self.draft.write(rows, vectors, batch.labels.cpu().numpy() if self.labeled else None)

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        trainer.strategy.barrier("all rows written")
        if trainer.is_global_zero and not self._done:
            self.draft.publish(self.manifest, self.store.folder / self.key)
        trainer.strategy.barrier("entry published")

    def release(self) -> None:
        """Release the lock of the entry."""
        self._lock.__exit__(None, None, None)


def count_features(model: nn.Module, image: Tensor) -> int:
    """Return the number of features, from a trial with one image, which also shows whether image and model fit."""
    try:
        with torch.inference_mode():
            features = model.eval()(image)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(f"the model refuses images of shape {tuple(image.shape[1:])}: {error}") from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"the model must return features of shape (1, d) for one image, got {got}")
    return features.shape[1]


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Suppress Lightning's device list and tips, and two warnings that do not apply."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Couldn't infer the batch indices")
            warnings.filterwarnings("ignore", "Total length of `DataLoader` across ranks is zero")
            yield
    finally:
        logger.setLevel(level)
