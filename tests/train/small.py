"""Small images, a small network, and the real config around them."""

import numpy as np
import torch
from hydra import compose, initialize_config_dir

from asbc.train.command import CONF

ENCODERS = ("simclr", "mocov2", "byol", "barlow", "vicreg", "dino")
# One block per layer and two channels; views and images of 16 pixels.
TINY = [
    "encoder.backbone.name=resnet10",
    "encoder.backbone.width=2",
    "encoder.batch_size=8",
    "encoder.crop=16",
    "encoder.epochs=2",
    "data.image_size=16",
    "log_every_n_steps=1",
    "checkpoint_steps=3",
    "trainer.accelerator=cpu",
    "threads=1",
]


def write_images(path, n=40, size=16, seed=0):
    """Two classes of noise, one of them redder."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = rng.integers(0, 200, (n, size, size, 3), dtype=np.uint8)
    images[labels == 1, :, :, 0] += 55
    np.savez(path, images=images, labels=labels)
    return path


def config(folder, *overrides, encoder="simclr", probe=False):
    """The config of a run in `folder`, on images that are written there if need be."""
    for name, n in (("train", 40), ("test", 20)):
        if not (folder / f"{name}.npz").exists():
            write_images(folder / f"{name}.npz", n)
    words = [
        f"encoder={encoder}",
        "data=arrays",
        f"data.path={folder}/train.npz",
        f"data.test_path={folder}/test.npz",
        f"out={folder}/run",
        f"probe.enabled={str(probe).lower()}",
        *TINY,
        *overrides,
    ]
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return compose("config", overrides=words)


def flat_backbone(features=12, seed=0):
    """Images of 4 x 4 pixels to features, linearly: what a loss makes of it can be worked out by hand."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, features))
