"""Flip single bits of files."""

from pathlib import Path

import numpy as np


def flip(path, bit):
    """Flip bit number `bit` of a file; a second call restores it."""
    with Path(path).open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ (1 << bit % 8)]))


def bits(path, number, seed=0):
    """Return `number` random bits of a file without repetition; all of them if there are fewer."""
    size = 8 * Path(path).stat().st_size
    return sorted(np.random.default_rng(seed).choice(size, min(number, size), replace=False).tolist())


def flipped(path, number, seed=0):
    """Flip one bit after another and yield each while it is flipped."""
    for bit in bits(path, number, seed):
        flip(path, bit)
        try:
            yield bit
        finally:
            flip(path, bit)
