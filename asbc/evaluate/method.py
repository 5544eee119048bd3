"""A way to weight neighbours: one option of `conf/method`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from asbc.bandwidth import Bandwidth
from asbc.bandwidth.rule import find_rule
from asbc.neighbors.types import Neighbors
from asbc.validation import is_color
from asbc.weights import Matrix, Weights, find_weights


@dataclass(frozen=True)
class Method:
    """A way to weight neighbours, which the experiments compare with others.

    Parameters
    ----------
    weights : {"uniform", "gaussian", "nnk", "blend"}, Weights or callable
        The rule for weights or its name. A callable gets the :class:`asbc.Neighbors` of n nodes and returns (n, k)
        weights.
    bandwidth : str or Bandwidth, default=None
        The rule for sigma or its name, such as "perplexity"; required if the weights need one.
    sharpen : bool, default=False
        Raise each row to a power that falls with its sigma, see :func:`asbc.sharpen`.
    title : str, default=""
        Name in tables and figures; empty for the name of its config. Results do not depend on it, nor on `color`.
    color : str, default=""
        Color in figures, such as "#aa3377"; empty for one that no other method has.

    Examples
    --------
    >>> from asbc.evaluate import Method
    >>> Method("nnk", "spectral").kind
    'nnk'
    """

    weights: str | Weights | Callable[[Neighbors], Matrix]
    bandwidth: Bandwidth | None = None
    sharpen: bool = False
    title: str = ""
    color: str = ""

    def __post_init__(self) -> None:
        rule = self.weight_rule()
        if self.color and not is_color(self.color):
            raise ValueError(f'color must be like "#aa3377"; got {self.color!r}')
        if self.bandwidth is not None:
            object.__setattr__(self, "bandwidth", find_rule(self.bandwidth, Bandwidth, "bandwidth"))
        elif rule.uses_bandwidth or self.sharpen:
            raise ValueError(f"bandwidth is needed for weights={self.weights!r}, sharpen={self.sharpen}")

    def weight_rule(self, k_min: int = 6) -> Weights:
        """Return the rule for weights; `k_min` is for one that was given by name."""
        return find_weights(self.weights, k_min)

    @property
    def kind(self) -> str:
        """Name of the weights: that of the rule, or of the function."""
        if isinstance(self.weights, str):
            return self.weights
        if isinstance(self.weights, Weights):
            return next(iter(vars(type(self.weights)).get("presets", [])), type(self.weights).__name__)
        inner = getattr(self.weights, "func", self.weights)
        return getattr(inner, "__name__", type(inner).__name__)

    @property
    def key(self) -> Hashable:
        """Equal for two methods with the same weights and the same bandwidth rule, sharpened or not."""
        return key_of(self.weights), key_of(self.bandwidth)


def key_of(value: Any) -> Hashable:
    """Return a dictionary key for a rule or function: its type and all its parameters.

    scikit-learn's repr of an estimator would not do: it leaves out defaults and shortens long values.
    """
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return type(value), tuple((name, key_of(parameters[name])) for name in sorted(parameters))
    if isinstance(value, functools.partial):
        return value.func, key_of(value.args), tuple((name, key_of(value.keywords[name])) for name in value.keywords)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(key_of(item) for item in value)
    return value if isinstance(value, Hashable) else ById(value)


class ById:
    """Equal only for the same object. It keeps the object alive, because Python may reuse the id of a deleted one."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value
