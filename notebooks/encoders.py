# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Your own encoder, from images to graphs
#
# [![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/OWNER/asbc/blob/main/notebooks/encoders.ipynb)
#
# A new encoder takes two files: a function that returns an `Encoder`, and a YAML file that names it. This notebook
# embeds a folder of small images with one, trains a linear probe on it with Lightning, and compares graphs on the
# vectors. It needs `pip install "asbc[embed]"`.
#
# The images are scikit-learn's hand-written digits, as a folder `train` and a folder `test` with one folder per class.

# %%
try:
    import asbc
except ImportError:  # in Colab
    get_ipython().run_line_magic("pip", 'install -q "asbc[embed]"')  # noqa: F821

# %%
# %matplotlib inline
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import lightning
import matplotlib.pyplot as plt
import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_digits

import asbc
from asbc.embeddings import Digits, EmbeddingDataModule, EncoderSource, VectorDataModule

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

folder = Path(tempfile.mkdtemp())
os.environ["ASBC_CACHE"] = str(folder / "cache")
digits = load_digits()
for row, (grey, label) in enumerate(zip(digits.images, digits.target, strict=True)):
    place = folder / "digits" / ("train" if row < 1200 else "test") / str(label)
    place.mkdir(parents=True, exist_ok=True)
    Image.fromarray((grey * 15.9).astype(np.uint8)).resize((32, 32)).save(place / f"{row:04d}.png")
print({split: len(list(folder.glob(f"digits/{split}/*/*.png"))) for split in ("train", "test")})

# %% [markdown]
# ## Two files
#
# The encoder has 64 random filters, the largest response of each in 4 x 4 cells, and nothing that is trained.

# %%
files = {
    "my_encoders.py": """
import torch
from torch import nn
from torchvision.transforms import v2

from asbc.embeddings import Encoder


def random_filters(filters: int = 64, seed: int = 0) -> Encoder:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, filters, 7, stride=2), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten())
    transform = v2.Compose([v2.Resize((32, 32)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    return Encoder(model.eval(), transform, (32, 32), architecture=f"{filters} random filters", origin=f"seed {seed}")
""",
    "embedding/random_filters.yaml": """
defaults: [encoder, _self_]
encoder: random_filters
source:
  _target_: my_encoders.random_filters
  filters: 64
""",
}
for name, content in files.items():
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)

# %% [markdown]
# On a command line this is
#
# ```sh
# asbc-embed --config-dir . embedding=random_filters embedding.dataset=imagefolder embedding.root=digits
# ```
#
# The vectors of the folder `test` are now in the store. `EncoderSource(...).load()` finds them there, since weights,
# transform and images are the same.

# %%
words = ["--config-dir", ".", "embedding=random_filters", "embedding.dataset=imagefolder", "embedding.root=digits"]
command = [sys.executable, "-m", "asbc.embeddings.command", *words]
done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
print(done.stdout.partition("), ")[0] + ")")

sys.path.append(str(folder))
from my_encoders import random_filters  # noqa: E402

encoder = random_filters()
source = EncoderSource("random_filters", encoder, dataset="imagefolder", root=str(folder / "digits"))
vectors = source.load()
vectors

# %% [markdown]
# ## A linear probe
#
# `EmbeddingDataModule` serves the images: a share of `train` is held out for validation, and `test` is the test set.
# The encoder stays as it is (`requires_grad_(True)` would fine-tune it), and a linear layer on top of it learns the
# classes.


# %%
class Probe(lightning.LightningModule):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone, self.head = backbone.requires_grad_(False), torch.nn.LazyLinear(classes)

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.head(self.backbone(batch[0])), batch[1])

    def test_step(self, batch, index):
        self.log("accuracy", (self.head(self.backbone(batch[0])).argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.head.parameters(), lr=1e-2)


quiet = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_model_summary": False}
data = EmbeddingDataModule("imagefolder", root=folder / "digits", transform=encoder.transform, batch_size=64)
trainer = lightning.Trainer(max_epochs=3, enable_progress_bar=False, **quiet)
probe = Probe(encoder.model, classes=10)
trainer.fit(probe, datamodule=data)
(result,) = trainer.test(probe, datamodule=data, verbose=False)
print(f"accuracy on the test images: {result['accuracy']:.3f}")

# %% [markdown]
# The same probe on stored vectors does not run the encoder again. `VectorDataModule` splits them: 70% for training,
# 10% for validation, 20% for testing.

# %%
stored = VectorDataModule(vectors, batch_size=64)
trainer = lightning.Trainer(max_epochs=10, enable_progress_bar=False, **quiet)
probe = Probe(torch.nn.Identity(), len(stored.classes))
trainer.fit(probe, datamodule=stored)
(result,) = trainer.test(probe, datamodule=stored, verbose=False)
print(f"{len(vectors)} vectors of {stored.num_features} features, accuracy {result['accuracy']:.3f}")

# %% [markdown]
# ## Graphs on the vectors
#
# The leave-one-out vote of three graphs, on these vectors and on the pixels: `uniform` is the plain kNN graph, the
# others weight their neighbours.

# %%
pixels = Digits().load()
spaces = {"pixels": (pixels.vectors[1200:], pixels.labels[1200:]), "random filters": (vectors.vectors, vectors.labels)}
graphs = {
    "kNN": asbc.GraphBuilder("uniform"),
    "Gaussian, perplexity": asbc.GraphBuilder("gaussian", "perplexity"),
    "NNK, spectral": asbc.GraphBuilder("nnk", "spectral"),
}
votes = {
    space: [asbc.NeighborVote(graph).fit(X, y).loo_score_ for graph in graphs.values()]
    for space, (X, y) in spaces.items()
}
figure, axes = plt.subplots(figsize=(6, 2.6))
for number, (space, values) in enumerate(votes.items()):
    axes.bar(np.arange(3) + 0.4 * number, values, 0.36, label=space)
    for at, value in enumerate(values):
        axes.text(at + 0.4 * number, value, f"{value:.3f}", ha="center", va="bottom", fontsize=8)
axes.set(xticks=np.arange(3) + 0.2, xticklabels=graphs, ylim=(0.9, 1.02), ylabel="leave-one-out accuracy")
axes.legend(loc="upper left")
figure.tight_layout()
