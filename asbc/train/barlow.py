"""Barlow Twins: features of two views agree one by one, and are uncorrelated with each other."""

from __future__ import annotations

from typing import Any

from lightly.loss import BarlowTwinsLoss
from lightly.models.modules.heads import BarlowTwinsProjectionHead
from torch import Tensor

from asbc.train.method import Method


class BarlowTwins(Method):
    """Barlow Twins (Zbontar et al. 2021).

    Parameters
    ----------
    hidden : int, default=2048
        Width of the projector's two hidden layers.
    out : int, default=2048
        Width of the projector's output.
    redundancy : float, default=0.0051
        Weight of the correlations between different features.
    scale : float, default=0.1
        Factor of the loss.
    **kwargs
        See `asbc.train.Method`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import BarlowTwins, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = BarlowTwins(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8)
    >>> method.loss([torch.rand(4, 3, 4, 4), torch.rand(4, 3, 4, 4)]).shape
    torch.Size([])
    """

    def __init__(
        self, *, hidden: int = 2048, out: int = 2048, redundancy: float = 0.0051, scale: float = 0.1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.projector = BarlowTwinsProjectionHead(self.features, hidden, out)
        self.criterion, self.scale = BarlowTwinsLoss(redundancy, gather_distributed=True), scale

    def loss(self, views: list[Tensor]) -> Tensor:
        first, second = (self.projector(self.backbone(view)) for view in views)
        return self.scale * self.criterion(first, second)
