"""Wilcoxon's test against its definition and against SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import rankdata, wilcoxon

from asbc.evaluate.signed_rank import FEW, signed_rank_p


def slow_p(differences):
    """Every assignment of signs, one after the other."""
    ranks = rankdata(np.abs(differences))
    here = sum(rank for rank, d in zip(ranks, differences, strict=True) if d > 0)
    sums = [sum(r for r, up in zip(ranks, signs, strict=True) if up) for signs in product((0, 1), repeat=len(ranks))]
    below, above = (sum(cut) / len(sums) for cut in ([s <= here for s in sums], [s >= here for s in sums]))
    return min(1.0, 2 * min(below, above))


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("tied", [False, True])
def test_p_is_the_share_of_signs(count, tied):
    rng = np.random.default_rng(count)
    for _ in range(5):
        d = rng.integers(1, 4, count) * rng.choice([-1.0, 1.0], count) / 8 if tied else rng.normal(size=count)
        assert signed_rank_p(d) == slow_p(d)


@pytest.mark.parametrize("count", [1, 2, 5, 10, FEW, FEW + 1, 30])
def test_p_is_that_of_scipy(count):
    d = np.random.default_rng(count).normal(0.4, 1.0, count)
    assert signed_rank_p(d) == wilcoxon(d).pvalue
