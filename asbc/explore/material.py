"""What is to be explored: vectors, a graph that was built of them, labels, texts and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.embeddings.reading import read_labels, read_vectors
from asbc.embeddings.sources import Clinc100
from asbc.embeddings.store import read_entry_manifest
from asbc.explore.thumbnails import find_images
from asbc.outofcore.folder import read_graph_manifest

SAMPLE = "clinc100"  # the name of the sample that comes with asbc


@dataclass(frozen=True)
class Material:
    """Everything that a page is made from.

    Attributes
    ----------
    name : str
        What the page calls it.
    vectors : (n, d) array or None
        None where only a graph is given.
    labels : (n,) array or None
    graph : Path or None
        Folder of a graph that was built before.
    texts : list of n str, or None
    images : list of n paths, or None
    file : Path or None
        The ``.npy`` file that holds just the vectors, if there is one.
    """

    name: str
    vectors: NDArray[Any] | None
    labels: NDArray[Any] | None
    graph: Path | None
    texts: list[str] | None = None
    images: list[Path] | None = None
    file: Path | None = None


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
    """Read all that is given, and refuse what does not fit together, before any work is done.

    Parameters
    ----------
    source : str or path
        A file of vectors, a folder that ``asbc-build`` or ``asbc-embed`` wrote, or ``clinc100``, the bundled sample.
    labels : str or path, default=None
        File of labels.
    texts : str or path, default=None
        File with a line of text per vector.
    images : str or path, default=None
        Folder with a picture per vector.
    graph : str or path, default=None
        Folder of a graph that ``asbc-build`` made of these vectors.
    vectors, label : str, default=None
        Names of the arrays or columns, where a file has several.

    Returns
    -------
    Material
    """
    path = Path(source).expanduser()
    file = None
    own: NDArray[Any] | None
    found: NDArray[Any] | None
    if str(source) == SAMPLE and not path.exists():
        found, own, name = *_sample(), "CLINC100: 3,000 sentences, 100 intents"
        own = own if labels is None else read_labels(labels, len(found), label=label)
    elif path.is_dir() and not any((path / name).is_file() for name in ("manifest.json", "plan.json")):
        raise ValueError(f"{path}: a folder that neither asbc-embed nor asbc-build wrote.")
    elif path.is_dir() and not (path / "vectors.npy").is_file():
        if graph is not None:
            raise ValueError(f"--graph: {path} is a graph already; with --graph, the vectors come first.")
        graph, name = path, path.resolve().name
        n = int(read_graph_manifest(path)["n"])
        found, own = None, None if labels is None else read_labels(labels, n, label=label)
    else:
        found, own = read_vectors(path, labels, vectors=vectors, label=label)
        name = _stored_name(path) if path.is_dir() else path.stem
        plain = path / "vectors.npy" if path.is_dir() else path if path.suffix == ".npy" else None
        file = plain if plain is not None and found.dtype.kind == "f" else None
    folder = None if graph is None else Path(graph).expanduser()
    n = len(found) if found is not None else int(read_graph_manifest(folder)["n"])  # type: ignore[arg-type]
    if folder is not None and found is not None:
        built = int(read_graph_manifest(folder)["n"])
        if built != n:
            raise ValueError(f"--graph: {folder} has {built:,} nodes, and {path} has {n:,} vectors.")
    pictures = None if images is None else find_images(images, n)
    return Material(name, found, own, folder, None if texts is None else read_texts(texts, n), pictures, file)


def read_texts(path: str | Path, n: int) -> list[str]:
    """The lines of a file, one per node.

    Parameters
    ----------
    path : str or path
        Text in UTF-8.
    n : int
        How many lines there must be.

    Returns
    -------
    list of n str
    """
    try:
        # By line feeds only: a text may hold other marks that Python would take for the end of a line.
        lines = Path(path).expanduser().read_bytes().decode("utf-8-sig").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"texts: {path}: no such file.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"texts: {path} is not text in UTF-8 ({error}).") from None
    lines = lines[:-1] if lines[-1] == "" else lines
    if len(lines) != n:
        raise ValueError(f"texts: {path} has {len(lines):,} lines, and there are {n:,} vectors; a line each is wanted.")
    return [line.rstrip("\r") for line in lines]


def relative_names(paths: Sequence[Path], folder: str | Path) -> list[str]:
    """Names of pictures as the page shows them: their path within the folder."""
    top = Path(folder).expanduser()
    return [path.relative_to(top).as_posix() for path in paths]


def _stored_name(folder: Path) -> str:
    """What a folder of asbc-embed holds, in words: its own name is a hash."""
    facts = read_entry_manifest(folder)
    return f"{facts['encoder']} of {facts['dataset']}"


def _sample() -> tuple[NDArray[Any], NDArray[Any]]:
    embeddings = Clinc100().load()
    with resources.files("asbc").joinpath("data", "clinc100.npz").open("rb") as file, np.load(file) as arrays:
        names = arrays["label_names"]
    assert embeddings.labels is not None
    return embeddings.vectors, names[embeddings.labels]
