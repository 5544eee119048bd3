"""How good a graph is: methods, tasks, and whether one method beats another."""

from .comparison import Comparison, compare, compare_methods
from .geometry import Alignment, Health, Regimes
from .noise import LabelNoise
from .peers import cosine_weights, graph_learning_weights, umap_weights
from .sample import Method, Sample
from .tasks import Clustering, LabelPropagation, LeaveOneOut, Metric, Regret, Score, Task

__all__ = [
    "Alignment",
    "Clustering",
    "Comparison",
    "Health",
    "LabelNoise",
    "LabelPropagation",
    "LeaveOneOut",
    "Method",
    "Metric",
    "Regimes",
    "Regret",
    "Sample",
    "Score",
    "Task",
    "compare",
    "compare_methods",
    "cosine_weights",
    "graph_learning_weights",
    "umap_weights",
]
