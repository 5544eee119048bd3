"""Neighbourhood graphs on embeddings, with a Gaussian bandwidth chosen for every node from the local geometry."""

from asbc.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
