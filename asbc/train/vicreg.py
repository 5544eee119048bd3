"""VICReg: views agree, every feature varies, and features are uncorrelated."""

from __future__ import annotations

from typing import Any

from lightly.loss import VICRegLoss
from lightly.models.modules.heads import BarlowTwinsProjectionHead
from torch import Tensor

from asbc.train.method import Method


class VICReg(Method):
    """VICReg (Bardes et al. 2022).

    Parameters
    ----------
    hidden : int, default=2048
        Width of the projector's two hidden layers.
    out : int, default=2048
        Width of the projector's output.
    invariance, variance, covariance : float, default=25, 25 and 1
        Weights of the three terms of the loss. The variances of the two views are added.
    **kwargs
        See `asbc.train.Method`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import Recipe, VICReg
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = VICReg(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8)
    >>> method.loss([torch.rand(4, 3, 4, 4), torch.rand(4, 3, 4, 4)]).shape
    torch.Size([])
    """

    def __init__(
        self,
        *,
        hidden: int = 2048,
        out: int = 2048,
        invariance: float = 25.0,
        variance: float = 25.0,
        covariance: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.projector = BarlowTwinsProjectionHead(self.features, hidden, out)  # same shape as VICReg's
        # lightly averages the two variances, hence twice the weight.
        self.criterion = VICRegLoss(invariance, 2 * variance, covariance, gather_distributed=True)

    def loss(self, views: list[Tensor]) -> Tensor:
        first, second = (self.projector(self.backbone(view)) for view in views)
        return self.criterion(first, second)
