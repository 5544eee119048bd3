"""Where vectors come from if not from your files: bundled samples, published vectors, or an encoder and images.

``published.json`` has repository, commit and git blob hash of vectors of solo-learn's CIFAR encoders. ``lightly.json``
has addresses and architectures of the weights of lightly's ImageNet benchmark; no hash of them is published.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from asbc.embeddings.download import fetch_all
from asbc.embeddings.store import Embeddings, RemoteFile, cache_folder, check_arrays, first_line, read_entry
from asbc.extras import needed
from asbc.storage import DamagedFileError, file_checksum, open_array, read_json

if TYPE_CHECKING:  # torch takes seconds to import, and published embeddings do not need it
    from torch.utils.data import Dataset

    from asbc.embeddings.encoders import Encoder

SOURCES = ("sample", "published", "lightly", "checkpoint", "timm")
HOST = "https://raw.githubusercontent.com"
DATA = Path(str(resources.files("asbc").joinpath("data")))
CIFAR100_CARD = "cifar100.json"  # written by experiments/make_cifar100_sample.py
WITHOUT_DOWNLOAD = (
    "embedding.source=sample works at once (small encoders of CIFAR-100, not the paper's), embedding.source=checkpoint "
    "and embedding.source=timm read your weights (embedding.path=<file>), and embedding=clinc100 needs no file. "
    "embedding.source=published and embedding.source=lightly download other files."
)


@dataclass
class Clinc100:
    """Sentences of CLINC150, 100 intents with 30 each, embedded by a MiniLM sentence encoder.

    The vectors have 384 components and are not normalised. CLINC150 has the licence CC BY 3.0; see
    ``asbc/data/clinc100.txt``.

    See Also
    --------
    Digits : a smaller set, of images.

    Examples
    --------
    >>> from asbc.embeddings import Clinc100
    >>> Clinc100().load()
    Embeddings('clinc100', encoder='minilm', 3000 x 384 float32, 100 classes)
    """

    def load(self) -> Embeddings:
        """Read the sample."""
        return load_sample("minilm", "clinc100")


@dataclass
class Digits:
    """The 1,797 hand-written digits of scikit-learn: 64 grey values each.

    See Also
    --------
    Clinc100 : sentences, embedded by a neural network.

    Examples
    --------
    >>> from asbc.embeddings import Digits
    >>> Digits().load().vectors.shape
    (1797, 64)
    """

    def load(self) -> Embeddings:
        """Read the sample."""
        return load_sample("pixels", "digits")


def load_sample(encoder: str, dataset: str, split: str = "test") -> Embeddings:
    """Return the vectors of a bundled sample (``embedding.source=sample``).

    For CIFAR-100 these are 3,000 test images, 30 per class, from narrow ResNets that ``asbc-pretrain`` trained on one
    core. They are not the paper's encoders; ``asbc/data/cifar100.txt`` is their model card.
    """
    card = read_json(DATA / CIFAR100_CARD)["encoders"]
    known = [("minilm", "clinc100"), ("pixels", "digits"), *((name, "cifar100") for name in card)]
    if (encoder, dataset) not in known or split != "test":
        raise ValueError(
            f"no sample of encoder={encoder!r}, dataset={dataset!r}, split={split!r} is bundled; "
            f"there are minilm on clinc100, pixels on digits, {', '.join(card)} on cifar100 (test split)"
        )
    if dataset == "digits":
        from sklearn.datasets import load_digits

        vectors, labels = load_digits(return_X_y=True)
    else:
        path = DATA / (card[encoder]["file"] if dataset == "cifar100" else "clinc100.npz")
        try:
            if dataset == "cifar100" and file_checksum(path) != card[encoder]["crc32"]:
                raise ValueError("its checksum differs")
            with np.load(path) as arrays:
                vectors, labels = arrays["embeddings"], arrays["labels"]
        except Exception as error:  # a damaged archive makes NumPy raise almost anything
            raise DamagedFileError(f"{path}: damaged ({first_line(error)}); reinstall asbc to restore it.") from error
    return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), dataset, encoder)


@dataclass
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

    def load(self) -> Embeddings:
        """Return the embeddings, downloaded or computed now if they are not in the cache."""
        if self.source == "sample":
            return load_sample(self.encoder, str(self.dataset), self.split)
        if self.source == "published":
            return published_embeddings(self.encoder, str(self.dataset), self.split, self.cache, self.download)
        if isinstance(self.source, str) and self.source not in SOURCES:
            raise ValueError(f"source={self.source!r}: expected {', '.join(SOURCES)}, or an Encoder")
        if self.source == "checkpoint" and not self.path:
            raise ValueError("path: no checkpoint file or folder given for source=checkpoint")
        with needed("embedding images", "embed"):
            from asbc.embeddings.datamodule import EmbeddingDataModule, embed

        options = ("dataset", "split", "root", "batch_size", "num_workers", "download", "cache")
        images = EmbeddingDataModule(**{name: getattr(self, name) for name in options})
        encoder = self.open_encoder(images.missing_files())
        images.transform, images.image_size = encoder.transform, encoder.image_size
        names = {"encoder": self.encoder, "dataset": self._dataset_name(), "split": self.split}
        names["source"] = self.source if isinstance(self.source, str) else "function"
        stored = read_entry(embed(encoder, images, self.cache, names, self.trainer))
        # The store finds entries by content, so another job may have stored this one under other names.
        return replace(stored, name=names["dataset"], encoder=self.encoder)

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
        paths = local_paths(what, [*files, *others], self.download)[: len(files)]
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


def local_paths(what: str, files: Sequence[RemoteFile], download: bool = True) -> list[Path]:
    """Return where files are, after downloading those that are missing and verifying all."""
    missing, fetched = [file for file in files if not file.path.exists()], {}
    if missing:
        fetched = dict(zip(missing, fetch_all(what, missing, WITHOUT_DOWNLOAD, download), strict=True))
    for file in files:
        file.verify()
    return [fetched.get(file, file.path) for file in files]


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
            f"{', '.join(encoders)} on cifar10 and cifar100, train and test"
        )
    files = [published_file(each, cache_folder(cache)) for each in (name, f"data/{dataset}/labels_{split}.npy")]
    paths = local_paths(f"{encoder} on {dataset}", files, download)
    vectors, labels = open_array(paths[0]), np.asarray(open_array(paths[1]))
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
