"""The six methods and their base classes: a backbone, a loss on views of images, an optimiser and a schedule."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import lightning
import torch
from lightly import loss as losses
from lightly.models.modules import heads
from lightly.models.utils import update_momentum
from lightly.utils.scheduler import CosineWarmupScheduler, cosine_schedule
from timm.optim import Lars
from torch import Tensor, nn

from asbc.validation import one_of, positive_number

OPTIMIZERS = ("lars", "sgd", "adamw")
# Fewest channels for the channels-last layout: with two or four, torch 2.14 and 2.15 write out of bounds in the
# backward pass on processors without AVX-512.
MIN_CHANNELS_LAST = 8
GLOBAL_VIEWS = 2  # of DINO: the first views of a batch; the momentum network sees only these


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
        one_of(self.optimizer, "optimizer", OPTIMIZERS)
        positive_number(self.lr, "lr")

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
            raise ValueError(f"the loss is {loss.item()} at step {self.global_step}: try a lower encoder.recipe.lr")
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
            raise ValueError(f"expected 0 <= momentum <= final_momentum <= 1, got {momentum} and {final_momentum}")
        self.momentum, self.final_momentum = momentum, final_momentum
        self.momentum_backbone = momentum_copy(self.backbone)

    def pairs(self) -> list[tuple[nn.Module, nn.Module]]:
        """Return the networks and their momentum networks, which are called ``momentum_`` and the network's name."""
        found = [(name.partition("momentum_")[2], average) for name, average in self.named_children()]
        return [(getattr(self, name), average) for name, average in found if name]

    @torch.no_grad()
    def targets(self, views: list[Tensor], head: nn.Module) -> list[Tensor]:
        """Return the output of the momentum backbone and the momentum network `head` for each view."""
        return [head(self.momentum_backbone(view)) for view in views]

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


class _PairMethod(Method):
    """A method whose criterion compares the projections of two views."""

    projector: nn.Module
    criterion: nn.Module

    def loss(self, views: list[Tensor]) -> Tensor:
        return self.criterion(*(self.projector(self.backbone(view)) for view in views))


class SimCLR(_PairMethod):
    """SimCLR (Chen et al. 2020): two views of an image are closer than views of two images.

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
        self.projector = heads.SimCLRProjectionHead(self.features, hidden, out, batch_norm=False)
        self.criterion = losses.NTXentLoss(temperature, gather_distributed=True)


class BarlowTwins(_PairMethod):
    """Barlow Twins (Zbontar et al. 2021): features of two views agree one by one, and are otherwise uncorrelated.

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
        self.projector = heads.BarlowTwinsProjectionHead(self.features, hidden, out)
        self.criterion, self.scale = losses.BarlowTwinsLoss(redundancy, gather_distributed=True), scale

    def loss(self, views: list[Tensor]) -> Tensor:
        return self.scale * super().loss(views)


class VICReg(_PairMethod):
    """VICReg (Bardes et al. 2022): views agree, every feature varies, and features are uncorrelated.

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
        self.projector = heads.BarlowTwinsProjectionHead(self.features, hidden, out)  # same shape as VICReg's
        # lightly averages the two variances, hence twice the weight.
        self.criterion = losses.VICRegLoss(invariance, 2 * variance, covariance, gather_distributed=True)


class MoCoV2(MomentumMethod):
    """MoCo v2+ (Chen et al. 2020): SimCLR with a momentum network and a queue of earlier images.

    Both views in turn are the query.

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
        self.projector = heads.MoCoProjectionHead(self.features, hidden, out, batch_norm=False)
        self.momentum_projector = momentum_copy(self.projector)
        # One queue per direction: in a shared one, an image's other view would count as a negative.
        self.criteria = nn.ModuleList(
            losses.NTXentLoss(temperature, memory_bank_size=(queue, out), gather_distributed=True) for _ in range(2)
        )

    def loss(self, views: list[Tensor]) -> Tensor:
        queries = [self.projector(self.backbone(view)) for view in views]
        keys = self.targets(views, self.momentum_projector)
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


class BYOL(MomentumMethod):
    """BYOL (Grill et al. 2020): predict the features that a momentum network computes of the other view.

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
        self.projector = heads.BYOLProjectionHead(self.features, hidden, out)
        self.predictor = heads.BYOLPredictionHead(out, hidden, out)
        self.momentum_projector = momentum_copy(self.projector)
        self.criterion = losses.NegativeCosineSimilarity()

    def loss(self, views: list[Tensor]) -> Tensor:
        guesses = [self.predictor(self.projector(self.backbone(view))) for view in views]
        targets = self.targets(views, self.momentum_projector)
        # The squared distance of unit vectors is 2 - 2 cos; both directions are added.
        return 4 + 2 * (self.criterion(guesses[0], targets[1]) + self.criterion(guesses[1], targets[0]))


class DINO(MomentumMethod):
    """DINO (Caron et al. 2021): predict to which prototypes a momentum network assigns the other view.

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
        self.head = heads.DINOProjectionHead(self.features, hidden, out, prototypes, batch_norm, frozen_epochs)
        # Created and loaded, since torch cannot copy a layer with weight norm.
        self.momentum_head = heads.DINOProjectionHead(self.features, hidden, out, prototypes, batch_norm)
        self.momentum_head.load_state_dict(self.head.state_dict())
        self.momentum_head.requires_grad_(False)
        self.criterion = losses.DINOLoss(
            output_dim=prototypes,
            warmup_teacher_temp=warmup_teacher_temperature,
            teacher_temp=teacher_temperature,
            warmup_teacher_temp_epochs=warmup_teacher_epochs,
            student_temp=student_temperature,
        )

    def loss(self, views: list[Tensor]) -> Tensor:
        student = [self.head(self.backbone(view)) for view in views]
        teacher = self.targets(views[:GLOBAL_VIEWS], self.momentum_head)
        return self.criterion(teacher, student, epoch=self.current_epoch)

    def on_after_backward(self) -> None:
        self.head.cancel_last_layer_gradients(self.current_epoch)
