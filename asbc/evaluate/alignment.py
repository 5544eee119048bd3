"""Alignment: does the effective rank of the chosen kernels follow the intrinsic dimension?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata


@dataclass(frozen=True)
class RankFit:
    """How the effective rank r moves with the dimension d over the nodes; :func:`align` gives it.

    Attributes
    ----------
    spearman : float
        Rank correlation; NaN where one of the two is constant.
    slope, intercept : float
        Least-squares line `r = slope * d + intercept`; NaN where d is constant.
    n : int
        Nodes with a finite rank and a finite dimension, which alone are looked at.
    """

    spearman: float
    slope: float
    intercept: float
    n: int


def align(effective_rank: ArrayLike, dimension: ArrayLike) -> RankFit:
    """Compare the effective rank r of each node's kernel with the dimension d of its neighbourhood.

    The spectral rule chooses r to be near the estimate of dimension that it was *given*. That r agrees with this
    estimate only shows that the search works; that r agrees with another estimate says something about the data.

    Parameters
    ----------
    effective_rank : (n,) array
    dimension : (n,) array
        Nodes where either of the two is not finite are left out; at least 3 must remain.

    Returns
    -------
    RankFit

    See Also
    --------
    asbc.evaluate.Alignment : the task that does this for every estimate of dimension in turn.

    Examples
    --------
    >>> from asbc.evaluate.alignment import align
    >>> align([3.0, 5.0, 9.0], [1.0, 2.0, 4.0])
    RankFit(spearman=1.0, slope=2.0, intercept=1.0, n=3)
    """
    r = np.asarray(effective_rank, dtype=np.float64)
    d = np.asarray(dimension, dtype=np.float64)
    if r.ndim != 1 or r.shape != d.shape:
        raise ValueError(f"effective_rank and dimension must have one shape (n,); got {r.shape} and {d.shape}")
    usable = np.isfinite(r) & np.isfinite(d)
    r, d = r[usable], d[usable]
    if len(r) < 3:
        raise ValueError(f"at least 3 nodes with a finite rank and dimension are needed; got {len(r)}")
    spearman = _correlation(rankdata(r), rankdata(d))
    spread = d - d.mean()
    power = float(spread @ spread)
    slope = float(spread @ (r - r.mean())) / power if power > 0 else float("nan")
    return RankFit(spearman, slope, float(r.mean() - slope * d.mean()), len(r))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")
