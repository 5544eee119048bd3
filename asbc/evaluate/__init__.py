"""What a graph is worth: methods, tasks, and whether one method beats another."""

from asbc.lazy import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
