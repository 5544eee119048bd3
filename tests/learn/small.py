"""A small model and data for the probe; a module of its own, so that other processes can import it."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def blobs(n=60, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 3
    return TensorDataset(torch.randn(n, 6, generator=generator) * 0.5 + 4.0 * labels[:, None].float(), labels)


class Small(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
        self.frozen = nn.BatchNorm1d(5).eval()
        self.head = nn.Linear(5, 3)
        self.seen_modes = []

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, _):
        self.seen_modes.append((self.backbone.training, self.frozen.training))
        loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def linear_features(module, batch):
    """Features that depend on no batch statistics, so that the number of processes cannot change them."""
    return module.backbone[0](batch[0]), batch[1]


def loader(shuffle=False, n=60):
    return DataLoader(blobs(n), batch_size=16, shuffle=shuffle)


def trainer(callbacks, **options):
    return lightning.Trainer(
        accelerator="cpu",
        logger=options.pop("logger", False),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=callbacks,
        **options,
    )
