"""Tasks without labels: the shape of the graph, its kernels, and effective rank against intrinsic dimension."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components
from scipy.stats import rankdata

from asbc.dimension import ESTIMATORS, Dimension
from asbc.evaluate.sample import Method, Sample, timed
from asbc.evaluate.tasks import Score, Task
from asbc.kernels.criterion import evaluate_at
from asbc.neighbors.types import Neighbors, neighborhoods, vectors_for
from asbc.validation import sigma_per_node, square_graph

# The cells of a density: half a direction wide and high, so that those of several trials can be added up.
CELL = 0.5
HIGHEST = 100.0  # dimensions above it are counted in the last column
QUARTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}


@dataclass(frozen=True)
class Health(Task):
    """The graph's pieces, edges and degrees; for a method with a bandwidth, its kernels' condition and rank too.

    The metrics are those of :func:`asbc.evaluate.geometry.graph_health` and `row_degree_median`; with a bandwidth also
    `condition_median`, `at_edge`, `sigma_median`, `rank_median` and `dimension_median`.

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
        values: dict[str, Any] = graph_health(graph)
        values["row_degree_median"] = np.median((sample.weights(method) > 0).sum(axis=1))
        if method.rule is not None:
            choice: Any = sample.choice(method.rule)
            values |= {
                "condition_median": np.median(local_kernels(sample.X, sample.neighbors, choice.sigma)[2]),
                "at_edge": np.mean(choice.at_edge),
                "sigma_median": np.median(choice.sigma),
                "rank_median": np.median(choice.effective_rank),
                "dimension_median": np.median(sample.dimension()),
            }
        for name, value in values.items():
            yield Score(name, float(value), sample.level, seconds)


@dataclass(frozen=True)
class Alignment(Task):
    """Effective rank against intrinsic dimension: metrics `spearman`, `slope`, `intercept`, `rank_median`.

    Rows of `spearman` have a column `density` too: how many nodes have which rank and which dimension, see
    :func:`asbc.evaluate.geometry.unpack_density`.

    The bandwidth is chosen so that the rank r matches its target, an estimate of the dimension. That r agrees with
    its target is therefore no evidence. So each estimator is the target in turn, and r is compared with all estimators.

    Parameters
    ----------
    targets : sequence of str, default=("mst", "levina_bickel", "two_nn")
        Estimators that r is matched to, one after the other.
    estimators : sequence of str, default=("mst", "levina_bickel", "two_nn")
        Estimators that r is compared with.

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
        if method.rule is None:
            raise ValueError("alignment needs a method with a bandwidth; this one has none")
        for target in self.targets:
            choice = sample.choice(method.rule, _estimator(sample, target))
            for name in self.estimators:
                d = sample.dimension(_estimator(sample, name))
                values = align(choice.effective_rank, d)
                values["rank_median"] = float(np.median(choice.effective_rank))
                values["dimension_median"] = float(np.median(d))
                for metric, value in values.items():
                    more: dict[str, Any] = {"target": target, "estimator": name}
                    if metric == "spearman":  # one row of each pair carries what a figure of r against d needs
                        more["density"] = pack_density(choice.effective_rank, d)
                    yield Score(metric, value, sample.level, sample.seconds(method), more=more)


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
        if method.rule is None:
            raise ValueError("regimes needs a method with a bandwidth; this one has none")
        anchor = sample.kth_distance(self.k)
        for scale in np.geomspace(self.low, self.high, self.n_scales):
            # Kernels at a given bandwidth need no seed: trials on the same nodes share them.
            work = partial(local_kernels, sample.X, sample.neighbors, scale * anchor)
            found, seconds = sample.once(("regime", self.k, float(scale)), partial(timed, work), seeded=False)
            for name, values in zip(("rank", "slope", "condition"), found, strict=True):
                for suffix, q in QUARTILES.items():
                    value = float(np.quantile(values, q))
                    yield Score(f"{name}_{suffix}", value, sample.level, seconds, more={"scale": float(scale)})
        choice = sample.choice(method.rule)
        seconds = sample.seconds(method)
        chosen = {"scale": choice.sigma / anchor, "rank": choice.effective_rank, "dimension": sample.dimension()}
        for suffix, q in QUARTILES.items():
            for name, values in chosen.items():
                yield Score(f"chosen_{name}_{suffix}", float(np.quantile(values, q)), sample.level, seconds)


def _estimator(sample: Sample, name: str) -> Dimension:
    return Dimension(name, n_rep=sample.target.n_rep, k=sample.target.k)


# The graph and its kernels


def graph_health(graph: Any) -> dict[str, float]:
    """Count pieces, edges and degrees of a graph, an (n, n) sparse array with entries of 0 or more.

    Returns `components` (connected pieces; the direction of an edge does not matter), `isolated` (nodes without any
    edge, to or from them), `edges` (entries above 0, so that an edge with both directions counts twice), and
    `degree_median` (out-neighbours per node).

    Examples
    --------
    >>> import numpy as np
    >>> from asbc.evaluate.geometry import graph_health
    >>> found = graph_health(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]))
    >>> found["components"], found["isolated"], found["edges"]
    (2.0, 1.0, 2.0)
    """
    W = square_graph(graph).copy()
    W.eliminate_zeros()
    degree = np.diff(W.indptr)
    reached = np.bincount(W.indices, minlength=W.shape[0])
    return {
        "components": float(connected_components(W, directed=True, connection="weak")[0]),
        "isolated": float(((degree == 0) & (reached == 0)).sum()),
        "edges": float(W.nnz),
        "degree_median": float(np.median(degree)),
    }


def local_kernels(X: NDArray[Any], neighbors: Neighbors, sigma: ArrayLike) -> NDArray[np.float64]:
    """Effective rank, log-log slope and condition (3, n) of each node's kernel `exp(-|x_j - x_k|^2 / (2 sigma_i^2))`.

    The condition is the largest eigenvalue over the smallest. Values stop at 1/eps (4.5e15), since beyond it the
    smallest eigenvalue is nothing but rounding error. A condition of c is known to about c eps, so that one of 1e12 has
    four digits.

    Examples
    --------
    >>> import numpy as np, asbc
    >>> from asbc.evaluate.geometry import local_kernels
    >>> X = np.array([[0.0], [0.0], [100.0]])
    >>> rank, slope, condition = local_kernels(X, asbc.search_neighbors(X, k=2), 1.0)
    >>> [f"{value:.1e}" for value in condition]  # the neighbours of the last node coincide
    ['1.0e+00', '1.0e+00', '4.5e+15']
    """
    vectors = vectors_for(X, neighbors)
    width = sigma_per_node(sigma, neighbors.n)
    found = np.empty((3, neighbors.n))
    for rows, pairs in neighborhoods(vectors, neighbors):
        found[:, rows] = evaluate_at(pairs, width[rows], neighbors.k)
    return found


# Rank and dimension


def align(effective_rank: ArrayLike, dimension: ArrayLike) -> dict[str, float]:
    """Compare the effective rank r of each node's kernel with the dimension d of its neighbourhood.

    Returns the rank correlation `spearman`, and `slope` and `intercept` of the least-squares line of r on d, over the
    nodes where both are finite; NaN where one of the two is constant.

    The spectral rule chooses r to be near the estimate of dimension that it was *given*. That r agrees with this
    estimate only shows that the search works; that r agrees with another estimate says something about the data.

    Examples
    --------
    >>> from asbc.evaluate.geometry import align
    >>> {name: round(value, 6) for name, value in align([3.0, 5.0, 9.0], [1.0, 2.0, 4.0]).items()}
    {'spearman': 1.0, 'slope': 2.0, 'intercept': 1.0}
    """
    r, d = _both_finite(effective_rank, dimension)
    with np.errstate(invalid="ignore", divide="ignore"):  # of constant values, which have neither
        spearman = np.corrcoef(rankdata(r), rankdata(d))[0, 1]
        slope = np.cov(d, r)[0, 1] / np.var(d, ddof=1)
    return {"spearman": float(spearman), "slope": float(slope), "intercept": float(r.mean() - slope * d.mean())}


def _both_finite(r: ArrayLike, d: ArrayLike) -> NDArray[np.float64]:
    both = np.array([r, d], dtype=np.float64)
    return both[:, np.isfinite(both).all(axis=0)]


def pack_density(effective_rank: ArrayLike, dimension: ArrayLike) -> bytes:
    """How many nodes have which rank and which dimension, in 1 to 2 kB for any number of nodes.

    Nodes where either of the two is not finite are left out.

    Examples
    --------
    >>> from asbc.evaluate.geometry import pack_density, unpack_density
    >>> counts = unpack_density(pack_density([1.2, 1.3, 2.1], [4.0, 4.4, 500.0]))
    >>> counts.shape, int(counts[0, 6]), int(counts[2, -1])
    ((3, 198), 2, 1)
    """
    r, d = _both_finite(effective_rank, dimension)
    columns = int((HIGHEST - 1) / CELL)
    row = np.maximum((r - 1) // CELL, 0).astype(np.int64)
    column = np.clip((d - 1) // CELL, 0, columns - 1).astype(np.int64)
    counts = np.bincount(row * columns + column, minlength=columns)
    counts = np.pad(counts, (0, -len(counts) % columns)).astype("<u4")
    return zlib.compress(counts.tobytes(), 9)


def unpack_density(packed: bytes) -> NDArray[np.uint32]:
    """Counts of nodes by rank and dimension (rows, columns), from the result of :func:`pack_density`.

    Row i has ranks from 1 + i / 2 to 1 + (i + 1) / 2, column j dimensions likewise; the last column has all larger ones
    too. Highest ranks that no node has are left out.
    """
    return np.frombuffer(zlib.decompress(packed), "<u4").reshape(-1, int((HIGHEST - 1) / CELL))
