"""Alignment: does the effective rank of the chosen kernels follow the intrinsic dimension?"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The cells of a density: half a direction wide and high, so that those of several trials can be added up.
CELL = 0.5
HIGHEST = 100.0  # dimensions above it are counted in the last column


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
    from scipy.stats import rankdata  # late: the report reads densities, and has no use for it

    spearman = _correlation(rankdata(r), rankdata(d))
    spread = d - d.mean()
    power = float(spread @ spread)
    slope = float(spread @ (r - r.mean())) / power if power > 0 else float("nan")
    return RankFit(spearman, slope, float(r.mean() - slope * d.mean()), len(r))


def pack_density(effective_rank: ArrayLike, dimension: ArrayLike) -> bytes:
    """How many nodes have which rank and which dimension, small enough to keep with every row.

    Parameters
    ----------
    effective_rank : (n,) array, 1 or more
    dimension : (n,) array, 1 or more
        Nodes where either of the two is not finite are left out.

    Returns
    -------
    bytes
        For :func:`unpack_density`. Some 1 to 2 kB, however many nodes there are.

    See Also
    --------
    unpack_density : the way back.

    Examples
    --------
    >>> from asbc.evaluate.alignment import pack_density, unpack_density
    >>> counts = unpack_density(pack_density([1.2, 1.3, 2.1], [4.0, 4.4, 500.0]))
    >>> counts.shape, int(counts[0, 6]), int(counts[2, -1])
    ((3, 198), 2, 1)
    """
    r, d = np.asarray(effective_rank, float), np.asarray(dimension, float)
    usable = np.isfinite(r) & np.isfinite(d)
    columns = int((HIGHEST - 1) / CELL)
    row = np.maximum((r[usable] - 1) // CELL, 0).astype(np.int64)
    column = np.clip((d[usable] - 1) // CELL, 0, columns - 1).astype(np.int64)
    counts = np.bincount(row * columns + column, minlength=columns)
    counts = np.pad(counts, (0, -len(counts) % columns)).astype("<u4")
    return zlib.compress(counts.tobytes(), 9)


def unpack_density(packed: bytes) -> NDArray[np.uint32]:
    """Counts of nodes by rank and dimension, from what :func:`pack_density` gave.

    Parameters
    ----------
    packed : bytes

    Returns
    -------
    (rows, columns) uint32 array
        Row i has ranks from 1 + i / 2 to 1 + (i + 1) / 2, column j dimensions likewise; the last column has all larger
        ones too. Highest ranks that no node has are left out.

    See Also
    --------
    pack_density : the way there.
    """
    return np.frombuffer(zlib.decompress(packed), "<u4").reshape(-1, int((HIGHEST - 1) / CELL))


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")
