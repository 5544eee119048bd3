"""Indexes of other libraries, which may be missing."""

import sys

import pytest

from asbc.neighbors import search_neighbors


@pytest.mark.parametrize(("search", "library"), [("hnsw", "faiss"), ("nn_descent", "pynndescent")])
def test_a_missing_library_is_named(X, monkeypatch, search, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf'needs {library}: pip install "asbc\[scale\]"'):
        search_neighbors(X, 12, search=search)


def test_queries_are_not_for_nn_descent(X):
    with pytest.raises(ValueError, match="rows of X only"):
        search_neighbors(X, 12, queries=X[:5], search="nn_descent")
