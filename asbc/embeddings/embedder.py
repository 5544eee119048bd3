"""The encoder over the images: a Lightning module, and a callback that writes the features to the store."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import lightning
import numpy as np
from lightning.pytorch.callbacks import BasePredictionWriter
from torch import Tensor, nn

from asbc.embeddings.checkpoints import Encoder
from asbc.embeddings.datamodule import Batch, EmbeddingDataModule
from asbc.embeddings.store import Store, cache_errors
from asbc.storage import LockedError, folder_lock
from asbc.version import __version__

log = logging.getLogger(__name__)

_LIBRARIES = ("torch", "torchvision", "lightning", "timm", "numpy")


def embed(
    encoder: Encoder,
    images: EmbeddingDataModule,
    store: Store,
    names: Mapping[str, str],
    trainer: Mapping[str, Any] | None = None,
) -> Path:
    """Return the folder of the stored embeddings of `images`; the encoder runs only for rows that are missing.

    `names` (``encoder``, ``source``, ``dataset``, ``split``) go into the manifest, `trainer` to `lightning.Trainer`.
    """
    options = {"accelerator": "auto", "devices": 1, "precision": "32-true", **(trainer or {})}
    images.prepare_data()
    images.setup()
    inputs = {
        "weights": encoder.weights_hash(),
        "architecture": encoder.architecture,
        "model": _text(encoder.model),
        "transform": _text(encoder.transform),
        "images": images.content_hash(),
        "prepared": images.prepared_hash(),
        "precision": str(options["precision"]),
    }
    key = store.key(inputs)
    found = store.find(key)
    if found is not None:
        return found
    manifest = {
        **names,
        "architecture": encoder.architecture,
        "origin": encoder.origin,
        "weights_sha256": inputs["weights"],
        "images_sha256": inputs["images"],
        "normalisation": inputs["transform"],
        "precision": inputs["precision"],
        "versions": {"asbc": __version__, **{name: version(name) for name in _LIBRARIES}},
    }
    writer = EmbeddingWriter(store, key, manifest)
    fixed = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "callbacks": [writer],
    }
    try:
        with quiet_lightning():
            runner = lightning.Trainer(**{"enable_progress_bar": sys.stderr.isatty(), **options, **fixed})
            runner.predict(Embedder(encoder.model), datamodule=images, return_predictions=False)
    except ValueError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise ValueError(str(error).strip().rpartition("ValueError: ")[2]) from error  # without torch's traceback
    finally:
        writer.lock.__exit__(None, None, None)
    return store.folder / writer.key


def _text(value: Any) -> str:
    """Return a description without memory addresses, which differ between processes."""
    return " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", str(value)).split())


class Embedder(lightning.LightningModule):
    """Return the features of a batch of images, as float32."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).float()

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        n, *shape = batch.images.shape
        try:
            features = self(batch.images)
        except (RuntimeError, AssertionError, AttributeError) as error:
            raise ValueError(f"the model refuses images of shape {tuple(shape)}: {error}") from error
        if features.ndim != 2 or len(features) != n:
            raise ValueError(
                f"the model must return features of shape ({n}, d) for {n} images, got {tuple(features.shape)}"
            )
        bad = np.flatnonzero(~features.isfinite().all(dim=1).cpu().numpy())
        if bad.size:
            raise ValueError(
                f"the encoder returned NaN or infinite features for {bad.size} of {n} images, "
                f"the first is image {int(batch.rows[bad[0]])}; nothing was stored"
            )
        return features


class EmbeddingWriter(BasePredictionWriter):
    """Write every batch to a draft; rank 0 decides which rows are missing, and publishes the entry.

    A batch has the numbers of its rows, so the order of the data set holds for any number of processes.
    """

    def __init__(self, store: Store, key: str, manifest: Mapping[str, Any]):
        super().__init__(write_interval="batch")
        self.store, self.key, self.manifest = store, key, manifest
        self.lock: Any = nullcontext()

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        missing, self.n = np.arange(0), len(trainer.datamodule.dataset)  # type: ignore[attr-defined]
        self.key = trainer.strategy.broadcast(self.key)
        self.draft, self.done = self.store.draft(self.key), False
        if trainer.is_global_zero:
            with cache_errors(self.store.folder):
                self.lock = self._acquire()
            self.done = self.store.find(self.key) is not None  # another job may have finished it meanwhile
            if not self.done:
                missing = self.draft.missing(self.n)
                if len(missing) < self.n:
                    log.info("resuming: %d of %d rows are done", self.n - len(missing), self.n)
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
        labels = batch.labels.cpu().numpy() if len(batch.labels) else None
        self.draft.write(batch.rows.cpu().numpy(), prediction.cpu().numpy(), labels)

    def teardown(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        trainer.strategy.barrier("all rows written")
        if trainer.is_global_zero and not self.done:
            self.draft.publish(self.n, self.manifest, self.store.folder / self.key)
        trainer.strategy.barrier("entry published")


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
