"""Who is near whom: nearest neighbours, by exact search or by approximate search with a measured recall."""

from asbc.neighbors.recall import LowRecallWarning, Recall
from asbc.neighbors.search import search_neighbors
from asbc.neighbors.transformer import NeighborsTransformer
from asbc.neighbors.types import Neighbors

__all__ = ["LowRecallWarning", "Neighbors", "NeighborsTransformer", "Recall", "search_neighbors"]
