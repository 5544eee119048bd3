"""Vectors from files, bundled samples, published arrays, and encoders of images."""

from .datamodule import EmbeddingDataModule, VectorDataModule
from .encoders import Encoder, read_checkpoint, read_weights
from .files import Files
from .hub import HuggingFace
from .source import Clinc100, Digits, EncoderSource
from .store import Embeddings, stratified_sample

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
