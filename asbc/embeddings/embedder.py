"""Images through an encoder into the store, on one device or many."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from filelock import FileLock, Timeout
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor, nn

from asbc.embeddings.cache import writing_to
from asbc.embeddings.datamodule import Batch, EmbeddingDataModule
from asbc.embeddings.describe import describe, without_addresses
from asbc.embeddings.encoders import Encoder
from asbc.embeddings.store import Store
from asbc.version import __version__

log = logging.getLogger(__name__)

_LIBRARIES = ("torch", "torchvision", "lightning", "timm", "numpy")


class Embedder(lightning.LightningModule):
    """Gives the features of a batch of images, as float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).float()

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        return self(batch.images)


class EmbeddingWriter(BasePredictionWriter):
    """Writes every batch to its rows of the store as soon as it is there.

    The process of rank 0 holds the entry's lock, says which rows are missing, and publishes the entry when
    all processes are done. A row goes to the place its batch names, so the order of the data set holds
    whatever the number of processes.
    """

    def __init__(self, store: Store, key: str, shape: tuple[int, int], labeled: bool, manifest: Mapping[str, Any]):
        super().__init__(write_interval="batch")
        self.store, self.key, self.shape, self.labeled, self.manifest = store, key, shape, labeled, manifest
        self.draft = store.draft(key)
        self._lock: FileLock | None = None

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        missing = None
        if trainer.is_global_zero:
            self._lock = self.store.lock(self.key)
            with writing_to(self.store.folder):
                try:
                    self._lock.acquire(timeout=0)
                except Timeout:
                    log.info("another job is making the same embeddings: waiting for it")
                    self._lock.acquire()
            missing = np.arange(0)
            if self.store.find(self.key) is None:
                self.draft.create(*self.shape, self.labeled)
                missing = self.draft.missing()
                if len(missing) < self.shape[0]:
                    log.info("going on: %d of %d rows are there", self.shape[0] - len(missing), self.shape[0])
        trainer.datamodule.rows = trainer.strategy.broadcast(missing)  # type: ignore[attr-defined]

    def write_on_batch_end(
        self, trainer, pl_module, prediction, batch_indices, batch, batch_idx, dataloader_idx
    ) -> None:
        rows, vectors = batch.rows.cpu().numpy(), prediction.cpu().numpy()
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if bad.size:
            raise ValueError(
                f"the encoder gave NaN or infinite features for {bad.size} of {len(rows)} images, "
                f"the first is image {rows[bad[0]]}; nothing was stored"
            )
        self.draft.write(rows, vectors, batch.labels.cpu().numpy() if self.labeled else None)

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        trainer.strategy.barrier("all rows written")
        if trainer.is_global_zero and self.store.find(self.key) is None:
            self.draft.publish(self.manifest, self.store.folder / self.key)
        trainer.strategy.barrier("entry published")

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()


def embed(
    encoder: Encoder,
    images: EmbeddingDataModule,
    store: Store,
    names: Mapping[str, str],
    trainer: Mapping[str, Any] | None = None,
) -> Path:
    """Folder of the stored embeddings of ``images``; the encoder runs only for rows that are not there yet.

    Parameters
    ----------
    names : mapping
        ``encoder``, ``source``, ``dataset`` and ``split``, for the record.
    trainer : mapping, optional
        Arguments of `lightning.Trainer`: ``accelerator``, ``devices``, ``num_nodes``, ``precision`` ...
    """
    options = {
        "accelerator": "auto",
        "devices": 1,
        "precision": "32-true",
        "enable_progress_bar": sys.stderr.isatty(),
        **(trainer or {}),
    }
    images.prepare_data()
    images.setup()
    inputs = {
        "weights": encoder.weights_hash(),
        "architecture": encoder.architecture,
        "model": without_addresses(str(encoder.model)),
        "transform": describe(encoder.transform),
        "images": images.content_hash(),
        "precision": str(options["precision"]),
    }
    key = store.key(inputs)
    found = store.find(key)
    if found is not None:
        return found

    first = images.batch(np.arange(1))
    manifest = {
        **names,
        "architecture": encoder.architecture,
        "origin": encoder.origin,
        "weights_sha256": inputs["weights"],
        "images_sha256": inputs["images"],
        "normalisation": " ".join(without_addresses(str(encoder.transform)).split()),
        "precision": inputs["precision"],
        "versions": {"asbc": __version__, **{name: version(name) for name in _LIBRARIES}},
    }
    shape = (len(images.dataset), _width(encoder.model, first.images))
    writer = EmbeddingWriter(store, key, shape, bool(len(first.labels)), manifest)
    try:
        with _quiet_lightning():
            runner = lightning.Trainer(
                **options,
                logger=False,
                enable_checkpointing=False,
                enable_model_summary=False,
                use_distributed_sampler=False,
                callbacks=[writer],
            )
            runner.predict(Embedder(encoder.model), datamodule=images, return_predictions=False)
    finally:
        writer.release()
    return store.folder / key


def _width(model: nn.Module, image: Tensor) -> int:
    """Number of features, from a trial with one image: shows at once whether images and model go together."""
    try:
        with torch.inference_mode():
            features = model.eval()(image)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise ValueError(f"the model refuses images of shape {tuple(image.shape[1:])}: {error}") from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 1:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(f"the model must give features of shape (1, d) for one image, got {got}")
    return features.shape[1]


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Keep Lightning from listing devices and giving tips, and from two warnings that do not apply."""
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # It looks for a sampler to tell which rows a batch has; here batches say so themselves.
            warnings.filterwarnings("ignore", "Couldn't infer the batch indices")
            warnings.filterwarnings("ignore", "Total length of `DataLoader` across ranks is zero")
            yield
    finally:
        logger.setLevel(level)
