"""Embeddings in memory, stratified samples of their rows, and the cache folder that stores them.

``<cache>/embeddings/<key>/`` holds ``vectors.npy``, ``labels.npy`` if there are labels, and ``manifest.json`` with the
checksums of both. The key is a hash of everything that determines the vectors. An entry appears by one rename, so it is
complete or absent. Until then its rows are collected in ``.draft-<key>``, a file per batch, where a later job resumes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.learn.labels import encode_partial
from asbc.storage import (
    DamagedFileError,
    atomic_file,
    check_file,
    explain_write_error,
    file_inside,
    open_array,
    read_json,
    remove_temporary_files,
    write_array_blocks,
    write_atomic,
    write_json,
)
from asbc.validation import seed_number, whole_number

FORMAT = 2  # version of an entry's layout
BLOCK_BYTES = 2**24  # read at once, so that a memory map is never copied to memory as a whole
MIN_PER_STRATUM = 10  # rows of every stratum, if it has as many and the sample is large enough


class CacheError(OSError):
    """The cache folder cannot be written to."""


@dataclass(frozen=True, repr=False)
class Embeddings:
    """Vectors of one data set from one encoder.

    Attributes
    ----------
    vectors : ndarray of shape (n, d)
        One row per item, as the encoder returned it (not normalised); read-only if it is memory-mapped.
    labels : ndarray of shape (n,), or None
        Class of every row.
    name : str
        The data set.
    encoder : str
        What turned its items into vectors.
    fingerprint : str, default=""
        SHA-256 of the contents of ``vectors`` and ``labels``; computed if it is not given.

    See Also
    --------
    asbc.embeddings.Files : reads embeddings from files.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.embeddings import Embeddings
    >>> Embeddings(np.eye(3), np.array([0, 0, 1]), name="corners", encoder="none")
    Embeddings('corners', encoder='none', 3 x 3 float64, 2 classes)
    """

    vectors: NDArray
    labels: NDArray | None
    name: str
    encoder: str
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", fingerprint(self.vectors, self.labels))

    def __len__(self) -> int:
        return len(self.vectors)

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.vectors.shape))
        classes = "no labels" if self.labels is None else f"{len(np.unique(self.labels))} classes"
        return f"Embeddings({self.name!r}, encoder={self.encoder!r}, {shape} {self.vectors.dtype}, {classes})"


def fingerprint(*arrays: NDArray | None) -> str:
    """Return the SHA-256 of the dtype, shape and contents of arrays; memory order does not matter."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none;")
            continue
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        for block in _blocks(array):
            digest.update(np.ascontiguousarray(block).tobytes())
    return digest.hexdigest()


def check_arrays(vectors: NDArray, labels: NDArray | None, origin: str) -> None:
    """Raise a ValueError if arrays are not embeddings; `origin` is where they come from."""
    if vectors.ndim != 2 or 0 in vectors.shape:
        raise ValueError(f"{origin}: embeddings must have shape (n, d), got {vectors.shape}")
    if vectors.dtype.kind != "f":
        raise ValueError(f"{origin}: embeddings must be floating point, got dtype {vectors.dtype}")
    first = 0
    for block in _blocks(vectors):
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if bad.size:
            raise ValueError(f"{origin}: embeddings must be finite, row {first + bad[0]} has NaN or infinity")
        first += len(block)
    n = len(vectors)
    if labels is not None and labels.shape != (n,):
        raise ValueError(f"{origin}: labels must have one entry per row, got {labels.shape} for {n} embeddings")


def _blocks(array: NDArray) -> Iterator[NDArray]:
    rows = max(1, BLOCK_BYTES // max(1, array.nbytes // max(1, len(array)))) if array.ndim else 1
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# Samples


def stratified_sample(labels: ArrayLike, per_class: int, seed: int = 0) -> NDArray[np.int64]:
    """Choose ``per_class`` rows of every class, or all rows of a class that has fewer.

    The random order of a class depends on `seed` and the class only, so a smaller sample is a subset of a larger one
    with the same seed.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Class of every row: integers, strings or booleans. Unlabelled rows (-1 or an empty string) are not chosen.
    per_class : int
        Rows per class.
    seed : int, default=0
        Non-negative. Different seeds give independent samples.

    Returns
    -------
    ndarray of shape (m,)
        Row numbers in ascending order.

    See Also
    --------
    asbc.evaluate.LeaveOneOut : a task that is measured on such samples.

    Examples
    --------
    >>> from asbc.embeddings import stratified_sample
    >>> labels = ["cat", "cat", "cat", "dog", ""]
    >>> rows = stratified_sample(labels, per_class=2)
    >>> [labels[row] for row in rows]
    ['cat', 'cat', 'dog']
    """
    codes, classes = encode_partial(labels)  # type: ignore[arg-type]
    per_class, seed = whole_number(per_class, "per_class", 1), seed_number(seed)
    by_class = [np.flatnonzero(codes == c) for c in range(len(classes))]
    chosen = [np.random.default_rng([seed, c]).permutation(rows)[:per_class] for c, rows in enumerate(by_class)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def stratified_share(strata: ArrayLike, size: int, seed: int = 0) -> NDArray[np.int64]:
    """Choose nodes in proportion to the strata, with at least ten of every stratum where possible.

    Parameters
    ----------
    strata : (n,) array-like
        The stratum of every node, such as its label.
    size : int
        Nodes to choose; all of them if there are fewer.
    seed : int, default=0

    Returns
    -------
    (min(size, n),) int64
        Nodes in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.embeddings.store import stratified_share
    >>> strata = np.repeat(["often", "seldom"], [990, 10])
    >>> np.unique(strata[stratified_share(strata, 100)], return_counts=True)[1]
    array([90, 10])
    """
    _, codes = np.unique(np.asarray(strata), return_inverse=True)
    n = len(codes)
    if n <= size:
        return np.arange(n)
    order = np.random.default_rng(seed_number(seed)).permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]  # stratum by stratum, shuffled within each
    counts = np.bincount(codes)
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    least = min(MIN_PER_STRATUM, size // len(counts))
    first, rest = order[rank < least], order[rank >= least]
    # Evenly spaced positions in the rest give every stratum its share, within one node.
    places = np.floor((np.arange(size - len(first)) + 0.5) * len(rest) / max(1, size - len(first))).astype(np.int64)
    return np.sort(np.concatenate([first, rest[places]]))


# The cache folder


def cache_folder(folder: str | os.PathLike | None = None) -> Path:
    """Return the cache folder: `folder` if given, else ``$ASBC_CACHE``, else the user's cache directory."""
    if folder or os.environ.get("ASBC_CACHE"):
        return Path(folder or os.environ["ASBC_CACHE"]).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("asbc")


@contextmanager
def cache_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into a CacheError that names the setting to change."""
    try:
        yield
    except OSError as error:
        explained = explain_write_error(error)
        if explained is None:
            raise
        raise CacheError(
            f"cannot write to the cache {folder}: {explained}. ASBC_CACHE or embedding.cache sets another folder."
        ) from error


# Files of other people


@dataclass(frozen=True)
class RemoteFile:
    """A file, its address, and its place in the cache."""

    url: str
    path: Path
    hash: str = ""  # "git:..." (the SHA-1 of a git blob), "sha256:..." or "md5:..."; empty if none is published
    size: int = 0  # approximate bytes; 0 if not published
    hub: tuple[str, ...] = ()  # repository of the Hugging Face hub, and the file's names there in order of preference

    def problem(self, path: Path) -> str:
        """Return why `path` is not this file, or nothing."""
        kind, _, expected = self.hash.partition(":")
        found = file_hash(path, kind) if expected else ""
        return f"its {kind} hash is {found}, expected {expected}" if found != expected else ""

    def verify(self) -> None:
        """Raise a ValueError if the stored file is not the published one.

        If no hash is published, the SHA-256 is recorded next to the file at first use and compared later.
        """
        if problem := self.problem(self.path):
            raise ValueError(f"{self.path}: not the published file ({problem}). Remove it to download it again.")
        if self.hash or self.hub:
            return
        record, found = self.path.with_name(self.path.name + ".sha256"), file_hash(self.path)
        recorded = record.read_text().split() if record.exists() else []
        if not recorded:
            with suppress(OSError):  # in a shared folder that is read-only
                write_atomic(record, f"{found}  {self.path.name}\n")
        elif recorded[0] != found:
            raise ValueError(
                f"{self.path}: changed or damaged since its first use (its SHA-256 was {recorded[0]}, it is {found}). "
                f"Remove it to download it again; if it is meant to be another file, remove {record} too."
            )


def file_hash(path: Path, kind: str = "sha256") -> str:
    """Return the hash of a file; kind "git" is the SHA-1 that git gives its contents."""
    digest = hashlib.new("sha1" if kind == "git" else kind)
    if kind == "git":
        digest.update(b"blob %d\0" % path.stat().st_size)
    with open(path, "rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return digest.hexdigest()


# The store


def entry_folders(cache: str | os.PathLike | None = None) -> list[Path]:
    """Return the folders of all finished entries of a cache, oldest first, including damaged ones."""
    found = [path.parent for path in cache_folder(cache).glob("embeddings/[!.]*/manifest.json")]
    return sorted(found, key=lambda path: path.stat().st_mtime)


def read_entry_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an entry; a DamagedFileError if it is damaged or of another format."""
    path = folder / "manifest.json"
    manifest = read_json(path)
    if manifest.get("format") != FORMAT:
        raise DamagedFileError(f"{path}: has format {manifest.get('format')}, expected {FORMAT}.")
    return manifest


def read_entry(folder: Path) -> Embeddings:
    """Return the embeddings of a finished entry, vectors memory-mapped, after comparing the checksums."""
    arrays: dict[str, NDArray] = {}
    try:
        manifest = read_entry_manifest(folder)
        n, d = manifest["shape"]
        expected = {"vectors.npy": (manifest["dtype"], (n, d)), "labels.npy": (np.int64, (n,))}
        for name, checksum in manifest["checksums"].items():
            path = file_inside(folder, name)
            check_file(path, checksum)
            arrays[name] = open_array(path, *expected[name])
        names = [str(manifest[key]) for key in ("dataset", "encoder", "fingerprint")]
        return Embeddings(arrays["vectors.npy"], arrays.get("labels.npy"), *names)
    except (DamagedFileError, FileNotFoundError) as error:
        raise DamagedFileError(f"{error} Remove the folder and embed again.") from error
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise DamagedFileError(f"{folder}: damaged ({reason}). Remove the folder and embed again.") from error


class Entry:
    """The entry `key` of a cache: `folder` once it is finished, until then a file per batch of rows in `draft`.

    Several processes may write batches, one publishes the entry.
    """

    def __init__(self, key: str, cache: str | os.PathLike | None = None) -> None:
        self.folder = cache_folder(cache) / "embeddings" / key
        self.draft = self.folder.with_name(f".draft-{key}")

    @staticmethod
    def key(inputs: Mapping[str, Any]) -> str:
        """Return the key of the entry that `inputs` (JSON values) determine."""
        text = json.dumps({"format": FORMAT, **inputs}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def finished(self) -> bool:
        return (self.folder / "manifest.json").is_file()

    def write(self, rows: NDArray, vectors: NDArray, labels: NDArray | None) -> None:
        """Write `vectors` (b, d) and `labels` (b,) of the consecutive `rows` (b,)."""
        known = np.empty(0, np.int64) if labels is None else np.asarray(labels, np.int64)
        with cache_errors(self.folder.parent), atomic_file(self.draft / f"{rows[0]:09d}.npz") as file:
            np.savez(file, vectors=np.asarray(vectors, np.float32), labels=known)

    def batches(self) -> Iterator[tuple[int, NDArray, NDArray]]:
        """Yield first row, vectors and labels of every batch, in order; damaged files are removed."""
        end = 0
        for path in sorted(self.draft.glob("*.npz")):
            try:
                first = int(path.stem)
                with np.load(path) as arrays:
                    vectors, labels = arrays["vectors"], arrays["labels"]
                if first < end:
                    raise ValueError("its rows are in another file, too")
            except Exception:  # a damaged archive makes NumPy raise almost anything
                path.unlink()
                continue
            end = first + len(vectors)
            yield first, vectors, labels

    def missing(self, n: int) -> NDArray[np.int64]:
        """Return those of n rows that are not written yet."""
        missing = np.ones(n, bool)
        for first, vectors, _ in self.batches():
            missing[first : first + len(vectors)] = False
        return np.flatnonzero(missing)

    def publish(self, n: int, manifest: Mapping[str, Any]) -> None:
        """Turn the draft of n rows into the finished entry."""
        missing = self.missing(n)
        if missing.size:
            raise RuntimeError(f"{self.draft}: {missing.size} rows were never written, the first is {missing[0]}")
        found = [(vectors.shape[1], labels) for _, vectors, labels in self.batches()]
        shape, labels = (n, found[0][0]), np.concatenate([labels for _, labels in found])
        with cache_errors(self.folder.parent):
            blocks = (vectors for _, vectors, _ in self.batches())
            checksums = {"vectors.npy": write_array_blocks(self.draft / "vectors.npy", np.float32, shape, blocks)}
            if len(labels):
                checksums["labels.npy"] = write_array_blocks(self.draft / "labels.npy", np.int64, (n,), iter([labels]))
            vectors = open_array(self.draft / "vectors.npy")
            complete = {
                "format": FORMAT,
                **manifest,
                "shape": list(shape),
                "dtype": str(vectors.dtype),
                "fingerprint": fingerprint(vectors, labels if len(labels) else None),
                "checksums": checksums,
            }
            del vectors  # Windows does not rename a folder whose files are mapped
            write_json(self.draft / "manifest.json", complete)
            remove_temporary_files(self.draft)  # of a job that was killed
            for path in self.draft.glob("*.npz"):
                path.unlink()
            if self.folder.exists():
                shutil.rmtree(self.folder)  # a folder without a manifest
            os.rename(self.draft, self.folder)
