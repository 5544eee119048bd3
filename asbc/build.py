"""Builds on disk: the public name of :mod:`asbc.outofcore.driver`."""

from asbc.outofcore.driver import build_graph
from asbc.outofcore.errors import BuildError, EngineError

__all__ = ["BuildError", "EngineError", "build_graph"]
