import numpy as np
import pytest
from scipy.stats import linregress, spearmanr

from asbc.evaluate.alignment import align


def test_agrees_with_scipy():
    rng = np.random.default_rng(0)
    d = rng.integers(1, 20, 200).astype(float)  # with ties
    r = 0.7 * d + rng.normal(size=200)
    result = align(r, d)
    assert result.spearman == pytest.approx(spearmanr(r, d).statistic, abs=1e-12)
    line = linregress(d, r)
    assert result.slope == pytest.approx(line.slope) and result.intercept == pytest.approx(line.intercept)


def test_constant_and_infinite_values():
    result = align([1.0, 2.0, 3.0], [5.0, 5.0, 5.0])
    assert np.isnan(result.spearman) and np.isnan(result.slope)
    assert align([1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 3.0, np.inf]).n == 3
    with pytest.raises(ValueError, match="at least 3"):
        align([1.0, np.nan, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="one shape"):
        align([1.0, 2.0], [1.0, 2.0, 3.0])
