"""Where vectors come from: published files, checkpoints, timm models, your own arrays."""

from asbc.embeddings.arrays import Embeddings
from asbc.embeddings.sample import stratified_sample

__all__ = ["Embeddings", "stratified_sample"]
