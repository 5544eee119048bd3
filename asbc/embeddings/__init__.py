"""Where vectors come from: published files, checkpoints, timm models, your own arrays."""

from asbc.embeddings.arrays import Embeddings
from asbc.embeddings.huggingface import HuggingFace
from asbc.embeddings.sources import Clinc100, Digits, EncoderSource, Files
from asbc.embeddings.stratify import stratified_sample

__all__ = ["Clinc100", "Digits", "Embeddings", "EncoderSource", "Files", "HuggingFace", "stratified_sample"]
