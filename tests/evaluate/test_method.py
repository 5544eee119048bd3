"""What tells one method from another."""

import functools

import numpy as np
import pytest

import asbc
from asbc.bandwidth import KnownBandwidth
from asbc.evaluate.peers import umap_weights
from asbc.evaluate.sample import Method, key_of


class Quiet(asbc.Bandwidth):
    """A rule of a user's own that does not print its parameter."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def __repr__(self):
        return "Quiet()"


class Loud(Quiet):
    pass


def test_rules_that_print_alike_have_keys_of_their_own():
    first, second = np.ones(2000), np.ones(2000)
    second[1000] = 2.0
    for one, other in (
        (Quiet(1.0), Quiet(2.0)),
        (Quiet(1.0), Loud(1.0)),
        (KnownBandwidth(first), KnownBandwidth(second)),
    ):
        assert repr(one).replace("Loud", "Quiet") == repr(other)
        assert key_of(one) != key_of(other)
        assert len({key_of(one): 1, key_of(other): 2}) == 2


def test_rules_within_rules_count():
    narrow, wide = (asbc.DensityNormalized(asbc.SpectralBandwidth(gamma=gamma)) for gamma in (1.0, 2.0))
    assert key_of(narrow) != key_of(wide)
    assert key_of(narrow) == key_of(asbc.DensityNormalized(asbc.SpectralBandwidth(gamma=1.0)))
    assert key_of(asbc.Fixed(1)) != key_of(asbc.Fixed("mean_knn")) != key_of(asbc.LogLog())


@pytest.mark.parametrize("values", [[1, 2], (1.0, 2.0), np.array([1, 2]), np.ones((2, 3), np.float32)])
def test_equal_parameters_have_equal_keys(values):
    import copy

    assert key_of(Quiet(values)) == key_of(Quiet(copy.deepcopy(values)))
    assert key_of(Quiet(values)) != key_of(Quiet(None))
    hash(key_of(Quiet(values)))


def test_arrays_of_the_same_bytes_and_another_shape_or_type_are_told_apart():
    values = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.int64), np.zeros(8, np.float32)]
    assert len({key_of(value) for value in values}) == 4


def test_functions_count_with_what_they_were_given():
    keys = [
        key_of(function)
        for function in (umap_weights, functools.partial(umap_weights), functools.partial(umap_weights, n=1))
    ]
    assert len(set(keys)) == 3
    assert keys[2] == key_of(functools.partial(umap_weights, n=1)) != key_of(functools.partial(umap_weights, n=2))


def test_sharpening_does_not_change_the_key_and_weights_do():
    rule = asbc.SpectralBandwidth()
    plain = Method("nnk", rule)
    assert plain.key == Method("nnk", asbc.SpectralBandwidth(), sharpen=True).key
    assert plain.key != Method("gaussian", rule).key != Method(umap_weights, rule).key
    assert plain.key != Method("nnk", asbc.SpectralBandwidth(gamma=0.9)).key
