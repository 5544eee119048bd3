"""Read what a page is about: vectors or a graph folder, labels, texts and images."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from asbc.embeddings.bundled import DATA, Clinc100
from asbc.embeddings.files import read_labels, read_vectors
from asbc.embeddings.store import read_entry_manifest
from asbc.outofcore.folder import read_graph_manifest
from asbc.progress import Progress

SAMPLE = "clinc100"  # name of the bundled sample
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm"}
THUMBNAIL_SIDES = (96, 72, 56, 40, 32)  # pixels of the longer side; the largest that fits is taken
MAX_THUMBNAIL_BYTES = 15_000_000  # of all thumbnails of a page
TRIED_IMAGES = 40  # images from which the bytes of all thumbnails are estimated
WEBP_QUALITY = 60


@dataclass(frozen=True)
class Material:
    """Everything that a page is made from.

    Attributes
    ----------
    title : str
        Title of the page, if none is given.
    vectors : (n, d) array or None
        None if only a graph is given.
    labels : (n,) array or None
    graph : Path or None
        Folder of a graph that `asbc-build` wrote.
    texts : list of n str, or None
    images : list of n paths, or None
    """

    title: str
    vectors: NDArray[Any] | None
    labels: NDArray[Any] | None
    graph: Path | None
    texts: list[str] | None = None
    images: list[Path] | None = None


def read_material(
    source: str | Path,
    *,
    labels: str | Path | None = None,
    texts: str | Path | None = None,
    images: str | Path | None = None,
    graph: str | Path | None = None,
    vectors: str | None = None,
    label: str | None = None,
) -> Material:
    """Read everything that is given, and check that it fits together.

    Parameters
    ----------
    source : str or path
        A file of vectors, a folder that `asbc-build` or `asbc-embed` wrote, or "clinc100", the bundled sample.
    labels : str or path, default=None
        File of labels.
    texts : str or path, default=None
        File with a line of text per vector.
    images : str or path, default=None
        Folder with an image per vector.
    graph : str or path, default=None
        Folder of a graph that `asbc-build` made from these vectors.
    vectors, label : str, default=None
        Names of the arrays or columns, if a file has several.
    """
    path = Path(source).expanduser()
    found: Any
    own: Any
    title = None
    if str(source) == SAMPLE and not path.exists():
        sample, title = Clinc100().load(), "CLINC100: 3,000 sentences, 100 intents"
        found, own = sample.vectors, np.load(DATA / "clinc100.npz")["label_names"][sample.labels]
        own = own if labels is None else read_labels(labels, len(own), label=label)
    elif path.is_dir() and not any((path / name).is_file() for name in ("manifest.json", "plan.json")):
        raise ValueError(f"{path}: not a folder that asbc-embed or asbc-build wrote.")
    elif path.is_dir() and not (path / "vectors.npy").is_file():
        if graph is not None:
            raise ValueError(f"--graph: {path} is a graph already; with --graph, give the vectors first.")
        graph, found = path, None
        own = None if labels is None else read_labels(labels, int(read_graph_manifest(path)["n"]), label=label)
    else:
        found, own = read_vectors(path, labels, vectors=vectors, label=label)
        if path.is_dir():
            facts = read_entry_manifest(path)
            title = f"{facts['encoder']} of {facts['dataset']}"
    folder = None if graph is None else Path(graph).expanduser()
    built = None if folder is None else int(read_graph_manifest(folder)["n"])
    n = built if found is None else len(found)
    if built is not None and built != n:
        raise ValueError(f"--graph: {folder} has {built:,} nodes, and {path} has {n:,} vectors.")
    return Material(
        title or f"{n:,} {'nodes' if found is None else 'vectors'}",
        found,
        own,
        folder,
        None if texts is None else read_texts(texts, n),  # type: ignore[arg-type]
        None if images is None else find_images(images, n),
    )


def read_texts(path: str | Path, n: int) -> list[str]:
    """Return the lines of a UTF-8 file, which must be `n`."""
    try:
        # Only line feeds end a line: a text may contain other characters that Python treats as line ends.
        lines = Path(path).expanduser().read_bytes().decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"texts: {path}: no such file.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"texts: {path} is not UTF-8 text ({error}).") from None
    lines = lines[:-1] if lines[-1] == "" else lines
    if len(lines) != n:
        raise ValueError(f"texts: {path} has {len(lines):,} lines for {n:,} vectors; give one line per vector.")
    return [line.rstrip("\r") for line in lines]


def find_images(folder: str | os.PathLike, n: int | None = None) -> list[Path]:
    """Return the images in a folder in the order of torchvision's ``ImageFolder``: by subfolder, then by name.

    Parameters
    ----------
    folder : str or path
        With or without subfolders for classes.
    n : int or None, default=None
        How many there must be.
    """
    top = Path(folder)
    if not top.is_dir():
        raise FileNotFoundError(f"images: {top} is not a folder.")
    walked = [next(os.walk(top))]
    for subfolder in sorted(entry for entry in top.iterdir() if entry.is_dir()):
        walked += sorted(os.walk(subfolder, followlinks=True))
    found = [
        Path(root, name)
        for root, _, names in walked
        for name in sorted(names)
        if Path(name).suffix.lower() in IMAGE_SUFFIXES
    ]
    if n is not None and len(found) != n:
        raise ValueError(
            f"images: {top} holds {len(found):,} images for {n:,} vectors; it must hold one per vector, in the order "
            "of their sorted names."
        )
    return found


@dataclass(frozen=True)
class Thumbnails:
    """Small images of nodes.

    Attributes
    ----------
    images : dict of int to str
        By node, WebP in base 64; "" if the image could not be read.
    notes : list of str
        Remarks for the page.
    """

    images: dict[int, str]
    notes: list[str] = field(default_factory=list)


def make_thumbnails(paths: Sequence[Path], nodes: NDArray[np.int64], *, progress: bool = False) -> Thumbnails:
    """Return small images of some nodes. If they take too many bytes, only evenly spaced nodes get one.

    Parameters
    ----------
    paths : sequence of n paths
        The image of every node.
    nodes : (m,) int64
        Nodes on the map.
    progress : bool, default=False
        Whether to show a bar.
    """
    tried = nodes[np.linspace(0, len(nodes) - 1, min(TRIED_IMAGES, len(nodes))).astype(int)]
    for side in THUMBNAIL_SIDES:
        average = sum(len(_thumbnail(paths[node], side)) for node in tried) / len(tried)
        if average * len(nodes) <= MAX_THUMBNAIL_BYTES:
            break
    room = int(MAX_THUMBNAIL_BYTES / max(1.0, average))
    chosen = nodes if len(nodes) <= room else nodes[np.linspace(0, len(nodes) - 1, room).astype(int)]
    images = {}
    with Progress(progress).step("images", len(chosen), unit="images") as advance:
        for node in chosen.tolist():
            images[node] = _thumbnail(paths[node], side)
            advance()
    notes = [f"Images are thumbnails of at most {side} x {side} pixels."]
    bad = sum(not image for image in images.values())
    if bad:
        notes.append(f"{bad:,} images could not be read.")
    if len(chosen) < len(nodes):
        notes.append(
            f"{len(chosen):,} of {len(nodes):,} nodes have an image on this page; more would make it too large."
        )
    return Thumbnails(images, notes)


def _thumbnail(path: Path, side: int) -> str:
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * side, 2 * side))  # reads JPEG files at a fraction of their size
            small = image.convert("RGBA" if "A" in image.getbands() or "transparency" in image.info else "RGB")
        small.thumbnail((side, side))
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=WEBP_QUALITY, method=4)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # what Pillow raises for bad files
        return ""
    return base64.b64encode(buffer.getvalue()).decode()
