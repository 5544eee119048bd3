"""Where embeddings come from: each class is a leaf of ``conf/embedding`` and has one method, ``load``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from asbc.embeddings import hub
from asbc.embeddings.arrays import Embeddings
from asbc.embeddings.cache import cache_folder
from asbc.embeddings.cifar import CIFAR, cifar_archive, cifar_folder
from asbc.embeddings.contents import npz_contents
from asbc.embeddings.download import Wanted
from asbc.embeddings.lightly import INSTEAD, lightly_weights
from asbc.embeddings.missing import fail_early, fetch_all
from asbc.embeddings.published import published_embeddings
from asbc.embeddings.reading import read_vectors
from asbc.embeddings.store import Store, read_entry
from asbc.extras import needed

if TYPE_CHECKING:  # torch takes seconds to import, and published embeddings do without it
    from torch.utils.data import Dataset

    from asbc.embeddings.types import Encoder


@dataclass
class Files:
    """The user's own arrays.

    Parameters
    ----------
    path : str, default=None
        A file of vectors: ``.npy``, ``.npz``, ``.csv``, ``.parquet`` or ``.h5ad``; or the folder of an entry of the
        store. See `asbc.embeddings.reading.read_vectors`, also for the next three. `load` needs it.
    labels : str, default=None
        Another file with the labels; takes the place of labels in `path`.
    vectors : str, default=None
        Name of the vectors in `path`, where it cannot be told.
    label : str, default=None
        Name of the array or column with the labels, where it cannot be told.
    name : str, default=None
        The data set's name; None takes the file's name, or the one an entry has.
    encoder : str, default="files"
        What made the vectors. An entry of the store keeps its own name unless another is given.

    See Also
    --------
    EncoderSource : what an encoder makes of images.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from asbc.embeddings import Files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "corners.npz")
    ...     np.savez(path, embeddings=np.eye(3), labels=[0, 0, 1])
    ...     found = Files(path).load()
    >>> found.name, found.vectors.shape, found.labels.tolist()
    ('corners', (3, 3), [0, 0, 1])
    """

    path: str | None = None
    labels: str | None = None
    vectors: str | None = None
    label: str | None = None
    name: str | None = None
    encoder: str = "files"

    def load(self) -> Embeddings:
        if not self.path:
            raise ValueError("path: the file with your embeddings is wanted (embedding.path=vectors.npy), got none")
        path = Path(self.path).expanduser()
        stored = read_entry(path) if (path / "manifest.json").is_file() else None
        if stored and not self.labels:
            return replace(stored, name=self.name or stored.name, encoder=self._encoder(stored))
        vectors, labels = read_vectors(path, self.labels, vectors=self.vectors, label=self.label)
        name = self.name or (stored.name if stored else path.stem)
        return Embeddings(vectors, labels, name, self._encoder(stored))

    def _encoder(self, stored: Embeddings | None) -> str:
        """The name given; "files", the default, says nothing of an entry that knows its own."""
        return stored.encoder if stored and self.encoder == "files" else self.encoder


@dataclass
class Clinc100:
    """The sample that comes with asbc: 3,000 sentences of CLINC150, 100 intents with 30 each, from a MiniLM encoder.

    The vectors have 384 numbers and are not normalised. CLINC150 is under the licence CC BY 3.0; ``clinc100.txt``
    beside the file says where it comes from.

    See Also
    --------
    Digits : a smaller set, of images.

    Examples
    --------
    >>> from asbc.embeddings import Clinc100
    >>> sample = Clinc100().load()
    >>> sample.vectors.shape, sample.name, sample.encoder
    ((3000, 384), 'clinc100', 'minilm')
    """

    def load(self) -> Embeddings:
        with resources.files("asbc").joinpath("data", "clinc100.npz").open("rb") as file:
            arrays = npz_contents(file, "clinc100.npz")
            vectors, labels = arrays.get("embeddings"), arrays.get("labels")
        return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), "clinc100", "minilm")


@dataclass
class Digits:
    """The 1,797 hand-written digits that come with scikit-learn: 64 grey values each, no download.

    See Also
    --------
    Clinc100 : sentences, as an encoder sees them.

    Examples
    --------
    >>> from asbc.embeddings import Digits
    >>> Digits().load().vectors.shape
    (1797, 64)
    """

    def load(self) -> Embeddings:
        from sklearn.datasets import load_digits

        vectors, labels = load_digits(return_X_y=True)
        return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), "digits", "pixels")


@dataclass
class EncoderSource:
    """What an encoder makes of a data set of images.

    Parameters
    ----------
    encoder : str
        Its name in results; for ``published`` and ``lightly``, also the name it is published under.
    source : {"published", "lightly", "checkpoint", "timm"} or Encoder, default="published"
        Ready embeddings from a public repository; weights of lightly's ImageNet benchmark; a checkpoint; a timm
        model; or what a function of your own returned.
    path : str, default=None
        Checkpoint file or folder; for timm, a local file of weights.
    model : str, default=None
        Name of the timm model.
    prefix : str, default=None
        What the names of the encoder's weights start with in the file, such as ``"backbone."``; None looks for it.
    padding : {1, 2}, default=None
        Of the first convolution, where a file does not show it; see `asbc.embeddings.checkpoints.read_checkpoint`.
    dataset : str or torch Dataset, default="cifar100"
        What is embedded: "cifar10", "cifar100", "imagefolder", or any torch data set of images.
    split : {"train", "test"}, default="test"
        Which part of CIFAR; of an image folder, the sub-folder of `root` with that name, where there is one.
    name : str, default=None
        The data set's name in results; None takes that of `dataset`, or the name of the folder of images.
    root : str, default=None
        Folder of the images. "imagefolder" needs it; None puts CIFAR into the cache.
    batch_size : int, default=256
        Images that go through the encoder together.
    num_workers : int, default=0
        Processes that read images; 0 reads them in this one.
    download : bool, default=True
        Whether what is missing may be downloaded.
    trust_checkpoint : bool, default=False
        Unpickle a checkpoint that holds more than weights. That can run any code.
    cache : str, default=None
        Folder of downloads and embeddings; None takes ``$ASBC_CACHE``, else the user's cache directory.
    trainer : mapping, default={}
        Arguments of `lightning.Trainer`.

    See Also
    --------
    HuggingFace : data sets of the Hugging Face hub.
    Files : vectors that are there already.

    Examples
    --------
    Nothing is read before `load`, and `load` says what is missing:

    >>> from asbc.embeddings import EncoderSource
    >>> source = EncoderSource("mine", source="checkpoint", dataset="imagefolder", root="photos")
    >>> try:
    ...     source.load()
    ... except ValueError as error:
    ...     print(error)
    path: the checkpoint's file or folder is wanted for source=checkpoint, got none
    """

    encoder: str
    source: str | Encoder = "published"
    path: str | None = None
    model: str | None = None
    prefix: str | None = None
    padding: int | None = None
    dataset: str | Dataset = "cifar100"
    split: str = "test"
    name: str | None = None
    root: str | None = None
    batch_size: int = 256
    num_workers: int = 0
    download: bool = True
    trust_checkpoint: bool = False
    cache: str | None = None
    trainer: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> Embeddings:
        """The embeddings, computed (or downloaded) now if they are not in the cache."""
        if self.source == "published":
            return published_embeddings(self.encoder, str(self.dataset), self.split, self.cache, self.download)
        # The store goes by content: another job may have put it there under another name.
        name = self.name or _dataset_name(self.dataset, self.root)
        return replace(read_entry(self.embed()), name=name, encoder=self.encoder)

    def embed(self) -> Path:
        """Folder of the embeddings in the store, made now if it is not there."""
        if isinstance(self.source, str) and self.source not in ("lightly", "checkpoint", "timm"):
            raise ValueError(
                f"source={self.source!r}: wanted is published, lightly, checkpoint, timm, "
                "or a function of your own that returns an Encoder"
            )
        if self.source == "checkpoint" and not self.path:
            raise ValueError("path: the checkpoint's file or folder is wanted for source=checkpoint, got none")
        what = f"{self.encoder} on {_dataset_name(self.dataset, self.root)}"
        weights, archives = self._weights(), self._archives()
        # Of timm's weights only timm itself, seconds later, knows for sure where they are.
        if self.source == "lightly" or (self.source == "timm" and archives):
            instead = hub.INSTEAD if self.source == "timm" else INSTEAD
            fail_early(what, [*archives, *weights], instead, download=self.download)

        with needed("embedding images", "embed"):
            from asbc.embeddings.datamodule import EmbeddingDataModule
            from asbc.embeddings.embedder import embed
            from asbc.embeddings.encoders import lightly_encoder, read_checkpoint, timm_model

        images = EmbeddingDataModule(
            self.dataset,
            self.split,
            self.root,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
            download=self.download,
            cache=self.cache,
        )
        if self.source == "lightly":
            fetch_all(what, [*weights, *images.wanted()], INSTEAD, download=self.download)
            encoder = lightly_encoder(self.encoder, self.cache, self.download)
        elif self.source == "checkpoint":
            encoder = read_checkpoint(str(self.path), self.trust_checkpoint, self.prefix, self.padding)
        elif self.source == "timm":
            encoder = timm_model(self.model, self.path, self.trust_checkpoint, self.prefix, self.cache, self.download)
        else:
            encoder = cast("Encoder", self.source)
        images.transform, images.image_size = encoder.transform, encoder.image_size
        names = {
            "encoder": self.encoder,
            "source": self.source if isinstance(self.source, str) else "function",
            "dataset": self.name or _dataset_name(self.dataset, self.root),
            "split": self.split,
        }
        return embed(encoder, images, Store(self.cache), names, dict(self.trainer))

    def _weights(self) -> list[Wanted]:
        """Files of weights that are downloaded, as far as can be told without torch."""
        if self.source == "lightly":
            return [lightly_weights(self.encoder, self.cache)]
        if self.source == "timm":
            with needed("embedding images", "embed"):
                return hub.model_files(self.model, self.path, self.cache)
        return []

    def _archives(self) -> list[Wanted]:
        """CIFAR, where it is what is embedded and not there; whether it is sound is seen later."""
        if not isinstance(self.dataset, str) or self.dataset not in CIFAR:
            return []
        root = Path(self.root).expanduser() if self.root else cache_folder(self.cache) / "images"
        return [] if cifar_folder(self.dataset, root).exists() else [cifar_archive(self.dataset, root)]


def _dataset_name(dataset: str | Dataset, root: str | None) -> str:
    if dataset == "imagefolder":
        return Path(root or dataset).name
    return dataset if isinstance(dataset, str) else type(dataset).__name__.lower()
