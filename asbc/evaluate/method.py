"""A way to weight neighbours: one leaf of `conf/method`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from asbc.bandwidth import Bandwidth
from asbc.neighbors.types import Neighbors
from asbc.weights import KINDS, Matrix


@dataclass(frozen=True)
class Method:
    """A way to weight neighbours.

    Parameters
    ----------
    weights : {"uniform", "gaussian", "nnk", "blend"} or callable
        A callable gets the :class:`Neighbors` and gives (n, k) weights.
    bandwidth : Bandwidth, optional
        The rule for sigma; needed by all but "uniform".
    sharpen : bool
        Raise rows to a power that falls with sigma.
    """

    weights: str | Callable[[Neighbors], Matrix]
    bandwidth: Bandwidth | None = None
    sharpen: bool = False

    def __post_init__(self) -> None:
        if not callable(self.weights) and self.weights not in KINDS:
            raise ValueError(f"weights must be one of {', '.join(KINDS)}, or callable; got {self.weights!r}")
        if (self.weights in ("gaussian", "nnk", "blend") or self.sharpen) and self.bandwidth is None:
            raise ValueError(f"bandwidth is needed for weights={self.weights!r}, sharpen={self.sharpen}")

    @property
    def kind(self) -> str:
        """Name of the weights."""
        if isinstance(self.weights, str):
            return self.weights
        inner = getattr(self.weights, "func", self.weights)
        return getattr(inner, "__name__", type(inner).__name__)

    @property
    def key(self) -> Hashable:
        """Equal for two methods with the same weights and the same rule, sharpened or not."""
        return key_of(self.weights), key_of(self.bandwidth)


def key_of(value: Any) -> Hashable:
    """What tells one rule or function from another: its type, and all its parameters.

    The text that scikit-learn prints for an estimator leaves out defaults and long values, so it cannot serve.
    """
    if isinstance(value, Bandwidth):
        parameters = value.get_params(deep=False)
        return type(value), tuple((name, key_of(parameters[name])) for name in sorted(parameters))
    if isinstance(value, functools.partial):
        return value.func, key_of(value.args), tuple((name, key_of(value.keywords[name])) for name in value.keywords)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(key_of(item) for item in value)
    return value if isinstance(value, Hashable) else id(value)
