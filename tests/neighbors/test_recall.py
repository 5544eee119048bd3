"""Recall is what it says."""

import numpy as np
import pytest

import asbc
from asbc.neighbors.recall import recall_of


def test_recall_counts_equal_distances_as_found():
    found = np.array([[1.0, 2.0, 2.0], [1.0, 3.0, 4.0]])
    exact = np.array([[1.0, 2.0, 2.0], [1.0, 2.0, 3.0]])
    recall = recall_of(found, exact)
    assert recall.value == pytest.approx((1 + 2 / 3) / 2) and recall.sample == 2


def test_a_low_recall_is_told_with_the_options_that_raise_it():
    noise = np.random.default_rng(0).normal(size=(2000, 64))  # of high dimension, where lists are of little help
    with pytest.warns(asbc.LowRecallWarning, match=r"recall is 0\.\d+, measured on 500 nodes.*'n_probe': 2"):
        found = asbc.search_neighbors(noise, 10, search="ivf", n_probe=2)
    assert found.recall < 0.9
