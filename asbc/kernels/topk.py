"""The smallest entries of the rows of a wide matrix that is seen one strip of columns at a time."""

from __future__ import annotations

from numba import njit, prange

_GLANCE = 64  # columns looked at together: nearly always none of them is small enough, and one test says so


@njit(cache=True)
def _sift(values, ids, value, identity):
    """Replace the root, the largest entry of a max-heap, and restore the heap."""
    size = values.shape[0]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and values[child + 1] > values[child]:
            child += 1
        if values[child] <= value:
            break
        values[hole] = values[child]
        ids[hole] = ids[child]
        hole = child
    values[hole] = value
    ids[hole] = identity


@njit(cache=True, fastmath={"nnan", "nsz"})
def _merge(row, first_column, heap, ids):
    c = row.shape[0]
    for start in range(0, c, _GLANCE):
        stop = min(start + _GLANCE, c)
        least = row[start]
        for j in range(start, stop):
            least = min(least, row[j])
        if least < heap[0]:
            for j in range(start, stop):
                if row[j] < heap[0]:
                    _sift(heap, ids, row[j], first_column + j)


@njit(cache=True, parallel=True)
def keep_smallest(strip, first_column, values, ids):
    """Merge a strip of columns into the rows' lists of smallest entries.

    Parameters
    ----------
    strip : (m, c) float32 or float64, columns ``first_column`` and on of the wide matrix, no NaN
    values, ids : (m, s), updated in place
        Max-heaps: ``values[i, 0]`` is the largest kept. Start with infinity and -1.
    """
    for i in prange(strip.shape[0]):
        _merge(strip[i], first_column, values[i], ids[i])


@njit(cache=True, nogil=True)
def keep_smallest_of(strip, first_column, rows, values, ids):
    """As :func:`keep_smallest` where row i of the strip belongs to heap ``rows[i]``, on the calling thread alone."""
    for i in range(strip.shape[0]):
        _merge(strip[i], first_column, values[rows[i]], ids[rows[i]])
