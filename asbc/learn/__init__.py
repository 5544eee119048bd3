"""Learning on a graph: votes, propagation, label issues, duplicates, and a probe for training.

:class:`GraphProbe` needs Lightning, so it is imported on first use.
"""

from __future__ import annotations

from typing import Any

__all__ = ["GraphProbe"]


def __getattr__(name: str) -> Any:
    if name == "GraphProbe":
        from asbc.learn.probe import GraphProbe

        return GraphProbe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
