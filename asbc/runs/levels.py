"""Which subsamples an experiment is made of: what can be scored, so many nodes per class, drawn by a seed."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from numpy.typing import NDArray
from omegaconf import DictConfig, ListConfig, OmegaConf

from asbc.bandwidth import Bandwidth
from asbc.builder import METRICS
from asbc.dimension import SMALLEST_TREE
from asbc.embeddings.sampling import stratified_sample
from asbc.embeddings.store import Embeddings
from asbc.evaluate.method import Method
from asbc.evaluate.sample import Kept, Sample
from asbc.evaluate.tasks import Task
from asbc.graph import SYMMETRIES
from asbc.learn.labels import is_unlabeled
from asbc.runs.sealed import ALL
from asbc.validation import normalize, one_of, seed_number, whole_number

log = logging.getLogger("asbc")


class NothingToScore(ValueError):
    """Every evaluation that was asked for needs labels, and the data have none that can be scored."""


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work whose rows are kept together: one subsample."""

    samples: int
    trial: int

    @property
    def name(self) -> str:
        return f"samples-{self.samples:06d}_trial-{self.trial:03d}"


def check_settings(cfg: DictConfig, methods: Mapping[str, Method], tasks: Mapping[str, Task]) -> None:
    """Refuse settings that cannot work whatever the data are, before these are read."""
    made(cfg.dimension, "dimension")
    if not methods or not tasks:
        raise ValueError("an experiment needs at least one method and one evaluation; got none")
    if cfg.neighbors.get("k", cfg.k_cand) != cfg.k_cand:
        raise ValueError(
            f"neighbors.k is not set by itself but follows k_cand: give that instead; got "
            f"neighbors.k={cfg.neighbors.k} and k_cand={cfg.k_cand}"
        )
    k = whole_number(cfg.k_cand, "k_cand", 1)
    whole_number(cfg.trials, "trials", 1)
    seed_number(cfg.seed)
    if cfg.threads is not None:
        whole_number(cfg.threads, "threads", 1)
    rules = {name: method.bandwidth.get_params() for name, method in methods.items() if method.bandwidth is not None}
    if rules and cfg.dimension.get("estimator") == "mst" and k < SMALLEST_TREE:
        raise ValueError(
            f"k_cand must be at least {SMALLEST_TREE}, since dimension=mst grows trees on the candidate neighbours; "
            f"got {k}. dimension=levina_bickel takes fewer"
        )
    # A rule whose bandwidth is given as a number looks at no neighbour.
    given = {name for name, params in rules.items() if isinstance(params.get("value"), Real)}
    nearest = {
        f"k_mle of {name}": rules[name]["k_mle"] for name in rules if "k_mle" in rules[name] and name not in given
    }
    nearest |= {f"k of {name}": task.k for name, task in tasks.items() if hasattr(task, "k")}
    for name, number in nearest.items():
        if isinstance(number, int | float) and number > k:
            raise ValueError(f"k_cand must be at least {number}, the {name}: a node has no neighbour beyond; got {k}")
    for name, method in methods.items():
        if method.bandwidth is not None:
            _check_rule(method.bandwidth, name, k)
    filled = any("k_min" in method.weight_rule().get_params() for method in methods.values())
    whole_number(cfg.graph.k_min, "graph.k_min", 0, k if filled else None, "the candidates of a node")
    one_of(cfg.graph.symmetrize, "graph.symmetrize", SYMMETRIES)
    if cfg.neighbors.get("_target_") == "asbc.search_neighbors":  # a search of the user's own may know other metrics
        one_of(cfg.neighbors.metric, "neighbors.metric", METRICS)


def _check_rule(rule: Bandwidth, name: str, k: int) -> None:
    try:
        rule.check_parameters(k)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the bandwidth of {name}: {error}") from error


def made(node: DictConfig, name: str) -> Any:
    """What a part of a config describes; parameters that its class refuses are an error that names the part."""
    try:
        return instantiate(node)
    except InstantiationException as error:
        if isinstance(error.__cause__, TypeError | ValueError):
            raise ValueError(f"{name}: {error.__cause__}") from error
        raise


def levels(samples_per_class: Any) -> list[int]:
    """The levels that `samples_per_class` asks for: whole numbers of 1 or more, and 0 for `all`.

    Parameters
    ----------
    samples_per_class : int, "all", or a list of these

    Returns
    -------
    list of int
        Each once, in the order given.

    Examples
    --------
    >>> from asbc.runs.levels import levels
    >>> levels([5, 20, "all"]), levels(10), levels("all")
    ([5, 20, 0], [10], [0])
    """
    several = isinstance(samples_per_class, list | tuple | ListConfig)
    wanted = list(samples_per_class) if several else [samples_per_class]
    if not wanted:
        raise ValueError("samples_per_class must not be empty; give numbers, or all")
    try:
        found = [ALL if item == "all" else whole_number(item, "samples_per_class", 1) for item in wanted]
    except ValueError:
        raise ValueError(
            f"samples_per_class must be whole numbers of at least 1, or all; got {samples_per_class!r}"
        ) from None
    return list(dict.fromkeys(found))


def own_levels(paper: Any, embeddings: Embeddings) -> list[int | str]:
    """Levels for a user's own data: `all`, and those of the paper that every class has samples for.

    A level that takes all there is anyway is left to `all`.
    """
    sizes = class_sizes(embeddings.labels)
    if why_not_scored(embeddings):
        return ["all"]
    return [*(level for level in levels(paper) if level <= sizes.min() and level < sizes.max()), "all"]


def class_sizes(labels: NDArray[Any] | None) -> NDArray[np.int64]:
    """(c,) samples of each class; unlabelled ones are of none."""
    if labels is None:
        return np.zeros(0, np.int64)
    return np.unique(labels[~is_unlabeled(labels)], return_counts=True)[1]


def why_not_scored(embeddings: Embeddings) -> str | None:
    """Why no prediction of labels can be scored; None where it can."""
    sizes = class_sizes(embeddings.labels)
    if not len(sizes):
        return f"{embeddings.name} has no labels"
    if len(sizes) == 1:
        gone = int(is_unlabeled(np.asarray(embeddings.labels)).sum())
        hint = f" ({gone} of -1, NaN, None or empty stand for no label)" if gone else ""
        return f"{embeddings.name} has labels of one class only{hint}, so there is nothing to tell apart"
    return f"{embeddings.name} has no two samples of one class" if sizes.max() < 2 else None


def scorable(embeddings: Embeddings, tasks: Mapping[str, Task]) -> dict[str, Task]:
    """The tasks that can be done with these labels; which are left out, and why, is said aloud."""
    why = why_not_scored(embeddings)
    kept = {name: task for name, task in tasks.items() if why is None or not task.needs_labels}
    gone = [name for name in tasks if name not in kept]
    if not kept:
        raise NothingToScore(
            f"left out, since {why}: {', '.join(gone)}; what needs no labels: experiment=regimes,alignment or "
            "'evaluate=[health]', and asbc-explore"
        )
    if gone:
        log.warning("left out, since %s: %s", why, ", ".join(gone))
    return kept


def plan(cfg: DictConfig, embeddings: Embeddings, tasks: Mapping[str, Task]) -> list[Unit]:
    """The subsamples of an experiment; levels that cannot work are refused here, before any work.

    A level that gives too few nodes (no more than `k_cand`) is left out with a warning. One that some classes have too
    few samples for is not: they give all they have, and that is said.
    """
    trials = range(whole_number(cfg.trials, "trials", 1))
    wanted = levels(cfg.samples_per_class)
    if why_not_scored(embeddings):
        return [Unit(ALL, trial) for trial in trials]
    sizes = class_sizes(embeddings.labels)
    unlabeled = len(embeddings) - int(sizes.sum())
    units: list[Unit] = []
    small: list[int | str] = []
    for level in wanted:
        taken = np.minimum(sizes, level) if level else sizes
        for task in tasks.values():
            task.check(taken)
        short = int((sizes < level).sum())
        if int(taken.sum()) + unlabeled <= cfg.k_cand:
            small.append(level or "all")
            continue
        alone = int((taken == 1).sum())
        if alone and "loo" in tasks:
            log.warning(
                "%s: %d of %d classes have one sample, for which no other can vote: it counts as wrong",
                level_in_words(level),
                alone,
                len(sizes),
            )
        if short:
            log.warning("%d of %d classes have fewer than %d samples and give all they have", short, len(sizes), level)
        units += [Unit(level, trial) for trial in trials]
    if not units:
        raise ValueError(
            f"no samples_per_class of {small} gives more than k_cand={cfg.k_cand} nodes with {len(sizes)} classes"
        )
    if small:
        log.warning("samples_per_class %s left out: too few nodes for k_cand=%d", small, cfg.k_cand)
    if unlabeled:
        log.info("%d of %d nodes have no label: they are in the graph and not scored", unlabeled, len(embeddings))
    return units


class SharedSamples:
    """What was worked out on subsamples that several experiments, or trials, of one process look at.

    Neighbours, dimensions, weights and graphs of a subsample are the same in every experiment that draws it; what needs
    no seed is also the same in every trial that draws the same nodes, as those of all nodes do. What was used last is
    kept, of so many nodes in all that memory stays bounded.

    Attributes
    ----------
    most : int
        Nodes of all that is kept, where those of a subsample count twice: for what needs the seed, and for what does
        not. 60,000 with twenty graphs each take some 600 MB. At 0, which is how it starts, nothing is kept.
    """

    def __init__(self) -> None:
        self.most = 0
        self._kept: dict[str, tuple[Kept, int]] = {}

    def join(self, sample: Sample, nodes: str, draw: str) -> Sample:
        """The same subsample, which knows what others have worked out, and they what it will.

        `nodes` names its nodes and all settings but the seed, `draw` the seed and the trial too.
        """
        sample.common = self._keep(nodes, sample.common, len(sample.X))
        sample.own = self._keep(draw, sample.own, len(sample.X))
        while sum(size for _, size in self._kept.values()) > self.most:
            del self._kept[next(iter(self._kept))]
        return sample

    def _keep(self, key: str, new: Kept, size: int) -> Kept:
        found = self._kept.pop(key, (new, size))
        self._kept[key] = found  # as the last: the first are those not used for longest
        return found[0]


shared_samples = SharedSamples()
SHARED_NODES = 60_000  # nodes of all subsamples together that are kept for the next experiment of the same process


def draw(cfg: DictConfig, embeddings: Embeddings, unit: Unit) -> Sample:
    """One subsample. Its seed depends on the trial alone, so a trial's smaller subsamples are parts of its larger ones.

    Nodes without a label are in every subsample. The metric is that of `conf/neighbors`, cosine unless told otherwise:
    then vectors are scaled to unit length here, for the search and for all that follows.
    """
    settings = {name: OmegaConf.to_container(cfg[name], resolve=True) for name in ("neighbors", "dimension", "graph")}
    seed = int(np.random.SeedSequence([int(cfg.seed), unit.trial]).generate_state(1)[0])
    labels = None if embeddings.labels is None else np.asarray(embeddings.labels)
    if unit.samples == ALL or labels is None:
        nodes = np.arange(len(embeddings))
    else:
        chosen = stratified_sample(labels, unit.samples, seed=seed)
        nodes = np.union1d(chosen, np.flatnonzero(is_unlabeled(labels)))
    X = np.asarray(embeddings.vectors[nodes])
    sample = Sample(
        normalize(X) if cfg.neighbors.metric == "cosine" else X,
        None if labels is None else labels[nodes],
        nodes=nodes,
        total=len(embeddings),
        search=instantiate(cfg.neighbors),
        dimension=instantiate(cfg.dimension),
        k_min=cfg.graph.k_min,
        symmetrize=cfg.graph.symmetrize,
        seed=seed,
        level=unit.samples,
        trial=unit.trial,
    )
    members = hashlib.sha256(nodes.tobytes()).hexdigest()
    about = json.dumps([embeddings.fingerprint, members, unit.samples, int(cfg.k_cand), settings], sort_keys=True)
    return shared_samples.join(sample, nodes=about, draw=f"{about} {int(cfg.seed)} {unit.trial}")


def sample_columns(sample: Sample) -> dict[str, Any]:
    """Columns of every row that say what the subsample is made of; the words are in CONTRIBUTING.md."""
    sizes = class_sizes(sample.labels)
    return {
        "nodes": len(sample.X),
        "classes": len(sizes),
        "unlabelled": len(sample.X) - int(sizes.sum()),
        "short_classes": int((sizes < sample.level).sum()),
    }


def level_in_words(level: int) -> str:
    """A level as a reader knows it: "20 per class", or "all nodes"."""
    return f"{level} per class" if level else "all nodes"
