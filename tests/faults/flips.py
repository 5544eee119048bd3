"""Files with one bit changed, as disks that decay and cables that fail change them."""

from pathlib import Path

import numpy as np


def flip(path, bit):
    """Change one bit of a file, counted from its first; a second call with the same bit undoes it."""
    with Path(path).open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def bits(path, number, seed=0):
    """That many different bits of a file, drawn evenly; all of them if there are fewer."""
    size = 8 * Path(path).stat().st_size
    return sorted(np.random.default_rng(seed).choice(size, min(number, size), replace=False).tolist())


def flipped(path, number, seed=0):
    """Change one bit after the other, and yield each while it is changed; the file is as it was in between."""
    for bit in bits(path, number, seed):
        flip(path, bit)
        try:
            yield bit
        finally:
            flip(path, bit)
