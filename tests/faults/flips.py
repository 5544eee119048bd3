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


def bits(path, number, seed=0, *, zeros=True):
    """Return `number` random bits of a file without repetition, or all; ``zeros=False`` spares bytes that are zero."""
    content = np.frombuffer(Path(path).read_bytes(), np.uint8)
    places = np.arange(len(content)) if zeros else np.flatnonzero(content)
    chosen = np.random.default_rng(seed).choice(8 * len(places), min(number, 8 * len(places)), replace=False)
    return sorted((8 * places[chosen // 8] + chosen % 8).tolist())


def flipped(path, number, seed=0, *, zeros=True):
    """Flip one bit after another and yield each while it is flipped."""
    for bit in bits(path, number, seed, zeros=zeros):
        flip(path, bit)
        try:
            yield bit
        finally:
            flip(path, bit)
