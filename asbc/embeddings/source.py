"""Images to vectors: which encoder, which images, and where the result is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from asbc.embeddings.store import Embeddings, Store, read_entry
from asbc.extras import needed

if TYPE_CHECKING:  # torch takes seconds to import, and published embeddings do not need it
    from torch.utils.data import Dataset

    from asbc.embeddings.checkpoints import Encoder
    from asbc.embeddings.datamodule import EmbeddingDataModule
    from asbc.embeddings.store import RemoteFile

SOURCES = ("sample", "published", "lightly", "checkpoint", "timm")


@dataclass(repr=False)
class EncoderSource:
    """Embeddings of a data set of images by an encoder.

    ``load()`` returns an `Embeddings`: ``vectors`` of shape (n, d), memory-mapped from the store, ``labels`` of shape
    (n,) or None, and the names of data set and encoder. The encoder runs only if the store does not have the result.

    Parameters
    ----------
    encoder : str
        Its name in results; for ``sample``, ``published`` and ``lightly``, also the name of the published encoder.
    source : {"sample", "published", "lightly", "checkpoint", "timm"} or Encoder, default="published"
        Vectors in the package; vectors in a public repository; weights of lightly's ImageNet benchmark; a checkpoint; a
        timm model; or the `Encoder` that your own function returned.
    path : str, default=None
        Checkpoint file or folder; for timm, a local file of weights.
    model : str, default=None
        Name of the timm model.
    prefix : str, default=None
        Prefix of the encoder's weights in the file, such as ``"backbone."``; None looks for it.
    padding : {1, 2}, default=None
        Of the first convolution, if a file does not show it; see `asbc.embeddings.read_checkpoint`.
    dataset : str or torch Dataset, default="cifar100"
        "cifar10", "cifar100", "imagefolder", or any torch data set of images.
    split : {"train", "test"}, default="test"
        Which split of CIFAR; for an image folder, the sub-folder of `root` with that name, if it exists.
    name : str, default=None
        The data set's name in results; None takes that of `dataset`, or the name of the folder of images.
    root : str, default=None
        Folder of the images. "imagefolder" needs it; None puts CIFAR into the cache.
    batch_size : int, default=256
    num_workers : int, default=0
        Processes that read images; 0 reads them in this one.
    download : bool, default=True
        Whether missing files may be downloaded.
    trust_checkpoint : bool, default=False
        Unpickle a checkpoint that holds more than weights. That can run any code.
    cache : str, default=None
        Folder of downloads and embeddings; None takes ``$ASBC_CACHE``, else the user's cache directory.
    trainer : mapping, default={}
        Arguments of `lightning.Trainer`.

    See Also
    --------
    HuggingFace : data sets of the Hugging Face hub.
    Files : reads vectors from files.

    Examples
    --------
    >>> from asbc.embeddings import EncoderSource
    >>> EncoderSource("minilm", source="sample", dataset="clinc100").load()
    Embeddings('clinc100', encoder='minilm', 3000 x 384 float32, 100 classes)
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

    def __repr__(self) -> str:
        given = [f"{f.name}={v!r}" for f in fields(self)[1:] if (v := getattr(self, f.name)) not in (f.default, {})]
        return f"{type(self).__name__}({', '.join([repr(self.encoder), *given])})"

    def load(self) -> Embeddings:
        """Return the embeddings, downloaded or computed now if they are not in the cache."""
        if self.source == "sample":
            from asbc.embeddings.bundled import load_sample

            return load_sample(self.encoder, str(self.dataset), self.split)
        if self.source == "published":
            from asbc.embeddings.published import published_embeddings

            return published_embeddings(self.encoder, str(self.dataset), self.split, self.cache, self.download)
        # The store finds entries by content, so another job may have stored this one under other names.
        return replace(read_entry(self.embed()), name=self._dataset_name(), encoder=self.encoder)

    def embed(self) -> Path:
        """Return the folder of the embeddings in the store, computed now if they are not there."""
        if isinstance(self.source, str) and self.source not in SOURCES[2:]:
            raise ValueError(
                f"source={self.source!r}: expected {', '.join(SOURCES)}, or a function that returns an Encoder"
            )
        if self.source == "checkpoint" and not self.path:
            raise ValueError("path: no checkpoint file or folder given for source=checkpoint")
        with needed("embedding images", "embed"):
            from asbc.embeddings.datamodule import EmbeddingDataModule
            from asbc.embeddings.embedder import embed

        images = EmbeddingDataModule(
            self.dataset,
            self.split,
            self.root,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
            download=self.download,
            cache=self.cache,
        )
        encoder = self._open(images)
        images.transform, images.image_size = encoder.transform, encoder.image_size
        names = {
            "encoder": self.encoder,
            "source": self.source if isinstance(self.source, str) else "function",
            "dataset": self._dataset_name(),
            "split": self.split,
        }
        return embed(encoder, images, Store(self.cache), names, self.trainer)

    def _open(self, images: EmbeddingDataModule) -> Encoder:
        """Return the encoder. If files of it or of the images cannot be downloaded, one error lists all of them."""
        what, files = f"{self.encoder} on {self._dataset_name()}", images.missing_files()
        if self.source == "lightly":
            from asbc.embeddings.published import lightly_encoder, lightly_file

            self._download(what, [lightly_file(self.encoder, self.cache), *files])
            return lightly_encoder(self.encoder, self.cache, self.download)
        if self.source == "timm":
            from asbc.embeddings.hub import missing_model_files
            from asbc.embeddings.timm_models import timm_model

            self._download(what, [*missing_model_files(self.model, self.path, self.cache), *files])
            return timm_model(self.model, self.path, self.trust_checkpoint, self.prefix, self.cache, self.download)
        if self.source == "checkpoint":
            from asbc.embeddings.checkpoints import read_checkpoint

            return read_checkpoint(str(self.path), self.trust_checkpoint, self.prefix, self.padding)
        return cast("Encoder", self.source)

    def _download(self, what: str, files: list[RemoteFile]) -> None:
        from asbc.embeddings.bundled import instead_of
        from asbc.embeddings.download import fetch_all

        fetch_all(what, files, instead_of(str(self.source)), download=self.download)

    def _dataset_name(self) -> str:
        if self.name:
            return self.name
        if self.dataset == "imagefolder":
            return Path(self.root or self.dataset).name
        return self.dataset if isinstance(self.dataset, str) else type(self.dataset).__name__.lower()
