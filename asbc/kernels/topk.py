"""The smallest entries of the rows of a wide matrix that is seen one strip of columns at a time."""

from __future__ import annotations

from numba import njit

from asbc.kernels.threads import share_out

# Columns whose minimum is taken before any is looked at alone: nearly always none of them is small enough, and then
# one comparison has passed over all of them.
_COLUMNS_PER_LOOK = 64


@njit(inline="always")
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
    """Merge the entries of one row into its heap of smallest ones; ``row[0]`` is column `first_column`."""
    c = row.shape[0]
    for start in range(0, c, _COLUMNS_PER_LOOK):
        stop = min(start + _COLUMNS_PER_LOOK, c)
        least = row[start]
        for j in range(start, stop):
            least = min(least, row[j])
        if least < heap[0]:
            for j in range(start, stop):
                if row[j] < heap[0]:
                    _sift(heap, ids, row[j], first_column + j)


@njit(cache=True, nogil=True)
def _keep(first, last, strip, first_column, values, ids):
    for i in range(first, last):
        _merge(strip[i], first_column, values[i], ids[i])


def keep_smallest(strip, first_column, values, ids):
    """Merge a strip of columns into the rows' lists of smallest entries.

    Parameters
    ----------
    strip : (m, c) float32 or float64, columns ``first_column`` and on of the wide matrix, no NaN
    first_column : int
    values, ids : (m, s), updated in place
        The s smallest entries so far of each row, and their columns, as max-heaps: ``values[i, 0]`` is the largest of
        them. Start with infinity and -1.
    """
    share_out(_keep, len(strip), strip, first_column, values, ids)


@njit(cache=True, nogil=True)
def keep_smallest_of(strip, first_column, rows, values, ids):
    """As :func:`keep_smallest`, where row i of the strip belongs to heap ``rows[i]``; on the calling thread only."""
    for i in range(strip.shape[0]):
        _merge(strip[i], first_column, values[rows[i]], ids[rows[i]])
