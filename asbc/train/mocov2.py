"""MoCo v2+: as SimCLR, against a queue of earlier images that a slow second network has seen."""

from __future__ import annotations

from typing import Any

import torch
from lightly.loss import NTXentLoss
from lightly.models.modules.heads import MoCoProjectionHead
from torch import Tensor, nn

from asbc.train.method import MomentumMethod, follower


class MoCoV2(MomentumMethod):
    """MoCo v2+ (Chen et al. 2020): both views in turn are the query.

    Parameters
    ----------
    hidden : int, default=2048
        Width of the projector's hidden layer.
    out : int, default=256
        Width of what the projector gives.
    temperature : float, default=0.2
        Of the contrast.
    queue : int, default=32768
        Earlier images that each image is compared with.
    **kwargs
        See `asbc.train.MomentumMethod`.

    See Also
    --------
    SimCLR : compares with the other images of the batch.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import MoCoV2, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = MoCoV2(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8, queue=64)
    >>> float(method.loss([torch.rand(6, 3, 4, 4), torch.rand(6, 3, 4, 4)])) > 0
    True
    """

    smallest_batch = 1

    def __init__(
        self, *, hidden: int = 2048, out: int = 256, temperature: float = 0.2, queue: int = 32768, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.projector = MoCoProjectionHead(self.features, hidden, out, batch_norm=False)
        self.momentum_projector = follower(self.projector)
        # A queue for each direction: in a common one an image would meet its own other view as a stranger.
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
        # lightly leaves its queues out of the state; without them a resumed run would begin with noise.
        checkpoint["queues"] = [
            {"bank": c.memory_bank.bank, "next": c.memory_bank.bank_ptr}  # type: ignore[union-attr]
            for c in self.criteria
        ]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        for criterion, queue in zip(self.criteria, checkpoint["queues"], strict=True):
            criterion.memory_bank.bank.copy_(queue["bank"])  # type: ignore[union-attr,operator]
            criterion.memory_bank.bank_ptr.copy_(queue["next"])  # type: ignore[union-attr,operator]
