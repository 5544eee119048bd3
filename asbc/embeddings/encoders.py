"""What turns images into vectors: checkpoints, lightly's encoders, timm models, or a function of your own.

An encoder of your own is a function that returns an `Encoder`; ``docs/encoders.md`` shows how.
"""

from asbc.embeddings.checkpoints import read_checkpoint
from asbc.embeddings.lightly import lightly_encoder
from asbc.embeddings.timm_models import timm_model
from asbc.embeddings.types import Encoder
from asbc.embeddings.weights import read_weights

__all__ = ["Encoder", "lightly_encoder", "read_checkpoint", "read_weights", "solo_checkpoint", "timm_model"]

solo_checkpoint = read_checkpoint  # its name before version 0.2
