"""Nearest neighbours: exact search, inverted lists, wrappers for other libraries, recall estimates."""

from asbc.neighbors.recall import LowRecallWarning, Recall
from asbc.neighbors.search import search_neighbors
from asbc.neighbors.transformer import NeighborsTransformer
from asbc.neighbors.types import Neighbors

__all__ = ["LowRecallWarning", "Neighbors", "NeighborsTransformer", "Recall", "search_neighbors"]
