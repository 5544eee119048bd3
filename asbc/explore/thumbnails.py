"""How does each node look, in a few hundred bytes?"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from asbc.progress import Progress

SIDES = (96, 72, 56, 40, 32)  # pixels of a thumbnail's longer side: the largest that fits
BYTES = 15_000_000  # of all thumbnails on a page
TRIED = 40  # pictures from which the bytes of all are estimated
QUALITY = 60  # of WebP, from 0 to 100
ENDINGS = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures of nodes; :func:`make_thumbnails` gives it.

    Attributes
    ----------
    made : dict of int to str
        By node, the picture as WebP in base 64; "" where it could not be read.
    notes : list of str
        What the page has to say of them.
    """

    made: dict[int, str]
    notes: list[str] = field(default_factory=list)


def find_images(folder: str | os.PathLike, n: int | None = None) -> list[Path]:
    """The pictures in a folder, in the order of torchvision's ``ImageFolder``: folder by folder, sorted by name.

    Parameters
    ----------
    folder : str or path
        With or without folders for classes in it.
    n : int or None, default=None
        How many there must be.

    Returns
    -------
    list of Path
    """
    top = Path(folder)
    if not top.is_dir():
        raise FileNotFoundError(f"images: {top} is no folder.")
    parts = [top, *sorted(entry for entry in top.iterdir() if entry.is_dir())]
    found = []
    for part in parts:
        walked = sorted(os.walk(part, followlinks=True)) if part != top else [next(os.walk(top))]
        for root, _, names in walked:
            found += [Path(root, name) for name in sorted(names) if Path(name).suffix.lower() in ENDINGS]
    if n is not None and len(found) != n:
        raise ValueError(
            f"images: {top} holds {len(found):,} pictures, and there are {n:,} vectors; one per vector is wanted, "
            "in the order of their sorted names."
        )
    return found


def make_thumbnails(paths: Sequence[Path], nodes: NDArray[np.int64], *, progress: bool = False) -> Thumbnails:
    """Make the pictures of some nodes small enough for a page.

    Parameters
    ----------
    paths : sequence of n paths
        The picture of every node.
    nodes : (m,) int64
        Nodes on the map.
    progress : bool, default=False
        Whether to show a bar.

    Returns
    -------
    Thumbnails
        Where even the smallest take too many bytes, only some of the nodes have one, spread evenly, and a note says so.
    """
    tried = nodes[np.linspace(0, len(nodes) - 1, min(TRIED, len(nodes))).astype(int)]
    for side in SIDES:
        average = sum(len(_small(paths[node], side)) for node in tried) / len(tried)
        if average * len(nodes) <= BYTES:
            break
    room = int(BYTES / max(1.0, average))
    chosen = nodes if len(nodes) <= room else nodes[np.linspace(0, len(nodes) - 1, room).astype(int)]
    made = {}
    with Progress(progress).step("pictures", len(chosen), unit="pictures") as advance:
        for node in chosen.tolist():
            made[node] = _small(paths[node], side)
            advance()
    notes = [f"Pictures are thumbnails of at most {side} x {side} pixels."]
    bad = sum(not picture for picture in made.values())
    if bad:
        notes.append(f"{bad:,} pictures could not be read.")
    if len(chosen) < len(nodes):
        notes.append(
            f"{len(chosen):,} of {len(nodes):,} nodes have their picture on this page, as many as it has room for."
        )
    return Thumbnails(made, notes)


def _small(path: Path, side: int) -> str:
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * side, 2 * side))  # lets JPEG files be read at a fraction of their size
            small = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=QUALITY, method=4)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for bad files
        return ""
    return base64.b64encode(buffer.getvalue()).decode()
