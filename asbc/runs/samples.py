"""Which samples an experiment is computed on: levels, trials, what can be scored, and settings that cannot work."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from omegaconf import DictConfig, ListConfig

from asbc.bandwidth import Bandwidth
from asbc.configs import build
from asbc.dimension import SMALLEST_TREE
from asbc.embeddings.sampling import stratified_sample
from asbc.embeddings.store import Embeddings
from asbc.evaluate.sample import Method, Sample
from asbc.evaluate.tasks import Task
from asbc.graph import SYMMETRIES
from asbc.learn.labels import is_unlabeled
from asbc.runs.results import ALL
from asbc.validation import METRICS, normalize, one_of, seed_number, whole_number

log = logging.getLogger("asbc")


class NothingToScore(ValueError):
    """All requested evaluations need labels, and the data have none that can be scored."""


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work whose rows are kept together: one sample."""

    samples: int
    trial: int

    @property
    def name(self) -> str:
        return f"samples-{self.samples:06d}_trial-{self.trial:03d}"


def check_settings(cfg: DictConfig, methods: Mapping[str, Method], tasks: Mapping[str, Task]) -> None:
    """Raise a ValueError for settings that cannot work with any data, before the data are read."""
    build(cfg.dimension, "dimension")
    if not methods or not tasks:
        raise ValueError("an experiment needs at least one method and one evaluation")
    if cfg.neighbors.get("k", cfg.k_cand) != cfg.k_cand:
        raise ValueError(
            f"neighbors.k follows k_cand; set k_cand instead. Got neighbors.k={cfg.neighbors.k} and k_cand={cfg.k_cand}"
        )
    if unknown := set(cfg.graph) - {"k_min", "symmetrize"}:
        raise ValueError(f"graph has no setting {', '.join(sorted(map(str, unknown)))}; it has k_min and symmetrize")
    k = whole_number(cfg.k_cand, "k_cand", 1)
    whole_number(cfg.trials, "trials", 1)
    seed_number(cfg.seed)
    if cfg.threads is not None:
        whole_number(cfg.threads, "threads", 1)
    rules = {name: method.bandwidth for name, method in methods.items() if method.bandwidth is not None}
    if rules and cfg.dimension.get("estimator") == "mst" and k < SMALLEST_TREE:
        raise ValueError(
            f"k_cand must be at least {SMALLEST_TREE} for dimension=mst, which builds trees on the candidates; "
            f"got {k}. dimension=levina_bickel takes fewer"
        )
    for name, task in tasks.items():
        if getattr(task, "k", k) > k:
            raise ValueError(f"k_cand must be at least {task.k}, the k of {name}; got {k}")  # type: ignore[attr-defined]
    for name, rule in rules.items():
        _check_rule(rule, name, k)
    filled = any("k_min" in method.weight_rule().get_params() for method in methods.values())
    whole_number(cfg.graph.k_min, "graph.k_min", 0, k if filled else None, "k_cand")
    one_of(cfg.graph.symmetrize, "graph.symmetrize", SYMMETRIES)
    if cfg.neighbors.get("_target_") == "asbc.search_neighbors":  # a custom search may have other metrics
        one_of(cfg.neighbors.metric, "neighbors.metric", METRICS)


def _check_rule(rule: Bandwidth, name: str, k: int) -> None:
    try:
        rule.check_parameters(k)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the bandwidth of {name}: {error}") from error


def levels(samples_per_class: Any) -> list[int]:
    """Return the levels of `samples_per_class`, each once: integers of at least 1, and 0 for `all`.

    Examples
    --------
    >>> from asbc.runs.samples import levels
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
    """Return the levels for custom data: `all`, plus the levels of the paper for which all classes have enough samples.

    A level that takes all samples is left to `all`.
    """
    sizes = class_sizes(embeddings.labels)
    if why_not_scored(embeddings):
        return ["all"]
    return [*(level for level in levels(paper) if level <= sizes.min() and level < sizes.max()), "all"]


def class_sizes(labels: NDArray[Any] | None) -> NDArray[np.int64]:
    """Return the samples of each class (c,), without the unlabelled ones."""
    if labels is None:
        return np.zeros(0, np.int64)
    return np.unique(labels[~is_unlabeled(labels)], return_counts=True)[1]


def why_not_scored(embeddings: Embeddings) -> str | None:
    """Return why predictions of labels cannot be scored; None if they can."""
    sizes = class_sizes(embeddings.labels)
    if not len(sizes):
        return f"{embeddings.name} has no labels"
    if len(sizes) == 1:
        gone = int(is_unlabeled(np.asarray(embeddings.labels)).sum())
        hint = f" ({gone} are -1, NaN, None or empty, which means no label)" if gone else ""
        return f"{embeddings.name} has labels of one class only{hint}"
    return f"{embeddings.name} has no two samples of one class" if sizes.max() < 2 else None


def scorable(embeddings: Embeddings, tasks: Mapping[str, Task]) -> dict[str, Task]:
    """Return the tasks that work with these labels, and warn about those that do not."""
    why = why_not_scored(embeddings)
    kept = {name: task for name, task in tasks.items() if why is None or not task.needs_labels}
    gone = [name for name in tasks if name not in kept]
    if not kept:
        raise NothingToScore(
            f"skipped, because {why}: {', '.join(gone)}; without labels run experiment=regimes, experiment=alignment, "
            "'evaluate=[health]' or asbc-explore"
        )
    if gone:
        log.warning("skipped, because %s: %s", why, ", ".join(gone))
    return kept


def plan(cfg: DictConfig, embeddings: Embeddings, tasks: Mapping[str, Task]) -> list[Unit]:
    """Return the samples of an experiment, after a check that each level can work.

    A level with too few nodes (at most `k_cand`) is skipped with a warning. Classes with fewer samples than the
    level give all they have, also with a warning.
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
        if "loo" in tasks and (alone := int((taken == 1).sum())):
            text = "%s: %d of %d classes have a single sample, which counts as wrong: no other can vote for it"
            log.warning(text, level_in_words(level), alone, len(sizes))
        if short:
            log.warning("%d of %d classes have fewer than %d samples and give all they have", short, len(sizes), level)
        units += [Unit(level, trial) for trial in trials]
    if not units:
        raise ValueError(
            f"no samples_per_class of {small} gives more than k_cand={cfg.k_cand} nodes with {len(sizes)} classes"
        )
    if small:
        log.warning("samples_per_class %s skipped: too few nodes for k_cand=%d", small, cfg.k_cand)
    if unlabeled:
        log.info("%d of %d nodes have no label: they are in the graph and are not scored", unlabeled, len(embeddings))
    return units


def draw(cfg: DictConfig, embeddings: Embeddings, unit: Unit, previous: Sample | None = None) -> Sample:
    """Draw one sample. Its seed depends on the trial alone: a trial's smaller samples are subsets of its larger ones.

    Nodes without a label are in every sample. With the cosine metric vectors are scaled to unit length here. A
    `previous` sample with the same nodes and level shares the results that do not depend on the seed.
    """
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
        search=build(cfg.neighbors, "neighbors"),
        dimension=build(cfg.dimension, "dimension"),
        k_min=cfg.graph.k_min,
        symmetrize=cfg.graph.symmetrize,
        seed=seed,
        level=unit.samples,
        trial=unit.trial,
    )
    if previous is not None and previous.level == sample.level and np.array_equal(previous.nodes, nodes):
        sample.common = previous.common
    return sample


def sample_columns(sample: Sample) -> dict[str, Any]:
    """Return the columns that describe a sample; CONTRIBUTING.md defines the words."""
    sizes = class_sizes(sample.labels)
    return {
        "nodes": len(sample.X),
        "total_nodes": sample.total,
        "classes": len(sizes),
        "unlabelled": len(sample.X) - int(sizes.sum()),
        "short_classes": int((sizes < sample.level).sum()),
    }


def level_in_words(level: int) -> str:
    """Return a level as text: "20 per class" or "all nodes"."""
    return f"{level} per class" if level else "all nodes"
