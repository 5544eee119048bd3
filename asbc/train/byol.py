"""BYOL: predict the features that a momentum network computes of the other view."""

from __future__ import annotations

from typing import Any

import torch
from lightly.loss import NegativeCosineSimilarity
from lightly.models.modules.heads import BYOLPredictionHead, BYOLProjectionHead
from torch import Tensor, nn

from asbc.train.method import MomentumMethod, momentum_copy


class BYOL(MomentumMethod):
    """BYOL (Grill et al. 2020).

    Parameters
    ----------
    hidden : int, default=4096
        Width of the hidden layers of projector and predictor.
    out : int, default=256
        Width of their output.
    **kwargs
        See `asbc.train.MomentumMethod`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import BYOL, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = BYOL(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8)
    >>> len(method.pairs())  # of backbone and head
    2
    """

    def __init__(self, *, hidden: int = 4096, out: int = 256, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.projector = BYOLProjectionHead(self.features, hidden, out)
        self.predictor = BYOLPredictionHead(out, hidden, out)
        self.momentum_projector = momentum_copy(self.projector)
        self.criterion = NegativeCosineSimilarity()

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [*super().pairs(), (self.projector, self.momentum_projector)]

    def loss(self, views: list[Tensor]) -> Tensor:
        guesses = [self.predictor(self.projector(self.backbone(view))) for view in views]
        with torch.no_grad():
            targets = [self.momentum_projector(self.momentum_backbone(view)) for view in views]
        # The squared distance of unit vectors is 2 - 2 cos; both directions are added.
        return 4 + 2 * (self.criterion(guesses[0], targets[1]) + self.criterion(guesses[1], targets[0]))
