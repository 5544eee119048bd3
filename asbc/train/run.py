"""One training run: from a config to the folder with its checkpoint, resumed if there is one."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
import warnings
from contextlib import ExitStack
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
from asbc.embeddings.datamodule import EmbeddingDataModule, PreparedImages, read_image
from asbc.embeddings.encoders import RESNETS, STANDARD_WIDTH, plain_view, read_weights, resnet
from asbc.learn.probe import GraphProbe, backbone_features, embed_loader
from asbc.progress import Progress
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


class TrainingProgress(Callback):
    """Show a bar over all steps, and log a line per epoch: the loss and the images per second."""

    def __init__(self, shown: bool) -> None:
        self.shown = shown
        self.open = ExitStack()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        total = int(trainer.estimated_stepping_batches)
        step = Progress(self.shown and trainer.is_global_zero).step("training", total, trainer.global_step, "steps")
        self.advance = self.open.enter_context(step)
        self.start, self.first = time.perf_counter(), trainer.global_step  # a run may resume in mid-epoch

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.start, self.first = time.perf_counter(), trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        self.advance(1, f"epoch {trainer.current_epoch + 1}")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        seconds = time.perf_counter() - self.start
        images = (trainer.global_step - self.first) * pl_module.images_per_step  # type: ignore[operator]
        loss = trainer.callback_metrics.get("loss", torch.tensor(float("nan")))
        if trainer.is_global_zero:
            log.info(
                "epoch %d of %s: loss %.4f, %.0f images/s, step %d",
                trainer.current_epoch + 1,
                trainer.max_epochs,
                float(loss),
                images / max(seconds, 1e-9),
                trainer.global_step,
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.open.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.open.close()


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


def pretrain(config: DictConfig) -> Path:
    """Train an encoder, or resume a run that was stopped; return the folder with ``args.json`` and the checkpoint."""
    start, cpu_start = time.perf_counter(), sum(os.times()[:4])
    for library in ("lightning.pytorch", "lightning.fabric", "pytorch_lightning"):
        logging.getLogger(library).setLevel(logging.WARNING)
    folder, encoder = Path(config.out).expanduser(), config.encoder
    _check(config)
    if config.threads:
        torch.set_num_threads(int(config.threads))
    images, held_out = _open_images(config.data)
    world = _count_devices(config.trainer)
    images_per_step = encoder.batch_size * world
    if len(images) < images_per_step:
        raise ValueError(
            f"encoder.batch_size={encoder.batch_size} on {world} device(s): a step needs {images_per_step} images, "
            f"and there are {len(images)}; give a smaller encoder.batch_size"
        )
    # The backbone comes first, so that all methods start from the same random weights for one seed.
    torch.manual_seed(config.seed)
    backbone = resnet(encoder.backbone.name, encoder.backbone.padding, encoder.backbone.width)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*weight_norm.*deprecated.*")  # in lightly
        method = build(encoder.method, "encoder.method", _partial_=True)(
            backbone=backbone,
            features=int(backbone.inplanes),
            recipe=build(encoder.recipe, "encoder.recipe"),
            images_per_step=images_per_step,
        )
    if encoder.batch_size < method.smallest_batch:
        raise ValueError(
            f"encoder.batch_size={encoder.batch_size}: the loss of {type(method).__name__} compares images of a batch "
            f"and needs at least {method.smallest_batch} per device"
        )
    write_args(folder, solo_args(config))
    checkpoint = latest_checkpoint(folder)
    step = _finished_steps(checkpoint)
    callbacks = [
        *_probes(config, images, held_out),
        TrainingProgress(bool(config.progress)),
        Checkpoints(folder, f"{encoder.name}-{config.data.name}", config.checkpoint_steps),
    ]
    trainer = lightning.Trainer(
        default_root_dir=str(folder),
        max_epochs=encoder.epochs,
        callbacks=callbacks,
        logger=[build(node, f"logger.{name}", folder=folder, from_step=step) for name, node in config.logger.items()],
        enable_checkpointing=False,  # Checkpoints writes atomically
        enable_progress_bar=False,
        enable_model_summary=False,
        log_every_n_steps=min(config.log_every_n_steps, len(images) // images_per_step),
        use_distributed_sampler=False,
        sync_batchnorm=world > 1 and torch.cuda.is_available(),
        **OmegaConf.to_container(config.trainer, resolve=True),  # type: ignore[arg-type]
    )
    views = drop_idle_steps(build(encoder.views, "encoder.views"))
    data = TrainingData(images, views, encoder.batch_size, config.seed, encoder.together, config.data.num_workers)
    if checkpoint:
        log.info("resuming from %s, step %d", checkpoint, step)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*does not have many workers.*")
            warnings.filterwarnings("ignore", ".*treespec, LeafSpec.*")
            warnings.filterwarnings("ignore", ".*sync_dist=True.*")
            trainer.fit(method, datamodule=data, ckpt_path=checkpoint)
    finally:
        if "wandb" in config.logger:
            sys.modules["wandb"].finish()  # otherwise the next run of a sweep would write into this one
    if trainer.is_global_zero:
        steps = _finished_steps(latest_checkpoint(folder))  # a trainer that forks does no steps in this process
        times = time.perf_counter() - start, sum(os.times()[:4]) - cpu_start
        log.info("%s: %d steps in total; this time %.0f s, %.0f s of CPU", folder, steps, *times)
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
    encoder = config.encoder
    for name in config.data:
        if OmegaConf.is_missing(config.data, name):
            raise ValueError(f"data.{name}: needed for data={config.data.name}, got none")
    if encoder.backbone.name not in RESNETS:
        raise ValueError(f"encoder.backbone.name={encoder.backbone.name}: expected one of {', '.join(RESNETS)}")
    for name in ("batch_size", "epochs", "together"):
        whole_number(encoder[name], f"encoder.{name}", 1)
    for name in ("checkpoint_steps", "log_every_n_steps"):
        whole_number(config[name], name, 1)
    if config.threads is not None:
        whole_number(config.threads, "threads", 1)
    seed_number(config.seed)


def _open_images(data: DictConfig) -> tuple[Any, Any]:
    """Return the training images, and the held-out ones or None."""
    found: list[Any] = []
    for split in ("train", "test"):
        source = data[split] if data[split] is not None else data.dataset
        source = build(source, f"data.{split}") if OmegaConf.is_config(source) else source
        if source is None:
            found.append(None)
            continue
        module = EmbeddingDataModule(source, split, data.root, download=data.download, cache=data.cache)
        module.prepare_data()
        module.setup()
        found.append(module.dataset)
    return found[0], found[1]


def _count_devices(trainer: DictConfig) -> int:
    devices = trainer.devices
    if devices in ("auto", -1, "-1"):
        devices = max(torch.cuda.device_count(), 1) if trainer.accelerator != "cpu" else 1
    count = len(devices) if OmegaConf.is_list(devices) else int(devices)
    return count * int(trainer.num_nodes)


def _finished_steps(checkpoint: Path | None) -> int:
    if checkpoint is None:
        return 0
    try:
        return int(read_weights(checkpoint)["global_step"])
    except ValueError as error:
        raise ValueError(f"{error}; remove it to train again") from error
    except (KeyError, TypeError) as error:
        raise ValueError(f"{checkpoint}: not a checkpoint of a training run; remove it to train again") from error
