"""Checkpoints and data sets for the tests."""

import json
import os
import time

import numpy as np
import torch
import torchvision
from torch import nn
from torch.utils.data import Dataset
from torchvision.transforms import v2

from asbc.embeddings import Encoder

TO_TENSOR = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])


def cifar_resnet18(seed=0):
    """The backbone as a trained one is: batch norm statistics that matter."""
    torch.manual_seed(seed)
    model = torchvision.models.resnet18(num_classes=1)
    model.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)
    model.fc = nn.Identity()
    return shake(model)


def shake(model):
    """The same network with batch norms as training leaves them."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def checkpoint_of(backbone, prefix="backbone"):
    """A checkpoint with all that stands beside the backbone in solo-learn's."""
    weights = backbone.state_dict()
    state = {"queue": torch.randn(2, 8, 16), "queue_ptr": torch.zeros(1, dtype=torch.long)}
    state |= {f"{prefix}.{name}": value for name, value in weights.items()}
    state |= {f"momentum_{prefix}.{name}": torch.zeros_like(value) for name, value in weights.items()}
    state |= {"classifier.weight": torch.randn(100, 512), "projector.0.weight": torch.randn(64, 512)}
    return {
        "epoch": 3,
        "global_step": 40,
        "pytorch-lightning_version": "2.4.0",
        "state_dict": state,
        "loops": {},
        "callbacks": {},
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 0.1}]}],
        "lr_schedulers": [],
    }


def new_args(backbone="resnet18", dataset="cifar100", method="simclr", **kwargs):
    return {"method": method, "backbone": {"name": backbone, "kwargs": kwargs}, "data": {"dataset": dataset}}


def write_checkpoint(folder, checkpoint, args):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, folder / "simclr-cifar100-abc123-ep=3.ckpt")
    (folder / "args.json").write_text(json.dumps(args))
    return folder


class Noise(Dataset):
    """Images of noise, the same every time."""

    def __init__(self, n, labeled=True, size=32):
        self.images = np.random.default_rng(n).integers(0, 256, (n, size, size, 3), dtype=np.uint8)
        self.labeled = labeled

    def __len__(self):
        return len(self.images)

    def __getitem__(self, row):
        return (self.images[row], row % 5) if self.labeled else self.images[row]


class Tiny(nn.Module):
    """A model that counts the images it has seen, and takes its time if told to."""

    def __init__(self, width=6, pause=0.0):
        super().__init__()
        self.pause = pause
        self.net = nn.Sequential(nn.Conv2d(3, width, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.seen = 0

    def forward(self, images):
        self.seen += len(images)
        time.sleep(self.pause)
        return self.net(images)


class Held(Tiny):
    """A model that waits before an image beyond the first `after`, until there is a file named `gate`."""

    def __init__(self, after, gate):
        super().__init__()
        self.after, self.gate = after, gate

    def forward(self, images):
        while self.seen >= self.after and not os.path.exists(self.gate):
            time.sleep(0.01)
        return super().forward(images)


def held_encoder(after, gate):
    torch.manual_seed(0)
    return Encoder(Held(after, gate).eval(), TO_TENSOR, (32, 32), "held", "seed 0")


def tiny_encoder(seed=0, width=6, pause=0.0):
    torch.manual_seed(seed)
    return Encoder(Tiny(width, pause).eval(), TO_TENSOR, (32, 32), "tiny", f"seed {seed}")
