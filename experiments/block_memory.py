"""Bytes per node that searching one block by lists takes at its peak; NUMBA_NUM_THREADS says on how many threads.

    NUMBA_NUM_THREADS=32 python experiments/block_memory.py vectors.npy

Compiled loops have memory that no tool of Python sees, so Linux is asked for the peak of the whole process. What is
freed must go back to it at once: run as a program, this restarts itself with an allocator that does so.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

AT_ONCE = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_TOP_PAD_": "0"}
BLOCK = 16_384  # nodes
PROBES = 8  # lists that each looks at


def bytes_per_node(vectors: Path, threads: int) -> float:
    """In a process of its own."""
    environment = {**os.environ, **AT_ONCE, "NUMBA_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, str(vectors)]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def _status(name: str) -> int:
    """Return one line of /proc/self/status, in bytes."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def main() -> None:
    if not AT_ONCE.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **AT_ONCE})
    from asbc.neighbors.search import build_index, find_rows

    X = np.load(sys.argv[1])
    index = build_index(X, 30, "ivf", {"n_probe": PROBES})[0]
    rows = np.arange(min(len(X), BLOCK))
    find_rows(X, rows, index, 30)  # compiles, and keeps what is kept from block to block
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _status("VmRSS")
    find_rows(X, rows, index, 30)
    print((_status("VmHWM") - before) / len(rows))


if __name__ == "__main__":
    main()
