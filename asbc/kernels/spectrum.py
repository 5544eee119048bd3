"""Effective ranks of eight symmetric matrices at a time, one matrix per lane.

Householder reduction to tridiagonal form, then the square-root-free QL iteration of Pal, Walker and Kahan, with all
lanes doing the same step at the same time. Only the entropy of the eigenvalues is needed, so an absolute error of a
few rounding units of the largest eigenvalue does not matter.
"""

from __future__ import annotations

import math

from numba import njit

from asbc.kernels.compiled import kernel
from asbc.kernels.lanes import LANES, any_positive, load, splat, sqrt, store, where_less, where_positive

# An off-diagonal entry below 1e-15 of the matrix's scale (its trace is k) moves no eigenvalue that matters.
_NEGLIGIBLE = 1e-15
# Squares below this count as zero; the reciprocal of any larger one is finite.
_TINY = 1e-280
WORK_PER_ROW = 4 * LANES  # numbers of scratch space, per row of the matrix, that `effective_ranks` needs
_MAX_SWEEPS = 60  # of the QL iteration per eigenvalue; two or three are usual


@njit(inline="always")
def _at(r, c):
    """Return where entry (r, c), r >= c, of the interleaved lower triangles starts."""
    return (r * (r + 1) // 2 + c) * LANES


@njit(inline="always")
def _tridiagonalise(A, k, diagonal, off_squared, v, p):
    """Reduce A to tridiagonal form: write its diagonal and its squared off-diagonal entries.

    A is overwritten; `v` (the reflection) and `p` are scratch arrays of k * LANES numbers.
    """
    zero = splat(0.0)
    one = splat(1.0)
    for j in range(k - 2):
        norm = zero
        for r in range(j + 1, k):
            x = load(A, _at(r, j))
            store(v, r * LANES, x)
            store(p, r * LANES, zero)
            norm = norm + x * x
        store(off_squared, j * LANES, norm)
        head = load(v, (j + 1) * LANES)
        root = sqrt(norm)
        mirrored = where_positive(head, zero - root, root)
        half_square = norm - head * mirrored
        # A lane whose column is already zero is left unchanged.
        turning = half_square - splat(_TINY)
        scale = where_positive(turning, one / where_positive(turning, half_square, one), zero)
        store(v, (j + 1) * LANES, head - mirrored)
        for r in range(j + 1, k):
            v_r = load(v, r * LANES)
            total = load(A, _at(r, r)) * v_r
            for c in range(j + 1, r):
                a = load(A, _at(r, c))
                total = total + a * load(v, c * LANES)
                store(p, c * LANES, load(p, c * LANES) + a * v_r)
            store(p, r * LANES, load(p, r * LANES) + total)
        total = zero
        for r in range(j + 1, k):
            p_r = load(p, r * LANES) * scale
            store(p, r * LANES, p_r)
            total = total + p_r * load(v, r * LANES)
        total = total * scale * splat(0.5)
        for r in range(j + 1, k):
            store(p, r * LANES, load(p, r * LANES) - total * load(v, r * LANES))
        for r in range(j + 1, k):
            v_r = load(v, r * LANES)
            p_r = load(p, r * LANES)
            for c in range(j + 1, r + 1):
                update = v_r * load(p, c * LANES) + p_r * load(v, c * LANES)
                store(A, _at(r, c), load(A, _at(r, c)) - update)
    for j in range(k):
        store(diagonal, j * LANES, load(A, _at(j, j)))
    if k > 1:
        last = load(A, _at(k - 1, k - 2))
        store(off_squared, (k - 2) * LANES, last * last)


@njit(inline="always")
def _diagonalise(diagonal, off_squared, k):
    """QL iteration: replace `diagonal` by the eigenvalues, unsorted; `off_squared` is overwritten."""
    zero = splat(0.0)
    one = splat(1.0)
    two = splat(2.0)
    tiny = splat(_TINY)
    limit = splat((_NEGLIGIBLE * k) ** 2)
    for j in range(k - 1):
        for _ in range(_MAX_SWEEPS):
            off = load(off_squared, j * LANES)
            moving = off - limit  # positive in lanes that have not converged; the other lanes keep their values
            if not any_positive(moving):
                break
            root = sqrt(where_positive(moving, off, one))
            top = load(diagonal, j * LANES)
            x = (load(diagonal, (j + 1) * LANES) - top) / (two * root)
            length = sqrt(x * x + one)
            shift = top - root / (x + where_positive(zero - x, zero - length, length))
            cosine = one
            sine = zero
            g = load(diagonal, (k - 1) * LANES) - shift
            p = g * g
            for i in range(k - 2, j - 1, -1):
                b = load(off_squared, i * LANES)
                r = p + b
                below = (i + 1) * LANES
                if i != k - 2:
                    store(off_squared, below, where_positive(moving, sine * r, load(off_squared, below)))
                old_cosine = cosine
                inverse = one / where_less(tiny, r, r, one)
                cosine = where_less(tiny, r, p * inverse, one)
                sine = b * inverse
                old_g = g
                a = load(diagonal, i * LANES)
                g = cosine * (a - shift) - sine * old_g
                store(diagonal, below, where_positive(moving, old_g + (a - g), load(diagonal, below)))
                safe = where_less(tiny, cosine, cosine, one)
                p = where_less(tiny, cosine, g * g / safe, old_cosine * b)
            store(off_squared, j * LANES, where_positive(moving, sine * p, off))
            store(diagonal, j * LANES, where_positive(moving, shift + g, top))


@kernel
def effective_ranks(A, k, work, ranks):
    """Compute the effective rank of each lane's matrix.

    Parameters
    ----------
    A : (k (k + 1) / 2 * LANES,) float64, overwritten
        Lower triangles of matrices with unit diagonal, interleaved: the same entries of all lanes are adjacent.
    k : int, rows of each matrix
    work : (WORK_PER_ROW * k,) float64, scratch space; afterwards its first k * LANES numbers are the eigenvalues
    ranks : (LANES,) float64, the result
    """
    size = k * LANES
    diagonal = work[:size]
    off_squared = work[size : 2 * size]
    _tridiagonalise(A, k, diagonal, off_squared, work[2 * size : 3 * size], work[3 * size : 4 * size])
    _diagonalise(diagonal, off_squared, k)
    for lane in range(LANES):
        entropy = 0.0
        for j in range(k):
            share = diagonal[j * LANES + lane] / k
            if share > 0.0:
                entropy -= share * math.log(share)
        ranks[lane] = min(max(math.exp(entropy), 1.0), float(k))
