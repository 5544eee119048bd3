"""Neighbourhood graphs on embeddings, with a Gaussian bandwidth chosen for every node from the local geometry."""

from asbc import export as export
from asbc.bandwidth import (
    Bandwidth,
    BandwidthChoice,
    ConstantNeighborhoodWarning,
    DensityNormalized,
    DimensionMatching,
    Fixed,
    LogLog,
    Perplexity,
    SelfTuning,
    SpectralBandwidth,
    effective_rank,
)
from asbc.bandwidth import DensityNormalized as DensityNormalised  # noqa: F401  (its name before version 0.2)
from asbc.builder import GraphBuilder
from asbc.dimension import Dimension, dim_mst, levina_bickel, two_nn
from asbc.graph import to_graph
from asbc.learn.classifier import GraphClassifier
from asbc.learn.describe import Description, describe
from asbc.learn.duplicates import Duplicates, find_duplicates
from asbc.learn.issues import LabelIssues, find_label_issues
from asbc.learn.neighbor_vote import NeighborVote
from asbc.learn.points import UnreachedWarning, UnseenClassWarning
from asbc.neighbors import LowRecallWarning, Neighbors, NeighborsTransformer, search_neighbors
from asbc.outofcore.driver import build_graph
from asbc.outofcore.storage import load_graph, load_nodes, load_rows
from asbc.validation import normalize
from asbc.version import __version__
from asbc.weights import (
    EmptyRowWarning,
    blend_weights,
    gaussian_weights,
    nnk_weights,
    normalize_weights,
    row_weights,
    sharpen,
    uniform_weights,
)

__all__ = [
    "Bandwidth",
    "BandwidthChoice",
    "ConstantNeighborhoodWarning",
    "DensityNormalized",
    "Description",
    "Dimension",
    "DimensionMatching",
    "Duplicates",
    "EmptyRowWarning",
    "Fixed",
    "GraphBuilder",
    "GraphClassifier",
    "LabelIssues",
    "LogLog",
    "LowRecallWarning",
    "NeighborVote",
    "Neighbors",
    "NeighborsTransformer",
    "Perplexity",
    "SelfTuning",
    "SpectralBandwidth",
    "UnreachedWarning",
    "UnseenClassWarning",
    "__version__",
    "blend_weights",
    "build_graph",
    "describe",
    "dim_mst",
    "effective_rank",
    "find_duplicates",
    "find_label_issues",
    "gaussian_weights",
    "levina_bickel",
    "load_graph",
    "load_nodes",
    "load_rows",
    "nnk_weights",
    "normalize",
    "normalize_weights",
    "row_weights",
    "search_neighbors",
    "sharpen",
    "to_graph",
    "two_nn",
    "uniform_weights",
]
