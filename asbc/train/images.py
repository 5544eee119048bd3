"""The images to learn from, and those to look at meanwhile."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from asbc.embeddings.arrays import fingerprint
from asbc.embeddings.datamodule import read_image


class ImageArrays(Dataset):
    """Images of an ``.npz`` file: `images`, uint8 of shape (n, h, w, 3), and `labels`, (n,) whole numbers, if any.

    Parameters
    ----------
    path : str or Path
        The file.

    See Also
    --------
    held_out_arrays : the same, or nothing.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from asbc.train import ImageArrays
    >>> file = tempfile.mkdtemp() + "/images.npz"
    >>> np.savez(file, images=np.zeros((4, 32, 32, 3), np.uint8), labels=[0, 1, 0, 1])
    >>> len(ImageArrays(file))
    4
    """

    def __init__(self, path: str | Path) -> None:
        file = Path(path).expanduser()
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file")
        try:
            with np.load(file, allow_pickle=False) as arrays:
                names = list(arrays)
                images = arrays["images"] if "images" in names else None
                labels = arrays["labels"] if "labels" in names else None
        except (zipfile.BadZipFile, EOFError, OSError, TypeError, ValueError) as error:
            raise ValueError(f"{file}: not a readable .npz file of plain arrays ({error})") from error
        if images is None:
            raise ValueError(f"{file}: an array called images is wanted, got {', '.join(names) or 'none'}")
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
            raise ValueError(f"{file}: images must be uint8 (n, h, w, 3), got {images.dtype} {images.shape}")
        if labels is not None and (labels.shape != images.shape[:1] or labels.dtype.kind not in "iu"):
            raise ValueError(
                f"{file}: labels must be {len(images)} whole numbers, got {labels.dtype} of shape {labels.shape}"
            )
        self.images: NDArray[np.uint8] = images
        self.labels: NDArray[np.int64] | None = None if labels is None else labels.astype(np.int64)

    @property
    def fingerprint(self) -> str:
        """What stands for the contents in the store of embeddings."""
        return fingerprint(self.images, *([] if self.labels is None else [self.labels]))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, row: int) -> Any:
        return self.images[row] if self.labels is None else (self.images[row], int(self.labels[row]))


def held_out_arrays(path: str | None = None) -> ImageArrays | None:
    """Images of an ``.npz`` file, or None without a path: held-out images are needed for probes only.

    Parameters
    ----------
    path : str or None, default=None
        The file.

    Returns
    -------
    ImageArrays or None

    See Also
    --------
    ImageArrays : what the file must hold.

    Examples
    --------
    >>> from asbc.train import held_out_arrays
    >>> held_out_arrays() is None
    True
    """
    return None if path is None else ImageArrays(path)


class PlainImages(Dataset):
    """Pairs of image and label as a probe wants them, of some rows of a data set.

    Parameters
    ----------
    images : Dataset
        Gives pairs of image and label.
    view : callable
        A PIL image to a tensor, with no chance in it.
    most : int, optional
        So many rows at most, spread evenly over the data set.
    """

    def __init__(self, images: Any, view: Callable[[Any], Tensor], most: int | None = None) -> None:
        self.images, self.view = images, view
        n = len(images)
        self.rows = np.arange(n) if most is None or most >= n else np.linspace(0, n - 1, most).astype(np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        image, label = self._read(at)
        return self.view(Image.fromarray(image) if isinstance(image, np.ndarray) else image), label

    def __getitems__(self, rows: list[int]) -> list[tuple[Tensor, int]]:
        """A batch at once, which torch asks for; images of one size are prepared together, which is faster."""
        images, labels = zip(*(self._read(at) for at in rows), strict=True)
        if not all(isinstance(image, np.ndarray) and image.shape == images[0].shape for image in images):
            return [self[at] for at in rows]
        ready = self.view(torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2))
        return list(zip(ready, labels, strict=True))

    def _read(self, at: int) -> tuple[Any, int]:
        image, label = read_image(self.images, int(self.rows[at]))
        if label is None:
            raise ValueError("images without labels: a probe needs them, probe.enabled=false does without")
        return image, int(label)
