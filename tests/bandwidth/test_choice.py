import pickle
from dataclasses import replace

import numpy as np
import pytest

import asbc
from asbc.bandwidth.choice import LATE, changed, joined


@pytest.fixture(scope="module", params=[asbc.Perplexity(), asbc.SelfTuning(), asbc.DensityNormalized()], ids=repr)
def fitted(request, geometry):
    return asbc.GraphBuilder("gaussian", request.param).fit(geometry[0])


def test_kernels_are_looked_at_when_they_are_asked_for(fitted, geometry):
    choice = pickle.loads(pickle.dumps(fitted.bandwidth_))
    assert not set(LATE) & set(vars(choice))
    assert vars(choice)["kernels"].neighbors.pairs is None  # they would take more memory than all the rest
    wanted = fitted.bandwidth_rule().select(geometry[0], fitted.neighbors_, fitted.dimension_)
    for name in LATE:
        np.testing.assert_array_equal(getattr(choice, name), getattr(wanted, name))
    assert set(LATE) <= set(vars(choice)) and "kernels" not in vars(choice)
    with pytest.raises(AttributeError, match="no attribute 'effective_ranks'"):
        choice.effective_ranks  # noqa: B018


def test_changes_and_parts(fitted):
    late = changed(fitted.bandwidth_, at_edge=np.ones(240, bool))
    assert late.at_edge.all() and "kernels" in vars(late)
    whole = replace(late, sigma=late.sigma)  # as dataclasses do it, and so all is worked out
    assert set(LATE) <= set(vars(whole))
    np.testing.assert_array_equal(whole.slope, fitted.bandwidth_.slope)
    np.testing.assert_array_equal(joined([whole, late]).slope, np.tile(whole.slope, 2))
