"""Which nodes are on the map, where there are too many for a page?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.validation import seed_number

LEAST = 10  # nodes that are taken of every stratum at least, if it has as many and there is room


def stratified_share(strata: ArrayLike, size: int, seed: int = 0) -> NDArray[np.int64]:
    """Choose nodes so that every stratum has its share of them, and small strata are not lost.

    Parameters
    ----------
    strata : (n,) array-like
        The stratum of every node, such as its label.
    size : int
        Nodes to choose; all of them if there are no more.
    seed : int, default=0
        Draws the nodes.

    Returns
    -------
    (min(size, n),) int64
        Nodes, rising.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.explore.sample import stratified_share
    >>> strata = np.repeat(["often", "seldom"], [990, 10])
    >>> np.unique(strata[stratified_share(strata, 100)], return_counts=True)[1]
    array([90, 10])
    """
    _, codes = np.unique(np.asarray(strata), return_inverse=True)
    n = len(codes)
    if n <= size:
        return np.arange(n)
    order = np.random.default_rng(seed_number(seed)).permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]  # stratum by stratum, at random within each
    counts = np.bincount(codes)
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    least = min(LEAST, size // len(counts))
    first, rest = order[rank < least], order[rank >= least]
    # Evenly spaced places in the rest give every stratum its share, within one node.
    places = np.floor((np.arange(size - len(first)) + 0.5) * len(rest) / max(1, size - len(first))).astype(np.int64)
    return np.sort(np.concatenate([first, rest[places]]))
