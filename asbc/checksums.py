"""Whether what is read is what was written: checksums of files and of JSON objects, each compared once per process."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_PIECE = 1 << 24  # bytes read in one go
_seen: dict[tuple[str, ...], tuple[int, ...]] = {}  # what this process has checked: the files' sizes and times then


class SummedFile:
    """A binary file, open for writing, with the checksum of all that was written to it.

    Attributes
    ----------
    crc32 : int
        The checksum so far.
    """

    def __init__(self, file: Any):
        self._file = file
        self.crc32 = 0

    def write(self, content: Any) -> None:
        self.crc32 = zlib.crc32(content, self.crc32)
        self._file.write(content)


def file_crc32(path: Path) -> int:
    """The checksum of all bytes of a file."""
    checksum = 0
    piece = memoryview(bytearray(_PIECE))
    with open(path, "rb", buffering=0) as file:
        while length := file.readinto(piece):
            checksum = zlib.crc32(piece[:length], checksum)
    return checksum


def first_changed(said: Mapping[Path, int]) -> Path | None:
    """The first of some files whose checksum is not the one `said`, or None; several files are read at a time."""
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # reading and crc32 let other threads run
        found = pool.map(file_crc32, said)
        return next((path for path, checksum in zip(said, found, strict=True) if checksum != said[path]), None)


def json_crc32(content: Mapping[str, Any]) -> int:
    """The checksum of a JSON object, whatever the order of its keys."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def once(files: Sequence[Path], check: Callable[[], None], what: str = "") -> None:
    """Run a check, unless this process ran it before and the files have the sizes and times that they had then.

    Parameters
    ----------
    files : sequence of Path
        What the check reads.
    check : function
        Raises if something is wrong; it is then run again the next time.
    what : str, default=""
        Tells several checks of the same files apart.
    """
    key = (what, *map(os.path.abspath, files))
    stats = [os.stat(file) for file in files]
    state = tuple(number for stat in stats for number in (stat.st_size, stat.st_mtime_ns, stat.st_ino))
    if _seen.get(key) != state:
        check()
        _seen[key] = state
