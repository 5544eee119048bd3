"""What the kinds of search need installed."""

import pytest

LIBRARIES = {"hnsw": "faiss", "nn_descent": "pynndescent"}


def needs_library(search):
    """Skip the test that calls this, where the library of a kind of search is not installed."""
    if search in LIBRARIES:
        pytest.importorskip(LIBRARIES[search])
