"""How wide the kernel is around each node: one class per rule.

Every rule has ``select(X, neighbors, dimension)``, which gives a :class:`BandwidthChoice`, and
``extend(choice, X, neighbors, dimension)``, which carries a choice made on X over to unseen points.
"""

from asbc.bandwidth.choice import BandwidthChoice
from asbc.bandwidth.density import DensityNormalized
from asbc.bandwidth.fixed import Fixed
from asbc.bandwidth.log_log import DimensionMatching, LogLog
from asbc.bandwidth.perplexity import Perplexity
from asbc.bandwidth.report import effective_rank, report_at
from asbc.bandwidth.resolved import OneEach, OneForAll
from asbc.bandwidth.rule import Bandwidth, ConstantNeighborhoodWarning
from asbc.bandwidth.self_tuning import SelfTuning
from asbc.bandwidth.spectral import SpectralBandwidth

__all__ = [
    "Bandwidth",
    "BandwidthChoice",
    "ConstantNeighborhoodWarning",
    "DensityNormalized",
    "DimensionMatching",
    "Fixed",
    "LogLog",
    "OneEach",
    "OneForAll",
    "Perplexity",
    "SelfTuning",
    "SpectralBandwidth",
    "effective_rank",
    "report_at",
]
