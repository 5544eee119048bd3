"""Where embeddings come from: each class is a leaf of ``conf/embedding`` and has one method, ``load``."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.arrays import Embeddings, check_arrays, read_array


@dataclass
class Files:
    """The user's own arrays.

    Parameters
    ----------
    path : str
        A ``.npy`` file of shape (n, d), which is memory-mapped; or an ``.npz`` file whose vectors are called
        ``embeddings`` (or are its only 2-D array) and whose labels, if any, are called ``labels``.
    labels : str, optional
        A ``.npy`` file of shape (n,); takes the place of labels in the ``.npz`` file.
    name : str, optional
        The data set's name; the file's name where it is not given.
    encoder : str
        What made the vectors.
    """

    path: str | None = None
    labels: str | None = None
    name: str | None = None
    encoder: str = "files"

    def load(self) -> Embeddings:
        if not self.path:
            raise ValueError("path: the .npy or .npz file with your embeddings is wanted, got none")
        path = Path(self.path).expanduser()
        vectors, labels = _read_npz(path) if path.suffix == ".npz" else (read_array(path), None)
        if self.labels:
            labels = np.asarray(read_array(Path(self.labels).expanduser()))
        if (
            labels is not None
            and labels.dtype.kind == "f"
            and np.array_equal(labels, labels.astype(np.int64))
        ):
            labels = labels.astype(np.int64)
        check_arrays(vectors, labels, str(path))
        return Embeddings(vectors, labels, self.name or path.stem, self.encoder)


@dataclass
class Digits:
    """The 1,797 hand-written digits that come with scikit-learn: 64 grey values each, no download."""

    def load(self) -> Embeddings:
        from sklearn.datasets import load_digits

        vectors, labels = load_digits(return_X_y=True)
        return Embeddings(vectors.astype(np.float32), labels.astype(np.int64), "digits", "pixels")


def _read_npz(path: Path) -> tuple[NDArray, NDArray | None]:
    """Vectors and labels of an ``.npz`` file."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: not an .npz file of plain numbers and strings ({error})") from error
    tables = [key for key, array in arrays.items() if array.ndim == 2]
    key = "embeddings" if "embeddings" in arrays else tables[0] if len(tables) == 1 else None
    if key is None:
        raise ValueError(
            f"{path}: an array called 'embeddings' is wanted, or just one of shape (n, d); "
            f"got { ({key: array.shape for key, array in arrays.items()}) }"
        )
    return arrays[key], arrays.get("labels")
