import numpy as np
import pytest

from asbc.kernels.topk import keep_smallest


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 7, 64, 100, 500])
def test_smallest_entries_of_rows_in_strips(dtype, width):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20, 500)).astype(dtype)
    values = np.full((20, 13), np.inf, dtype)
    ids = np.full((20, 13), -1, np.int64)
    for first in range(0, 500, width):
        keep_smallest(np.ascontiguousarray(matrix[:, first : first + width]), first, values, ids)
    expected = np.argsort(matrix, axis=1)[:, :13]
    assert np.array_equal(np.sort(ids), np.sort(expected))
    assert np.array_equal(np.take_along_axis(matrix, ids, axis=1), values)
    assert (values[:, 0] == values.max(axis=1)).all()


def test_fewer_columns_than_places():
    values = np.full((2, 5), np.inf)
    ids = np.full((2, 5), -1, np.int64)
    keep_smallest(np.array([[3.0, 1.0], [0.0, 2.0]]), 10, values, ids)
    assert set(ids[0]) == {-1, 10, 11}
    assert np.isinf(values[:, 0]).all()
