"""Nearest neighbours: exact search, inverted lists, wrappers for other libraries, recall estimates.

:func:`search_neighbors` (`search`) takes vectors and returns :class:`Neighbors` (`types`). It searches exactly
(`exact`), or lets an index propose candidates: inverted lists (`lists`) or another library's index (`external`).
`recall` estimates how many neighbours an index found. `given` checks neighbours that the user computed, and
`transformer` is the search as a step of a scikit-learn pipeline.
"""

from asbc.neighbors.recall import LowRecallWarning, Recall
from asbc.neighbors.search import search_neighbors
from asbc.neighbors.transformer import NeighborsTransformer
from asbc.neighbors.types import Neighbors

__all__ = ["LowRecallWarning", "Neighbors", "NeighborsTransformer", "Recall", "search_neighbors"]
