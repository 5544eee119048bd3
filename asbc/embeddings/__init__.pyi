"""Vectors from files, bundled samples, published arrays, and encoders of images."""

from .bundled import Clinc100, Digits
from .datamodule import EmbeddingDataModule, VectorDataModule
from .encoders import Encoder, read_checkpoint, read_weights
from .files import Files
from .hub import HuggingFace
from .sampling import stratified_sample
from .source import EncoderSource
from .store import Embeddings

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
