"""SimCLR: two views of an image are closer than views of two images."""

from __future__ import annotations

from typing import Any

from lightly.loss import NTXentLoss
from lightly.models.modules.heads import SimCLRProjectionHead
from torch import Tensor

from asbc.train.method import Method


class SimCLR(Method):
    """SimCLR (Chen et al. 2020).

    Parameters
    ----------
    hidden : int, default=2048
        Width of the projector's hidden layer.
    out : int, default=256
        Width of the projector's output.
    temperature : float, default=0.2
        Of the softmax over similarities.
    **kwargs
        See `asbc.train.Method`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import Recipe, SimCLR
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = SimCLR(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8)
    >>> method.loss([torch.rand(4, 3, 4, 4), torch.rand(4, 3, 4, 4)]).shape
    torch.Size([])
    """

    def __init__(self, *, hidden: int = 2048, out: int = 256, temperature: float = 0.2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.projector = SimCLRProjectionHead(self.features, hidden, out, batch_norm=False)
        self.criterion = NTXentLoss(temperature, gather_distributed=True)

    def loss(self, views: list[Tensor]) -> Tensor:
        first, second = (self.projector(self.backbone(view)) for view in views)
        return self.criterion(first, second)
