"""Data sets of the Hugging Face hub: images, or ready vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.download import DownloadError, unreachable
from asbc.embeddings.files import plain_labels
from asbc.embeddings.source import EncoderSource
from asbc.embeddings.store import Embeddings, cache_folder, check_arrays, first_line
from asbc.extras import needed


@dataclass
class HuggingFace(EncoderSource):
    """A data set of the `datasets` library: its images through an encoder, or the vectors in one of its columns.

    Parameters
    ----------
    encoder : str
        Its name in results.
    source : {"lightly", "checkpoint", "timm"} or Encoder, default="published"
        Where the encoder for images comes from; "published" has vectors of CIFAR only. Parameters without a description
        are those of `EncoderSource`.
    dataset : str, default="cifar100"
        Its name on the hub, such as ``"uoft-cs/cifar100"``; or a folder with data files as on the hub, or written by
        ``save_to_disk``.
    split : str, default="test"
    name : str, default=None
        The data set's name in results; None takes the last part of `dataset`.
    download : bool, default=True
        Whether the hub may be asked.
    config, revision : str, default=None
        Which of its configurations and versions.
    batch_size, num_workers : int, default=256 and 0
    path, model, prefix, padding, root, cache : str, default=None
    trust_checkpoint : bool, default=False
    trainer : mapping, default={}
    column : str, default=None
        The images or the vectors; None takes the only column of images, else the only one of vectors.
    label : str, default=None
        The classes; None takes the only column of class labels, else one called ``label``, else none.

    See Also
    --------
    EncoderSource : images from other places.

    Examples
    --------
    Nothing is read before `load`:

    >>> from asbc.embeddings import HuggingFace
    >>> HuggingFace("mine", dataset="folder", column="vectors", split="train").column
    'vectors'
    """

    config: str | None = None
    revision: str | None = None
    column: str | None = None
    label: str | None = None

    def load(self) -> Embeddings:
        """Return the vectors of the column, or embed its images."""
        if not isinstance(self.dataset, str) or not self.dataset:
            raise ValueError("dataset: no data set of the hub or folder given")
        rows = self._open(self.dataset)
        column, label, is_image = self._choose_columns(rows.features)
        name = self.name or Path(self.dataset).name
        if not is_image:
            vectors = _read_column(rows, column)
            labels = None if label is None else plain_labels(_read_column(rows, label), self.dataset)
            check_arrays(vectors, labels, f"{self.dataset}, column {column}")
            return Embeddings(vectors, labels, name, self.encoder)
        if self.source in ("published", "sample"):
            raise ValueError(f"source={self.source!r} has no encoder for images; choose lightly, checkpoint or timm")
        return EncoderSource.load(replace(self, dataset=HubImages(rows, column, label), name=name))

    def _open(self, name: str) -> Any:
        """Return the split of the data set, by its name on the hub or its folder."""
        with needed("embedding=hf", "hf"):
            import datasets
            from huggingface_hub import constants
        folder = Path(name).expanduser()
        if any((folder / file).exists() for file in ("state.json", "dataset_dict.json")):
            found = datasets.load_from_disk(str(folder))
            if isinstance(found, datasets.Dataset):
                return found
            if self.split not in found:
                raise ValueError(f"split={self.split!r}: {name} has {', '.join(found)}")
            return found[self.split]
        local, reason = folder.is_dir(), None
        if not local:
            reason = unreachable(constants.ENDPOINT) if self.download else "download=false"
        options = {"split": self.split, "revision": self.revision, "cache_dir": str(cache_folder(self.cache) / "hf")}
        try:
            with _offline(local or reason is not None):
                return datasets.load_dataset(str(folder) if local else name, self.config, **options)
        except Exception as error:  # datasets raises many kinds
            problem = f"dataset={name!r}, split={self.split!r}: {first_line(error)}"
            if not reason:
                raise ValueError(problem) from error
            raise DownloadError(
                f"{problem}. It is not a folder, not in the cache, and the hub is unreachable ({reason})\n"
                "Without a download: embedding=files reads your vectors (embedding.path=...), embedding=clinc100 needs "
                "no file.\n"
                f"Or download {constants.ENDPOINT}/datasets/{name} on another machine (hf download --repo-type dataset "
                f"{name} --local-dir folder) and give embedding.dataset=folder."
            ) from error

    def _choose_columns(self, features: Mapping[str, Any]) -> tuple[str, str | None, bool]:
        """Return the column to embed, the column of classes or None, and whether the first one holds images."""
        from datasets import ClassLabel, Image

        images = [key for key, each in features.items() if isinstance(each, Image)]
        vectors = [key for key, each in features.items() if "float" in str(getattr(each, "feature", ""))]
        found = [key for key in (*images, *vectors) if key == self.column] if self.column else images or vectors
        if len(found) != 1:
            raise ValueError(
                f"column={self.column}: name one column of {self.dataset} with images ({', '.join(images) or 'none'}) "
                f"or with vectors of floats ({', '.join(vectors) or 'none'})"
            )
        others = {key: each for key, each in features.items() if key != found[0]}
        classes = [key for key, each in others.items() if isinstance(each, ClassLabel)]
        labels = [self.label] if self.label else classes or [key for key in others if key == "label"]
        if len(labels) > 1 or not others.keys() >= set(labels):
            raise ValueError(f"label={self.label}: name one column of classes of {self.dataset}: {', '.join(others)}")
        return found[0], labels[0] if labels else None, found[0] in images


class HubImages:
    """Images and labels in the columns of a data set, for a DataLoader."""

    def __init__(self, rows: Any, column: str, label: str | None) -> None:
        self.rows, self.column, self.label = rows, column, label
        # class_encode_column of `datasets` would write a copy of all images next to them.
        text = label is not None and rows.features[label].dtype == "string"
        self.classes = np.unique(_read_column(rows, str(label))) if text else None

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        item = self.rows[int(row)]
        if self.label is None:
            return item[self.column]
        label = item[self.label]
        return item[self.column], int(label if self.classes is None else np.searchsorted(self.classes, label))

    @property
    def fingerprint(self) -> str:
        """The hash that `datasets` gives the rows, so that images need not be decoded to recognise them."""
        return f"{self.rows._fingerprint} {self.column} {self.label}"


@contextmanager
def _offline(offline: bool) -> Iterator[None]:
    """Keep the libraries from contacting a hub that is known to be unreachable."""
    import datasets.config
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if offline:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _read_column(rows: Any, column: str) -> NDArray:
    return np.asarray(rows.with_format("numpy", columns=[column])[:][column])  # other columns, such as images, unread
