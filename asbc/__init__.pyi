"""Neighbourhood graphs on embeddings, with a Gaussian bandwidth chosen for every node from the local geometry."""

from . import export as export
from .bandwidth import (
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
from .builder import GraphBuilder
from .dimension import Dimension, dim_mst, levina_bickel, two_nn
from .graph import to_graph
from .learn.classifiers import GraphClassifier, NeighborVote, UnreachedWarning, UnseenClassWarning
from .learn.clusters import GraphClusters
from .learn.describe import Description, describe
from .learn.duplicates import Duplicates, find_duplicates
from .learn.issues import LabelIssues, find_label_issues
from .learn.names import name_clusters
from .neighbors import LowRecallWarning, Neighbors, NeighborsTransformer, search_neighbors
from .outofcore.driver import build_graph
from .outofcore.folder import load_graph, load_nodes, load_rows
from .rows import row_weights
from .runs.results import collect
from .validation import MetricWarning, normalize
from .version import __version__
from .weights import (
    NNK,
    Blend,
    EmptyRowWarning,
    Gaussian,
    Uniform,
    Weights,
    gaussian_weights,
    nnk_weights,
    normalize_weights,
    sharpen,
    uniform_weights,
)

__all__ = [
    "NNK",
    "Bandwidth",
    "BandwidthChoice",
    "Blend",
    "ConstantNeighborhoodWarning",
    "DensityNormalized",
    "Description",
    "Dimension",
    "DimensionMatching",
    "Duplicates",
    "EmptyRowWarning",
    "Fixed",
    "Gaussian",
    "GraphBuilder",
    "GraphClassifier",
    "GraphClusters",
    "LabelIssues",
    "LogLog",
    "LowRecallWarning",
    "MetricWarning",
    "NeighborVote",
    "Neighbors",
    "NeighborsTransformer",
    "Perplexity",
    "SelfTuning",
    "SpectralBandwidth",
    "Uniform",
    "UnreachedWarning",
    "UnseenClassWarning",
    "Weights",
    "__version__",
    "build_graph",
    "collect",
    "describe",
    "dim_mst",
    "effective_rank",
    "export",
    "find_duplicates",
    "find_label_issues",
    "gaussian_weights",
    "levina_bickel",
    "load_graph",
    "load_nodes",
    "load_rows",
    "name_clusters",
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
