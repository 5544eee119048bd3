"""Tasks that need no labels: what the graph is like, and the kernels that it came from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asbc.dimension import ESTIMATORS, Dimension
from asbc.evaluate.alignment import align, pack_density
from asbc.evaluate.health import graph_health, kernel_condition
from asbc.evaluate.method import Method, key_of
from asbc.evaluate.sample import Sample
from asbc.evaluate.tasks import Score, Task
from asbc.kernels.criterion import evaluate_all_at
from asbc.neighbors.types import neighborhoods

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Health(Task):
    """The graph's pieces, edges and degrees; for a method with a bandwidth, its kernels' condition and rank too.

    The metrics are the fields of :class:`asbc.evaluate.health.GraphShape` and `row_degree_median`; with a bandwidth
    also `condition_median`, `condition_q95`, `at_edge`, `sigma_median`, `rank_median` and `dimension_median`.

    See Also
    --------
    asbc.evaluate.health.graph_health : how pieces and degrees are counted.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Health, Method, Sample
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(20, 3)) + 9 * c for c in (0, 1)])
    >>> sample = Sample(X, None, search=partial(asbc.search_neighbors, k=5))
    >>> {score.metric: score.value for score in Health()(sample, Method("uniform"))}["components"]
    2.0
    """

    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        graph = sample.graph(method)
        seconds = sample.seconds(method, graph=True)
        values: dict[str, float] = asdict(graph_health(graph))
        values["row_degree_median"] = float(np.median((sample.weights(method) > 0).sum(axis=1)))
        if method.bandwidth is not None:
            choice: Any = sample.choice(method.bandwidth)
            # Methods that share a rule share its kernels.
            condition = sample.once(
                ("condition", key_of(method.bandwidth)),
                lambda: kernel_condition(sample.X, sample.neighbors, choice.sigma),
                seeded=sample.seeded(method),
            )
            values["condition_median"] = float(np.median(condition))
            values["condition_q95"] = float(np.quantile(condition, 0.95))
            values["at_edge"] = float(np.mean(choice.at_edge))
            values["sigma_median"] = float(np.median(choice.sigma))
            values["rank_median"] = float(np.median(choice.effective_rank))
            values["dimension_median"] = float(np.median(sample.dimension()))
        for name, value in values.items():
            yield Score(name, float(value), sample.level, seconds)


@dataclass(frozen=True)
class Alignment(Task):
    """Effective rank against intrinsic dimension: metrics `spearman`, `slope`, `intercept`, `rank_median`.

    Rows of `spearman` have a column `density` too: how many nodes have which rank and which dimension, see
    :func:`asbc.evaluate.alignment.unpack_density`.

    The bandwidth is chosen so that the rank r matches its target, an estimate of the dimension. That r agrees with
    its target is therefore no evidence by itself. So each estimator takes its turn as the target, and r is compared
    with all estimators each time.

    Parameters
    ----------
    targets : sequence of str, default=("mst", "levina_bickel", "two_nn")
        Estimators that r is matched to, one after the other.
    estimators : sequence of str, default=("mst", "levina_bickel", "two_nn")
        Estimators that r is compared with.

    See Also
    --------
    asbc.evaluate.alignment.align : the comparison of r with one estimate.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Alignment, Method, Sample
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> sample = Sample(X, None, search=partial(asbc.search_neighbors, k=12))
    >>> scores = list(Alignment(targets=["mst"])(sample, Method("nnk", asbc.SpectralBandwidth())))
    >>> sorted({score.more["estimator"] for score in scores})
    ['levina_bickel', 'mst', 'two_nn']
    """

    targets: Sequence[str] = ESTIMATORS
    estimators: Sequence[str] = ESTIMATORS
    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        if method.bandwidth is None:
            raise ValueError("alignment needs a method with a bandwidth; this one has none")
        for target in self.targets:
            choice = sample.choice(method.bandwidth, _estimator(sample, target))
            for name in self.estimators:
                d = sample.dimension(_estimator(sample, name))
                result = align(choice.effective_rank, d)
                more = {"target": target, "estimator": name}
                seconds = sample.seconds(method)
                # One row of each pair carries what a figure of r against d needs.
                density = pack_density(choice.effective_rank, d)
                yield Score("spearman", result.spearman, sample.level, seconds, more={**more, "density": density})
                for metric in ("slope", "intercept"):
                    yield Score(metric, getattr(result, metric), sample.level, seconds, more=more)
                median = float(np.median(choice.effective_rank))
                yield Score("rank_median", median, sample.level, seconds, more=more)
                yield Score("dimension_median", float(np.median(d)), sample.level, seconds, more=more)


@dataclass(frozen=True)
class Regimes(Task):
    """How local kernels change as sigma grows: from every neighbour alone to all neighbours alike.

    At every sigma = scale x d_{i,k}, with d_{i,k} the distance of node i to its k-th neighbour: quartiles over the
    nodes of the effective rank (`rank_q25`, `rank_median`, `rank_q75`), of the log-log slope (`slope_...`) and of the
    condition number (`condition_...`). At the bandwidth that the method chooses: quartiles of its scale, rank and
    dimension (`chosen_scale_...`, `chosen_rank_...`, `chosen_dimension_...`).

    Parameters
    ----------
    low : float, default=0.05
        The smallest scale.
    high : float, default=5.0
        The largest scale.
    n_scales : int, default=25
        Scales in all, at equal ratios.
    k : int, default=10
        Neighbour whose distance is the unit of the scale.

    See Also
    --------
    asbc.SpectralBandwidth : the rule that chooses between the two extremes.

    Examples
    --------
    >>> from functools import partial
    >>> import numpy as np, asbc
    >>> from asbc.evaluate import Method, Regimes, Sample
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> sample = Sample(X, None, search=partial(asbc.search_neighbors, k=12))
    >>> scores = Regimes(n_scales=2)(sample, Method("nnk", asbc.SpectralBandwidth()))
    >>> narrow, wide = [score.value for score in scores if score.metric == "rank_median"]
    >>> narrow > 11 and wide < 2  # of 12 neighbours
    True
    """

    low: float = 0.05
    high: float = 5.0
    n_scales: int = 25
    k: int = 10
    needs_labels: ClassVar[bool] = False

    def __call__(self, sample: Sample, method: Method) -> Iterator[Score]:
        if method.bandwidth is None:
            raise ValueError("regimes needs a method with a bandwidth; this one has none")
        anchor = sample.kth_distance(self.k)
        for scale in np.geomspace(self.low, self.high, self.n_scales):
            # Kernels at a given bandwidth need no seed: trials on the same nodes look at them once.
            quartiles, seconds = sample.once(
                ("regime", self.k, float(scale)), partial(self._at, sample, scale * anchor), seeded=False
            )
            for metric, value in quartiles.items():
                yield Score(metric, value, sample.level, seconds, more={"scale": float(scale)})
        choice = sample.choice(method.bandwidth)
        seconds = sample.seconds(method)
        for suffix, q in zip(("q25", "median", "q75"), QUARTILES, strict=True):
            yield Score(f"chosen_scale_{suffix}", float(np.quantile(choice.sigma / anchor, q)), sample.level, seconds)
            yield Score(f"chosen_rank_{suffix}", float(np.quantile(choice.effective_rank, q)), sample.level, seconds)
            yield Score(f"chosen_dimension_{suffix}", float(np.quantile(sample.dimension(), q)), sample.level, seconds)

    @staticmethod
    def _at(sample: Sample, sigma: NDArray[np.float64]) -> tuple[dict[str, float], float]:
        """Quartiles of rank, slope and condition at given bandwidths, and the seconds that they took."""
        start = time.perf_counter()
        found = np.empty((3, sample.neighbors.n))
        for rows, pairs in neighborhoods(sample.X, sample.neighbors):
            found[:, rows] = evaluate_all_at(pairs, sigma[rows], sample.neighbors.k)
        seconds = time.perf_counter() - start
        levels = np.quantile(found, QUARTILES, axis=1).T
        names = [f"{name}_{suffix}" for name in ("rank", "slope", "condition") for suffix in ("q25", "median", "q75")]
        return dict(zip(names, map(float, levels.ravel()), strict=True)), seconds


def _estimator(sample: Sample, name: str) -> Dimension:
    return Dimension(name, n_rep=sample.target.n_rep, k=sample.target.k)
