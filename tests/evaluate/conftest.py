import numpy as np
import pytest
from sklearn.datasets import load_digits

import asbc
from asbc.evaluate import Sample


@pytest.fixture(scope="package")
def sample():
    X, y = load_digits(return_X_y=True)
    nodes = np.arange(100, 400)
    return Sample(
        asbc.normalize(X[nodes].astype(np.float32)), y[nodes], nodes=nodes, total=len(X), level=7,
        search=lambda X: asbc.search_neighbors(X, 15),
    )  # fmt: skip
