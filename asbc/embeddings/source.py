"""Images to vectors: which encoder, which images, and published vectors and weights.

``published.json`` has repository, commit and git blob hash of vectors of solo-learn's CIFAR encoders. ``lightly.json``
has addresses and architectures of the weights of lightly's ImageNet benchmark; no hash of them is published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache as cached
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from asbc.embeddings.bundled import load_sample
from asbc.embeddings.files import read_array
from asbc.embeddings.store import Embeddings, RemoteFile, cache_folder, check_arrays, local_paths, read_entry
from asbc.extras import needed

if TYPE_CHECKING:  # torch takes seconds to import, and published embeddings do not need it
    from torch.utils.data import Dataset

    from asbc.embeddings.encoders import Encoder

SOURCES = ("sample", "published", "lightly", "checkpoint", "timm")
HOST = "https://raw.githubusercontent.com"


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
            return load_sample(self.encoder, str(self.dataset), self.split)
        if self.source == "published":
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
            from asbc.embeddings.datamodule import EmbeddingDataModule, embed

        images = EmbeddingDataModule(
            self.dataset,
            self.split,
            self.root,
            batch_size=self.batch_size,
            num_workers=self.num_workers,
            download=self.download,
            cache=self.cache,
        )
        encoder = self.open_encoder(images.missing_files())
        images.transform, images.image_size = encoder.transform, encoder.image_size
        names = {
            "encoder": self.encoder,
            "source": self.source if isinstance(self.source, str) else "function",
            "dataset": self._dataset_name(),
            "split": self.split,
        }
        return embed(encoder, images, self.cache, names, self.trainer)

    def open_encoder(self, others: Sequence[RemoteFile] = ()) -> Encoder:
        """Return the encoder. If files of it or `others` cannot be downloaded, one error lists all of them."""
        from asbc.embeddings.encoders import read_checkpoint, timm_files, timm_model

        if not isinstance(self.source, str):
            return self.source
        if self.source == "checkpoint":
            return read_checkpoint(str(self.path), self.trust_checkpoint, self.prefix, self.padding)
        lightly = self.source == "lightly"
        files = [lightly_file(self.encoder, self.cache)] if lightly else timm_files(self.model, self.path, self.cache)
        what = f"{self.encoder} on {self._dataset_name()}"
        paths = local_paths(what, [*files, *others], self.source, self.download)[: len(files)]
        if not lightly:
            return timm_model(str(self.model), paths, self.path, self.trust_checkpoint, self.prefix)
        found = read_checkpoint(paths[0], prefix="backbone.")
        expected = registry("lightly")["encoders"][self.encoder]["backbone"].partition("_patch")[0]
        if not found.architecture.startswith(f"{expected},"):
            raise ValueError(f"{paths[0]}: lightly's {self.encoder} is a {expected}, this is a {found.architecture}")
        return found

    def _dataset_name(self) -> str:
        if self.name:
            return self.name
        if self.dataset == "imagefolder":
            return Path(self.root or self.dataset).name
        return self.dataset if isinstance(self.dataset, str) else type(self.dataset).__name__.lower()


@cached
def registry(name: str) -> dict[str, Any]:
    """Return the contents of ``published.json`` or ``lightly.json``."""
    return json.loads(resources.files("asbc.embeddings").joinpath(f"{name}.json").read_text())


def published_embeddings(
    encoder: str, dataset: str, split: str, cache: str | os.PathLike | None = None, download: bool = True
) -> Embeddings:
    """Return published vectors and labels, downloaded on first use; the error for an unknown name lists all."""
    name = f"data/{dataset}/embeddings_{encoder}_{split}.npy"
    known = registry("published")["git_blob_sha1"]
    if name not in known:
        encoders = sorted({Path(each).stem.split("_")[1] for each in known if "/embeddings_" in each})
        raise ValueError(
            f"no published embeddings of encoder={encoder!r}, dataset={dataset!r}, split={split!r}; there are "
            f"{', '.join(encoders)} on cifar10 and cifar100, train and test. Other encoders: source=lightly, "
            "source=checkpoint or source=timm."
        )
    files = [published_file(each, cache_folder(cache)) for each in (name, f"data/{dataset}/labels_{split}.npy")]
    paths = local_paths(f"{encoder} on {dataset}", files, "published", download)
    vectors, labels = read_array(paths[0]), np.asarray(read_array(paths[1]))
    check_arrays(vectors, labels, name)
    return Embeddings(vectors, labels, dataset, encoder)


def published_file(name: str, cache: Path) -> RemoteFile:
    """Return address and place of a published file of vectors or labels."""
    facts = registry("published")
    rows = 50_000 if name.endswith("_train.npy") else 10_000
    size = rows * (8 if "labels" in name else 512 * 4)  # int64, or 512 float32
    path = cache / "published" / facts["commit"][:12] / name
    url = f"{HOST}/{facts['repository']}/{facts['commit']}/{name}"
    return RemoteFile(url, path, f"git:{facts['git_blob_sha1'][name]}", size)


def lightly_file(encoder: str, cache: str | os.PathLike | None = None) -> RemoteFile:
    """Return address and place of lightly's weights of one encoder; the error for an unknown one lists all.

    A ResNet-50 returns 2048 features; the ViT-S/16 returns the 384 of its class token after the final norm. DINO's
    weights are the teacher's. Images are resized to 256 pixels, cropped to the central 224, and normalised with
    ImageNet's mean and standard deviation.
    """
    encoders = registry("lightly")["encoders"]
    if encoder not in encoders:
        raise ValueError(f"lightly publishes no weights of encoder={encoder!r}; there are {', '.join(encoders)}")
    url = encoders[encoder]["url"]
    return RemoteFile(url, cache_folder(cache) / "lightly" / encoder / unquote(url.rsplit("/", 1)[1]))
