"""A Lightning callback that measures features by their neighbourhood graph during training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from asbc.extras import needed

with needed("GraphProbe", "embed"):
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from torch.utils.data import DataLoader, IterableDataset

from asbc.builder import GraphBuilder
from asbc.dimension import SMALLEST_TREE, levina_bickel
from asbc.learn.describe import global_rank
from asbc.learn.labels import encode_partial
from asbc.learn.predict import loo_predict
from asbc.learn.source import limit_candidates
from asbc.validation import whole_number

MIN_ROWS = SMALLEST_TREE + 1  # so that each row has enough neighbours for the dimension

Embed = Callable[[LightningModule, Any], Any]


class GraphProbe(Callback):
    """Embed a validation loader every few epochs, and log figures of its neighbourhood graph.

    It logs ``{name}/loo``, the leave-one-out accuracy of the neighbours' vote; ``{name}/dimension``, the median local
    dimension; and ``{name}/effective_rank``, the effective rank of all features, which falls when they collapse. They
    go through ``module.log``, so every logger, early stopping and checkpoints can use them.

    On several devices each one embeds all data, and the figures are those of the first. Training is not affected: modes
    of modules and the random state are restored.

    Parameters
    ----------
    loader : DataLoader, or another iterable of batches
        It is read once per interval, in every process; the data set of a DataLoader in its own order.
    every_n_epochs : int, default=5
        Interval; 5 means after epochs 5, 10, and so on.
    embed : callable, optional
        ``embed(module, batch)`` returns features, (b, d) or with more axes, which are flattened; or features and
        labels. A row with the label -1 or NaN is in the graph, but neither votes nor is scored. By default a batch is
        a pair of inputs and labels, or inputs alone, and ``module.backbone(inputs)``, or ``module(inputs)`` if there
        is no backbone, returns the features.
    builder : GraphBuilder, optional
        Default ``GraphBuilder(metric="cosine")``, with `k_cand` at most the number of other rows.
    name : str, default="probe"
        Prefix of the logged names.

    See Also
    --------
    asbc.describe : a full report on existing features.

    Examples
    --------
    >>> from asbc.learn import GraphProbe
    >>> import lightning
    >>> probe = GraphProbe([], every_n_epochs=10)
    >>> trainer = lightning.Trainer(callbacks=[probe], logger=False, enable_checkpointing=False)
    >>> probe in trainer.callbacks
    True
    """

    def __init__(
        self,
        loader: Iterable[Any],
        *,
        every_n_epochs: int = 5,
        embed: Embed | None = None,
        builder: GraphBuilder | None = None,
        name: str = "probe",
    ) -> None:
        self.loader = loader
        self.every_n_epochs = whole_number(every_n_epochs, "every_n_epochs", 1)
        self.embed = embed or backbone_features
        self.builder = builder
        self.name = name

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            pl_module.log_dict(self.measure(trainer, pl_module))

    def measure(self, trainer: Trainer, module: LightningModule) -> dict[str, float]:
        """Embed the data and return the figures, the same in every process."""
        X, y = embed_loader(trainer, module, self.loader, self.embed)
        found = self._figures(X, y) if trainer.is_global_zero else {}
        return trainer.strategy.broadcast(found, src=0)

    def _figures(self, X: NDArray[np.float32], y: NDArray[Any] | None) -> dict[str, float]:
        if len(X) < MIN_ROWS:
            raise ValueError(f"loader must give at least {MIN_ROWS} rows; got {len(X)}.")
        figures = dict.fromkeys(["dimension", "effective_rank", *([] if y is None else ["loo"])], float("nan"))
        # Zero or infinite features must not end the training: they are dropped; if too few remain, the figures are NaN.
        alive = np.isfinite(X).all(axis=1) & X.any(axis=1)
        if alive.sum() >= MIN_ROWS:
            X = X[alive]
            builder = limit_candidates(GraphBuilder() if self.builder is None else clone(self.builder), len(X)).fit(X)
            local = levina_bickel(builder.neighbors_, 8) if builder.dimension_ is None else builder.dimension_
            figures |= {"dimension": float(np.median(local)), "effective_rank": global_rank(X)}
            if y is not None:
                codes = encode_partial(y, name="the labels of loader")[0]
                known = codes[alive]
                hits = (loo_predict(builder.neighbors_.indices, builder.weights_, known) == known) & (known >= 0)
                figures["loo"] = float(hits.sum() / (codes >= 0).sum())  # a row without features counts as wrong
        return {f"{self.name}/{figure}": value for figure, value in figures.items()}


def embed_loader(trainer: Trainer, module: LightningModule, loader: Iterable[Any], embed: Embed) -> tuple[Any, Any]:
    """Return the features of a loader, (n, d) float32, and their labels or None.

    Modes of modules and the random state are restored.
    """
    if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):  # in the order of the data
        options = {"num_workers": loader.num_workers, "collate_fn": loader.collate_fn}
        loader = DataLoader(loader.dataset, loader.batch_size or 256, **options)
    features, labels = [], []
    with _evaluation_mode(module), torch.random.fork_rng(devices=[]), torch.no_grad():
        for batch in loader:
            batch = trainer.strategy.batch_to_device(batch, module.device)
            with trainer.precision_plugin.forward_context():
                given = embed(module, batch)
            part, named = given if isinstance(given, tuple) else (given, None)
            features.append(part.detach().float().flatten(1).cpu().numpy())
            if named is not None:
                labels.append(torch.as_tensor(named).reshape(-1).cpu().numpy())
    if not features:
        raise ValueError(f"loader gave no batch; GraphProbe needs at least {MIN_ROWS} rows.")
    X, y = np.concatenate(features), np.concatenate(labels) if labels else None
    if y is not None and len(y) != len(X):
        raise ValueError(f"loader must give one label per row, or none at all; got {len(y)} for {len(X)} rows.")
    return X, y


def backbone_features(module: LightningModule, batch: Any) -> tuple[Any, Any]:
    """Embed a batch of inputs, or of pairs of inputs and labels."""
    paired = isinstance(batch, list | tuple)
    backbone: Any = getattr(module, "backbone", None)
    features = (module if backbone is None else backbone)(batch[0] if paired else batch)
    return features, batch[1] if paired and len(batch) > 1 else None


@contextmanager
def _evaluation_mode(module: LightningModule) -> Iterator[None]:
    """Set a module to evaluation mode, and restore the mode of each of its parts afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
