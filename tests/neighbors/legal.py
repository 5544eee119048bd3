"""What every search must keep to."""

import numpy as np


def assert_legal(X, neighbors):
    """Rows hold different ids, never the node's own, with true distances in order of (distance, id)."""
    n, k = neighbors.indices.shape
    assert neighbors.indices.min() >= 0 and neighbors.indices.max() < len(X)
    assert (neighbors.indices != np.arange(n)[:, None]).all()
    assert all(len(set(row)) == k for row in neighbors.indices)
    true = np.linalg.norm(X[neighbors.indices].astype(float) - X[:, None].astype(float), axis=2)
    np.testing.assert_allclose(neighbors.distances, true, rtol=1e-12)
    step = np.diff(neighbors.distances, axis=1)
    assert ((step > 0) | ((step == 0) & (np.diff(neighbors.indices, axis=1) > 0))).all()
