"""Bandwidth rules: how wide the kernel is around each node.

``rule.select(X, neighbors, dimension)`` returns a :class:`BandwidthChoice`. Module `rule` holds the protocol,
`spectral` the rule of the paper, `perplexity` the rule for dense weights, and `classical` the rules that the paper
compares with. Each module lists its public names in ``__all__``.
"""

from asbc.bandwidth import classical, perplexity, rule, spectral
from asbc.bandwidth.classical import *  # noqa: F403
from asbc.bandwidth.perplexity import *  # noqa: F403
from asbc.bandwidth.rule import *  # noqa: F403
from asbc.bandwidth.spectral import *  # noqa: F403

__all__ = sorted([*rule.__all__, *spectral.__all__, *perplexity.__all__, *classical.__all__])
