"""Which nodes were right, small enough to keep with every score: one bit a node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pack_hits(nodes: NDArray[np.int64], right: NDArray[np.bool_], total: int) -> tuple[bytes, bytes]:
    """Which nodes of a data set were scored and which of them were right, one bit a node.

    Parameters
    ----------
    nodes : (m,) rows of the data set that were scored
    right : (m,) bool
    total : int
        Rows of the data set.

    Returns
    -------
    scored, right : bytes
    """
    scored, correct = np.zeros(total, bool), np.zeros(total, bool)
    scored[nodes] = True
    correct[nodes[right]] = True
    return np.packbits(scored).tobytes(), np.packbits(correct).tobytes()


def unpack_hits(scored: bytes, right: bytes) -> NDArray[np.int8]:
    """The inverse of :func:`pack_hits`: 1 right, 0 wrong, -1 not scored (padding at the end too)."""
    seen = np.unpackbits(np.frombuffer(scored, np.uint8)).astype(np.int8)
    return np.where(seen == 1, np.unpackbits(np.frombuffer(right, np.uint8)).astype(np.int8), np.int8(-1))
