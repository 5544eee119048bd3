"""One training run: from a config to the folder with its checkpoint, resumed if there is one."""

from __future__ import annotations

import logging
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch
from lightly.utils.benchmarking import knn_predict
from lightning.pytorch import Callback, LightningModule, Trainer
from omegaconf import DictConfig, OmegaConf
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from asbc.configs import build
from asbc.embeddings.datamodule import EmbeddingDataModule, PreparedImages, quiet_lightning, read_image
from asbc.embeddings.encoders import RESNETS, STANDARD_WIDTH, plain_view, read_weights, resnet
from asbc.learn.probe import GraphProbe, backbone_features, embed_loader
from asbc.train.checkpoint import Checkpoints, latest_checkpoint, read_curve, write_args
from asbc.train.data import TrainingData, drop_idle_steps
from asbc.validation import seed_number, whole_number

log = logging.getLogger(__name__)

SOLO_LEARN_NAMES = {  # of the methods' parameters
    "hidden": "proj_hidden_dim",
    "out": "proj_output_dim",
    "temperature": "temperature",
    "queue": "queue_size",
    "prototypes": "num_prototypes",
}


class EpochLog(Callback):
    """Log a line per epoch: the loss and the images per second."""

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.start, self.first = time.perf_counter(), trainer.global_step

    on_train_start = on_train_epoch_start  # a run may resume in mid-epoch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        images = (trainer.global_step - self.first) * pl_module.images_per_step  # type: ignore[operator]
        epoch, speed = trainer.current_epoch + 1, images / max(time.perf_counter() - self.start, 1e-9)
        if trainer.is_global_zero:
            loss = float(trainer.callback_metrics.get("loss", float("nan")))  # none if it resumed after the last step
            values = epoch, trainer.max_epochs, loss, speed, trainer.global_step
            log.info("epoch %d of %s: loss %.4f, %.0f images/s, step %d", *values)


class NeighborProbe(Callback):
    """Log ``knn20``: accuracy of the vote of the 20 nearest training images, weighted by ``exp(cosine / 0.1)``.

    It is measured on `held_out` before the first step, every `every_n_epochs` epochs, and at the end. `bank` has the
    training images. Both are data sets of (image, label) pairs.
    """

    def __init__(self, bank: Dataset, held_out: Dataset, every_n_epochs: int = 50, k: int = 20) -> None:
        self.loaders = [DataLoader(images, batch_size=500) for images in (bank, held_out)]
        self.every_n_epochs, self.k = every_n_epochs, k

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.global_step == 0:
            self._log(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        done = trainer.current_epoch + 1
        if done % self.every_n_epochs == 0 or done == trainer.max_epochs:
            self._log(trainer, pl_module)

    def _log(self, trainer: Trainer, module: LightningModule) -> None:
        found = [embed_loader(trainer, module, loader, backbone_features) for loader in self.loaders]
        if trainer.is_global_zero:
            (bank, labels), (held_out, expected) = ([torch.from_numpy(a).to(module.device) for a in p] for p in found)
            options = {"num_classes": int(max(labels.max(), expected.max())) + 1, "knn_k": min(self.k, len(bank))}
            bank, held_out = nn.functional.normalize(bank), nn.functional.normalize(held_out)
            votes = [knn_predict(q, bank.T, labels, knn_t=0.1, **options)[:, 0] for q in held_out.split(256)]
            value = float((torch.cat(votes) == expected).float().mean())
            log.info("step %d: knn%d accuracy %.3f on held-out images", trainer.global_step, self.k, value)
            for logger in trainer.loggers:
                logger.log_metrics({f"knn{self.k}": value}, step=trainer.global_step)
        trainer.strategy.barrier("neighbour probe")


@quiet_lightning()
def pretrain(config: DictConfig) -> Path:
    """Train an encoder, or resume a run that was stopped; return the folder with ``args.json`` and the checkpoint."""
    folder, encoder = Path(config.out).expanduser(), config.encoder
    _check(config)
    if config.threads:
        torch.set_num_threads(int(config.threads))
    images, held_out = (_open_images(config.data, split) for split in ("train", "test"))
    several = (config.trainer.devices, config.trainer.num_nodes) != (1, 1)
    trainer = lightning.Trainer(
        default_root_dir=str(folder),
        max_epochs=encoder.epochs,
        callbacks=[
            *_probes(config, images, held_out),
            EpochLog(),
            Checkpoints(folder, f"{encoder.name}-{config.data.name}", config.checkpoint_steps),
        ],
        logger=False,  # they write to the folder, so they are opened once all settings are checked
        enable_checkpointing=False,  # Checkpoints writes atomically
        enable_progress_bar=bool(config.progress) and sys.stderr.isatty(),
        enable_model_summary=False,
        use_distributed_sampler=False,
        sync_batchnorm=several and torch.cuda.is_available(),
        **OmegaConf.to_container(config.trainer, resolve=True),  # type: ignore[arg-type]
    )
    devices = trainer.num_devices * trainer.num_nodes
    images_per_step = encoder.batch_size * devices
    if len(images) < images_per_step:
        batch = f"encoder.batch_size={encoder.batch_size} on {devices} device(s)"
        raise ValueError(f"{batch}: a step needs {images_per_step} images, and there are {len(images)}")
    # The backbone comes first, so that all methods start from the same random weights for one seed.
    torch.manual_seed(config.seed)
    backbone = resnet(encoder.backbone.name, encoder.backbone.padding, encoder.backbone.width)
    method = build(encoder.method, "encoder.method", _partial_=True)(
        backbone=backbone,
        features=int(backbone.inplanes),
        recipe=build(encoder.recipe, "encoder.recipe"),
        images_per_step=images_per_step,
    )
    if encoder.batch_size < method.smallest_batch:
        needs = f"the loss of {type(method).__name__} needs at least {method.smallest_batch} images per device"
        raise ValueError(f"encoder.batch_size={encoder.batch_size}: {needs}")
    write_args(folder, solo_args(config))
    checkpoint = latest_checkpoint(folder)
    step = _finished_steps(checkpoint)
    trainer.loggers = [
        build(node, f"logger.{name}", folder=folder, from_step=step) for name, node in config.logger.items()
    ]
    every = min(config.log_every_n_steps, len(images) // images_per_step)
    trainer.log_every_n_steps = every  # type: ignore[attr-defined]
    views = drop_idle_steps(build(encoder.views, "encoder.views"))
    data = TrainingData(images, views, encoder.batch_size, config.seed, encoder.together, config.data.num_workers)
    if checkpoint:
        log.info("resuming from %s, step %d", checkpoint, step)
    try:
        trainer.fit(method, datamodule=data, ckpt_path=checkpoint)
    finally:
        if "wandb" in config.logger:
            sys.modules["wandb"].finish()  # otherwise the next run of a sweep would write into this one
    if trainer.is_global_zero:
        steps = _finished_steps(latest_checkpoint(folder))  # a trainer that forks does no steps in this process
        log.info("%s: %d steps in total", folder, steps)
        _log_result(config, folder)
    return folder


def _probes(config: DictConfig, images: Any, held_out: Any) -> list[Callback]:
    if not config.probe.enabled or held_out is None:
        return []
    view = plain_view(config.data.image_size, config.encoder.normalize.mean, config.encoder.normalize.std)
    if any(read_image(each, 0)[1] is None for each in (images, held_out)):
        raise ValueError("images without labels: a probe needs them; set probe.enabled=false to train without it")
    bank, test = (PreparedImages(each, view, labeled=True) for each in (images, held_out))
    few = DataLoader(_spread(test, config.probe.images), batch_size=256)  # type: ignore[var-annotated]
    return [
        GraphProbe(few, every_n_epochs=config.probe.every_n_epochs),
        NeighborProbe(_spread(bank, config.probe.bank), test, config.probe.knn_every_n_epochs),
    ]


def _spread(images: Any, most: int | None) -> Any:
    """Return at most `most` images, evenly spaced over the data set; None for all."""
    n = len(images)
    return images if most is None or most >= n else Subset(images, np.linspace(0, n - 1, most).astype(int).tolist())


def _log_result(config: DictConfig, folder: Path) -> None:
    """Log the accuracy before and after training, and the command that uses the encoder."""
    found = [value for _, metric, value in read_curve(folder / "metrics.csv") if metric == "knn20"]
    if len(found) > 1:
        log.info("knn20 accuracy on held-out images: %.3f before training, %.3f after", found[0], found[-1])
    words = ["asbc", "experiment=loo", "embedding=encoder", f"embedding.encoder={config.encoder.name}"]
    words.append(f"embedding.path={folder}")
    if config.data.dataset:
        words.append(f"embedding.dataset={config.data.dataset}")
        words += [f"embedding.root={config.data.root}"] if config.data.root else []
    elif "path" in config.data:
        path = config.data.get("test_path") or config.data.path
        words.append(f"embedding.dataset={{_target_:asbc.train.ImageArrays,path:{path}}}")
    log.info("next: %s", shlex.join(words))


def solo_args(config: DictConfig) -> dict[str, Any]:
    """Return the contents of ``args.json``: what solo-learn's programs read, and under ``asbc`` the other settings."""
    encoder, backbone = config.encoder, config.encoder.backbone
    kwargs = {} if backbone.width == STANDARD_WIDTH else {"width": backbone.width}
    plain: Any = OmegaConf.to_container(encoder, resolve=True)
    recipe = {key: plain["recipe"][key] for key in ("lr", "weight_decay")}
    method = {SOLO_LEARN_NAMES[key]: value for key, value in plain["method"].items() if key in SOLO_LEARN_NAMES}
    return {
        "name": f"{encoder.name}-{config.data.name}",
        "method": encoder.solo_learn,
        "method_kwargs": {**method, "pred_hidden_dim": plain["method"].get("hidden")},
        "momentum": {},
        "backbone": {"name": backbone.name, "kwargs": kwargs},
        # Its classifier learns from labels during training, which asbc does not do, so one class is enough.
        "data": {"dataset": config.data.name, "num_classes": 1, "num_large_crops": 2, "num_small_crops": 0},
        "max_epochs": encoder.epochs,
        "optimizer": {"name": encoder.recipe.optimizer, "batch_size": encoder.batch_size, "classifier_lr": 0, **recipe},
        "scheduler": {"name": "warmup_cosine"},
        "asbc": {
            "padding": backbone.padding,
            "image_size": config.data.image_size,
            **plain["normalize"],
            "seed": config.seed,
            "encoder": plain,
        },
    }


def _check(config: DictConfig) -> None:
    """Refuse wrong settings before anything is read."""
    for name in config.data:
        if OmegaConf.is_missing(config.data, name):
            raise ValueError(f"data.{name}: needed for data={config.data.name}, got none")
    if config.encoder.backbone.name not in RESNETS:
        raise ValueError(f"encoder.backbone.name={config.encoder.backbone.name}: expected one of {', '.join(RESNETS)}")
    counts = ["encoder.batch_size", "encoder.epochs", "encoder.together", "checkpoint_steps", "log_every_n_steps"]
    for name in [*counts, *(["threads"] if config.threads is not None else [])]:
        whole_number(OmegaConf.select(config, name), name, 1)
    seed_number(config.seed)


def _open_images(data: DictConfig, split: str) -> Any:
    """Return the training images, or the held-out ones; None if there are none."""
    source = data[split] if data[split] is not None else data.dataset
    source = build(source, f"data.{split}") if OmegaConf.is_config(source) else source
    if source is None:
        return None
    module = EmbeddingDataModule(source, split, data.root, download=data.download, cache=data.cache)
    module.prepare_data()
    module.setup()
    return module.dataset


def _finished_steps(checkpoint: Path | None) -> int:
    try:
        return int(read_weights(checkpoint)["global_step"]) if checkpoint else 0
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no checkpoint of a training run ({error}); remove {checkpoint} to train again") from error
