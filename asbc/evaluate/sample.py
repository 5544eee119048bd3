"""Methods, which weight neighbours, and samples: the cache of everything that methods compute on some nodes."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from asbc.bandwidth import Bandwidth, BandwidthChoice
from asbc.bandwidth.rule import find_rule
from asbc.dimension import Dimension
from asbc.graph import to_graph
from asbc.kernels.distances import pair_count
from asbc.learn.labels import encode_partial
from asbc.neighbors.types import Neighbors, kth_distance, with_pairs
from asbc.rows import SHARED_BYTES, solve_rows
from asbc.validation import is_color
from asbc.weights import FunctionWeights, Matrix, Weights, find_weights, normalize_weights, sharpen

T = TypeVar("T")
Cache = dict[Hashable, tuple[Any, float]]  # results and the seconds that they took


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
    bandwidth: str | Bandwidth | None = None
    sharpen: bool = False
    title: str = ""
    color: str = ""

    def __post_init__(self) -> None:
        if self.color and not is_color(self.color):
            raise ValueError(f'color must be like "#aa3377"; got {self.color!r}')
        needs_rule = self.weight_rule().uses_bandwidth or self.sharpen
        if self.rule is None and needs_rule:
            raise ValueError(f"bandwidth is needed for weights={self.weights!r}, sharpen={self.sharpen}")

    @property
    def rule(self) -> Bandwidth | None:
        """The bandwidth rule, also if it was given by name."""
        return None if self.bandwidth is None else find_rule(self.bandwidth, Bandwidth, "bandwidth")

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
        return key_of(self.weights), key_of(self.rule)


def key_of(value: Any) -> Hashable:
    """Return a dictionary key for a rule or function: its type and all its parameters."""
    if isinstance(value, BaseEstimator):
        parameters = value.get_params(deep=False)
        return type(value), tuple((name, key_of(parameters[name])) for name in sorted(parameters))
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):  # a function or class inside a function
        return value if isinstance(value, Hashable) else id(value)


class Sample:
    """A sample of a data set, with neighbours, dimension, bandwidths, weights and graphs computed on demand.

    Each step is computed once, for all methods and tasks. Results that depend on the seed are cached in `own`, the
    others in `common`, which trials on the same nodes share.

    Parameters
    ----------
    X : (n, d) array
        Vectors; for the cosine metric already scaled to unit length.
    labels : (n,) array or None
        -1, NaN, None or "" is no label: the node is in the graph and is not scored.
    search : callable
        `search(X) -> Neighbors`, such as ``functools.partial(asbc.search_neighbors, k=30)``.
    dimension : Dimension, default=None
        The estimate that bandwidths are matched to; None for ``Dimension()``, dimMST.
    nodes : (n,) int array, default=None
        Rows of the data set that were sampled; None for all of them in order.
    total : int, default=None
        Number of rows of the data set; None for n.
    k_min : int, default=6
        NNK rows with fewer neighbours are filled with the nearest ones; see :func:`asbc.nnk_weights`.
    symmetrize : {"mean", "max", None}, default="mean"
        How the two directions of an edge are combined.
    seed : int, default=0
        Seed of the dimension, of the revealed labels and of clustering.
    level : int, default=0
        Samples per class; 0 for all nodes.
    trial : int, default=0
        Number of the trial.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Method, Sample
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> sample = Sample(X, None, search=partial(asbc.search_neighbors, k=10))
    >>> sample.graph(Method("uniform")).shape
    (50, 50)
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
        symmetrize: str | None = "mean",
        seed: int = 0,
        level: int = 0,
        trial: int = 0,
    ) -> None:
        self.X = X
        self.labels = labels
        self.nodes = np.arange(len(X)) if nodes is None else nodes
        self.total = len(X) if total is None else total
        self.target = dimension or Dimension()
        self.k_min = k_min
        self.symmetrize = symmetrize
        self.seed = seed
        self.level = level
        self.trial = trial
        self.own: Cache = {}
        self.common: Cache = {}
        self._search = search
        self._asked: set[Hashable] = set()

    def first_time(self, key: Hashable) -> bool:
        """Whether this is called with `key` for the first time, for rows that one of several methods yields."""
        asked = key in self._asked
        self._asked.add(key)
        return not asked

    def once(self, key: Hashable, work: Callable[[], T], *, seeded: bool = True) -> T:
        """Return the result of `work`, which runs at the first call only. Nested steps do not count in its seconds.

        Trials on the same nodes share results that are not `seeded`: that depend neither on the seed nor on the trial.
        """
        cache = self.own if seeded else self.common
        if key not in cache:
            before = self._spent()
            start = time.perf_counter()
            result = work()
            inner = self._spent() - before
            cache[key] = result, time.perf_counter() - start - inner
        return cache[key][0]

    def _spent(self) -> float:
        return sum(seconds for cache in (self.own, self.common) for _, seconds in cache.values())

    def _seconds_of(self, *keys: Hashable) -> float:
        return sum(cache[key][1] for key in keys for cache in (self.own, self.common) if key in cache)

    @property
    def codes(self) -> NDArray[np.int64]:
        """(n,) class codes from 0; -1 for nodes without a label."""
        return self.once("codes", lambda: encode_partial(self.labels)[0], seeded=False)

    @property
    def neighbors(self) -> Neighbors:
        """Neighbours of all nodes, with the distances among them if they fit into memory."""

        def find() -> Neighbors:
            found = self.once("search", lambda: self._search(self.X), seeded=False)
            small = found.n * int(pair_count(found.k)) * 8 <= SHARED_BYTES
            return with_pairs(self.X, found) if small else found

        return self.once("neighbors", find, seeded=False)

    def kth_distance(self, k: int) -> NDArray[np.float64]:
        """(n,) distance to the k-th neighbour, see :func:`asbc.neighbors.types.kth_distance`.

        A node that coincides with all its neighbours gets the mean of the others.
        """
        if not 1 <= k <= self.neighbors.k:
            raise ValueError(f"k must lie between 1 and {self.neighbors.k}, the number of neighbours; got {k}")
        distance = kth_distance(self.neighbors, k)
        if not distance.any():
            raise ValueError("all nodes coincide with all their neighbours; there is no scale to tune")
        return np.where(distance > 0, distance, distance[distance > 0].mean())

    def dimension(self, estimator: Dimension | None = None) -> NDArray[np.float64]:
        """(n,) intrinsic dimension, by the sample's estimator if none is given."""
        by = estimator or self.target

        def estimate() -> NDArray[np.float64]:
            found = solve_rows(self.X, self.neighbors, dimension=by, seed=self.seed).dimension
            assert found is not None
            return found

        return self.once(("dimension", by), estimate, seeded=_depends_on_seed(by))

    def choice(self, bandwidth: Bandwidth, target: Dimension | None = None) -> BandwidthChoice:
        """Bandwidths that a rule chooses, matched to the sample's dimension or to `target`."""

        def choose() -> BandwidthChoice:
            rows = solve_rows(self.X, self.neighbors, dimension=self.dimension(target), bandwidth=bandwidth)
            choice = rows.completed().choice
            assert choice is not None
            return choice

        return self.once(self._choice_key(bandwidth, target), choose, seeded=_depends_on_seed(target or self.target))

    def seeded(self, method: Method) -> bool:
        """Whether the rows of a method depend on the seed: through the dimension, or, for a function, possibly."""
        rules = [rule for rule in (method.weight_rule(), method.rule) if rule is not None]
        by_dimension = any(rule.uses_dimension for rule in rules)
        return isinstance(rules[0], FunctionWeights) or (by_dimension and _depends_on_seed(self.target))

    def _choice_key(self, bandwidth: Bandwidth, target: Dimension | None = None) -> Hashable:
        return "bandwidth", key_of(bandwidth), target or self.target

    def weights(self, method: Method) -> Matrix:
        """(n, k) normalised rows of a method."""

        def solve() -> Matrix:
            rule = method.weight_rule(self.k_min)
            bandwidth = method.rule if rule.uses_bandwidth else None
            rows = solve_rows(
                self.X,
                self.neighbors,
                dimension=self.dimension() if rule.uses_dimension else None,
                bandwidth=None if bandwidth is None else self.choice(bandwidth),
                weights=rule,
            )
            weights = rows.completed().weights
            assert weights is not None
            return normalize_weights(weights)

        key = ("weights", method.key)
        rows = self.once(key, solve, seeded=self.seeded(method))
        if not method.sharpen or method.rule is None:
            return rows
        sigma = self.choice(method.rule).sigma
        return self.once((*key, "sharpened"), lambda: sharpen(rows, sigma), seeded=self.seeded(method))

    def graph(self, method: Method) -> Any:
        """(n, n) CSR graph of a method."""
        return self.once(
            ("graph", method.key, method.sharpen),
            lambda: to_graph(self.neighbors, self.weights(method), symmetrize=self.symmetrize),
            seeded=self.seeded(method),
        )

    def seconds(self, method: Method, *, graph: bool = False) -> float:
        """Seconds that the method alone would take: shared steps count in full."""
        base = ("weights", method.key)
        keys: list[Hashable] = ["search", "neighbors", base]
        if method.rule is not None:
            keys += [("dimension", self.target), self._choice_key(method.rule)]
        if method.sharpen:
            keys.append((*base, "sharpened"))
        if graph:
            keys.append(("graph", method.key, method.sharpen))
        return self._seconds_of(*keys)

    @property
    def search_seconds(self) -> float:
        """Seconds of the neighbour search; 0 before it has run."""
        return self._seconds_of("search")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `work` and the seconds that it took."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def _depends_on_seed(estimator: Dimension) -> bool:
    """Whether an estimate of dimension depends on the seed."""
    return estimator.estimator == "mst"
