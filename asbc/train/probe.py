"""How well do neighbours tell classes by now? The 20 nearest training images vote on each held-out one."""

from __future__ import annotations

from typing import Any

import torch
from lightly.utils.benchmarking import knn_predict
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class NeighborProbe(Callback):
    """Log ``knn20``, the share of held-out images that their 20 nearest training images name rightly.

    The vote is the usual one of self-supervised learning: by cosine, a neighbour counts ``exp(cosine / 0.1)``. It is
    taken before the first step and at the end, and in between every `every_n_epochs` epochs.

    Parameters
    ----------
    bank, held_out : Dataset
        Pairs of image, a tensor, and label: those that vote, and those voted on.
    every_n_epochs : int, default=50
        How often in between.
    k : int, default=20
        How many vote.
    """

    def __init__(self, bank: Dataset, held_out: Dataset, every_n_epochs: int = 50, k: int = 20) -> None:
        self.bank, self.held_out, self.every_n_epochs, self.k = bank, held_out, every_n_epochs, k

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.global_step == 0:
            self._log(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        done = trainer.current_epoch + 1
        if done % self.every_n_epochs == 0 or done == trainer.max_epochs:
            self._log(trainer, pl_module)

    def _log(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.is_global_zero:
            value = knn_accuracy(module.backbone, self.bank, self.held_out, self.k)  # type: ignore[arg-type]
            for logger in trainer.loggers:
                logger.log_metrics({f"knn{self.k}": value}, step=trainer.global_step)
        trainer.strategy.barrier("neighbour probe")


def knn_accuracy(backbone: nn.Module, bank: Dataset, held_out: Dataset, k: int = 20) -> float:
    """The share of held-out images whose k nearest images of a bank, by cosine, name their class.

    Parameters
    ----------
    backbone : Module
        Images to features. It is left in the mode that it is in.
    bank, held_out : Dataset
        Pairs of image and label.
    k : int, default=20
        How many neighbours vote; with fewer images in the bank, all of them.
    """
    features, labels = embed(backbone, bank)
    queries, wanted = embed(backbone, held_out)
    classes = int(max(labels.max(), wanted.max())) + 1
    found = [
        knn_predict(part, features.T, labels, classes, knn_k=min(k, len(features)), knn_t=0.1)[:, 0]
        for part in queries.split(256)
    ]
    return float((torch.cat(found) == wanted).float().mean())


@torch.no_grad()
def embed(backbone: nn.Module, images: Dataset) -> tuple[Tensor, Tensor]:
    """Unit features and labels of all images."""
    mode, device = backbone.training, next(backbone.parameters()).device
    backbone.eval()
    try:
        parts: list[tuple[Any, Any]] = [
            (nn.functional.normalize(backbone(batch.to(device, memory_format=torch.channels_last))), labels.to(device))
            for batch, labels in DataLoader(images, batch_size=500)
        ]
    finally:
        backbone.train(mode)
    return torch.cat([part for part, _ in parts]), torch.cat([labels for _, labels in parts])
