"""Data sets of the Hugging Face hub, or folders of the same layout: images for an encoder, or ready vectors."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.arrays import Embeddings, check_arrays
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.download import DownloadError, reachable
from asbc.embeddings.sources import EncoderSource


@dataclass
class HuggingFace(EncoderSource):
    """A data set of the `datasets` library: its images through an encoder, or the vectors in one of its columns.

    Parameters
    ----------
    encoder : str
        Its name in results.
    source : {"lightly", "checkpoint", "timm"} or Encoder, default="published"
        Where the encoder comes from, if the column has images; the default has none of the hub's. The parameters that
        are not explained here are those of `EncoderSource`.
    path, model, prefix : str, default=None
    padding : {1, 2}, default=None
    dataset : str, default="cifar100"
        Its name on the hub, such as ``"uoft-cs/cifar100"``; or a folder, with data files as on the hub or as
        ``save_to_disk`` writes it.
    split : str, default="test"
        Which of its splits.
    name : str, default=None
        The data set's name in results; None takes the last part of `dataset`.
    root : str, default=None
        Not used.
    batch_size : int, default=256
    num_workers : int, default=0
    download : bool, default=True
        Whether the hub may be asked.
    trust_checkpoint : bool, default=False
    cache : str, default=None
    trainer : mapping, default={}
    config : str, default=None
        Which of its configurations, where it has several.
    revision : str, default=None
        Which of its versions on the hub; None takes the newest.
    column : str, default=None
        The images or the vectors; None takes the only column of images, else the only one of vectors.
    label : str, default=None
        The classes; None takes the only column of class labels, else one called ``label``, else none.

    See Also
    --------
    EncoderSource : images of other kinds.

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
        """The vectors of the column, or what the encoder makes of its images."""
        if not isinstance(self.dataset, str) or not self.dataset:
            raise ValueError("dataset: the name of a data set on the hub is wanted, or its folder, got none")
        try:
            rows = open_dataset(self.dataset, self.split, self.config, self.revision, self.cache, self.download)
        except DownloadError as error:
            more = "\n".join(file.lines() for file in self._weights())
            raise DownloadError(f"{error}" + (f"\nMissing too, for its images:\n{more}" if more else "")) from error
        column, kind = _column(rows, self.column, self.dataset)
        name = self.name or Path(self.dataset).name
        label = _label(rows, self.label, column, self.dataset)
        if kind == "vectors":
            vectors = _numbers(rows, column, self.dataset)
            labels = None if label is None else np.asarray(rows.with_format("numpy")[:][label])
            check_arrays(vectors, labels, f"{self.dataset}, column {column}")
            return Embeddings(vectors, labels, name, self.encoder)
        if self.source == "published":
            raise ValueError(
                "source='published': ready vectors are of CIFAR only; wanted is lightly, checkpoint or timm"
            )
        images = HubImages(rows, column, label)
        # As any other data set of images, under its own name.
        fields = {key: getattr(self, key) for key in EncoderSource.__dataclass_fields__}
        return EncoderSource(**{**fields, "dataset": images, "name": name}).load()


class HubImages:
    """Images and labels of a data set's columns, for a DataLoader."""

    def __init__(self, rows: Any, column: str, label: str | None) -> None:
        self.rows, self.column, self.label = rows, column, label
        self.classes: NDArray | None = None
        if label is not None and rows.features[label].dtype == "string":
            self.classes = np.unique(np.asarray(rows.with_format("numpy")[:][label]))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> Any:
        item = self.rows[int(row)]
        if self.label is None:
            return item[self.column]
        label = item[self.label]
        return item[self.column], int(label if self.classes is None else np.searchsorted(self.classes, label))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the images as they are stored, which is far cheaper than unpacking them."""
        from datasets import Image

        digest = hashlib.sha256()
        for item in self.rows.cast_column(self.column, Image(decode=False)):
            image = item[self.column]
            content = image["bytes"] if image["bytes"] is not None else Path(image["path"]).read_bytes()
            digest.update(hashlib.sha256(content).digest())
            digest.update(f"{item[self.label] if self.label else None};".encode())
        return digest.hexdigest()


def open_dataset(
    name: str,
    split: str = "test",
    config: str | None = None,
    revision: str | None = None,
    cache: str | os.PathLike | None = None,
    download: bool = True,
) -> Any:
    """A split of a data set, by its name on the hub or its folder.

    Parameters
    ----------
    name : str
        Its name on the hub, or a folder.
    split : str, default="test"
        Which of its splits.
    config, revision : str, optional
        Which configuration and which version.
    cache : path, optional
        The cache folder, see `asbc.embeddings.cache.cache_folder`.
    download : bool, default=True
        Whether the hub may be asked.
    """
    try:
        import datasets
        from huggingface_hub import constants
    except ImportError as error:
        raise ValueError(f"embedding=hf needs the package {error.name}: pip install 'asbc[hf]'") from error
    folder = Path(name).expanduser()
    if folder.is_dir() and any((folder / file).exists() for file in ("state.json", "dataset_dict.json")):
        found = datasets.load_from_disk(str(folder))
        if isinstance(found, datasets.Dataset):
            return found
        if split not in found:
            raise ValueError(f"split={split!r}: {name} has {', '.join(found)}")
        return found[split]
    reason = None
    if not folder.is_dir():
        reason = reachable(constants.ENDPOINT) if download else "download=false"
    try:
        with _offline(reason is not None or folder.is_dir()):
            place = str(cache_folder(cache) / "hf")
            return datasets.load_dataset(
                str(folder) if folder.is_dir() else name, config, split=split, revision=revision, cache_dir=place
            )
    except Exception as error:  # the library raises a great many kinds
        first = (str(error).splitlines() or [type(error).__name__])[0]
        if reason:
            said = "" if "OfflineMode" in first else f": {first}"
            raise DownloadError(
                f"dataset={name!r} is no folder, is not in the cache, and the hub is out of reach ({reason}){said}\n"
                f"Get {constants.ENDPOINT}/datasets/{name} on another machine (hf download --repo-type dataset {name} "
                "--local-dir folder) and give embedding.dataset=folder.\n"
                "Or do without: embedding=files reads vectors of yours (embedding.path=...), and embedding=clinc100 "
                "needs no file at all."
            ) from error
        raise ValueError(f"dataset={name!r}, split={split!r}: {first}") from error


@contextmanager
def _offline(offline: bool) -> Iterator[None]:
    """Keep the libraries from asking a hub that is known to be out of reach, again and again."""
    import datasets.config
    from huggingface_hub import constants

    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if offline:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


def _column(rows: Any, wanted: str | None, name: str) -> tuple[str, str]:
    """The column to embed, and whether it has images or vectors."""
    from datasets import Image

    kinds = {}
    for key, feature in rows.features.items():
        inner = getattr(feature, "feature", None)
        if isinstance(feature, Image):
            kinds[key] = "images"
        elif inner is not None and str(getattr(inner, "dtype", "")).startswith("float"):
            kinds[key] = "vectors"
    if wanted is not None:
        if wanted not in kinds:
            has = ", ".join(f"{key} ({kind})" for key, kind in kinds.items()) or "none of them"
            raise ValueError(
                f"column={wanted!r}: images or vectors are wanted; {name} has {has} among {list(rows.features)}"
            )
        return wanted, kinds[wanted]
    for kind in ("images", "vectors"):
        found = [key for key, each in kinds.items() if each == kind]
        if len(found) == 1:
            return found[0], kind
        if found:
            raise ValueError(f"column: {name} has several columns of {kind}, name one of {', '.join(found)}")
    raise ValueError(f"column: {name} has neither images nor vectors of floats, but {rows.features}")


def _label(rows: Any, wanted: str | None, column: str, name: str) -> str | None:
    from datasets import ClassLabel

    others = [key for key in rows.features if key != column]
    if wanted is not None:
        if wanted not in others:
            raise ValueError(f"label={wanted!r}: {name} has no such column; there are {', '.join(others) or 'none'}")
        return wanted
    classes = [key for key in others if isinstance(rows.features[key], ClassLabel)]
    if len(classes) > 1:
        raise ValueError(f"label: {name} has several columns of classes, name one of {', '.join(classes)}")
    return classes[0] if classes else "label" if "label" in others else None


def _numbers(rows: Any, column: str, name: str) -> NDArray:
    """A column of vectors as one array."""
    lengths = {len(vector) if vector is not None else 0 for vector in rows.select_columns([column])[:][column]}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(
            f"{name}, column {column}: vectors of one length are wanted, got lengths {sorted(lengths)[:5]}"
        )
    return np.asarray(rows.with_format("numpy", columns=[column])[:][column])
