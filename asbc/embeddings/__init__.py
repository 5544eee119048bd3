"""Vectors from files, bundled samples, published arrays, and encoders of images."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from asbc.embeddings.bundled import Clinc100, Digits
from asbc.embeddings.files import Files
from asbc.embeddings.hub import HuggingFace
from asbc.embeddings.sampling import stratified_sample
from asbc.embeddings.source import EncoderSource
from asbc.embeddings.store import Embeddings

if TYPE_CHECKING:
    from asbc.embeddings.checkpoints import Encoder, read_checkpoint, read_weights
    from asbc.embeddings.datamodule import EmbeddingDataModule, VectorDataModule

__all__ = [
    "Clinc100",
    "Digits",
    "EmbeddingDataModule",
    "Embeddings",
    "Encoder",
    "EncoderSource",
    "Files",
    "HuggingFace",
    "VectorDataModule",
    "read_checkpoint",
    "read_weights",
    "stratified_sample",
]

_NEED_TORCH = {  # imported on first use
    "EmbeddingDataModule": "datamodule",
    "VectorDataModule": "datamodule",
    "Encoder": "checkpoints",
    "read_checkpoint": "checkpoints",
    "read_weights": "checkpoints",
}


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_NEED_TORCH[name]}"), name)
