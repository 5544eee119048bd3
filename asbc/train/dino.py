"""DINO: predict to which prototypes a momentum network assigns the other view."""

from __future__ import annotations

from typing import Any

import torch
from lightly.loss import DINOLoss
from lightly.models.modules.heads import DINOProjectionHead
from torch import Tensor, nn

from asbc.train.method import MomentumMethod

GLOBAL_VIEWS = 2  # the first views of a batch; the slow network sees only these


class DINO(MomentumMethod):
    """DINO (Caron et al. 2021).

    The first two views are global. Any further ones are local: only the network that learns sees them, and they may be
    smaller (``views.multicrop``).

    Parameters
    ----------
    hidden : int, default=2048
        Width of the head's hidden layers.
    out : int, default=256
        Width of the head's bottleneck.
    prototypes : int, default=4096
        Number of prototypes.
    batch_norm : bool, default=False
        Whether the head has batch norms.
    student_temperature : float, default=0.1
        Of the student.
    teacher_temperature : float, default=0.07
        Of the teacher after the warm-up.
    warmup_teacher_temperature : float, default=0.04
        Of the teacher at the start.
    warmup_teacher_epochs : int, default=50
        Epochs in which the teacher's temperature rises.
    frozen_epochs : int, default=1
        Epochs in which the prototypes are not updated.
    **kwargs
        See `asbc.train.MomentumMethod`.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import DINO, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = DINO(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8, prototypes=32)
    >>> len(method.pairs())  # of backbone and head
    2
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
        if batch_norm:  # needs more than one image
            self.smallest_batch = 2
        self.head = DINOProjectionHead(self.features, hidden, out, prototypes, batch_norm, frozen_epochs)
        # Created and loaded, since torch cannot copy a layer with weight norm.
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
            teacher = [self.momentum_head(self.momentum_backbone(view)) for view in views[:GLOBAL_VIEWS]]
        return self.criterion(teacher, student, epoch=self.current_epoch)

    def on_after_backward(self) -> None:
        self.head.cancel_last_layer_gradients(self.current_epoch)
