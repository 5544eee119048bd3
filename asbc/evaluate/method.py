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
    """A way to weight neighbours, which the experiments compare with others.

    Parameters
    ----------
    weights : {"uniform", "gaussian", "nnk", "blend"} or callable
        A callable gets the :class:`asbc.Neighbors` of n nodes and gives (n, k) weights.
    bandwidth : Bandwidth, default=None
        The rule for sigma; needed by all but "uniform".
    sharpen : bool, default=False
        Raise each row to a power that falls with its sigma, see :func:`asbc.sharpen`.

    See Also
    --------
    Sample : works out the rows and the graph of a method.

    Examples
    --------
    >>> import asbc
    >>> from asbc.evaluate import Method
    >>> Method("nnk", asbc.SpectralBandwidth()).kind
    'nnk'
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
        """Name of the weights: that of the function, where they are a callable."""
        if isinstance(self.weights, str):
            return self.weights
        inner = getattr(self.weights, "func", self.weights)
        return getattr(inner, "__name__", type(inner).__name__)

    @property
    def key(self) -> Hashable:
        """Equal for two methods with the same weights and the same rule, sharpened or not."""
        return key_of(self.weights), key_of(self.bandwidth)


def key_of(value: Any) -> Hashable:
    """What tells one rule or function from another: its type and all its parameters.

    The text that scikit-learn prints for an estimator would not do, since it leaves out defaults and long values.
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
    return value if isinstance(value, Hashable) else Itself(value)


class Itself:
    """Equal to nothing but another of the same object, which it keeps alive: a number alone might be given anew."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value
