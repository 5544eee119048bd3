"""Embeddings on disk: a folder for each, named by the hash of what went into it.

``<cache>/embeddings/<key>/`` holds ``vectors.npy``, ``labels.npy`` if it has labels, and ``manifest.json``.
The manifest has a checksum for every block of rows and one for itself; they are compared when an entry is read.
An entry appears by one rename, so it is whole or absent. Until then its rows gather in ``.draft-<key>``, each
with a checksum: a row counts as written when its checksum is right, so after a kill or a power cut work goes
on with the rows that are missing, and no others.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from asbc.checksums import json_crc32
from asbc.embeddings.arrays import Embeddings, fingerprint, read_array
from asbc.embeddings.blocks import block_checks, check_blocks
from asbc.embeddings.cache import cache_folder, writing_to
from asbc.files import write_whole

FORMAT = 1  # number of the layout of an entry; it rises when older versions could no longer read it
_WANTED = ("shape", "dtype", "labels", "fingerprint", "dataset", "encoder")  # what every manifest says


class Store:
    """The entries of one cache folder.

    Parameters
    ----------
    cache : path, optional
        See `asbc.embeddings.cache.cache_folder`.
    """

    def __init__(self, cache: str | os.PathLike | None = None) -> None:
        self.folder = cache_folder(cache) / "embeddings"

    @staticmethod
    def key(inputs: Mapping[str, Any]) -> str:
        """The name of the entry that ``inputs`` (JSON values) lead to."""
        text = json.dumps({"format": FORMAT, **inputs}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def find(self, key: str) -> Path | None:
        """Folder of the finished entry ``key``, if there is one."""
        path = self.folder / key
        return path if (path / "manifest.json").is_file() else None

    def lock(self, key: str) -> FileLock:
        """Held by the one job that writes entry ``key``."""
        with writing_to(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / f".{key}.lock")

    def draft(self, key: str) -> Draft:
        return Draft(self.folder / f".draft-{key}")

    def entries(self) -> list[tuple[Path, dict[str, Any]]]:
        """Folder and manifest of every finished entry, oldest first."""
        return [(path, read_entry_manifest(path)) for path in self.folders()]

    def folders(self) -> list[Path]:
        """Folders of all finished entries, whether their manifests can be read or not, oldest first."""
        found = [path.parent for path in self.folder.glob("[!.]*/manifest.json")]
        return sorted(found, key=lambda path: path.stat().st_mtime)


def read_entry_manifest(folder: Path) -> dict[str, Any]:
    """What an entry says of itself."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder}: manifest.json is damaged ({error}); remove the folder and embed anew") from error
    if not isinstance(manifest, dict):
        raise ValueError(f"{folder}: manifest.json is damaged (not a table); remove the folder and embed anew")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"{folder}: written in format {manifest.get('format')}, this version reads {FORMAT}")
    lacking = [key for key in _WANTED if key not in manifest]
    if lacking:
        raise ValueError(
            f"{folder}: manifest.json is damaged (it does not say {lacking[0]!r}); remove the folder and embed anew"
        )
    said = manifest.pop("check", None)
    if (said is None and "blocks" in manifest) or (said is not None and said != json_crc32(manifest)):
        raise ValueError(f"{folder}: manifest.json is damaged (its checksum differs); remove the folder and embed anew")
    return manifest


def read_entry(folder: Path, *, whole: bool = False) -> Embeddings:
    """Embeddings of a finished entry, its vectors memory-mapped; a damaged one is an error.

    Parameters
    ----------
    folder : Path
        The entry.
    whole : bool, default=False
        Compare the SHA-256 of the contents too, and the checksums even if this process did so before.
    """
    manifest = read_entry_manifest(folder)
    vectors = read_array(folder / "vectors.npy")
    labels = np.asarray(read_array(folder / "labels.npy")) if manifest["labels"] else None
    wanted = (tuple(manifest["shape"]), manifest["dtype"])
    if (vectors.shape, str(vectors.dtype)) != wanted or (labels is not None and len(labels) != len(vectors)):
        raise ValueError(
            f"{folder}: vectors are {vectors.shape} {vectors.dtype}, the manifest says {wanted}; "
            "remove the folder and embed anew"
        )
    if "blocks" in manifest:
        check_blocks(folder, vectors, labels, manifest["blocks"], again=whole)
    if (whole or "blocks" not in manifest) and fingerprint(vectors, labels) != manifest["fingerprint"]:
        raise ValueError(f"{folder}: damaged, its contents are not those that were written; remove it and embed anew")
    return Embeddings(vectors, labels, manifest["dataset"], manifest["encoder"], manifest["fingerprint"])


class Draft:
    """An entry in the making. Several processes may write its rows; one creates and publishes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, n: int, d: int, labeled: bool) -> None:
        """Make room on disk for all rows, unless a former job did."""
        if self._whole(n, d, labeled):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            with writing_to(self.folder.parent):
                self.folder.mkdir(parents=True)
                if labeled:
                    _allocate(self.folder / "labels.npy", (n,), np.int64)
                _allocate(self.folder / "vectors.npy", (n, d), np.float32)
                _allocate(self.folder / "checks.npy", (n,), np.uint32)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def write(self, rows: NDArray, vectors: NDArray, labels: NDArray | None) -> None:
        """Write ``vectors`` (b, d) and ``labels`` (b,) to ``rows`` (b,)."""
        vectors = np.ascontiguousarray(vectors, np.float32)
        labels = None if labels is None else np.ascontiguousarray(labels, np.int64)
        with writing_to(self.folder.parent):
            _write_rows(self.folder / "vectors.npy", rows, vectors)
            if labels is not None:
                _write_rows(self.folder / "labels.npy", rows, labels)
            _write_rows(self.folder / "checks.npy", rows, _checks(vectors, labels))

    def missing(self) -> NDArray[np.int64]:
        """Rows that are not there yet, or not as they were written."""
        vectors = read_array(self.folder / "vectors.npy")
        labels = read_array(self.folder / "labels.npy") if (self.folder / "labels.npy").exists() else None
        checks = read_array(self.folder / "checks.npy")
        written = np.zeros(len(checks), bool)
        for start in range(0, len(checks), 4096):
            part = slice(start, start + 4096)
            found = _checks(vectors[part], None if labels is None else labels[part])
            written[part] = (checks[part] != 0) & (checks[part] == found)
        return np.flatnonzero(~written)

    def publish(self, manifest: Mapping[str, Any], target: Path) -> None:
        """Turn the draft into the finished entry ``target``."""
        missing = self.missing()
        if missing.size:
            raise RuntimeError(f"{self.folder}: {missing.size} rows were never written, the first is {missing[0]}")
        vectors = read_array(self.folder / "vectors.npy")
        labels = read_array(self.folder / "labels.npy") if (self.folder / "labels.npy").exists() else None
        complete = {
            "format": FORMAT,
            **manifest,
            "shape": list(vectors.shape),
            "dtype": str(vectors.dtype),
            "labels": labels is not None,
            "fingerprint": fingerprint(vectors, labels),
            "blocks": block_checks(vectors, labels),
        }
        complete["check"] = json_crc32(complete)
        with writing_to(target.parent):
            for leftover in self.folder.glob(".*"):  # of a job that was killed while it wrote the manifest
                leftover.unlink()
            write_whole(
                self.folder / "manifest.json", lambda path: path.write_text(json.dumps(complete, indent=1) + "\n")
            )
            for file in self.folder.iterdir():
                with open(file, "rb") as opened:
                    os.fsync(opened.fileno())
            (self.folder / "checks.npy").unlink()
            if target.exists():
                shutil.rmtree(target)  # what `find` did not take for an entry
            os.rename(self.folder, target)

    def _whole(self, n: int, d: int, labeled: bool) -> bool:
        """Whether a former job left files of the wanted shapes."""
        try:
            shapes = [read_array(self.folder / f"{name}.npy").shape for name in ("vectors", "checks")]
            label_shape = read_array(self.folder / "labels.npy").shape if labeled else (n,)
        except (OSError, ValueError):
            return False
        return shapes == [(n, d), (n,)] and label_shape == (n,)


def _checks(vectors: NDArray, labels: NDArray | None) -> NDArray[np.uint32]:
    """A checksum of every row and its label, never 0: that means not written."""
    tails = [b""] * len(vectors) if labels is None else [label.tobytes() for label in labels]
    rows = np.ascontiguousarray(vectors)
    sums = [zlib.crc32(tail, zlib.crc32(row)) or 1 for row, tail in zip(rows, tails, strict=True)]
    return np.array(sums, np.uint32)


def _allocate(path: Path, shape: tuple[int, ...], dtype) -> None:
    """An empty ``.npy`` file whose disk space is taken now, so that a full disk shows before the work."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_2_0(
            file,
            {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape},
        )
        size = file.tell() + int(np.prod(shape)) * np.dtype(dtype).itemsize
        file.flush()
        file.truncate(size)
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # some file systems cannot reserve
                    raise


def _write_rows(path: Path, rows: NDArray, values: NDArray) -> None:
    """Write ``values[i]`` to place ``rows[i]`` of a ``.npy`` file, runs of neighbouring rows in one go."""
    # Not through a memory map: there a full disk is a bus error, here it is an exception.
    with open(path, "r+b", buffering=0) as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_2_0(file)
        start = file.tell()
        step = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        for run in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) != 1) + 1):
            if run.size:
                content = memoryview(values[run[0] : run[-1] + 1].tobytes())
                file.seek(start + int(rows[run[0]]) * step)
                while content:
                    content = content[file.write(content) :]
