"""Samples of real data that need no download: in the package, or in scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from asbc.embeddings.files import npz_contents
from asbc.embeddings.store import Embeddings
from asbc.storage import DamagedFileError, check_file, file_inside, read_json

DATA = Path(str(resources.files("asbc").joinpath("data")))
CIFAR100_CARD = "cifar100.json"  # written by experiments/make_cifar100_sample.py

# What works where the files of another source are missing.
ALTERNATIVES = {
    "lightly": "embedding.source=lightly embeds the images with ImageNet encoders",
    "published": "embedding.source=published has vectors of solo-learn's ResNet-18 on CIFAR",
    "checkpoint": "embedding.source=checkpoint reads your checkpoint (embedding.path=...)",
    "weights": "embedding.source=timm with embedding.path=<file> reads local weights of a timm model",
}


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
        return _read(DATA / "clinc100.npz", "clinc100", "minilm")


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
        from sklearn.datasets import load_digits

        vectors, labels = load_digits(return_X_y=True)
        return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), "digits", "pixels")


def load_sample(encoder: str, dataset: str, split: str = "test") -> Embeddings:
    """Return the vectors of a bundled sample (``embedding.source=sample``).

    For CIFAR-100 these are 3,000 test images, 30 per class, from narrow ResNets that ``asbc-pretrain`` trained on one
    core. They are not the paper's encoders; ``asbc/data/cifar100.txt`` is their model card.
    """
    own: dict[tuple[str, str], Any] = {("minilm", "clinc100"): Clinc100, ("pixels", "digits"): Digits}
    if (encoder, dataset) in own and split == "test":
        return own[encoder, dataset]().load()
    card = cifar100_card()
    if dataset != "cifar100" or split != "test" or encoder not in card:
        cifar = f", {', '.join(card)} on cifar100" if card else ""
        raise ValueError(
            f"no sample of encoder={encoder!r}, dataset={dataset!r}, split={split!r} is bundled; "
            f"there are minilm on clinc100, pixels on digits{cifar} (test split)"
        )
    path = file_inside(DATA, card[encoder]["file"])
    try:
        check_file(path, card[encoder]["crc32"])
    except (DamagedFileError, FileNotFoundError) as error:
        raise DamagedFileError(f"{str(error).rstrip('.')}; reinstall asbc to restore it.") from error
    return _read(path, dataset, encoder)


def cifar100_card() -> dict[str, Any]:
    """Return file, checksum and accuracies of every encoder that has a sample of CIFAR-100."""
    return read_json(DATA / CIFAR100_CARD)["encoders"] if (DATA / CIFAR100_CARD).exists() else {}


def instead_of(source: str) -> str:
    """Return what works without the files of a source or of the images, for the message that lists them."""
    if source == "images":
        return "root=<folder> names a folder that has the images, or choose other images."
    encoders = ", ".join(cifar100_card())
    sample = f"embedding.source=sample works at once for {encoders} (small encoders of CIFAR-100, not the paper's)"
    others = [text for name, text in ALTERNATIVES.items() if name != source]
    return ", ".join([*([sample] if encoders else []), *others]) + ", and embedding=clinc100 needs no file."


def _read(path: Path, name: str, encoder: str) -> Embeddings:
    arrays = npz_contents(path)
    vectors, labels = arrays.read("embeddings"), arrays.read("labels")
    return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), name, encoder)
