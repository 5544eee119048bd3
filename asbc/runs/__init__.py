"""Experiments, from a config to rows of results on disk: they go on where they were stopped."""

from asbc.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
