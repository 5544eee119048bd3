"""Zelnik-Manor and Perona's rule."""

import numpy as np
import pytest

import asbc


def test_self_tuning_takes_the_distance_to_the_seventh_neighbour(geometry):
    X, neighbors, _ = geometry
    choice = asbc.SelfTuning().select(X, neighbors)
    assert choice.sigma == pytest.approx(neighbors.distances[:, 6] / np.sqrt(2))
    assert choice.mutual
