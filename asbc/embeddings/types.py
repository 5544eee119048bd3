"""What an encoder is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Encoder:
    """A model and the images it wants.

    Attributes
    ----------
    model : torch.nn.Module
        Images of shape (b, 3, h, w) to features of shape (b, d).
    transform : callable
        A PIL image to a tensor of shape (3, h, w).
    image_size : tuple of int
        The ``(h, w)`` that the model was made for; images of any other size are refused.
    architecture : str
        Whatever else than weights decides the features, in words. Two encoders that give different features
        must differ in it, in their weights or in their transform, for that is how the store tells them apart.
    origin : str
        Where the weights come from, for the record.
    """

    model: nn.Module
    transform: Callable[[Any], Tensor]
    image_size: tuple[int, int]
    architecture: str
    origin: str

    def weights_hash(self) -> str:
        """SHA-256 of names, shapes and values of all parameters and buffers."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()
