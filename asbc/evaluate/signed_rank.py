"""Wilcoxon's signed-rank test, as a few trials need it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Differences up to which every assignment of signs is looked at; of 13 there are 8,192.
FEW = 13


def signed_rank_p(differences: NDArray[np.float64]) -> float:
    """Two-sided p-value of "as likely above zero as below": the share of signs that give a sum as far out as this.

    The numbers of :func:`scipy.stats.wilcoxon`, which is asked itself for more than 13 differences. Most comparisons
    have five, and importing `scipy.stats` takes longer than all of them.

    Parameters
    ----------
    differences : (m,) array
        At least one, finite, none of them 0.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.signed_rank import signed_rank_p
    >>> signed_rank_p(np.array([0.2, 0.1, 0.3, 0.5, 0.4]))
    0.0625
    """
    count = len(differences)
    if count > FEW:
        from scipy.stats import wilcoxon

        return float(wilcoxon(differences).pvalue)
    size = np.abs(differences)
    # Twice the rank, a whole number: equal differences share the mean of their ranks.
    ranks = (size[:, None] > size).sum(axis=1) + (size[:, None] >= size).sum(axis=1) + 1
    signs = np.arange(2**count)[:, None] >> np.arange(count) & 1
    sums = signs @ ranks
    here = ranks[differences > 0].sum()
    return min(1.0, 2.0 * float(min((sums <= here).mean(), (sums >= here).mean())))
