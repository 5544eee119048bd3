"""One subsample and all that is worked out on it: each step once, however many methods ask for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from asbc.bandwidth import Bandwidth, BandwidthChoice
from asbc.dimension import dim_mst, levina_bickel, two_nn
from asbc.graph import to_graph
from asbc.neighbors import Neighbors, with_pairs
from asbc.weights import KINDS, Matrix, normalize_weights, row_weights, sharpen

T = TypeVar("T")

ESTIMATORS = ("mst", "levina_bickel", "two_nn")
_SHARED_BYTES = 512 * 2**20  # distances within neighbourhoods are kept between steps up to this size


@dataclass(frozen=True)
class Dimension:
    """An estimate of the intrinsic dimension around each node.

    Parameters
    ----------
    estimator : {"mst", "levina_bickel", "two_nn"}
    n_rep : int
        Permutations a node, for "mst".
    k : int
        Neighbours, for "levina_bickel".
    """

    estimator: str = "mst"
    n_rep: int = 5
    k: int = 10

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}; got {self.estimator!r}")

    def __call__(self, X: NDArray[Any], neighbors: Neighbors, seed: int) -> NDArray[np.float64]:
        if self.estimator == "mst":
            return dim_mst(X, neighbors, n_rep=self.n_rep, seed=seed)
        return levina_bickel(neighbors, k=self.k) if self.estimator == "levina_bickel" else two_nn(neighbors)


@dataclass(frozen=True)
class Method:
    """A way to weight neighbours.

    Parameters
    ----------
    weights : {"uniform", "gaussian", "nnk"} or callable
        A callable gets the :class:`Neighbors` and gives (n, k) weights.
    bandwidth : Bandwidth, optional
        The rule for sigma; needed by "gaussian" and "nnk".
    sharpen : bool
        Raise rows to a power that falls with sigma.
    """

    weights: str | Callable[[Neighbors], Matrix]
    bandwidth: Bandwidth | None = None
    sharpen: bool = False

    def __post_init__(self) -> None:
        if not callable(self.weights) and self.weights not in KINDS:
            raise ValueError(f"weights must be one of {', '.join(KINDS)}, or callable; got {self.weights!r}")
        if (self.weights in ("gaussian", "nnk") or self.sharpen) and self.bandwidth is None:
            raise ValueError(f"bandwidth is needed for weights={self.weights!r}, sharpen={self.sharpen}")

    @property
    def kind(self) -> str:
        """Name of the weights."""
        if isinstance(self.weights, str):
            return self.weights
        inner = getattr(self.weights, "func", self.weights)
        return getattr(inner, "__name__", type(inner).__name__)


class Sample:
    """A subsample of a data set, with neighbours, dimension, bandwidths, weights and graphs worked out on demand.

    Parameters
    ----------
    X : (n, d) vectors, already normalised if they are to be
    labels : (n,) or None
    nodes : (n,) int
        Rows of the data set that the subsample took.
    total : int
        Rows of the data set.
    search : callable
        `search(X) -> Neighbors`.
    dimension : Dimension
    k_min : int
    symmetrize : {"max", "mean", None}
    seed : int
    level : int
        Samples a class; 0 where there are no labels to count by.
    trial : int
    """

    def __init__(
        self,
        X: NDArray[Any],
        labels: NDArray[Any] | None,
        *,
        search: Callable[[NDArray[Any]], Neighbors],
        dimension: Dimension | None = None,
        nodes: NDArray[np.int64] | None = None,
        total: int | None = None,
        k_min: int = 6,
        symmetrize: str | None = "max",
        seed: int = 0,
        level: int = 0,
        trial: int = 0,
    ) -> None:
        self.X = X
        self.labels = labels
        self.nodes = np.arange(len(X)) if nodes is None else nodes
        self.total = len(X) if total is None else total
        self.target = Dimension() if dimension is None else dimension
        self.k_min = k_min
        self.symmetrize = symmetrize
        self.seed = seed
        self.level = level
        self.trial = trial
        self._search = search
        self._kept: dict[Hashable, Any] = {}
        self._seconds: dict[Hashable, float] = {}

    def has(self, key: Hashable) -> bool:
        """Whether a step has been done."""
        return key in self._kept

    def once(self, key: Hashable, work: Callable[[], T]) -> T:
        """The result of `work`, done at the first call only; its own time, what it calls left out, is kept."""
        if key not in self._kept:
            before = sum(self._seconds.values())
            start = time.perf_counter()
            self._kept[key] = work()
            inner = sum(self._seconds.values()) - before
            self._seconds[key] = time.perf_counter() - start - inner
        return self._kept[key]

    @property
    def neighbors(self) -> Neighbors:
        def find() -> Neighbors:
            found = self._search(self.X)
            small = found.n * found.k * (found.k - 1) * 4 <= _SHARED_BYTES
            return with_pairs(self.X, found) if small else found

        return self.once("neighbors", find)

    def dimension(self, estimator: Dimension | None = None) -> NDArray[np.float64]:
        """(n,) intrinsic dimension, by the sample's own estimator if none is given."""
        by = self.target if estimator is None else estimator
        return self.once(("dimension", by), lambda: by(self.X, self.neighbors, self.seed))

    def choice(self, bandwidth: Bandwidth, target: Dimension | None = None) -> BandwidthChoice:
        """Bandwidths that a rule chooses, matched to a dimension."""
        key = ("bandwidth", repr(bandwidth), self.target if target is None else target)
        return self.once(key, lambda: bandwidth.select(self.X, self.neighbors, self.dimension(target)))

    def weights(self, method: Method) -> Matrix:
        """(n, k) normalised rows of a method."""

        def solve() -> Matrix:
            if not isinstance(method.weights, str):
                return normalize_weights(method.weights(self.neighbors))
            choice = None if method.bandwidth is None else self.choice(method.bandwidth)
            rows = row_weights(method.weights, self.X, self.neighbors, choice, k_min=self.k_min)
            return normalize_weights(rows)

        key = ("weights", method.kind, repr(method.weights), repr(method.bandwidth))
        rows = self.once(key, solve)
        if not method.sharpen or method.bandwidth is None:
            return rows
        sigma = self.choice(method.bandwidth).sigma
        return self.once((*key, "sharpened"), lambda: sharpen(rows, sigma))

    def graph(self, method: Method) -> Any:
        """(n, n) CSR graph of a method."""
        key = ("graph", repr(method))
        return self.once(key, lambda: to_graph(self.neighbors, self.weights(method), symmetrize=self.symmetrize))

    def seconds(self, method: Method, *, graph: bool = False) -> float:
        """What the method would have taken alone: steps shared with others count in full."""
        base = ("weights", method.kind, repr(method.weights), repr(method.bandwidth))
        keys: list[Hashable] = ["neighbors", base]
        if method.bandwidth is not None:
            keys += [("dimension", self.target), ("bandwidth", repr(method.bandwidth), self.target)]
            if method.sharpen:
                keys.append((*base, "sharpened"))
        if graph:
            keys.append(("graph", repr(method)))
        return sum(self._seconds.get(key, 0.0) for key in keys)
