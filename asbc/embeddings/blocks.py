"""Whether stored arrays are as they were written: a checksum for every block of rows."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asbc.checksums import once

_BLOCK = 1 << 24  # bytes of the rows that one checksum is for


def block_checks(vectors: NDArray, labels: NDArray | None) -> dict[str, Any]:
    """Checksums of blocks of rows of the vectors, and of all labels, as they go into a manifest."""
    rows = max(1, _BLOCK // max(1, vectors[:1].nbytes))
    return {"rows": rows, "vectors": _checks(vectors, rows), "labels": None if labels is None else _check(labels)}


def check_blocks(
    folder: Path, vectors: NDArray, labels: NDArray | None, said: Mapping[str, Any], *, again: bool = False
) -> None:
    """Raise a `ValueError` that names the first damaged rows, if there are any.

    Once per process and state of the files, for reading all of them takes time.

    Parameters
    ----------
    folder : Path
        The entry, for the error.
    vectors : ndarray of shape (n, d)
        What is in it now.
    labels : ndarray of shape (n,), or None
        The same of the labels.
    said : mapping
        What `block_checks` gave when it was written.
    again : bool, default=False
        Check although this process did so before.
    """
    files = [folder / "vectors.npy", *([folder / "labels.npy"] if labels is not None else [])]

    def compare() -> None:
        _compare(files, vectors, labels, said)

    if again:
        compare()
    else:
        once(files, compare)


def _compare(files: list[Path], vectors: NDArray, labels: NDArray | None, said: Mapping[str, Any]) -> None:
    rows = int(said["rows"])
    found = _checks(vectors, rows)
    for block, (now, then) in enumerate(zip(found, said["vectors"], strict=True)):
        if now != then:
            last = min((block + 1) * rows, len(vectors)) - 1
            raise ValueError(
                f"{files[0]}: damaged, rows {block * rows} to {last} are not as they were written; "
                "remove the folder and embed anew"
            )
    if labels is not None and _check(labels) != said["labels"]:
        raise ValueError(f"{files[1]}: damaged, not as it was written; remove the folder and embed anew")


def _checks(vectors: NDArray, rows: int) -> list[int]:
    starts = range(0, len(vectors), rows)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # crc32 lets other threads run
        return list(pool.map(lambda start: _check(vectors[start : start + rows]), starts))


def _check(block: NDArray) -> int:
    return zlib.crc32(np.ascontiguousarray(block).view(np.uint8).data)
