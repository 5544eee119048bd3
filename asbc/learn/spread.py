"""How many directions do the vectors use on the whole?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from asbc.validation import as_vectors, seed_number, whole_number


def global_rank(X: ArrayLike, *, sample: int = 10_000, seed: int = 0) -> float:
    """Effective rank of the vectors on the whole: ``exp`` of the entropy of their normalised singular values.

    It falls when an encoder's features collapse onto few directions. The vectors are taken as they are, not centred.

    Parameters
    ----------
    X : (n, d) array-like, or memory map
    sample : int, default=10000
        Vectors that are looked at; where there are more, this many of them are drawn.
    seed : int, default=0
        Of the draw.

    Returns
    -------
    float from 1 to min(n, d); 0 if all vectors are zero

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.learn.spread import global_rank
    >>> round(global_rank(np.eye(5)), 6)
    5.0
    """
    sample = whole_number(sample, "sample", 1)
    shape = np.shape(X)
    if len(shape) == 2 and shape[0] > sample:
        rows = np.sort(np.random.default_rng(seed_number(seed)).choice(shape[0], sample, replace=False))
        X = np.asarray(X[rows] if hasattr(X, "dtype") else [X[i] for i in rows])  # type: ignore[index]
    values = np.linalg.svd(as_vectors(X).astype(np.float64, copy=False), compute_uv=False)
    if not values.sum() > 0:
        return 0.0
    shares = values / values.sum()
    shares = shares[shares > 0]
    return float(np.exp(-(shares * np.log(shares)).sum()))
