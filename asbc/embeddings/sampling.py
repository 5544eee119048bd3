"""Stratified samples of rows: a fixed number per class, or proportional shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asbc.learn.labels import encode_partial
from asbc.validation import seed_number, whole_number

MIN_PER_STRATUM = 10  # rows of every stratum, if it has as many and the sample is large enough


def stratified_sample(labels: ArrayLike, per_class: int, seed: int = 0) -> NDArray[np.int64]:
    """Choose ``per_class`` rows of every class, or all rows of a class that has fewer.

    The random order of a class depends on `seed` and the class only, so a smaller sample is a subset of a larger one
    with the same seed.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Class of every row: integers, strings or booleans. Unlabelled rows (-1 or an empty string) are not chosen.
    per_class : int
        Rows per class.
    seed : int, default=0
        Non-negative. Different seeds give independent samples.

    Returns
    -------
    ndarray of shape (m,)
        Row numbers in ascending order.

    See Also
    --------
    asbc.evaluate.LeaveOneOut : a task that is measured on such samples.

    Examples
    --------
    >>> from asbc.embeddings import stratified_sample
    >>> labels = ["cat", "cat", "cat", "dog", ""]
    >>> rows = stratified_sample(labels, per_class=2)
    >>> [labels[row] for row in rows]
    ['cat', 'cat', 'dog']
    """
    codes, classes = encode_partial(labels)  # type: ignore[arg-type]
    per_class, seed = whole_number(per_class, "per_class", 1), seed_number(seed)
    by_class = [np.flatnonzero(codes == c) for c in range(len(classes))]
    chosen = [np.random.default_rng([seed, c]).permutation(rows)[:per_class] for c, rows in enumerate(by_class)]
    return np.sort(np.concatenate(chosen)).astype(np.int64)


def stratified_share(strata: ArrayLike, size: int, seed: int = 0) -> NDArray[np.int64]:
    """Choose nodes in proportion to the strata, with at least ten of every stratum where possible.

    Parameters
    ----------
    strata : (n,) array-like
        The stratum of every node, such as its label.
    size : int
        Nodes to choose; all of them if there are fewer.
    seed : int, default=0

    Returns
    -------
    (min(size, n),) int64
        Nodes in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.embeddings.sampling import stratified_share
    >>> strata = np.repeat(["often", "seldom"], [990, 10])
    >>> np.unique(strata[stratified_share(strata, 100)], return_counts=True)[1]
    array([90, 10])
    """
    _, codes = np.unique(np.asarray(strata), return_inverse=True)
    n = len(codes)
    if n <= size:
        return np.arange(n)
    order = np.random.default_rng(seed_number(seed)).permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]  # stratum by stratum, shuffled within each
    counts = np.bincount(codes)
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    least = min(MIN_PER_STRATUM, size // len(counts))
    first, rest = order[rank < least], order[rank >= least]
    # Evenly spaced positions in the rest give every stratum its share, within one node.
    places = np.floor((np.arange(size - len(first)) + 0.5) * len(rest) / max(1, size - len(first))).astype(np.int64)
    return np.sort(np.concatenate([first, rest[places]]))
