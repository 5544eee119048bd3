"""Base classes of the methods: a backbone, a loss on views of images, an optimiser and a schedule."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from lightly.models.utils import update_momentum
from lightly.utils.scheduler import CosineWarmupScheduler, cosine_schedule
from timm.optim import Lars
from torch import Tensor, nn

OPTIMIZERS = ("lars", "sgd", "adamw")
# Fewest channels for the channels-last layout: with two or four, torch 2.14 and 2.15 write out of bounds in the
# backward pass on processors without AVX-512.
MIN_CHANNELS_LAST = 8


@dataclass(frozen=True)
class Recipe:
    """Optimiser settings; the learning rate rises for some epochs and then falls to 0 along a cosine.

    Parameters
    ----------
    optimizer : {"lars", "sgd", "adamw"}, default="lars"
        ``lars`` adapts the rate per layer, at most to `lr`, with a trust coefficient of 0.02.
    lr : float, default=0.3
        Learning rate for 256 images per step; proportional for other numbers.
    weight_decay : float, default=1e-4
        Of all weights; ``lars`` excludes biases and norms, whose rate it does not adapt either.
    momentum : float, default=0.9
        Of ``lars`` and ``sgd``.
    warmup_epochs : float, default=10
        Epochs in which the rate rises from 0.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import Recipe
    >>> weights = [torch.nn.Parameter(torch.zeros(2, 2))]
    >>> Recipe(optimizer="sgd", lr=0.1).build(weights, images=512).param_groups[0]["lr"]
    0.2
    """

    optimizer: str = "lars"
    lr: float = 0.3
    weight_decay: float = 1e-4
    momentum: float = 0.9
    warmup_epochs: float = 10

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer={self.optimizer!r}: expected one of {', '.join(OPTIMIZERS)}")
        if not self.lr > 0:
            raise ValueError(f"lr={self.lr}: must be above 0")

    def build(self, parameters: list[nn.Parameter], images: int) -> torch.optim.Optimizer:
        """Return the optimiser of `parameters` for steps of `images` images."""
        lr = self.lr * images / 256
        if self.optimizer == "sgd":
            return torch.optim.SGD(parameters, lr, momentum=self.momentum, weight_decay=self.weight_decay)
        if self.optimizer == "adamw":
            return torch.optim.AdamW(parameters, lr, weight_decay=self.weight_decay)
        weights = {"params": [p for p in parameters if p.ndim > 1]}
        rest = {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}
        return Lars(
            [weights, rest],
            lr=lr,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            trust_coeff=0.02,
            trust_clip=True,
        )


class Method(lightning.LightningModule, ABC):
    """A backbone that learns from views of images. Your own method defines ``__init__`` and ``loss``.

    Parameters
    ----------
    backbone : Module
        Images (b, 3, h, w) to features (b, features). Its weights are ``backbone.*`` in a checkpoint.
    features : int
        Width of the features.
    recipe : Recipe
        Optimiser settings.
    images_per_step : int, default=256
        On all devices together.

    See Also
    --------
    MomentumMethod : has a second network that is a moving average of the first.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import Method, Recipe
    >>> class Agreement(Method):
    ...     def loss(self, views):
    ...         first, second = (self.backbone(view) for view in views)
    ...         return (first - second).square().mean()
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = Agreement(backbone, features=12, recipe=Recipe())
    >>> float(method.loss([torch.ones(2, 3, 4, 4), torch.ones(2, 3, 4, 4)]))
    0.0
    """

    smallest_batch: int = 2  # images per device that the loss needs

    def __init__(self, backbone: nn.Module, features: int, recipe: Recipe, images_per_step: int = 256) -> None:
        super().__init__()
        narrowest = min((part.out_channels for part in backbone.modules() if isinstance(part, nn.Conv2d)), default=0)
        # Channels last is faster for convolutions, on CPUs and on GPUs.
        self.layout = torch.channels_last if narrowest >= MIN_CHANNELS_LAST else torch.contiguous_format
        self.backbone = backbone.to(memory_format=self.layout)
        self.features, self.recipe, self.images_per_step = features, recipe, images_per_step

    @abstractmethod
    def loss(self, views: list[Tensor]) -> Tensor:
        """Return the loss of a batch, given its views, (b, 3, h, w) each."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss([view.contiguous(memory_format=self.layout) for view in batch])
        if not torch.isfinite(loss):
            raise ValueError(
                f"the loss is {loss.item()} at step {self.global_step}: a lower learning rate (encoder.recipe.lr) or "
                "a longer warm-up (encoder.recipe.warmup_epochs) may help"
            )
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> Any:
        learned = [p for p in self.parameters() if p.requires_grad]
        optimizer = self.recipe.build(learned, self.images_per_step)
        steps = int(self.trainer.estimated_stepping_batches)
        per_epoch = steps / max(int(self.trainer.max_epochs or 1), 1)
        warmup = min(round(self.recipe.warmup_epochs * per_epoch), steps)
        schedule = CosineWarmupScheduler(optimizer, warmup, max(steps, 1), end_value=0.0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class MomentumMethod(Method):
    """A method with a second network, the momentum network: a moving average of the first.

    Parameters
    ----------
    momentum : float, default=0.99
        Share of itself that the momentum network keeps per step, at the start.
    final_momentum : float, default=1.0
        The same at the end; a cosine schedule in between.

    See Also
    --------
    Method : the other parameters.

    Examples
    --------
    >>> import torch
    >>> from asbc.train import BYOL, Recipe
    >>> backbone = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 12))
    >>> method = BYOL(backbone=backbone, features=12, recipe=Recipe(), hidden=16, out=8, momentum=0.9)
    >>> len(method.pairs())  # of backbone and projector
    2
    """

    def __init__(self, *args: Any, momentum: float = 0.99, final_momentum: float = 1.0, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 0 <= momentum <= final_momentum <= 1:
            raise ValueError(
                f"momentum={momentum}, final_momentum={final_momentum}: expected 0 <= momentum <= final_momentum <= 1"
            )
        self.momentum, self.final_momentum = momentum, final_momentum
        self.momentum_backbone = momentum_copy(self.backbone)

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Return the networks and their momentum networks."""
        return [(self.backbone, self.momentum_backbone)]

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        # At the start of a step, so that a checkpoint holds everything that the next step needs.
        keep = cosine_schedule(
            self.global_step, int(self.trainer.estimated_stepping_batches), self.momentum, self.final_momentum
        )
        for model, average in self.pairs():
            update_momentum(model, average, keep)
        return super().training_step(batch, batch_idx)


def momentum_copy(model: nn.Module) -> nn.Module:
    """Return a copy without gradients."""
    return copy.deepcopy(model).requires_grad_(False)
