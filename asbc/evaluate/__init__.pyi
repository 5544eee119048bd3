"""What a graph is worth: methods, tasks, and whether one method beats another."""

from asbc.evaluate.comparison import Comparison, compare, compare_methods
from asbc.evaluate.geometry import Alignment, Health, Regimes
from asbc.evaluate.method import Method
from asbc.evaluate.metrics import Metric
from asbc.evaluate.noise import LabelNoise
from asbc.evaluate.peers import cosine_weights, graph_learning_weights, umap_weights
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Clustering, LabelPropagation, LeaveOneOut, Regret, Score, Task

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
