"""Density normalisation."""

import numpy as np
import pytest

import asbc


def test_density_normalisation_divides_by_the_kernel_sum(geometry):
    X, neighbors, dimension = geometry
    choice = asbc.DensityNormalized(alpha=0.5).select(X, neighbors, dimension)
    q = 1 + np.exp(-(neighbors.distances**2) / (2 * choice.sigma[0] ** 2)).sum(axis=1)
    assert choice.reweight == pytest.approx(q**-0.5)
