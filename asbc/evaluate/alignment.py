"""Alignment: does the effective rank of the chosen kernels follow the intrinsic dimension?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata


@dataclass(frozen=True)
class Alignment:
    """How r moves with d over the nodes.

    Attributes
    ----------
    spearman : float
        Rank correlation; NaN where one of the two is constant.
    slope, intercept : float
        Least-squares line `r = slope * d + intercept`; NaN where d is constant.
    n : int
    """

    spearman: float
    slope: float
    intercept: float
    n: int


def align(effective_rank: ArrayLike, dimension: ArrayLike) -> Alignment:
    """Compare the effective rank r of each node's kernel with the dimension d of its neighbourhood.

    Since r is chosen to be near the dimension it was *given*, its agreement with that estimate says that the
    search works, and only its agreement with an estimate it was not given says something about the data.

    Parameters
    ----------
    effective_rank : (n,)
    dimension : (n,)
        Nodes where either is not finite are left out.

    Returns
    -------
    Alignment
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
    return Alignment(spearman, slope, float(r.mean() - slope * d.mean()), len(r))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")
