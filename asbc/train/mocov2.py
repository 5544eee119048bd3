"""MoCo v2+: SimCLR with a momentum network and a queue of earlier images."""

from __future__ import annotations

from typing import Any

import torch
from lightly.loss import NTXentLoss
from lightly.models.modules.heads import MoCoProjectionHead
from torch import Tensor, nn

from asbc.train.method import MomentumMethod, momentum_copy


class MoCoV2(MomentumMethod):
    """MoCo v2+ (Chen et al. 2020): both views in turn are the query.

    Parameters
    ----------
    hidden : int, default=2048
        Width of the projector's hidden layer.
    out : int, default=256
        Width of the projector's output.
    temperature : float, default=0.2
        Of the softmax over similarities.
    queue : int, default=32768
        Number of earlier images that each image is compared with.
    **kwargs
        See `asbc.train.MomentumMethod`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import MoCoV2, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = MoCoV2(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8, queue=16)
    >>> len(method.pairs())  # of backbone and head
    2
    """

    smallest_batch = 1

    def __init__(
        self, *, hidden: int = 2048, out: int = 256, temperature: float = 0.2, queue: int = 32768, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.projector = MoCoProjectionHead(self.features, hidden, out, batch_norm=False)
        self.momentum_projector = momentum_copy(self.projector)
        # One queue per direction: in a shared one, an image's other view would count as a negative.
        self.criteria = nn.ModuleList(
            NTXentLoss(temperature, memory_bank_size=(queue, out), gather_distributed=True) for _ in range(2)
        )

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [*super().pairs(), (self.projector, self.momentum_projector)]

    def loss(self, views: list[Tensor]) -> Tensor:
        queries = [self.projector(self.backbone(view)) for view in views]
        with torch.no_grad():
            keys = [self.momentum_projector(self.momentum_backbone(view)) for view in views]
        return (self.criteria[0](queries[0], keys[1]) + self.criteria[1](queries[1], keys[0])) / 2

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # lightly does not save its queues; a resumed run would start with noise.
        checkpoint["queues"] = [
            {"bank": c.memory_bank.bank, "next": c.memory_bank.bank_ptr}  # type: ignore[union-attr]
            for c in self.criteria
        ]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for criterion, queue in zip(self.criteria, checkpoint["queues"], strict=True):
            criterion.memory_bank.bank.copy_(queue["bank"])  # type: ignore[union-attr,operator]
            criterion.memory_bank.bank_ptr.copy_(queue["next"])  # type: ignore[union-attr,operator]
