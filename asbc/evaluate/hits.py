"""Which nodes were right, small enough to keep with every score: one bit per node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# For each score, which nodes were right: m arrays (N,), or one (m, N), of 1 right, 0 wrong, -1 not scored.
Hits = Sequence[NDArray[np.int8]] | NDArray[np.int8]


def pack_hits(nodes: NDArray[np.int64], right: NDArray[np.bool_], total: int) -> tuple[bytes, bytes]:
    """Which nodes of a data set were scored and which of them were right, one bit per node.

    Parameters
    ----------
    nodes : (m,) int64 array
        Rows of the data set that were scored.
    right : (m,) bool array
        Which of them were right.
    total : int
        Rows of the data set.

    Returns
    -------
    scored, right : bytes
        One bit per row of the data set, filled up with zeros to whole bytes.

    See Also
    --------
    unpack_hits : the way back.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.hits import pack_hits, unpack_hits
    >>> scored, right = pack_hits(np.array([0, 3]), np.array([True, False]), 8)
    >>> unpack_hits(scored, right)
    array([ 1, -1, -1,  0, -1, -1, -1, -1], dtype=int8)
    """
    scored, correct = np.zeros(total, bool), np.zeros(total, bool)
    scored[nodes] = True
    correct[nodes[right]] = True
    return np.packbits(scored).tobytes(), np.packbits(correct).tobytes()


def unpack_hits(scored: bytes, right: bytes) -> NDArray[np.int8]:
    """Which nodes were right, from the bits that :func:`pack_hits` gave.

    Parameters
    ----------
    scored, right : bytes

    Returns
    -------
    (N,) int8 array
        1 right, 0 wrong, -1 not scored; N is the number of rows of the data set rounded up to whole bytes.
    """
    return unpack_all([(scored, right)])[0]


def unpack_all(packed: Sequence[tuple[bytes, bytes]]) -> NDArray[np.int8]:
    """The same for several scores of one data set at once.

    Parameters
    ----------
    packed : sequence of m pairs of bytes

    Returns
    -------
    (m, N) int8 array
    """
    if len({len(bits) for pair in packed for bits in pair}) > 1:
        raise ValueError("scores of data sets of several sizes: which nodes are the same cannot be told")
    bits = np.frombuffer(b"".join(side for pair in packed for side in pair), np.uint8).reshape(len(packed), 2, -1)
    seen, right = np.unpackbits(bits, axis=2).astype(np.int8).swapaxes(0, 1)
    return np.where(seen == 1, right, np.int8(-1))
