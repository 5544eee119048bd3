"""A small embedding for the fault tests."""

from asbc.embeddings.datamodule import EmbeddingDataModule, embed
from tests.embeddings.small import Noise, tiny_encoder

NAMES = {"encoder": "tiny", "source": "function", "dataset": "noise", "split": "test"}


def run(cache):
    """The folder of the embeddings of nine images in three batches; what is there already is not made again."""
    encoder = tiny_encoder()
    images = EmbeddingDataModule(Noise(9), transform=encoder.transform, image_size=(32, 32), batch_size=3)
    return embed(encoder, images, cache, NAMES, {"accelerator": "cpu", "enable_progress_bar": False})
