"""ResNets for small images and for large ones, as wide as wanted: what checkpoints hold and what is trained anew."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

# Kind of block, and how many there are in the four layers.
RESNETS: dict[str, tuple[type[BasicBlock | Bottleneck], tuple[int, ...]]] = {
    "resnet10": (BasicBlock, (1, 1, 1, 1)),
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
}
FULL = 64  # channels of the first layer in all published ResNets
_ARGUMENTS = set(inspect.signature(ResNet.__init__).parameters) - {"self", "block", "layers"}


def resnet(name: str, padding: int | None = 2, width: int = FULL, **kwargs: Any) -> nn.Module:
    """A ResNet without its classifier, with random weights.

    Parameters
    ----------
    name : {"resnet10", "resnet18", "resnet34", "resnet50", "resnet101"}
        How many blocks there are, and of which kind.
    padding : int, optional, default=2
        Of the CIFAR stem, a first convolution of 3 x 3 with no pooling after it. solo-learn's is 2: the feature map of
        a 32 x 32 image is then 34 x 34. None stands for the ImageNet stem.
    width : int, default=64
        Channels of the first layer; the further three have twice as many each. Features are 8 times as wide, or 32
        times with the blocks of ResNet-50.
    **kwargs
        Arguments of torchvision's ``ResNet``.

    Examples
    --------
    >>> import torch
    >>> from asbc.embeddings.backbones import resnet
    >>> resnet("resnet10", width=8)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """
    unknown = sorted(set(kwargs) - _ARGUMENTS)
    if unknown:  # `weights` and `pretrained` among them, which would start a download
        raise TypeError(f"unknown: {', '.join(unknown)}")
    if not isinstance(width, int) or width < 1:
        raise ValueError(f"width must be a whole number of channels, 1 or more; got {width!r}")
    block, layers = RESNETS[name]
    model = _ResNet(block, layers, width, **kwargs)
    if padding is not None:
        model.conv1 = nn.Conv2d(3, width, kernel_size=3, stride=1, padding=padding, bias=False)
        model.maxpool = nn.Identity()
        nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.fc = nn.Identity()
    return model


def feature_width(model: Any) -> int:
    """How many features a ResNet gives."""
    last = model.layer4[-1]
    return int((last.bn3 if isinstance(last, Bottleneck) else last.bn2).num_features)


class _ResNet(ResNet):
    """torchvision's, with another number of channels in the first layer."""

    def __init__(self, block: Any, layers: Any, width: int, **kwargs: Any) -> None:
        self.__dict__["width"] = width  # before torch's own set-up, which builds the layers
        super().__init__(block, list(layers), **kwargs)

    def _make_layer(self, block: Any, planes: int, *args: Any, **kwargs: Any) -> nn.Sequential:
        if planes == FULL and self.width != FULL:  # the first layer: the stem before it is as narrow
            self.inplanes = self.width
            self.conv1 = nn.Conv2d(3, self.width, kernel_size=7, stride=2, padding=3, bias=False)
            self.bn1 = self._norm_layer(self.width)
        return super()._make_layer(block, planes * self.width // FULL, *args, **kwargs)
