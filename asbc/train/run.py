"""One training run: from a config to the folder with its checkpoint, resumed where there is one."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import lightning
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from torch.utils.data import DataLoader

from asbc.embeddings.backbones import FULL, RESNETS, feature_width, resnet
from asbc.embeddings.checkpoints import plain_view
from asbc.embeddings.datamodule import EmbeddingDataModule
from asbc.embeddings.weights import read_weights
from asbc.extras import MissingExtraError
from asbc.learn.probe import GraphProbe
from asbc.train.batches import TrainingData
from asbc.train.checkpoint import Checkpoints, latest, write_args
from asbc.train.images import PlainImages
from asbc.train.method import Method
from asbc.train.probe import NeighborProbe
from asbc.train.views import without_idle_steps
from asbc.validation import seed_number, whole_number

log = logging.getLogger(__name__)


class EpochLines(lightning.pytorch.Callback):
    """A line per epoch: the loss, and how many images went through per second."""

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.began, self.steps = time.perf_counter(), trainer.global_step  # also in mid-epoch, where a run goes on

    def on_train_epoch_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self.began, self.steps = time.perf_counter(), trainer.global_step

    def on_train_epoch_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        took = time.perf_counter() - self.began
        images = (trainer.global_step - self.steps) * pl_module.images_per_step  # type: ignore[operator]
        loss = trainer.callback_metrics.get("loss", torch.tensor(float("nan")))
        if trainer.is_global_zero:
            log.info(
                "epoch %d of %s: loss %.4f, %.0f images/s, step %d",
                trainer.current_epoch + 1,
                trainer.max_epochs,
                float(loss),
                images / max(took, 1e-9),
                trainer.global_step,
            )


def pretrain(config: DictConfig) -> Path:
    """Train an encoder as a config says, or go on with a run that was stopped.

    Parameters
    ----------
    config : DictConfig
        What ``asbc/train/conf/config.yaml`` composes.

    Returns
    -------
    Path
        The folder with ``args.json`` and the checkpoint.
    """
    began, used = time.perf_counter(), sum(os.times()[:4])
    # Lightning's messages list devices that are not there, and advertise other products.
    for library in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning"):
        logging.getLogger(library).setLevel(logging.WARNING)
    folder, encoder = Path(config.out).expanduser(), config.encoder
    _check(config)
    if config.threads:
        torch.set_num_threads(int(config.threads))
    images, held_out = _images(config.data)
    world = _devices(config.trainer)
    images_per_step = encoder.batch_size * world
    if len(images) < images_per_step:
        raise ValueError(
            f"encoder.batch_size={encoder.batch_size} on {world} device(s): {images_per_step} images make a step, "
            f"and there are {len(images)}"
        )
    # The backbone is made first, so that one seed gives all methods the same random weights to begin with.
    torch.manual_seed(config.seed)
    backbone = resnet(encoder.backbone.name, encoder.backbone.padding, encoder.backbone.width)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*weight_norm.*deprecated.*")  # which is lightly's to mend
        method = _made(encoder.method, _partial_=True)(
            backbone=backbone,
            features=feature_width(backbone),
            recipe=_made(encoder.recipe),
            images_per_step=images_per_step,
        )
    _check_batch(method, encoder.batch_size)
    write_args(folder, solo_args(config))
    checkpoint = latest(folder)
    step = _steps_done(checkpoint)
    callbacks = [EpochLines(), Checkpoints(folder, f"{encoder.name}-{config.data.name}", config.checkpoint_steps)]
    if config.probe.enabled and held_out is not None:
        view = plain_view(config.data.image_size, encoder.normalize.mean, encoder.normalize.std)
        few = PlainImages(held_out, view, config.probe.images)
        callbacks[:0] = [
            GraphProbe(DataLoader(few, batch_size=256), every_n_epochs=config.probe.every_n_epochs),
            NeighborProbe(
                PlainImages(images, view, config.probe.bank),
                PlainImages(held_out, view),
                config.probe.knn_every_n_epochs,
            ),
        ]
    trainer = lightning.Trainer(
        default_root_dir=str(folder),
        max_epochs=encoder.epochs,
        callbacks=callbacks,
        logger=[_made(logger, folder=folder, from_step=step) for logger in config.logger.values()],
        enable_checkpointing=False,  # ours are written whole or not at all
        enable_progress_bar=bool(config.progress) and sys.stderr.isatty(),
        enable_model_summary=False,
        log_every_n_steps=min(config.log_every_n_steps, len(images) // images_per_step),
        use_distributed_sampler=False,
        sync_batchnorm=world > 1 and torch.cuda.is_available(),
        **OmegaConf.to_container(config.trainer, resolve=True),  # type: ignore[arg-type]
    )
    views = without_idle_steps(_made(encoder.views))
    batches = TrainingData(images, views, encoder.batch_size, config.seed, encoder.together, config.data.num_workers)
    if checkpoint:
        log.info("going on from %s, step %d", checkpoint, step)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*")
            warnings.filterwarnings("ignore", ".*sync_dist=True.*")  # the probe's figures are of all devices already
            trainer.fit(method, datamodule=batches, ckpt_path=checkpoint)
    finally:
        if "wandb" in config.logger:
            sys.modules["wandb"].finish()  # else the next run of a sweep would write into this one
    if trainer.is_global_zero:
        log.info(
            "%s: %d steps in all; this time %.0f s, %.0f s of CPU",
            folder,
            _steps_done(latest(folder)),  # a trainer whose processes are not this one has made none
            time.perf_counter() - began,
            sum(os.times()[:4]) - used,  # of processes that were started here, too
        )
    return folder


def solo_args(config: DictConfig) -> dict[str, Any]:
    """What ``args.json`` says: solo-learn's keys, and under ``asbc`` what it takes to train or embed just so again."""
    encoder, backbone = config.encoder, config.encoder.backbone
    kwargs = {} if backbone.width == FULL else {"width": backbone.width}
    plain: Any = OmegaConf.to_container(encoder, resolve=True)
    return {
        "name": f"{encoder.name}-{config.data.name}",
        "method": encoder.solo_learn,
        "backbone": {"name": backbone.name, "kwargs": kwargs},
        "data": {"dataset": config.data.name},
        "max_epochs": encoder.epochs,
        "optimizer": {"name": encoder.recipe.optimizer, "batch_size": encoder.batch_size, "lr": encoder.recipe.lr},
        "asbc": {
            "padding": backbone.padding,
            "image_size": config.data.image_size,
            **plain["normalize"],
            "seed": config.seed,
            "encoder": plain,
        },
    }


def _check(config: DictConfig) -> None:
    """What can be told to be wrong before anything is read."""
    encoder = config.encoder
    for name in config.data:
        if OmegaConf.is_missing(config.data, name):
            raise ValueError(f"data.{name}: wanted for data={config.data.name}, got none")
    if encoder.backbone.name not in RESNETS:
        raise ValueError(f"encoder.backbone.name={encoder.backbone.name}: wanted is one of {', '.join(RESNETS)}")
    for name in ("batch_size", "epochs", "together"):
        whole_number(encoder[name], f"encoder.{name}", 1)
    for name in ("checkpoint_steps", "log_every_n_steps"):
        whole_number(config[name], name, 1)
    if config.threads is not None:
        whole_number(config.threads, "threads", 1)
    seed_number(config.seed)


def _check_batch(method: Method, batch_size: int) -> None:
    if batch_size < method.smallest_batch:
        raise ValueError(
            f"encoder.batch_size={batch_size}: the loss of {type(method).__name__} compares images of a batch, "
            f"{method.smallest_batch} or more per device are wanted"
        )


def _images(data: DictConfig) -> tuple[Any, Any]:
    """The data set to learn from, and the held-out one, None if there is none."""
    found: list[Any] = []
    for split in ("train", "test"):
        source = data[split] if data[split] is not None else data.dataset
        source = _made(source) if OmegaConf.is_config(source) else source
        if source is None:
            found.append(None)
            continue
        module = EmbeddingDataModule(source, split, data.root, download=data.download, cache=data.cache)
        module.prepare_data()
        module.setup()
        found.append(module.dataset)
    return found[0], found[1]


def _made(node: Any, **kwargs: Any) -> Any:
    """What a config stands for; an error of its own comes out as it is, not wrapped in Hydra's."""
    try:
        return instantiate(node, **kwargs)
    except InstantiationException as error:
        if isinstance(error.__cause__, ValueError | OSError | MissingExtraError):
            raise error.__cause__ from None
        raise


def _devices(trainer: DictConfig) -> int:
    """How many processes train together."""
    devices = trainer.devices
    if devices in ("auto", -1, "-1"):
        devices = max(torch.cuda.device_count(), 1) if trainer.accelerator != "cpu" else 1
    count = len(devices) if OmegaConf.is_list(devices) else int(devices)
    return count * int(trainer.num_nodes)


def _steps_done(checkpoint: Path | None) -> int:
    if checkpoint is None:
        return 0
    try:
        return int(read_weights(checkpoint)["global_step"])
    except ValueError as error:
        raise ValueError(f"{error}; remove it to train anew") from error
    except (KeyError, TypeError) as error:
        raise ValueError(f"{checkpoint}: not a checkpoint of a training run; remove it to train anew") from error
