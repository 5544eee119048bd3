"""DINO: guess to which prototypes a slow second network assigns the other view."""

from __future__ import annotations

from typing import Any

import torch
from lightly.loss import DINOLoss
from lightly.models.modules.heads import DINOProjectionHead
from torch import Tensor, nn

from asbc.train.method import MomentumMethod


class DINO(MomentumMethod):
    """DINO (Caron et al. 2021), with two views.

    Parameters
    ----------
    hidden : int, default=2048
        Width of the head's hidden layers.
    out : int, default=256
        Width of the head's bottleneck.
    prototypes : int, default=4096
        What images are assigned to.
    batch_norm : bool, default=False
        Whether the head has batch norms.
    student_temperature : float, default=0.1
        Of the network that learns.
    teacher_temperature : float, default=0.07
        Of the slow network, after the warm-up.
    warmup_teacher_temperature : float, default=0.04
        Of the slow network, at the start.
    warmup_teacher_epochs : int, default=50
        While that temperature rises.
    frozen_epochs : int, default=1
        While the prototypes stay as they are.
    **kwargs
        See `asbc.train.MomentumMethod`.

    See Also
    --------
    BYOL : also follows a slow network, and guesses its features.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import DINO, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = DINO(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8, prototypes=32)
    >>> float(method.loss([torch.rand(6, 3, 4, 4), torch.rand(6, 3, 4, 4)])) > 0
    True
    """

    smallest_batch = 1

    def __init__(
        self,
        *,
        hidden: int = 2048,
        out: int = 256,
        prototypes: int = 4096,
        batch_norm: bool = False,
        student_temperature: float = 0.1,
        teacher_temperature: float = 0.07,
        warmup_teacher_temperature: float = 0.04,
        warmup_teacher_epochs: int = 50,
        frozen_epochs: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if batch_norm:  # of the head, which has nothing to compare a single image with
            self.smallest_batch = 2
        self.head = DINOProjectionHead(self.features, hidden, out, prototypes, batch_norm, frozen_epochs)
        # Made anew and filled, for torch cannot copy a layer with weight norm.
        self.momentum_head = DINOProjectionHead(self.features, hidden, out, prototypes, batch_norm)
        self.momentum_head.load_state_dict(self.head.state_dict())
        self.momentum_head.requires_grad_(False)
        self.criterion = DINOLoss(
            output_dim=prototypes,
            warmup_teacher_temp=warmup_teacher_temperature,
            teacher_temp=teacher_temperature,
            warmup_teacher_temp_epochs=warmup_teacher_epochs,
            student_temp=student_temperature,
        )

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        return [*super().pairs(), (self.head, self.momentum_head)]

    def loss(self, views: list[Tensor]) -> Tensor:
        student = [self.head(self.backbone(view)) for view in views]
        with torch.no_grad():
            teacher = [self.momentum_head(self.momentum_backbone(view)) for view in views]
        return self.criterion(teacher, student, epoch=self.current_epoch)

    def on_after_backward(self) -> None:
        self.head.cancel_last_layer_gradients(self.current_epoch)
